"""Short products timed on a GPU: captured into CUDA graphs, so that the host does not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

import numpy as np

L2_BYTES, MOST_SETS = 1 << 27, 8  # sets of matrices take turns, so that L2 does not hold them
MOST_ELEMENTS, ALIGNMENT, PIECE = 1 << 29, 256, 1 << 26  # of a matrix; of its begin; drawn at once
GRAPH_US, MOST_CALLS, ROUNDS = 250, 64, 3
LONG_US = 1000  # of a call: one is enough for a graph


def matrices(m: int, n: int, k: int, dtype: str) -> list[tuple[Any, Any, Any]]:
    """Sets of A, B (uniform in [-1, 1)) and room for C; bfloat16 as its bits. Sets of another shape
    lie in the same memory."""
    numbers, room = _memory(dtype)
    bytes_of_set = numbers.itemsize * (m * k + k * n + m * n)
    sets, at, at_result = [], 0, 0
    for _ in range(min(MOST_SETS, max(1, -(-L2_BYTES // bytes_of_set)))):
        A, at = _part(numbers, at, m, k)
        B, at = _part(numbers, at, k, n)
        C, at_result = _part(room, at_result, m, n)
        sets.append((A, B, C))
    return sets


def _part(memory: Any, at: int, rows: int, columns: int) -> tuple[Any, int]:
    """A matrix that begins there, and where the next one can begin."""
    size = rows * columns
    return memory[at : at + size].reshape(rows, columns), at + -(-size // ALIGNMENT) * ALIGNMENT


@cache
def _memory(dtype: str) -> tuple[Any, Any]:
    """Random numbers for all operands, and room for all results."""
    import cupy

    stored = np.dtype({"bfloat16": "uint16"}.get(dtype, dtype))
    more = L2_BYTES // stored.itemsize + 3 * MOST_SETS * ALIGNMENT
    numbers = cupy.empty(2 * MOST_ELEMENTS + more, stored)
    random = cupy.random.default_rng(1)
    for at in range(0, numbers.size, PIECE):
        piece = numbers[at : at + PIECE]
        drawn = 2 * random.random(piece.size, dtype=np.float32) - 1
        piece[:] = drawn.view(np.uint32) >> 16 if dtype == "bfloat16" else drawn
    return numbers, cupy.empty(MOST_ELEMENTS + more, stored)


def captured(calls: Sequence[Callable[[], None]], stream: Any, count: int) -> Any:
    """A graph of so many calls, which take turns."""
    stream.begin_capture()
    try:
        for at in range(count):
            calls[at % len(calls)]()
    except Exception:
        with suppress(Exception):  # a capture that failed still has to end
            stream.end_capture()
        raise
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
