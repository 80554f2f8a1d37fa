"""Calls of a kernel: printf, assert and trap, which end the thread, and calls through pointers."""

from __future__ import annotations

import re

import numpy as np

from ptxsim.ptx import PtxError

MOST_LINES = 100  # that one launch prints
MOST_PRINTED = 1 << 20  # characters, as many as a GPU's buffer has bytes by default
MOST_TEXT = 1 << 16  # bytes of one string
SPECIFIER = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|j|z|t|L)?(?P<kind>[diouxXcsfFeEgGaAp%])"
)
LONG = {"l", "ll", "j", "z", "t"}


class FirstLines:
    """A text stream that hands on the first lines to another one, and counts the others."""

    def __init__(self, stream, most: int = MOST_LINES):
        self.stream, self.most = stream, most
        self.lines = self.characters = self.left_out = 0
        self.is_cut = self.within_line = False

    def write(self, text: str) -> int:
        for line in re.findall(r"[^\n]*\n|[^\n]+", text):
            if self.lines < self.most and self.characters < MOST_PRINTED:
                self.stream.write(line)
                self.lines += line.endswith("\n")
                self.within_line = not line.endswith("\n")
                self.characters += len(line)
            else:
                self.leave_out(line.count("\n"))
        return len(text)

    def __getattr__(self, name: str):
        return getattr(self.stream, name)

    def leave_out(self, lines: int) -> None:
        self.is_cut, self.left_out = True, self.left_out + lines

    def close(self) -> None:
        """Say how much was left out, if anything. The other stream stays open."""
        if not self.is_cut:
            return
        if isinstance(self.stream, FirstLines):
            self.stream.leave_out(self.left_out)
            return
        more = f"{self.left_out:,} more lines" if self.left_out else "more"
        begin = "\n" if self.within_line else ""
        self.stream.write(f"{begin}… and {more} of what the kernel prints\n")


def fail(lanes, index: int, message, file, name, line, mask) -> None:
    """assert that does not hold: a finding. The thread ends."""
    if not np.any(mask):
        return
    message, file, name = (_text(lanes, lanes.layout.of(v, mask)[0]) for v in (message, file, name))
    at = int(lanes.layout.of(line, mask)[0])
    what = f"assertion `{message}` does not hold, {file}:{at}, {name}"
    lanes.find("failed assertion", index, what, mask)


def trap(lanes, index: int, mask) -> None:
    """A finding: on a GPU the whole launch ends with an error."""
    if np.any(mask):
        lanes.find("trap", index, "the kernel ends itself with an error", mask)


def check_pointer(lanes, index: int, pointer, targets, calls_itself, mask):
    """Whether `pointer` (int64) is one of the `targets`: otherwise a finding.

    Raises PtxError if it is of a function that `calls_itself`.
    """
    here, pointer = lanes.layout.full(mask), np.asarray(pointer)
    if (np.isin(pointer, calls_itself) & here).any():
        instruction = lanes.launch.kernel.instructions[index]
        raise PtxError(
            f"kernel '{lanes.launch.kernel.name}', {instruction.where}: calls a function through "
            "a pointer, which calls itself: the simulator knows no recursion"
        )
    known = np.isin(pointer, targets)
    wrong = here & ~known
    if wrong.any():
        first = int(lanes.layout.of(pointer, wrong)[0])
        what = f"the pointer that is called is {first:#x}, the address of no function with these "
        what += "parameters"
        lanes.find("call of no function", index, what, wrong)
    return known


def printf(lanes, index: int, text, values, mask) -> np.int32:
    """vprintf: `text` and `values` are generic addresses (int64). How many values are printed."""
    active = lanes.layout.active(mask)
    places = [tuple(place) for place in np.argwhere(active)]
    if not places:
        return np.int32(0)
    rows = lanes.layout.to_warps(text)
    count = 0
    lines: dict[tuple[int, int], str] = {}
    for address in np.unique(rows[active]):
        here = lanes.both(mask, np.asarray(text) == address)
        places_here = [place for place in places if rows[place] == address]
        count, texts = _formatted(lanes, index, _text(lanes, address), values, here, places_here)
        lines |= dict(zip(places_here, texts, strict=True))
    for place in places:
        lanes.printed.write(lines[place])
    return np.int32(count)


def _formatted(lanes, index, form: str, values, mask, places) -> tuple[int, list[str]]:
    """How many values the format takes, and its text for each of the lanes at `places`."""
    pieces, offset, count, position = [], 0, 0, 0

    def value(dtype) -> list:
        nonlocal offset, count
        offset = -(-offset // dtype.itemsize) * dtype.itemsize
        at = np.asarray(values) + np.int64(offset)
        (loaded,) = lanes.load(index, "generic", at, dtype, 1, mask)
        offset, count = offset + dtype.itemsize, count + 1
        rows = lanes.layout.to_warps(loaded)
        return [rows[place].item() for place in places]

    for match in SPECIFIER.finditer(form):
        pieces.append([form[position : match.start()]] * len(places))
        position = match.end()
        if match["kind"] == "%":
            pieces.append(["%"] * len(places))
            continue
        stars = [value(np.dtype("i4")) for part in ("width", "precision") if match[part] == "*"]
        given = value(_type(match["kind"], match["length"]))
        by_place = list(zip(*stars, strict=True)) if stars else [()] * len(places)
        pairs = zip(given, by_place, strict=True)
        pieces.append([_converted(lanes, match, each, list(numbers)) for each, numbers in pairs])
    pieces.append([form[position:]] * len(places))
    return count, ["".join(parts) for parts in zip(*pieces, strict=True)]


def _type(kind: str, length: str | None) -> np.dtype:
    if kind in "fFeEgGaA":
        return np.dtype("f8")
    if kind in "sp" or length in LONG:
        return np.dtype("u8") if kind in "oxXup" else np.dtype("i8")
    return np.dtype("u4") if kind in "oxXu" else np.dtype("i4")


def _converted(lanes, specifier: re.Match, value, stars: list[int]) -> str:
    """One value as C prints it."""
    flags, kind, precision = specifier["flags"], specifier["kind"], specifier["precision"]
    if kind == "c":
        value = chr(value & 255)
    elif kind == "s":
        value = _text(lanes, value) if value else "(null)"
    elif kind == "p":
        value = f"{value:#x}" if value else "(nil)"
    elif kind in "aA":
        value = value.hex() if kind == "a" else value.hex().upper()
    elif specifier["length"] in ("h", "hh") and kind in "diouxX":
        bits = 8 if specifier["length"] == "hh" else 16
        value &= (1 << bits) - 1
        value -= (value >> (bits - 1) << bits) if kind in "di" else 0
    as_text = isinstance(value, str)
    if as_text and kind != "s":
        stars, precision = stars[: specifier["width"] == "*"], None
    dot = "" if precision is None else f".{precision}"
    form = f"%{flags}{specifier['width']}{dot}{'s' if as_text else kind}"
    return form % (*stars, value)


def _text(lanes, address) -> str:
    """The string at a generic address."""
    address = int(address)
    buffer = lanes.launch.memory.buffer_at(address)
    if buffer is None:
        return f"(no string at {address:#x})"
    begin = address - buffer.base
    raw = buffer.view(np.dtype("u1"))[begin : begin + MOST_TEXT].tobytes()
    return raw.partition(b"\0")[0].decode("utf-8", "replace")
