"""Rungs 01 and 02: one thread, one element of C, without reuse."""

from __future__ import annotations

from gemmlab.ladder.constraints import whole_block
from gemmlab.ladder.launch import Triple, single
from gemmlab.ladder.planted import Planted
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.rungs.shapes import ceil_div
from gemmlab.ladder.settings import Parameter, Settings

POWERS = tuple(2**i for i in range(11))


def _block_xy(meaning_x: str, meaning_y: str) -> tuple[Parameter, ...]:
    return (
        Parameter("BLOCK_X", 64, POWERS, f"threads of a block along x, {meaning_x}"),
        Parameter("BLOCK_Y", 8, POWERS, f"threads of a block along y, {meaning_y}"),
    )


def _block(settings: Settings) -> Triple:
    return settings["BLOCK_X"], settings["BLOCK_Y"], 1


def _no_reuse(problem: Problem, settings: Settings) -> int:
    """Every thread reads a row of A and a column of B, and writes one element."""
    m, n, k = problem.shape
    return 4 * (2 * m * n * k + m * n)


CONSTRAINTS = (whole_block(lambda s: s["BLOCK_X"] * s["BLOCK_Y"]),)

NAIVE = Rung(
    name="01_naive",
    title="Naive",
    idea="one thread, one element; a warp walks down a column",
    inner_loop=(("const int row", "if (row"), ("float sum", "* B")),
    parameters=_block_xy("down the rows of C", "along the columns of C"),
    tile=lambda s: (s["BLOCK_X"], s["BLOCK_Y"]),
    plan=single(
        "naive", lambda m, n, s: (ceil_div(m, s["BLOCK_X"]), ceil_div(n, s["BLOCK_Y"]), 1), _block
    ),
    constraints=CONSTRAINTS,
    model_bytes=_no_reuse,
)

COALESCING = Rung(
    name="02_coalescing",
    title="Coalescing",
    idea="the same, with the warp along a row",
    inner_loop=(("const int row", "if (row"), ("float sum", "* B")),
    parameters=_block_xy("along the columns of C", "down the rows of C"),
    tile=lambda s: (s["BLOCK_Y"], s["BLOCK_X"]),
    plan=single(
        "coalescing",
        lambda m, n, s: (ceil_div(n, s["BLOCK_X"]), ceil_div(m, s["BLOCK_Y"]), 1),
        _block,
    ),
    constraints=CONSTRAINTS,
    model_bytes=_no_reuse,
    planted=Planted(
        old="row >= M || col >= N",
        new="row > M || col >= N",
        what="the threads of row M, one past the last, do not return: the last row is M - 1",
        kind="out-of-bounds read",
        seen="kernel.check() and kernel.verify() both report accesses out of bounds of A and C",
        hint="kernel.check() names an element past the end of A. Which row is it in, and which "
        "line should have sent its thread away?",
    ),
)

RUNGS = (NAIVE, COALESCING)
