"""Settings of a rung: its tile parameters with a value for each, in words and as text."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

Settings = dict[str, int]


class IllegalSetting(Exception):
    """A parameter value or a launch that a rung cannot have. The message says what is legal."""


@dataclass(frozen=True)
class Parameter:
    """A macro of the kernel file that the reader may set.

    A sweep tries its values, unless it is not `tuned`: then it says what is computed, not how.
    """

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
    return {name: int(value) for name, value in (one.split("=") for one in text.split())}


def listed(settings: Settings) -> str:
    """Settings in words: "TILE=32, BK=64"."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())
