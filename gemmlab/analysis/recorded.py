"""Tables of records: stalls, issue slots, what gl.matmul takes, the speeds of GPUs."""

from collections.abc import Iterable
from contextlib import suppress

import pandas

from gemmlab import ladder
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import RUNGS, SINGLE, Rung
from gemmlab.ladder.problem import GROUPS
from gemmlab.products import choosing
from gemmlab.records import registry, roofs, runs
from gemmlab.records import stalls as recorded
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord, again, of_one_gpu
from gemmlab.records.roofs import Ceilings
from gemmlab.records.runs import Measured
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import CLASSES, MULTIPLY_ADD
from ptxsim.architectures import SIMULATED_ARCH

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
    rows = pandas.DataFrame({name: row(ladder.find(name), shape) for name in names})
    per_issue = rows.loc[list(recorded.REASONS)].fillna(0.0).astype(float)
    shares = 100 * per_issue / per_issue.sum()
    large = shares[(shares >= LEAST).any(axis=1)].sort_values(names[-1], ascending=False)
    issues = rows.loc["issue_active_pct"]
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
    missing = f"{rung.name}: no stall reasons are recorded"
    return registry.at_shape(recorded.evidence(rung).read(), shape, missing).iloc[0]


def issue_slots(kernels: Iterable[Kernel]) -> pandas.DataFrame:
    """One row for each of these kernels in float32, of its inner loop on sm_90a.

    Of one trip, or of as many as a pair of tiles takes: the issue slots, in all and by class, and
    FFMAs over issue slots, in percent. Raises what sass.loop() raises.
    """
    rows = []
    for kernel in kernels:
        trip = loops.loop(kernel, SIMULATED_ARCH)
        rows.append({
            "kernel": kernel.name, "issue slots": len(trip), "FFMA": trip.mix[MULTIPLY_ADD],
            **{name: trip.mix[name] for name in CLASSES if name != MULTIPLY_ADD},
            "FFMA, % of slots": round(100 * trip.mix[MULTIPLY_ADD] / len(trip), 1),
        })  # fmt: skip
    return pandas.DataFrame(rows)


LARGE = "large"  # the group of what is recorded beside the shape set


def chosen_shares() -> pandas.DataFrame:
    """What gl.choose takes in float32 at every recorded shape, A and B as they are, by groups.

    Of one GPU, see registry.of_one_gpu. Columns: group, kernel, settings, dtype, m, n, k, batch,
    tflops, pct_cublas, gpu, recorded. Raises NoRecord where nothing is recorded, BadRecord.
    """
    taken = of_one_gpu(_taken)
    group_of = {problem: group for group, problems in GROUPS.items() for problem in problems}
    order = {problem: at for at, problem in enumerate(group_of)}
    groups = [*(group for group in GROUPS if group != "batches"), LARGE, "batches"]
    table = pandas.DataFrame(
        {
            "group": group_of.get(row.problem, LARGE), "kernel": row.rung.name,
            "settings": row.settings, "dtype": row.dtype,
            "m": row.problem.m, "n": row.problem.n, "k": row.problem.k, "batch": row.problem.batch,
            "tflops": row.tflops, "pct_cublas": 100 * row.share,
            "gpu": row.gpu, "recorded": row.recorded,
        }
        for row in sorted(taken, key=lambda r: (order.get(r.problem, len(order)), r.problem.flop))
    )  # fmt: skip
    return table.sort_values("group", key=lambda names: names.map(groups.index), kind="stable")


def _taken() -> list[choosing.Row]:
    if taken := choosing.taken(SINGLE.name):
        return list(taken.values())
    raise NoRecord(f"nothing is recorded of gl.matmul; {again('best_by_shape')} on a GPU.")


TFLOPS, CUBLAS, ROOF = "TFLOP/s", "% of cuBLAS", "% of the roof"


def gpu_speeds(shape: tuple[int, int, int] = runs.LARGE) -> pandas.DataFrame:
    """How fast rungs that fill the GPU at a shape are on each GPU that has records.

    A row for each rung. Columns: the name of a GPU over TFLOPS, CUBLAS (percent, in turn with it)
    and ROOF: percent of the arithmetic roof of the same GPU, that of the FP32 units or of the
    tensor cores, as the rung multiplies. A cell is NaN where the rung, or the roof, is not recorded
    on that GPU, or is stale. Raises NoRecord where nothing is recorded at all.
    """
    tables = {}
    registry.replayed()
    for slug in registry.gpus():
        with registry.records_of(slug):
            known = _roofs()
            rows = {
                rung.name: _speed(rung, shape, known) for rung in RUNGS if rung.shown_at is None
            }
            tables[runs.current()["gpu"]["name"]] = pandas.DataFrame.from_dict(
                rows, orient="index", columns=[TFLOPS, CUBLAS, ROOF], dtype=float
            )
    return pandas.concat(tables, axis=1)


def _roofs() -> Ceilings | None:
    """Those of the GPU whose records are read, if they are known."""
    with suppress(NoRecord, StaleRecord, BadRecord):
        return roofs.recorded_ceilings()
    return None


def _speed(
    rung: Rung, shape: tuple[int, int, int], known: Ceilings | None
) -> tuple[float | None, float | None, float | None]:
    """The columns of `gpu_speeds`; None where a value is not known."""
    measured = Measured(rung)
    try:
        run = runs.replay_at(measured, *shape)
    except (NoRecord, StaleRecord, BadRecord):
        return None, None, None
    tflops, roof = run.gflops / 1e3, None
    if known is not None:
        with suppress(NoRecord):
            roof = known.arithmetic(measured.precision.name, rung.by_wgmma)
    return tflops, 100 * run.ratio.median, 100e12 * tflops / roof if roof else None
