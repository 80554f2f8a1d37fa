"""How a warp's loads of a matrix are spread over sectors, lines and banks, step by step along K."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas

from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import Trace
from ptxsim.metrics import SECTOR_BYTES

BANKS, WORD_BYTES, LINE_BYTES = 32, 4, 128


def by_k(kernel: Kernel, ks: Iterable[int], array: str = "A") -> pandas.DataFrame:
    """How the loads of `array` by warp 0 of the first block are spread, a column for each K.

    Rows: means over the K loads; lines have 128 bytes; the fullest bank is that of which a load
    wants most words. For kernels that load an element of `array` a step, with 4 bytes a lane, as 01
    and 02 do. Raises TraceError where there are fewer loads.
    """
    rows, columns = kernel.rung.tile(kernel.settings)
    traces = {k: kernel.trace(rows, columns, k) for k in ks}
    return pandas.DataFrame({f"K = {k}": _spread(trace, array) for k, trace in traces.items()})


def _spread(trace: Trace, array: str) -> dict[str, float]:
    loads = [trace.warp_access(array, occurrence=k).addresses for k in range(trace.k)]
    seen: set[int] = set()
    new = []
    for addresses in loads:
        touched = set((addresses // SECTOR_BYTES).tolist())
        new.append(len(touched - seen))
        seen |= touched
    first = [count for count in new if count]
    return {
        "sectors": _mean_distinct(loads, SECTOR_BYTES),
        "lines": _mean_distinct(loads, LINE_BYTES),
        "words in the fullest bank": float(np.mean([_fullest(each) for each in loads])),
        "loads that meet new sectors, %": 100 * len(first) / len(new),
        "new sectors in such a load": float(np.mean(first)),
    }


def _mean_distinct(loads: list[np.ndarray], size: int) -> float:
    return float(np.mean([len(np.unique(addresses // size)) for addresses in loads]))


def _fullest(addresses: np.ndarray) -> int:
    """Different words in the bank that holds most of them: lanes that share a word share it."""
    words = np.unique(addresses // WORD_BYTES)
    return int(np.bincount(words % BANKS).max())
