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


def of_roofs(shape: tuple[int, int, int] = runs.LARGE) -> SideBySide:
    """Percent of the arithmetic roof of each GPU's own, at a shape, rungs that fill the GPU there.

    The roof is that of the FP32 units or of the tensor cores, as the rung multiplies. A cell is
    empty where the rung, or the roof, is not recorded on that GPU, or is stale. Raises NoRecord
    where nothing is recorded at all.
    """
    import pandas

    there = registry.gpus()
    if not there:
        raise NoRecord(f"No GPU is recorded yet. {HOW}")
    rungs = [rung for rung in RUNGS if rung.shown_at is None]
    columns = {}
    for slug in there:
        with registry.records_of(slug):
            name = runs.current()["gpu"]["name"]
            known = _roofs()
            columns[name] = [_share(rung, shape, known) for rung in rungs]
    index = pandas.Index([rung.name for rung in rungs], name="% of the roof")
    table = pandas.DataFrame(columns, index=index)
    lacking = int(table.isna().to_numpy().sum())
    missing = f" {lacking} cells are empty: the rung or its roof is not recorded there, or of another version." if lacking else ""  # fmt: skip # noqa: E501
    return SideBySide(table, f"Recorded: {', '.join(columns)}.{missing} {HOW}")


def _roofs() -> Ceilings | None:
    """Those of the GPU whose records are read; None where they are not known."""
    try:
        return roofs.recorded_ceilings()
    except (NoRecord, StaleRecord, BadRecord):
        return None


def _share(rung: Rung, shape: tuple[int, int, int], known: Ceilings | None) -> float | None:
    """Percent, or None where it is not known."""
    one = Measured(rung)
    if known is None:
        return None
    try:
        run = runs.replay_at(one, *shape)
        roof = known.arithmetic(one.precision.name, rung.by_wgmma)
    except (NoRecord, StaleRecord, BadRecord):
        return None
    return 100 * 1e9 * run.gflops / roof
