"""What is written behind a command, read: sizes, rungs, shapes, settings."""

from __future__ import annotations

import argparse

from gemmlab.ladder import LadderError, find

AUTO = "auto"  # in place of a rung: what gl.choose takes


def size(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def rung(name: str) -> str:
    try:
        return find(name).name
    except LadderError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def rung_or_auto(name: str) -> str:
    return name if name == AUTO else rung(name)


def shape(text: str) -> tuple[int, int, int]:
    sizes = text.lower().split("x")
    if len(sizes) != 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not MxNxK, such as 512x512x512")
    m, n, k = (size(one) for one in sizes)
    return m, n, k


def setting(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value.lstrip("-").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as BLOCK_X=16")
    return name, int(value)
