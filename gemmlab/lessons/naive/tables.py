"""How fast rungs are, and what their warps wait for in plain words."""

import pandas

from gemmlab.analysis import recorded
from gemmlab.loading import load
from gemmlab.records import runs

LEAST = 5.0  # percent: what takes less of a warp's time is left out
REASON, PLAIN = "NVIDIA's name", "a warp waits for"


def benchmarks(*names: str) -> pandas.DataFrame:
    """The runs of rungs at every shape, each in turn with cuBLAS, as one table."""
    return pandas.concat([load(name).benchmark() for name in names])


def waits(*names: str, shape: tuple[int, ...] = runs.LARGE) -> pandas.DataFrame:
    """In percent of the time of all warps, what they waited for, a column for each rung.

    shape: (M, N, K). Reasons of LEAST or more in one of the rungs, the most frequent of the last
    rung first; the index says each in words. Raises what recorded.stalls raises.
    """
    table = recorded.stalls(*names, shape=shape)
    table = table[table[recorded.WORDS] != ""].iloc[len(recorded.OF_A_SCHEDULER) :]
    table = table.drop(index="selected", errors="ignore")  # these warps do not wait
    table = table[(table[[*names]] >= LEAST).any(axis=1)]
    table = table.rename_axis(REASON).reset_index().set_index(recorded.WORDS)
    return table.rename_axis(PLAIN)[[*names, REASON]]
