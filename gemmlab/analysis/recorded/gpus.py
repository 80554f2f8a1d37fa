"""GPUs side by side: each rung as a share of what the same GPU's roofs allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmlab.ladder import RUNGS, Rung
from gemmlab.records import registry, roofs, runs
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord
from gemmlab.records.roofs import Ceilings
from gemmlab.records.runs import Measured

if TYPE_CHECKING:
    import pandas

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


def speeds(shape: tuple[int, int, int] = runs.LARGE) -> pandas.DataFrame:
    """How fast rungs that fill the GPU at a shape are on each GPU that has records.

    A row for each rung. Columns: the name of a GPU over TFLOPS, CUBLAS (percent, in turn with it)
    and ROOF: percent of the arithmetic roof of the same GPU, that of the FP32 units or of the
    tensor cores, as the rung multiplies. A cell is NaN where the rung, or the roof, is not recorded
    on that GPU, or is stale. Raises NoRecord where nothing is recorded at all.
    """
    import pandas

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


def of_roofs(shape: tuple[int, int, int] = runs.LARGE) -> SideBySide:
    """The ROOF of `speeds` alone, a column for each GPU. Raises NoRecord where nothing is recorded
    at all."""
    table = speeds(shape).xs(ROOF, axis=1, level=1).rename_axis(ROOF)
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
    """The columns of `speeds`; None where it is not known."""
    one = Measured(rung)
    try:
        run = runs.replay_at(one, *shape)
    except (NoRecord, StaleRecord, BadRecord):
        return None, None, None
    tflops, share = run.gflops / 1e3, 100 * run.ratio.median
    try:
        roof = known.arithmetic(one.precision.name, rung.by_wgmma) if known else None
    except NoRecord:
        roof = None
    return tflops, share, 100e12 * tflops / roof if roof else None
