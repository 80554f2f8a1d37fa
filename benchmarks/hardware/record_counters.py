"""What Nsight Compute counts for the FP32 kernels of tests/corpus.py: METRICS at SHAPES.

record_kernels.py records it, test_simulator_counted.py holds the simulator against it. Run as a
program, it launches the kernels that are named, each once at each shape; this is what runs under
ncu.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.extend(
    str(Path(__file__).resolve().parents[2] / folder)
    for folder in (".", "tests", "ptxsim/tests", "ptxsim/hardware")
)
import corpus
import record_corpus
import record_tensor
from recording import Record

from gemmlab.measure.profiler import ncu_version, profiled
from ptxsim.metrics import FMA_METRIC

SHAPES = ((128, 128, 64), (129, 97, 65))
COPIES = "smsp__inst_executed_op_ldgsts.sum"  # asynchronous ones, not counted in the simulator
METRICS = (*record_tensor.METRICS, COPIES, FMA_METRIC)


def recorded(names: list[str]) -> Iterator[tuple[str, dict]]:
    if not names:
        return
    entries = "|".join(sorted({corpus.product(name).entry for name in names}))
    counted = iter(
        profiled(
            [__file__, *names], f"regex:^({entries})$", len(names) * len(SHAPES), METRICS,
            "the kernels of tests/corpus.py",
        )
    )  # fmt: skip
    for name in names:
        rows = [{"m": m, "n": n, "k": k, "metrics": next(counted)} for m, n, k in SHAPES]
        yield name, {"counters": rows}


RECORD = Record("counters.json", record_corpus.codes, recorded, lambda: {"ncu": ncu_version()})

if __name__ == "__main__":
    for name in sys.argv[1:]:
        for shape in SHAPES:
            record_corpus.on_gpu(corpus.product(name), *shape, 1.0, 0.0)
