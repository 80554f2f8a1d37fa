"""What was measured of several GPUs, read back."""

from __future__ import annotations

import pandas

from gemmlab.lessons.multi_gpu.gpus.runner import NCCL
from gemmlab.lessons.multi_gpu.measure import NAME, SPEEDS, TIMELINES, kept_name
from gemmlab.lessons.multi_gpu.schedule import Schedule
from gemmlab.lessons.multi_gpu.timeline import Ran, Timeline
from gemmlab.records.registry import NoRecord


def scaling() -> pandas.DataFrame:
    """A row for each schedule, rung, way of moving, number of GPUs and shape: COLUMNS."""
    return SPEEDS.read()


def timeline(schedule: Schedule, kernel: str, moved_by: str = NCCL) -> Timeline:
    """The recorded median run of a schedule of MAKERS, its products by a rung of CASES.

    `moved_by`: NCCL or DMA_ENGINES. Raises NoRecord, StaleRecord.
    """
    table, (m, n, k) = TIMELINES.read(), schedule.problem.shape
    rows = table[
        (table.schedule == kept_name(schedule)) & (table.kernel == kernel)
        & (table.moved_by == moved_by)
        & (table.ranks == schedule.ranks) & (table.m == m) & (table.n == n) & (table.k == k)
    ]  # fmt: skip
    if rows.empty:
        raise NoRecord(
            f"{NAME}: no timeline is recorded of {schedule} by {kernel}, moved by {moved_by}"
        )
    ran = tuple(
        Ran(row.rank, row.stream, row.step, row.kind, row.start_ms, row.end_ms)
        for row in rows.itertuples()
    )
    first = rows.iloc[0]
    gpus = f"{schedule.ranks} × {first.gpu}"
    source = f"{kernel}, moved by {moved_by}, measured on {gpus}, {first.recorded[:10]}"
    return Timeline(schedule, ran, source)
