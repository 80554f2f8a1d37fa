"""Launches on the GPU, timed by its own clock: of two sides in turn, on inputs that rotate.

A sample is one launch or several, enqueued behind others, and captured into a CUDA graph where they
are short, so that the GPU never waits for Python.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from tqdm.auto import tqdm

from gemmlab.cuda.device import GpuState, gpu_state
from gemmlab.ladder import SINGLE, Precision, Problem

SAMPLE_MS = 5.0  # one sample lasts at least this long: events resolve about 1 µs
GRAPH_BELOW_MS = 1.0  # launches shorter than this are captured into a CUDA graph ...
GRAPH_LAUNCHES = 20  # ... of at least this many
MOST_SETS = 4096  # of inputs; reached only by launches that touch under 30 KB
ALIGNMENT = 128  # elements: a slice of the pool starts at 256 bytes, as an allocation does
NVML_PERIOD_S = 0.05  # NVML refreshes its figures about this often
CHUNK = 2**26  # elements filled with random numbers at once


class TimingError(RuntimeError):
    """A shape that cannot be timed here; the message says why."""


# ---- the plan of a measurement -------------------------------------------------------------------


def input_sets(bytes_per_launch: int, l2_bytes: int) -> int:
    """How many sets of A, B and C to rotate through.

    Between two launches on one set lie all the others, and those move at least twice what the L2
    holds, so that nothing of the set is left there.
    """
    return min(MOST_SETS, 1 + math.ceil(2 * l2_bytes / bytes_per_launch))


def launches_per_sample(launch_ms: float, sets: int) -> int:
    """How often to launch in one sample, by what one launch takes. Short launches fill a whole
    graph, which visits every set equally often."""
    needed = math.ceil(SAMPLE_MS / launch_ms)
    if launch_ms >= GRAPH_BELOW_MS:
        return needed
    return math.ceil(max(needed, GRAPH_LAUNCHES) / sets) * sets


# ---- on the GPU ----------------------------------------------------------------------------------


class Side:
    """One of two that are compared: what it launches, on which inputs, how often in a sample."""

    def __init__(self, launch: Callable[..., None], sets: list, stream: Any) -> None:
        self.launch, self.sets, self.stream = launch, sets, stream
        self.launches = 1
        self._graph: Any = None
        self._next = 0

    def sample(self) -> None:
        """Enqueue one sample."""
        if self._graph is not None:
            self._graph.launch(self.stream)
            return
        for _ in range(self.launches):
            self._launch_next()

    def _launch_next(self) -> None:
        self.launch(*self.sets[self._next])
        self._next = (self._next + 1) % len(self.sets)

    def elapsed_ms(self) -> float:
        """Enqueue one sample, wait for it, and say how long it took."""
        import cupy

        start = self.stream.record()
        self.sample()
        end = self.stream.record()
        end.synchronize()
        return cupy.cuda.get_elapsed_time(start, end)

    def plan(self) -> float:
        """Warm up, choose how often to launch in a sample, return what one launch takes in ms."""
        self.elapsed_ms()  # loads the module, or makes cuBLAS choose its kernel
        launch_ms = self.elapsed_ms()
        if launch_ms < GRAPH_BELOW_MS:
            # Seen from Python a short launch lasts as long as Python needs: ask a graph again.
            self.repeat(launches_per_sample(launch_ms, len(self.sets)))
            self.elapsed_ms()
            launch_ms = min(self.elapsed_ms() / self.launches, launch_ms)
        self.repeat(launches_per_sample(launch_ms, len(self.sets)), graph=self._graph is not None)
        return launch_ms

    def repeat(self, launches: int, graph: bool = True) -> None:
        """Let every sample be so many launches, captured into a graph or one by one."""
        if graph and (self._graph is None or launches != self.launches):
            self._next = 0
            self.stream.begin_capture()
            for _ in range(launches):
                self._launch_next()
            self._graph = self.stream.end_capture()
            self._graph.upload(self.stream)
        self.launches = launches

    def twin(self, sets: list[tuple]) -> Side:
        """The same launches on other inputs."""
        other = Side(self.launch, sets, self.stream)
        other.repeat(self.launches, graph=self._graph is not None)
        return other


def alternate(
    first: Side, second: Side, pairs: int, label: str
) -> tuple[list[float], list[float], GpuState]:
    """Milliseconds per launch of both sides, pair by pair, and the GPU's state meanwhile. In the
    order A B, B A, A B, ..."""
    (ours, theirs), state = in_rounds((first, second), pairs, label)
    return ours, theirs, state


def in_rounds(sides: Sequence[Side], rounds: int, label: str) -> tuple[list[list[float]], GpuState]:
    """Milliseconds per launch of each side, round by round, every second round backwards; and the
    GPU's state meanwhile. All are of one stream."""
    stream = sides[0].stream
    for side in sides:  # the GPU works on these while Python enqueues the rest
        side.sample()
    samples = []
    for turn in range(rounds):
        for which in range(len(sides)) if turn % 2 == 0 else reversed(range(len(sides))):
            start = stream.record()
            sides[which].sample()
            samples.append((which, start, stream.record()))

    elapsed, state = wait([(start, end) for _, start, end in samples], label)
    times: list[list[float]] = [[] for _ in sides]
    for (which, _, _), sample_ms in zip(samples, elapsed, strict=True):
        times[which].append(sample_ms / sides[which].launches)
    return times, state


def wait(samples: Sequence[tuple], label: str) -> tuple[list[float], GpuState]:
    """Wait for enqueued samples, (start event, end event) each, in the order they were enqueued.
    Returns the milliseconds that each took, and the state of the GPU meanwhile (medians)."""
    import cupy

    elapsed: list[float] = []
    states: list[GpuState] = []
    last_look = -math.inf
    for start, end in tqdm(samples, desc=label, unit="sample", delay=2, leave=False):
        if time.monotonic() - last_look > NVML_PERIOD_S:
            states.append(gpu_state())  # before the wait: the GPU is still at it
            last_look = time.monotonic()
        end.synchronize()
        elapsed.append(cupy.cuda.get_elapsed_time(start, end))
    return elapsed, typical(states)


def typical(states: Sequence[GpuState]) -> GpuState:
    """The median of each figure, over the states that report it."""

    def middle(name: str) -> float | None:
        known = [getattr(state, name) for state in states if getattr(state, name) is not None]
        return statistics.median(known) if known else None

    return GpuState(**{field.name: middle(field.name) for field in fields(GpuState)})


def make_sets(problem: Problem, count: int, precision: Precision = SINGLE) -> list[tuple]:
    """count sets (A, B, C), slices of one pool of random numbers from -1 to 1 for each type."""
    import cupy

    shapes = problem.shape_of_a, problem.shape_of_b, problem.shape_of_c
    elements = precision.a, precision.b, precision.c
    lengths = [math.ceil(math.prod(shape) / ALIGNMENT) * ALIGNMENT for shape in shapes]
    sizes = dict.fromkeys(elements, 0)
    for element, length in zip(elements, lengths, strict=True):
        sizes[element] += count * length
    needed = sum(element.bytes * size for element, size in sizes.items())
    cupy.get_default_memory_pool().free_all_blocks()
    free = cupy.cuda.runtime.memGetInfo()[0]
    if needed + 3 * CHUNK * 4 > free:  # the random numbers are made in float32
        raise TimingError(
            f"{problem} needs {needed / 2**30:.1f} GiB for inputs that rotate past the L2 cache; "
            f"the GPU has {free / 2**30:.1f} GiB free."
        )
    random = cupy.random.RandomState(2024)
    pools = {element: cupy.empty(size, element.storage) for element, size in sizes.items()}
    for element, pool in pools.items():
        for start in range(0, pool.size, CHUNK):
            part = pool[start : start + CHUNK]
            values = random.uniform(-1, 1, part.size, dtype=cupy.float32)
            part[...] = element.encode(values, element.storage)

    sets, at = [], dict.fromkeys(pools, 0)
    for _ in range(count):
        matrices = []
        for element, shape, length in zip(elements, shapes, lengths, strict=True):
            first = at[element]
            matrices.append(pools[element][first : first + math.prod(shape)].reshape(shape))
            at[element] += length
        sets.append(tuple(matrices))
    return sets
