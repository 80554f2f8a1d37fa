"""What is recorded of several GPUs; where nothing is, a sentence that says so and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab.distributed.steps import Schedule
from gemmlab.plots import rank_timeline
from gemmlab.plots.picture import Picture
from gemmlab.records.experiments.multi_gpu import recorded
from gemmlab.records.registry import NoRecord
from gemmlab.report import Shown, Words

if TYPE_CHECKING:
    import pandas

SHOWN = ("schedule", "kernel", "dtype", "ranks", "M×N×K", "ms", "tflops", "pct_of_ranks", "hidden_pct")  # fmt: skip # noqa: E501


def measured() -> pandas.DataFrame | Shown:
    """A row for each schedule, rung, number of GPUs and shape. Raises StaleRecord, BadRecord."""
    found = recorded.recorded()
    if isinstance(found, str):
        return _said(found)
    shapes = [f"{row.m}×{row.n}×{row.k}" for row in found.itertuples()]
    return found.assign(**{"M×N×K": shapes})[list(SHOWN)].round(2)


def measured_timeline(schedule: Schedule, kernel: str) -> Picture | Shown:
    """The recorded median run of a schedule, its products by a rung, drawn. Raises StaleRecord, BadRecord."""
    try:
        return rank_timeline(recorded.timeline(schedule, kernel))
    except NoRecord:
        found = recorded.recorded()
        return _said(found if isinstance(found, str) else f"No timeline is recorded of {schedule} by {kernel}.")


def _said(words: str) -> Shown:
    return Shown(words, Words(words).html())
