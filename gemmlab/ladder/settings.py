"""Settings of a rung: its tile parameters with a value for each, in words and as text."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

Settings = dict[str, int]

# How parts of a product along K are added: what the values of the parameter JOIN mean.
JOINS = (
    "alone", "a second kernel", "atomics", "the last arriver", "every part", "a cluster",
    "stream-K",
)  # fmt: skip
ALONE, SECOND_KERNEL, ATOMICS, LAST_ARRIVER, EVERY_PART, CLUSTER, STREAM_K = range(len(JOINS))


class IllegalSetting(Exception):
    """A parameter value or a launch that a rung cannot have. The message says what is legal."""


@dataclass(frozen=True)
class Parameter:
    """A macro of the kernel file that the reader may set. A sweep tries its values, unless it is
    not `tuned`: then it says what is computed, not how."""

    name: str
    default: int
    legal: tuple[int, ...]
    meaning: str
    tuned: bool = True


def is_whole(value: object) -> bool:
    """Whether it is a whole number, of Python or of another library; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def written(settings: Settings) -> str:
    """Settings for a line or a column of a table: "TILE=32 BK=64"."""
    return " ".join(f"{name}={value}" for name, value in settings.items())


def read_settings(text: str) -> Settings:
    """Settings that `written` wrote."""
    return {name: int(value) for name, value in (pair.split("=") for pair in text.split())}


def listed(settings: Settings) -> str:
    """Settings in words: "TILE=32, BK=64"."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())
