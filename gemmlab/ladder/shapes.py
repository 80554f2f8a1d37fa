"""Common parts of rungs: tiles as parameters, grids, blocks, memory that they need."""

from collections.abc import Callable

from gemmlab.ladder.launch import Triple
from gemmlab.ladder.precision import SINGLE, Precision
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.settings import Constraint, Parameter, Settings, shared_memory
from ptxsim.architectures import LIMITS, WARP, base


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def fits(shared_bytes: Callable[[Settings], int], arch: str) -> Constraint:
    """That a block of this architecture may request so many bytes of shared memory."""
    return shared_memory(shared_bytes, LIMITS[base(arch)].dynamic_shared_bytes)


# A block computes BM×BN elements of C and goes along K in steps of BK.


def block_tile(rows: tuple, columns: tuple, steps: tuple, default: tuple) -> tuple[Parameter, ...]:
    return (
        Parameter("BM", default[0], rows, "rows of C that a block computes"),
        Parameter("BN", default[1], columns, "columns of C that a block computes"),
        Parameter("BK", default[2], steps, "how far along K one step goes"),
    )


def operations() -> tuple[Parameter, ...]:
    """How a rung takes A and B, for those that take them either way; read by `ops`."""
    stored = "0 as it is, 1 stored transposed"
    return tuple(
        Parameter(name, 0, (0, 1), f"{which}: {stored}", tuned=False)
        for name, which in (("OP_A", "A"), ("OP_B", "B"))
    )


def ops(settings: Settings) -> str:
    """The two letters of a Problem, from OP_A and OP_B."""
    return "NT"[settings["OP_A"]] + "NT"[settings["OP_B"]]


def thread_tile(default_rows: int, default_columns: int) -> tuple[Parameter, ...]:
    return (
        Parameter("TM", default_rows, (4, 8), "rows of C that a thread computes"),
        Parameter("TN", default_columns, (4, 8), "columns of C that a thread computes"),
    )


def tile(settings: Settings) -> tuple[int, int]:
    return settings["BM"], settings["BN"]


def tiles_of_c(m: int, n: int, settings: Settings) -> Triple:
    return ceil_div(n, settings["BN"]), ceil_div(m, settings["BM"]), 1


def tile_reuse(problem: Problem, settings: Settings, precision: Precision = SINGLE) -> int:
    """A is read once for each column of blocks, B for each row of them, and C is written."""
    m, n, k = problem.shape
    columns, rows, _ = tiles_of_c(m, n, settings)
    of_a, of_b, of_c = precision.a.bytes, precision.b.bytes, precision.c.bytes
    return of_a * columns * m * k + of_b * rows * k * n + of_c * m * n


def in_a_line(threads: Callable[[Settings], int]) -> Callable[[Settings], Triple]:
    """The shape of blocks that count their threads along x alone."""
    return lambda settings: (threads(settings), 1, 1)


def threads_of_tiles(s: Settings) -> int:
    """One for each TM×TN of the block's tile."""
    return (s["BM"] // s["TM"]) * (s["BN"] // s["TN"])


def threads_of_warps(s: Settings) -> int:
    """A warp for each WM×WN of the block's tile."""
    return WARP * (s["BM"] // s["WM"]) * (s["BN"] // s["WN"])


def even_shares(
    groups: Callable[[Settings, int], int], of_what: str, brought: str = "a tile"
) -> Constraint:
    """The threads of warps bring as many groups each, of A and of B. `groups`: how many there are
    in what is brought, by the settings and the tile's rows of A, or columns of B."""

    def broken(s: Settings) -> str | None:
        threads = threads_of_warps(s)
        for matrix, side in (("A", "BM"), ("B", "BN")):
            if (count := groups(s, s[side])) % threads:
                return (
                    f"makes {threads} threads per block, but {brought} of {matrix} has {count} "
                    f"groups of {of_what}: no multiple of that"
                )
        return None

    return Constraint("even shares", broken)
