"""Whole .cu files: host functions are set aside, and launches are read.

NVRTC compiles device code alone. What it would refuse becomes blank, so lines keep their numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

PROGRAM = "-default-device"  # an option of NVRTC
USING = re.compile(r"^[ \t]*using\s+(?:namespace\s+)?std\b[^;]*;", re.M)
IS_WHOLE = re.compile(
    r"\bmain\s*\(|<<<|^[ \t]*#[ \t]*include[ \t]*<(?:c?stdio|iostream|vector)", re.M
)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
# Comments, literals and directives, in which brackets mean nothing.
PASSED_OVER = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
    r"|^[ \t]*#(?:[^\n\\]|\\.)*",
    re.M | re.S,
)
# What names something of the device; libraries have macros for it, such as CUTLASS_DEVICE.
ON_DEVICE = r"__global__|__device__|constexpr|__constant__|__shared__|(?:\w+_)?DEVICE"
MACRO = re.compile(r"(?ms)^[ \t]*#[ \t]*define\s+(\w+)(?:[^\n\\]|\\.)*?__(?:device|global)__")
OF_STD = re.compile(r"(?<!cuda::)\bstd::")
FUNCTION = re.compile(r"\s*\w[\w:<>,\s*&]*[\s*&>](\w+)\s*\(")
INSTANCE = re.compile(r"\s*(?:extern\s+)?template\b[^<(]*?(\w+)\s*<[^()]*\(")
OPENS_SCOPE = re.compile(r'\bnamespace\b[^;(]*$|\bextern\s*"[^"]*"\s*$|\bextern\s*$')
TYPE = re.compile(r"\b(?:struct|class|union|enum)\b[^()]*$")
ALIGNMENT = re.compile(r"\b(?:alignas|__align__|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)")
KEPT = re.compile(r"\s*(?:typedef|using|template|namespace|static_assert|friend|$)")
CONSTANT = re.compile(r"\s*(?:static\s+|inline\s+)*const\b[^*]*$")
REAL = re.compile(r"((?:static\s+|inline\s+)*)const(?=\s+(?:float|double)\s+\w+\s*(?:=|$))")
LAUNCH = re.compile(r"\b([A-Za-z_][\w:]*(?:<[^<>;]*>)?)\s*<<<(.*?)>>>\s*\(", re.S)


def device_code(text: str, options: tuple[str, ...] = ()) -> tuple[str, tuple[str, ...]]:
    """The text with blanks for host functions, if it is a whole file, and the options.

    What is left without a space, members of classes for example, is then code of the device.
    """
    if not IS_WHOLE.search(COMMENT.sub(" ", text)):
        return text, options
    return without_host(text), (*options, PROGRAM)


@lru_cache(maxsize=64)
def without_host(text: str) -> str:
    """The text with blanks for host functions, and constexpr for constants that are no integers.

    One of these may need another: that NVRTC takes for work of the device at its start.
    """
    text = USING.sub(_blank, text)
    on_device = re.compile(rf"\b(?:{'|'.join([ON_DEVICE, *MACRO.findall(text)])})\b")
    for _ in range(2):  # once the callers of a function are gone, its declaration goes
        for begin, end in reversed(list(_of_host(PASSED_OVER.sub(_blank, text), on_device))):
            part = text[begin:end]
            part = REAL.sub(r"\1constexpr", part, 1) if REAL.match(part) else _blank(part)
            text = text[:begin] + part + text[end:]
    return text


def launches(text: str) -> list[tuple[int, str, str]]:
    """(line, kernel, what stands between <<< and >>>) of each launch in a whole file."""
    bare = PASSED_OVER.sub(_blank, text)
    return [
        (bare.count("\n", 0, match.start()) + 1, match[1], " ".join(match[2].split()))
        for match in LAUNCH.finditer(bare)
    ]


def _blank(match: re.Match[str] | str) -> str:
    return re.sub(r"[^\n]", " ", match if isinstance(match, str) else match[0])


def _of_host(bare: str, on_device: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Where functions, variables, classes of the host begin and end, outside of all functions.

    Constants as in REAL too.
    """
    begin = position = 0  # of the declaration; of what is read
    functions: set[str] = set()  # of the host
    words = Counter(re.findall(r"\w+", bare))
    while sign := re.compile("[{};]").search(bare, position):
        position = sign.end()
        head = bare[begin : sign.start()]
        first = begin + len(head) - len(head.lstrip())
        head = ALIGNMENT.sub(" ", head)
        declares, stays = head.partition("=")[0], on_device.search(head)
        has_type, function = TYPE.search(head), FUNCTION.match(declares)
        others = stays or has_type or CONSTANT.match(declares)
        of_host = False
        if sign[0] == "{" and not OPENS_SCOPE.search(head):
            position = closing(bare, position, "{}") + 1
            if "(" in declares and not has_type:
                of_host = not stays
                functions |= {function[1]} if function and of_host else set()
            else:
                position = bare.find(";", position) + 1 or len(bare)
                whole = bare[first:position]
                of_host = not others or bool(OF_STD.search(whole) and not on_device.search(whole))
        elif sign[0] == ";" and not others:
            if instance := INSTANCE.match(head):
                of_host = instance[1] in functions
            elif not KEPT.match(head):
                of_host = "(" not in declares or bool(function and words[function[1]] == 1)
        if of_host or REAL.match(declares.lstrip()):
            yield first, position
        begin = position


def closing(text: str, position: int, pair: str) -> int:
    """Where the bracket of a `pair`, such as "()", closes that opens before `position`."""
    depth = 1
    for bracket in re.compile(f"[{pair}]").finditer(text, position):
        depth += 1 if bracket[0] == pair[0] else -1
        if depth == 0:
            return bracket.start()
    return len(text)
