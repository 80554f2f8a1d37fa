"""The effect of power on a speed: after a rest and under constant load, with clock and energy.

A GPU that multiplies without pause reaches its limit of power and lowers its clock. So there are
two speeds: in a burst of milliseconds after a rest, and sustained. The clock is the one that the
SMs count, for the driver reports another while they work.
"""

import math
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy

from gemmlab.cuda.device import GpuState, energy_j, gpu_state, require_gpu
from gemmlab.kernel.fingerprint import code_hash
from gemmlab.kernel.on_gpu import loaded
from gemmlab.ladder.probes import SM_CLOCK
from gemmlab.measure.in_turn import NVML_PERIOD_S, Side, typical

BURSTS = 6
BURST_MS = 3.0  # of work, after ...
REST_S = 0.06  # ... so long without any
SETTLE_S, SUSTAINED_S = 0.3, 1.0  # of work before the clock and the power are taken, and while
BATCH_MS = 10.0  # work enqueued at a time ...
BATCHES_AHEAD = 3  # ... and how many such the GPU has before it
FILLED_BYTES = 256 * 2**20  # written before a burst: Python enqueues the burst meanwhile


@dataclass(frozen=True)
class Work:
    """What is launched again and again: `launch` enqueues it on the current stream."""

    launch: Callable[[], None]
    flop: int  # of one launch


@dataclass(frozen=True)
class Pace:
    """How fast, at which clock, from how much power; None where that is not known. `sm_clock_mhz`
    is what the SMs counted, `driver_clock_mhz` what NVML said meanwhile."""

    flop_per_second: float
    sm_clock_mhz: float
    driver_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None

    @property
    def joules_per_tflop(self) -> float | None:
        """Of energy, for 10^12 operations."""
        return self.power_w and self.power_w / (self.flop_per_second / 1e12)


class SmClock:
    """Reads what the SMs of the GPU here have counted: cycles and nanoseconds."""

    def __init__(self) -> None:
        here = require_gpu("Reading the clock of the SMs")
        text = SM_CLOCK.path.read_text("utf-8")
        kernels = loaded(text, SM_CLOCK.path.name, here.arch, {}, code_hash(text, {}))
        self._launch, self._sm_count = SM_CLOCK.launch(here.sm_count), here.sm_count
        self._function = kernels.function(self._launch)

    def read(self) -> Any:
        """Enqueue a reading; returns the array (sm_count, 2) that it will be in."""
        import cupy

        counted = cupy.zeros((self._sm_count, 2), cupy.int64)
        self._function(self._launch.grid, self._launch.block, (counted,))
        return counted


def clock_mhz(before: numpy.ndarray, after: numpy.ndarray) -> float:
    """The clock between two readings, (SMs, 2) each: cycles over time, the median of the SMs. An SM
    that is 0 in one of them was not read. Raises StatisticsError where none was read twice."""
    twice = (before[:, 1] > 0) & (after[:, 1] > before[:, 1])
    cycles, nanoseconds = (after - before)[twice].T
    return float(statistics.median(1e3 * cycles / nanoseconds))


def burst(work: Work) -> Pace:
    """The median over BURSTS, each after a rest. Raises NoGpu."""
    import cupy

    stream, clock = cupy.cuda.get_current_stream(), SmClock()
    filled = cupy.empty(FILLED_BYTES, cupy.uint8)
    launches = max(1, round(BURST_MS / _launch_ms(work)))
    rates, clocks = [], []
    for _ in range(BURSTS):
        stream.synchronize()
        time.sleep(REST_S)
        filled.fill(0)
        before, start = clock.read(), stream.record()
        for _ in range(launches):
            work.launch()
        end, after = stream.record(), clock.read()
        end.synchronize()
        seconds = cupy.cuda.get_elapsed_time(start, end) / 1e3
        rates.append(launches * work.flop / seconds)
        clocks.append(clock_mhz(before.get(), after.get()))
    return Pace(statistics.median(rates), statistics.median(clocks))


@dataclass(frozen=True)
class Sample:
    """Launches of a side one after the other: milliseconds of one, and the clock meanwhile."""

    ms: float
    clock_mhz: float

    @property
    def cycles(self) -> float:
        """Of an SM, for one launch."""
        return 1e3 * self.ms * self.clock_mhz


def in_rounds(sides: Sequence[Side], rounds: int, rest_s: float = 0.0) -> list[list[Sample]]:
    """A sample of each side in each round, in an order that changes; returns them by side.

    rest_s: before each round; 0: the GPU works without a pause. The sides' stream must be the
    current one. Raises NoGpu.
    """
    import cupy

    stream, clock = cupy.cuda.get_current_stream(), SmClock()
    filled = cupy.empty(FILLED_BYTES, cupy.uint8)
    order = random.Random(0)
    enqueued: list[list[tuple[Any, ...]]] = [[] for _ in sides]
    for _ in range(rounds):
        if rest_s:
            stream.synchronize()
            time.sleep(rest_s)
            filled.fill(0)
        for which in order.sample(range(len(sides)), len(sides)):
            before, start = clock.read(), stream.record()
            sides[which].sample()
            enqueued[which].append((before, start, stream.record(), clock.read()))
    stream.synchronize()

    def of(side: Side, before: Any, start: Any, end: Any, after: Any) -> Sample:
        ms = cupy.cuda.get_elapsed_time(start, end) / side.launches
        return Sample(ms, clock_mhz(before.get(), after.get()))

    return [[of(side, *s) for s in samples] for side, samples in zip(sides, enqueued, strict=True)]


def mean_power_w(readings: Sequence[tuple[float, float]]) -> float | None:
    """The power between two readings of a counter that is renewed now and then.

    readings: seconds and joules, in order. What counts is from where the counter first moved to
    where it last did; None where it did not move twice.
    """
    moved = [now for was, now in pairwise(readings) if now[1] != was[1]]
    if len(moved) < 2:
        return None
    (began, least), (ended, most) = moved[0], moved[-1]
    return (most - least) / (ended - began)


def sustained(work: Work) -> Pace:
    """The mean over SUSTAINED_S of work without a pause, after SETTLE_S of it. Raises NoGpu."""
    import cupy

    stream, clock = cupy.cuda.get_current_stream(), SmClock()
    launches = max(1, round(BATCH_MS / _launch_ms(work)))
    ahead: deque[Any] = deque()
    states: list[GpuState] = []
    energy: list[tuple[float, float]] = []

    def keep_busy(seconds: float) -> int:
        """Work for so long, looking at the GPU's state; returns how many launches are enqueued."""
        until, last_look, count = time.monotonic() + seconds, -math.inf, 0
        while time.monotonic() < until:
            for _ in range(launches):
                work.launch()
            count += launches
            ahead.append(stream.record())
            if len(ahead) > BATCHES_AHEAD:
                ahead.popleft().synchronize()
            if (joules := energy_j()) is not None:
                energy.append((time.monotonic(), joules))
            if time.monotonic() - last_look > NVML_PERIOD_S:
                states.append(gpu_state())
                last_look = time.monotonic()
        return count

    keep_busy(SETTLE_S)
    states.clear()
    energy.clear()
    before, start = clock.read(), stream.record()
    count = keep_busy(SUSTAINED_S)
    end, after = stream.record(), clock.read()
    end.synchronize()
    seconds = cupy.cuda.get_elapsed_time(start, end) / 1e3
    rate, state = count * work.flop / seconds, typical(states)
    power_w = mean_power_w(energy) or state.power_w
    sm_clock_mhz = clock_mhz(before.get(), after.get())
    return Pace(rate, sm_clock_mhz, state.sm_clock_mhz, power_w, state.temperature_c)


def _launch_ms(work: Work) -> float:
    """Of one launch, warm."""
    import cupy

    side = Side(work.launch, [()], cupy.cuda.get_current_stream())
    side.elapsed_ms()
    return side.elapsed_ms()
