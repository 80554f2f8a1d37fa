"""Rung 12: its entry on the ladder."""

from collections import defaultdict

from gemmlab.files import rows_beside
from gemmlab.ladder import launch, shapes
from gemmlab.ladder.launch import SIMULATED, Launch, Target, Workspace
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import (
    ALONE,
    ATOMICS,
    CLUSTER,
    EVERY_PART,
    JOINS,
    LAST_ARRIVER,
    SECOND_KERNEL,
    STREAM_K,
    Constraint,
    IllegalSetting,
    Parameter,
    Settings,
)
from ptxsim.architectures import LIMITS, base

PADDING = 4  # floats, of a row of what is transposed on its way into shared memory
MOST_ROWS_OF_BLOCKS = 65535
STATIC_BYTES = 256  # of shared memory, at most: barriers of a ring, and a flag
DEPTH, STRIP, WARPS = 256, 128, 4  # of thin.cuh: k at a time; columns and warps of a block


def _has_few_rows(s: Settings) -> bool:
    return s["TM"] == s["BM"]


def _has_few_columns(s: Settings) -> bool:
    return s["TN"] == s["BN"]


def stages_bytes(s: Settings) -> int:
    """The stages: tiles of floats, whose rows are longer where elements come transposed."""
    a_row = s["BM"] + (0 if s["OP_A"] or _in_lines(s) else PADDING)
    b_row = s["BN"] + (PADDING if s["OP_B"] else 0)
    return 4 * s["STAGES"] * s["BK"] * (a_row + b_row)


def _in_lines(s: Settings) -> bool:
    """Whether A lies in rows in shared memory, as A_IN_ROWS of tile_product.cuh has it."""
    return not s["OP_A"] and (s["BN"] < 32 or (s["BN"] <= 64 and s["TM"] * s["TN"] > 64))


def families(*choices: tuple[int, ...]) -> tuple[Settings, ...]:
    names = ("BM", "BN", "BK", "TM", "TN", "STAGES", "PTXAS")
    return tuple(dict(zip(names, choice, strict=True)) for choice in choices)


def parameters(families: tuple[Settings, ...], default: Settings) -> tuple[Parameter, ...]:
    """The parameters of tiles, with the values that some family has."""
    meanings = {
        "BM": "rows of C that a block computes", "BN": "columns of C that a block computes",
        "BK": "how far along K one step goes", "TM": "rows of C that a thread computes",
        "TN": "columns of C that a thread computes", "STAGES": "stages of the pipeline",
        "PTXAS": "the assembler's optimization; 1 keeps the order of the FMAs",
    }  # fmt: skip
    values = {name: sorted({family[name] for family in families}) for name in meanings}
    return tuple(
        Parameter(name, default[name], tuple(values[name]), meaning)
        for name, meaning in meanings.items()
    )


def _resident(s: Settings, target: Target) -> int:
    """Blocks that fit on an SM by registers (the header's MIN_BLOCKS) and shared memory."""
    accumulators = s["TM"] * s["TN"]
    threads = 256 if accumulators > 64 else 512 if accumulators > 32 else 768
    limits = LIMITS.get(base(target.arch), LIMITS["sm_80"])
    of_a_block = _split_shared_bytes(s) + STATIC_BYTES + limits.reserved_bytes
    return max(1, min(threads // shapes.threads_of_tiles(s), limits.shared_bytes // of_a_block))


def _threads(s: Settings) -> int:
    if _has_few_rows(s):
        return 32 * WARPS
    return 32 * (s["BM"] // s["TM"]) if _has_few_columns(s) else shapes.threads_of_tiles(s)


def _split_shared_bytes(s: Settings) -> int:
    if _has_few_rows(s):
        return 4 * s["BM"] * max(DEPTH, WARPS * STRIP)
    if _has_few_columns(s):
        return 4 * s["STAGES"] * s["BN"] * (s["BK"] + PADDING)
    of_a_tile = 4 * s["BM"] * s["BN"] if s["JOIN"] == CLUSTER else 0
    return max(stages_bytes(s), of_a_tile)


def _shares(s: Settings) -> int:
    """Blocks of the second kernel for each tile, as the header's SHARES has them."""
    fours = s["TM"] * s["TN"] // 4
    lanes = 1 << (max(1, min(s["SPLIT"] // fours, 16)).bit_length() - 1)
    return fours * lanes


def _split_plan(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    across, down, _ = shapes.tiles_of_c(problem.m, problem.n, s)
    tiles, join, block = across * down, s["JOIN"], (_threads(s), 1, 1)
    args = (*launch.MATRICES, "M", "N", "K", *launch.LEADING, "alpha", "beta")
    if _has_few_columns(s):
        return [Launch("few_columns", (tiles, 1, 1), block, _split_shared_bytes(s), args=args)]
    together = target.sm_count * _resident(s, target)
    if join == EVERY_PART and s["SPLIT"] > together:
        raise IllegalSetting(
            f"{s['SPLIT']} parts wait for each other, and {together} blocks run at a time: choose "
            f"JOIN={LAST_ARRIVER}"
        )
    blocks = together if join == STREAM_K else tiles * s["SPLIT"]
    parts = Workspace("parts", 4 * s["BM"] * s["BN"] * blocks)
    arrived = Workspace("arrived", 4 * max(blocks, 8 * tiles), zeroed=True)
    entry = "few_rows" if _has_few_rows(s) else "stream_k" if join == STREAM_K else "split_k"
    cluster = (min(s["SPLIT"], 8), 1, 1) if join == CLUSTER else (1, 1, 1)
    product = Launch(
        entry, (blocks, 1, 1), block, _split_shared_bytes(s), cluster, (*args, parts, arrived)
    )
    if join == SECOND_KERNEL:
        args = ("C", "M", "N", "ldc", "alpha", "beta", parts)
        return [product, Launch("add_parts", (tiles * _shares(s), 1, 1), block, args=args)]
    if join == ATOMICS:
        grid = (shapes.ceil_div(problem.n, 256), min(problem.m, MOST_ROWS_OF_BLOCKS), 1)
        args = ("C", "M", "N", "ldc", "beta")
        return [Launch("scale_c", grid, (256, 1, 1), args=args), product]
    return [product]


def _one_way(s: Settings) -> str | None:
    if s["JOIN"] in (ALONE, STREAM_K) and s["SPLIT"] != 1:
        return f"joins by {JOINS[s['JOIN']]}, with SPLIT=1"
    if s["JOIN"] == CLUSTER and s["SPLIT"] > 8 and s["SPLIT"] % 8:
        return "leaves no whole clusters of 8 parts"
    return None


def _waiting(s: Settings) -> str | None:
    """Whether parts wait for each other of which not all run at a time, also on a large GPU."""
    together = SIMULATED.sm_count * _resident(s, SIMULATED)
    if s["JOIN"] == EVERY_PART and s["SPLIT"] > together:
        return f"lets {s['SPLIT']} parts wait for each other, where {together} run at a time"
    return None


def _thin(s: Settings) -> str | None:
    if _has_few_columns(s):
        if s["SPLIT"] != 1 or s["JOIN"] != ALONE:
            return "cuts no K where C has few columns: SPLIT=1 and JOIN=0"
        if s["OP_A"]:
            return "takes A only as it is where C has few columns"
    elif _has_few_rows(s):
        if s["JOIN"] not in (ALONE, LAST_ARRIVER, CLUSTER):
            joins = f"{ALONE}, {LAST_ARRIVER} and {CLUSTER}"
            return f"joins few rows in one way of JOIN={joins}"
        if s["OP_B"]:
            return "takes B only as it is where C has few rows"
        if s["JOIN"] == CLUSTER and s["SPLIT"] > 8:
            return "joins few rows in one cluster, of 8 parts at most"
    return None


SPLIT_FAMILIES = families(
    (64, 64, 16, 8, 8, 3, 3), (64, 64, 16, 8, 4, 4, 3), (64, 128, 16, 8, 8, 4, 3),
    (128, 128, 16, 8, 8, 4, 3), (128, 256, 32, 8, 16, 3, 1), (128, 256, 16, 8, 16, 4, 1),
    (32, 32, 32, 4, 4, 3, 3), (32, 128, 16, 8, 4, 3, 3), (16, 64, 32, 4, 4, 3, 3),
    (128, 64, 16, 8, 16, 4, 1), (256, 32, 32, 16, 8, 3, 1), (128, 16, 32, 4, 4, 3, 3),
    (128, 32, 32, 8, 4, 3, 3), (64, 32, 32, 4, 4, 3, 3), (1, 128, 256, 1, 4, 1, 3),
    (16, 1, 256, 2, 1, 2, 3),
)  # fmt: skip
SQUARE = SPLIT_FAMILIES[0]


def _tried() -> dict[tuple[int, int, int], list[Settings]]:
    """What a sweep tries at (M, N, K): tiles, SPLIT and JOIN.

    Of some hundred that were timed on an NVIDIA H200 they were the fastest, or near it.
    """
    tried = defaultdict(list)
    for row in rows_beside(__file__, "tried.csv"):
        row["JOIN"] = JOINS.index(row["JOIN"])
        settings = {name: int(value) for name, value in row.items()}
        tried[tuple(settings.pop(name) for name in "mnk")].append(settings)
    return dict(tried)


TRIED = _tried()


RUNG = Rung(
    name="12_split_k",
    title="Split-K",
    idea="fewer tiles than SMs: several blocks share a tile, each with a part of K",
    parameters=(
        *parameters(SPLIT_FAMILIES, SQUARE),
        Parameter("SPLIT", 4, (1, 2, 3, 4, 7, 8, 16, 64, 66, 128, 256), "parts of K"),
        Parameter(
            "JOIN", EVERY_PART, tuple(range(len(JOINS))),
            "how parts are added: " + ", ".join(f"{at}: {join}" for at, join in enumerate(JOINS)),
        ),
        *shapes.operations(),
    ),
    families=SPLIT_FAMILIES,
    tuned_shapes=tuple(TRIED),
    swept=lambda at, s: any(tried.items() <= s.items() for tried in TRIED.get(at.shape, ())),
    tile=shapes.tile,
    plan=_split_plan,
    constraints=(
        Constraint("one way", _one_way), Constraint("thin", _thin), Constraint("waiting", _waiting),
    ),
    model_bytes=shapes.tile_reuse,
    needs_arch=lambda s: "sm_90a" if s["JOIN"] == CLUSTER else "sm_80",
    ops=shapes.ops,
    shown_at=Problem(64, 4096, 4096),
    inner_loop=(
        ("const int tile = blockIdx.x / SPLIT", "const int tile = blockIdx.x / SPLIT"),
        ("const long long k_tiles", "begin_k, end_k);"),
        ("store_part(parts", "leave(&arrived"),
    ),
    planted=Planted.beside(__file__),
)  # fmt: skip
