"""What is still to be recorded of rungs that stand on the ladder, for it needs a GPU.

Tests that read such a record leave these rungs out by `recorded`; test_awaited.py holds that each
is absent, so that it fails, and the rung is tested as all others, when the record is there.
"""

from collections.abc import Iterable

from gemmlab.ladder import Rung

SWEEP, RUNS, STALLS, CUBLAS_ERRORS = "sweep", "runs", "stalls", "cuBLASLt's errors"
AWAITED = {
    "16_tma_wgmma": {SWEEP}, "18_persistent": {SWEEP},
    "19_fp8": {SWEEP, RUNS, STALLS, CUBLAS_ERRORS},
    "22_fp32_summit": {SWEEP, RUNS, STALLS},
}  # fmt: skip


def recorded(rungs: Iterable[Rung], *what: str) -> list[Rung]:
    """Those of which none of this is awaited."""
    return [rung for rung in rungs if not AWAITED.get(rung.name, set()) & set(what)]
