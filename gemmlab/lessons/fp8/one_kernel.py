"""Types that one kernel alone multiplies on Hopper: which, and with which settings."""

from contextlib import suppress
from functools import lru_cache
from typing import Any

from gemmlab import ladder
from gemmlab.ladder import Problem, Rung, Settings
from gemmlab.ladder.precision import OF_BLOCKS, OF_ROWS, OF_TENSORS
from gemmlab.lessons.fp8 import types
from gemmlab.records.registry import NoRecord, StaleRecord

KERNELS: dict[tuple[str, str], tuple[str, Settings]] = {  # by type and scales
    ("int8", OF_TENSORS.name): ("18_int8_tf32", {"DTYPE": 3, "OP_B": 1}),
    ("tf32", OF_TENSORS.name): ("18_int8_tf32", {"DTYPE": 2}),
    ("float8_e4m3fn", OF_TENSORS.name): ("19_fp8", {"SCALES": 0}),
    ("float8_e4m3fn", OF_ROWS.name): ("19_fp8", {"SCALES": 1}),
    ("float8_e4m3fn", OF_BLOCKS.name): ("19_blocks", {}),
}


def chosen(
    problem: Problem, dtype: str, scales: str, to: str, folder: str
) -> tuple[Rung, Settings, str, float | None]:
    """The kernel, its settings, why in a sentence, and the share of cuBLAS that is recorded. `to`:
    the type of C, of FP8. `folder`: that GEMMLAB_RECORDS names."""
    name, computed = KERNELS[dtype, scales]
    rung = ladder.find(name)
    of_this = {"OP_B": int(problem.ops[1] == "T"), "OUT32": int(to == "float32")} | computed
    of_this = {key: value for key, value in of_this.items() if key in rung.defaults}
    for row in _recorded(folder):
        there = ladder.read_settings(row.settings)
        at = row.kernel, row.m, row.n, row.k
        if at == (name, *problem.shape) and of_this.items() <= there.items():
            why = f"the fastest that was recorded on {row.gpu} at this shape"
            return rung, there, why, row.pct_cublas / 100
    settings = rung.defaults | of_this
    why = "the only kernel for this type, with settings for its number of tiles"
    return rung, settings | rung.suited(problem, settings), why, None


@lru_cache(maxsize=64)
def _recorded(folder: str) -> tuple[Any, ...]:
    """The rows of all types, the fastest first: by their share, for the clock changes."""
    rows: list[Any] = []
    for table in types.EVIDENCE:
        with suppress(NoRecord, StaleRecord):
            rows += table.read().itertuples(index=False)
    return tuple(sorted(rows, key=lambda row: -row.pct_cublas))
