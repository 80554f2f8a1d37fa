"""What records alone say: what warps waited for, what gl.matmul takes, GPUs side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pandas

from gemmlab import ladder
from gemmlab.ladder import RUNGS, SINGLE, Problem, Rung
from gemmlab.ladder.problem import GROUPS
from gemmlab.products import choosing
from gemmlab.records import registry, roofs, runs
from gemmlab.records import stalls as recorded
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord, again, of_one_gpu
from gemmlab.records.roofs import Ceilings
from gemmlab.records.runs import Measured
from gemmlab.records.tuning import SIZES, sizes_of

LEAST = 1.0  # percent: what is less in every column is summed up as the rest
REST = "the rest"
WORDS = "what it is, or what a warp waits for"
OF_A_SCHEDULER = ("% of its cycles start an instruction", "a number: how many it had on average")


def stalls(*names: str, shape: tuple[int, ...] = runs.LARGE) -> pandas.DataFrame:
    """What the warps of rungs did in a cycle, at one recorded shape, a column for each rung.

    shape: (M, N, K), or (M, N, K, batch).

    First "issue active": the cycles of a scheduler in which it started an instruction, in percent;
    and how many warps a scheduler had. Then each reason of Nsight Compute, in percent of the cycles
    of all warps, the most frequent of the last rung first; WORDS says it in words, which are others
    where all rungs multiply by wgmma. Reasons below 1 % in every rung are the rest. Raises
    LadderError, NoRecord, StaleRecord, BadRecord.
    """
    rows = {name: row(ladder.find(name), shape) for name in names}
    reasons = list(recorded.REASONS)
    per_issue = pandas.DataFrame(
        {name: row_of_rung[reasons] for name, row_of_rung in rows.items()}
    ).fillna(0.0)
    shares = 100 * per_issue.astype(float) / per_issue.sum()
    large = shares[(shares >= LEAST).any(axis=1)].sort_values(names[-1], ascending=False)
    issues = pandas.Series(
        {name: row_of_rung["issue_active_pct"] for name, row_of_rung in rows.items()}
    )
    table = pandas.concat([
        pandas.DataFrame({
            "issue active": issues, "warps of a scheduler": per_issue.sum() * issues / 100,
        }).T,
        large.rename(lambda reason: reason.replace("_", " ")),
        pandas.DataFrame({REST: shares.drop(large.index).sum()}).T,
    ])  # fmt: skip
    by_wgmma = all(ladder.find(name).by_wgmma for name in names)
    meaning = recorded.REASONS | (recorded.OF_WGMMA if by_wgmma else {})
    words = [*OF_A_SCHEDULER, *map(meaning.get, large.index), ""]
    return table.astype(float).round(1).assign(**{WORDS: words})


def row(rung: ladder.Rung, shape: tuple[int, ...]) -> pandas.Series:
    """The recorded row of a rung at (M, N, K), or (M, N, K, batch); see records.stalls.COLUMNS.
    Raises NoRecord, naming the shapes that are recorded, StaleRecord, BadRecord."""
    table = recorded.evidence(rung).read()
    sizes = table[list(SIZES)]
    rows = table[(sizes == list(sizes_of(shape))).all(axis=1)]
    if rows.empty:
        there = ", ".join(str(Problem(*size)) for size in sizes.to_numpy().tolist())
        raise NoRecord(
            f"{rung.name}: no stall reasons were recorded at {shape}; there are: {there}."
        )
    return rows.iloc[0]


LARGE = "large"  # the group of what is recorded beside the shape set
SQUARES = tuple(2**power for power in range(4, 15))  # M = N
DEPTHS = tuple(2**power for power in range(4, 17))  # K
SIDES = tuple(2**power for power in range(15))  # M, N
DEPTH = 4096
SQUARE_C, OF_ONE_DEPTH = "square C", f"K = {DEPTH}"


def chosen_shares(dtype: str = SINGLE.name) -> pandas.DataFrame:
    """What gl.choose takes of a type at every recorded shape, A and B as they are, by groups.

    Of one GPU, see registry.of_one_gpu. Columns: group, kernel, settings, dtype, m, n, k, batch,
    tflops, pct_cublas, gpu, recorded. Raises NoRecord where nothing is recorded, BadRecord.
    """
    taken = of_one_gpu(partial(_taken, dtype))
    group_of = {problem: group for group, problems in GROUPS.items() for problem in problems}
    order = {problem: at for at, problem in enumerate(group_of)}
    groups = [*(group for group in GROUPS if group != "batches"), LARGE, "batches"]
    rows = []
    for problem in sorted(taken, key=lambda p: (order.get(p, len(order)), p.flop)):
        row = taken[problem]
        rows.append({
            "group": group_of.get(problem, LARGE), "kernel": row.rung.name,
            "settings": row.settings, "dtype": row.dtype,
            "m": problem.m, "n": problem.n, "k": problem.k,
            "batch": problem.batch, "tflops": row.tflops,
            "pct_cublas": 100 * row.share, "gpu": row.gpu, "recorded": row.recorded,
        })  # fmt: skip
    table = pandas.DataFrame(rows)
    return table.sort_values("group", key=lambda names: names.map(groups.index), kind="stable")


def _taken(dtype: str) -> dict[Problem, choosing.Row]:
    if taken := choosing.taken(dtype):
        return taken
    raise NoRecord(
        f"nothing is recorded of gl.matmul in {dtype}; {again('best_by_shape')} on a GPU."
    )


def chosen_rungs() -> pandas.DataFrame:
    """What gl.choose takes on two grids of shapes: square C over K, and M over N at one K.

    Columns: panel (SQUARE_C or OF_ONE_DEPTH), m, n, k, kernel, settings, recorded: whether a rung
    was measured at this very shape. Raises BadRecord.
    """
    measured = {row.problem for row in choosing.recorded()}
    grids = [(SQUARE_C, Problem(side, side, k)) for k in DEPTHS for side in SQUARES]
    grids += [(OF_ONE_DEPTH, Problem(m, n, DEPTH)) for m in SIDES for n in SIDES]
    return pandas.DataFrame(
        {
            "panel": panel, "m": problem.m, "n": problem.n, "k": problem.k,
            "kernel": (chosen := choosing.choose(problem)).rung,
            "settings": tuple(chosen.settings.items()), "recorded": problem in measured,
        }
        for panel, problem in grids
    )  # fmt: skip


HOW = (
    "On another GPU run `python -m gemmlab record`: it measures what lacks, goes on where it was "
    "interrupted, and says what cannot run there."
)


@dataclass(frozen=True)
class SideBySide:
    """`table`: a row for each rung, a column for each GPU. `note`: what is there, what to do."""

    table: pandas.DataFrame
    note: str


TFLOPS, CUBLAS, ROOF = "TFLOP/s", "% of cuBLAS", "% of the roof"


def gpu_speeds(shape: tuple[int, int, int] = runs.LARGE) -> pandas.DataFrame:
    """How fast rungs that fill the GPU at a shape are on each GPU that has records.

    A row for each rung. Columns: the name of a GPU over TFLOPS, CUBLAS (percent, in turn with it)
    and ROOF: percent of the arithmetic roof of the same GPU, that of the FP32 units or of the
    tensor cores, as the rung multiplies. A cell is NaN where the rung, or the roof, is not recorded
    on that GPU, or is stale. Raises NoRecord where nothing is recorded at all.
    """
    there = registry.gpus()
    if not there:
        raise NoRecord(f"No GPU is recorded yet. {HOW}")
    rungs = [rung for rung in RUNGS if rung.shown_at is None]
    tables = {}
    for slug in there:
        with registry.records_of(slug):
            known = _roofs()
            rows = {rung.name: _speed(rung, shape, known) for rung in rungs}
            name = runs.current()["gpu"]["name"]
            tables[name] = pandas.DataFrame.from_dict(
                rows, orient="index", columns=[TFLOPS, CUBLAS, ROOF], dtype=float
            )
    return pandas.concat(tables, axis=1)


def gpus_side_by_side(shape: tuple[int, int, int] = runs.LARGE) -> SideBySide:
    """The ROOF of `gpu_speeds` alone, a column for each GPU. Raises NoRecord where nothing is
    recorded at all."""
    table = gpu_speeds(shape).xs(ROOF, axis=1, level=1).rename_axis(ROOF)
    lacking = int(table.isna().to_numpy().sum())
    missing = f" {lacking} cells are empty: the rung or its roof is not recorded there, or of another version." if lacking else ""  # fmt: skip # noqa: E501
    return SideBySide(table, f"Recorded: {', '.join(table)}.{missing} {HOW}")


def _roofs() -> Ceilings | None:
    """Those of the GPU whose records are read; None where they are not known."""
    try:
        return roofs.recorded_ceilings()
    except (NoRecord, StaleRecord, BadRecord):
        return None


def _speed(
    rung: Rung, shape: tuple[int, int, int], known: Ceilings | None
) -> tuple[float | None, float | None, float | None]:
    """The columns of `gpu_speeds`; None where it is not known."""
    measured = Measured(rung)
    try:
        run = runs.replay_at(measured, *shape)
    except (NoRecord, StaleRecord, BadRecord):
        return None, None, None
    tflops, share = run.gflops / 1e3, 100 * run.ratio.median
    try:
        roof = known.arithmetic(measured.precision.name, rung.by_wgmma) if known else None
    except NoRecord:
        roof = None
    return tflops, share, 100e12 * tflops / roof if roof else None
