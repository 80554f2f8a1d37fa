"""Short products timed on a GPU: captured into CUDA graphs, so that the host does not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

L2_BYTES, MOST_SETS = 1 << 27, 8  # sets of matrices take turns, so that L2 does not hold them
GRAPH_US, MOST_CALLS, ROUNDS = 250, 64, 3
LONG_US = 1000  # of a call: one is enough for a graph


def matrices(m: int, n: int, k: int, dtype: str) -> list[tuple[Any, Any, Any]]:
    """Sets of A, B (uniform in [-1, 1)) and room for C; bfloat16 as its bits."""
    import cupy

    stored = np.dtype({"bfloat16": "uint16"}.get(dtype, dtype))
    random = cupy.random.default_rng(1)

    def drawn(*size: int) -> Any:
        X = 2 * random.random(size, dtype=np.float32) - 1
        if dtype == "bfloat16":
            return (X.view(np.uint32) >> 16).astype(np.uint16)
        return X.astype(stored)

    bytes_of_set = stored.itemsize * (m * k + k * n + m * n)
    sets = min(MOST_SETS, max(1, -(-L2_BYTES // bytes_of_set)))
    return [(drawn(m, k), drawn(k, n), cupy.empty((m, n), stored)) for _ in range(sets)]


def captured(calls: Sequence[Callable[[], None]], stream: Any, count: int) -> Any:
    """A graph of so many calls, which take turns."""
    stream.begin_capture()
    for at in range(count):
        calls[at % len(calls)]()
    return stream.end_capture()


def elapsed_us(run: Callable[[], None], stream: Any) -> float:
    import cupy

    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record(stream)
    run()
    end.record(stream)
    end.synchronize()
    return 1e3 * cupy.cuda.get_elapsed_time(begin, end)


def timed(calls: Sequence[Callable[[], None]], stream: Any, enough_us: float = np.inf) -> float:
    """µs of one of these calls, which take turns: the least of some rounds. Once it is seen to take
    longer than `enough_us`, by what was measured until then."""
    once = min(elapsed_us(calls[at % len(calls)], stream) for at in (0, 1))
    if once > 2 * enough_us + 60:
        return once

    def in_graph(count: int, rounds: int) -> float:
        graph = captured(calls, stream, count)
        run = partial(graph.launch, stream)
        run()
        return min(elapsed_us(run, stream) / count for _ in range(rounds))

    # A graph takes some µs to begin, so that a few short calls seem longer than many do.
    least = len(calls) if once < LONG_US else 1
    first = in_graph(int(min(32, max(least, 2 * GRAPH_US / once))), 1)
    if first > enough_us:
        return first
    return in_graph(int(min(MOST_CALLS, max(least, GRAPH_US / first))), ROUNDS)
