"""The roofline: the speed of a kernel, compared with the roofs of its GPU.

A kernel that does W floating-point operations and moves Q bytes has the arithmetic intensity W / Q.
It can run no faster than the smaller of the arithmetic roof and intensity times the memory roof
(Williams, Waterman, Patterson: Roofline, Communications of the ACM 52(4), 2009).
"""

from collections.abc import Iterable
from typing import Any

import pandas

from gemmlab.analysis.counters import bytes_moved
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Problem
from gemmlab.records import runs
from gemmlab.records.registry import of_each


def points(kernels: Iterable[Kernel | runs.Measured]) -> pandas.DataFrame:
    """Recorded points of kernels under the roofline, one row per shape that has counters.

    Columns: kernel, dtype, m, n, k; gflops as measured; dram_bytes and l2_bytes as Nsight Compute
    counted them in one launch; model_bytes, what the idea says it asks of global memory; and the
    intensity, in FLOP per byte, that follows from each: dram_intensity, ...; gpu, recorded. Kernels
    without a current record are left out, and named. Raises BadRecord, and where nothing is left
    NoRecord or StaleRecord.
    """
    return pandas.DataFrame([point for points in of_each(kernels, _points) for point in points])


def _points(kernel: Kernel | runs.Measured) -> list[dict[str, Any]]:
    timed = {(run.m, run.n, run.k): run for run in runs.replay(kernel)}
    points = []
    for counted in runs.entry(kernel)["counters"]:
        if (run := timed.get(runs.shape_of(counted))) is None:
            continue
        problem = Problem(run.m, run.n, run.k)
        by_level = bytes_moved(counted["metrics"])
        amounts = {
            "dram": by_level["DRAM"],
            "l2": by_level["L2"],
            "model": kernel.rung.model_bytes(problem, kernel.settings),
        }
        points.append({
            "kernel": kernel.name, "dtype": run.dtype, "m": run.m, "n": run.n, "k": run.k,
            "gflops": run.gflops,
            **{f"{level}_bytes": amount for level, amount in amounts.items()},
            **{f"{level}_intensity": problem.flop / amount for level, amount in amounts.items()},
            "gpu": run.gpu, "recorded": run.recorded,
        })  # fmt: skip
    return points
