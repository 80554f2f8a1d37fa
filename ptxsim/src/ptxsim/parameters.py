"""The parameters of a kernel as its source declares them: names, and what their pointers point to.

PTX has 64 bits for every pointer. Only the source tells `const float* x` from `double* x`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
BRACKETS = dict(zip("([{<", ")]}>", strict=True))
QUALIFIERS = {"const", "volatile", "struct", "__grid_constant__"}
RESTRICT = re.compile(r"\b(?:__restrict__|__restrict|restrict)\b")
ATTRIBUTE = re.compile(r"\b(?:__align__|alignas)\s*\([^()]*\)")
MOST_ALIASES = 8  # of which one means another
INTEGER_WORDS = {"signed", "unsigned", "char", "short", "int", "long"}

HALVES, BFLOAT16 = ("float16", "uint16", "int16"), ("bfloat16", "uint16", "int16")
WORDS, LONG_WORDS = ("int32", "uint32"), ("int64", "uint64")
ONE_BYTE = "one byte"  # any type of one byte, such as float8 of ml_dtypes
# C++ type -> the NumPy types that it may be given, the usual one first. Of vectors and complex
# numbers those of an element. Pointers to any other type take every array: char* and uint4* often
# stand for bytes of any type, and what a template means is not known here.
ELEMENTS = {
    **dict.fromkeys(("float", "float1", "float2", "float3", "float4"), ("float32",)),
    **dict.fromkeys(("cuComplex", "cuFloatComplex"), ("float32",)),
    **dict.fromkeys(("double", "double1", "double2", "double3", "double4"), ("float64",)),
    "cuDoubleComplex": ("float64",),
    **dict.fromkeys(("half", "__half"), HALVES),
    **dict.fromkeys(("half2", "__half2"), HALVES + WORDS),
    **dict.fromkeys(("nv_bfloat16", "__nv_bfloat16"), BFLOAT16),
    **dict.fromkeys(("nv_bfloat162", "__nv_bfloat162"), BFLOAT16 + WORDS),
    **dict.fromkeys(("short", "int16_t", "uint16_t"), ("int16", "uint16", "float16", "bfloat16")),
    **dict.fromkeys(("int", "int32_t", "uint32_t"), WORDS),
    "long": (f"int{8 * np.dtype('l').itemsize}", f"uint{8 * np.dtype('l').itemsize}"),
    **dict.fromkeys(("long long", "int64_t", "uint64_t", "size_t"), LONG_WORDS),
    **dict.fromkeys(("signed char", "int8_t", "uint8_t", "bool"), ("uint8", ONE_BYTE)),
    **dict.fromkeys(("__nv_fp8_e4m3", "__nv_fp8_e5m2"), ("uint8", ONE_BYTE)),
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel.

    `declared`: its type, such as "const float*"; `element`: of what it points to, a key of
    ELEMENTS. Both are empty where the source does not tell, `element` also for other types.
    """

    name: str
    declared: str = ""
    element: str = ""

    def takes(self, dtype: np.dtype) -> bool:
        """Whether an array of this type may be given for the pointer."""
        untyped = dtype.type is np.void and dtype.names is None
        if not self.element or untyped:
            return True
        allowed = ELEMENTS[self.element]
        return all(
            one.name in allowed or (ONE_BYTE in allowed and one.itemsize == 1)
            for one in _scalars(dtype)
        )

    @property
    def is_number(self) -> bool:
        """Whether the source says that it is one, not a pointer."""
        return _plain_name(_words(self.declared)) in ELEMENTS

    @property
    def usual(self) -> str:
        """The NumPy type that it is mostly given."""
        first, *others = ELEMENTS[self.element]
        unsigned = re.search(r"\bu(?:nsigned|int)|size_t", self.declared)
        return others[0] if unsigned and others[:1] == [f"u{first}"] else first


def of_kernel(text: str, entry: str, count: int, names: tuple[str, ...] = ()) -> list[Parameter]:
    """The `count` parameters of a kernel, called `names` if these are given."""
    found = _of_source(text, entry)
    if len(found) != count:
        found = tuple(Parameter(f"argument {i}") for i in range(count))
    if len(names) == count:
        found = tuple(replace(one, name=name) for one, name in zip(found, names, strict=True))
    return list(found)


def source_name(entry: str) -> str:
    """`_Z5scaleIfEvPT_` is `scale` of the source, `scale<float>` too; others are as they are."""
    entry = entry.partition("<")[0].rpartition("::")[2].strip()
    mangled = re.match(r"_Z(?:N(?:\d+\D\w*?)?)?(\d+)", entry)
    if mangled and (name := entry[mangled.end() : mangled.end() + int(mangled[1])]).isidentifier():
        return name
    return entry


@lru_cache(maxsize=256)
def _of_source(text: str, entry: str) -> tuple[Parameter, ...]:
    """As many as the source has; without types where it has several such kernels."""
    text = COMMENT.sub(" ", text)
    lists = _parameter_lists(text, source_name(entry))
    if not lists:
        return ()
    found = [_parameter(at, part, text) for at, part in enumerate(_split(lists[0]))]
    if len(set(lists)) > 1:
        found = [Parameter(one.name) for one in found]
    return tuple(found)


def _parameter_lists(text: str, name: str) -> list[str]:
    """What stands in the brackets behind `name`: of kernels with a body, if there are any."""
    found: dict[tuple[bool, bool], list[str]] = {}
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", text):
        end = _closing(text, match.end())
        head = re.split(r"[;{}]", text[: match.start()])[-1]
        rank = "__global__" in head, text[end + 1 :].lstrip().startswith("{")
        found.setdefault(rank, []).append(" ".join(text[match.end() : end].split()))
    return found[max(found)] if found else []


def _closing(text: str, position: int) -> int:
    """Where the round bracket ends that opens before `position`."""
    depth = 1
    for bracket in re.compile("[()]").finditer(text, position):
        depth += 1 if bracket[0] == "(" else -1
        if depth == 0:
            return bracket.start()
    return len(text)


def _split(text: str) -> list[str]:
    """At the commas that stand in no bracket."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in BRACKETS) - (character in BRACKETS.values())
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    parts = [part.strip() for part in parts]
    return [] if parts in ([""], ["void"]) else parts


def _parameter(at: int, text: str, source: str) -> Parameter:
    text = ATTRIBUTE.sub(" ", text)
    if pointer := re.search(r"\(\s*[*&]\s*(?:\w+\s+)*(\w+)\s*\)", text):  # to an array, a function
        return Parameter(pointer[1])
    found = re.fullmatch(r"(.*\W)(\w+)\s*((?:\[[^]]*\]\s*)*)", text)
    if not found:
        return Parameter(f"argument {at}")
    kind, name, extents = (part.strip() for part in found.groups())
    kind += " *" if extents else ""
    words = _words(kind)
    declared = re.sub(r"\s*\*\s*", "*", RESTRICT.sub("", kind)).strip()
    if words.count("*") != 1 or words[-1] != "*":
        return Parameter(name, declared)
    return Parameter(name, declared, _resolved(_plain_name(words[:-1]), source))


def _words(kind: str) -> list[str]:
    """Of a type, without what does not matter here."""
    return [w for w in re.findall(r"\w+|::|\S", RESTRICT.sub("", kind)) if w not in QUALIFIERS]


def _plain_name(words: list[str]) -> str:
    """`unsigned long long int` is `long long`, `std::uint8_t` is `uint8_t`."""
    if words and set(words) <= INTEGER_WORDS:
        if "char" in words:
            return " ".join(word for word in words if word != "int")
        return "short" if "short" in words else " ".join(["long"] * words.count("long")) or "int"
    return words[-1] if words and set(words[:-1]) <= {"::", "std", "cuda"} else ""


def _resolved(name: str, source: str) -> str:
    """What a name means, a key of ELEMENTS; empty if that is not known.

    A typedef is followed; a template's argument and a macro may be anything.
    """
    for _ in range(MOST_ALIASES):
        other = rf"\b(?:class|typename|struct|define)\s+{name}\b|\}}\s*{name}\s*;"
        if not name or re.search(other, source):
            return ""
        aliases = re.findall(
            rf"\btypedef\s+([^;{{}}]+?)\b{name}\s*;|\busing\s+{name}\s*=([^;]+);", source
        )
        if not aliases:
            return name if name in ELEMENTS else ""
        if len(aliases) > 1:
            return ""
        name = _plain_name(_words("".join(aliases[0])))
    return ""


def _scalars(dtype: np.dtype) -> list[np.dtype]:
    """What an element is made of: itself, or the members of a structure, the two of a complex."""
    if dtype.subdtype:
        return _scalars(dtype.subdtype[0])
    if dtype.names is not None:
        return [one for name in dtype.names for one in _scalars(dtype[name])]
    return [np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype]
