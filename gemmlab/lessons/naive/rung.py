"""Rung 01: its entry on the ladder."""

from gemmlab.ladder.launch import Triple, single
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Parameter, Settings, whole_block
from gemmlab.ladder.shapes import ceil_div

POWERS = tuple(2**i for i in range(11))


def block_xy(meaning_x: str, meaning_y: str) -> tuple[Parameter, ...]:
    return (
        Parameter("BLOCK_X", 64, POWERS, f"threads of a block along x, {meaning_x}"),
        Parameter("BLOCK_Y", 8, POWERS, f"threads of a block along y, {meaning_y}"),
    )


def block(settings: Settings) -> Triple:
    return settings["BLOCK_X"], settings["BLOCK_Y"], 1


def no_reuse(problem: Problem, settings: Settings) -> int:
    """Every thread reads a row of A and a column of B, and writes one element."""
    m, n, k = problem.shape
    return 4 * (2 * m * n * k + m * n)


CONSTRAINTS = (whole_block(lambda s: s["BLOCK_X"] * s["BLOCK_Y"]),)

RUNG = Rung(
    name="01_naive",
    title="Naive",
    idea="one thread, one element; a warp walks down a column",
    inner_loop=(("const int row", "if (row"), ("float sum", "* B")),
    parameters=block_xy("down the rows of C", "along the columns of C"),
    tile=lambda s: (s["BLOCK_X"], s["BLOCK_Y"]),
    plan=single(
        "naive", lambda m, n, s: (ceil_div(m, s["BLOCK_X"]), ceil_div(n, s["BLOCK_Y"]), 1), block
    ),
    constraints=CONSTRAINTS,
    model_bytes=no_reuse,
)
