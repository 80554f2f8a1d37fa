"""How long settings would take, from counts of the simulator, the occupancy and measured roofs.

Each thing that an SM, or the GPU, does at a certain rate takes a time; the longest is the
prediction. Nothing is fitted to times of the rungs. It is for FP32 products whose blocks compute a
tile each, 03 to 11. It leaves out what warps wait for, so it is too optimistic, and ranks settings
rather than predicts times.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import ceil, prod

import pandas

from gemmlab import ladder
from gemmlab.cuda.device import arch_of
from gemmlab.ladder import SIMULATED, SINGLE, IllegalSetting, Problem, Rung, Settings
from gemmlab.lessons.autotuning.space import Point, Recorded, recorded
from gemmlab.lessons.autotuning.tuner import NEAR
from gemmlab.loading import load
from gemmlab.records import runs
from gemmlab.records.roofs import recorded_ceilings
from ptxsim.architectures import WARP
from ptxsim.metrics import BANK_BYTES, BANKS, FMA_METRIC, METRICS, SECTOR_BYTES
from ptxsim.occupancy import SM_PARTITIONS, occupancy

STEPS = 2  # of a tile along K, which are counted
FLOP = 2  # of a multiply-add
FLAT_K = 16  # of a rung that takes no steps along K, as long as one


@dataclass(frozen=True)
class Counts:
    """What a block does in one step along K, and how many blocks an SM holds (`resident`).

    `instructions`: of warps, multiply-adds and accesses to memory. `wavefronts`: of shared memory.
    `bytes`: loaded from global memory, in whole sectors. `tile`: rows and columns of C. `depth`: of
    a step. `warps`: of a block.
    """

    instructions: float
    wavefronts: float
    bytes: float
    tile: tuple[int, int]
    depth: int
    warps: int
    resident: int

    def steps(self, problem: Problem) -> int:
        return ceil(problem.k / self.depth)

    def blocks(self, problem: Problem) -> int:
        return ceil(problem.m / self.tile[0]) * ceil(problem.n / self.tile[1])


@dataclass(frozen=True)
class Machine:
    """The rates of a GPU, a second: instructions and wavefronts of an SM, bytes of all of it."""

    sms: int
    instructions: float
    wavefronts: float
    l2_bytes: float
    dram_bytes: float


@dataclass(frozen=True)
class Terms:
    """Seconds that each thing alone would take; `more`: what a reader's own term says."""

    issue: float
    shared_memory: float
    l2: float
    dram: float
    more: float = 0.0

    @property
    def seconds(self) -> float:
        return max(asdict(self).values())

    @property
    def holds(self) -> str:
        """What the longest is, in words."""
        every = asdict(self)
        return max(every, key=every.__getitem__).replace("_", " ")


ExtraTerm = Callable[[Counts, Problem, Machine], float]
"""A term of the reader's: seconds, from the counts of the settings, the problem and the rates."""


def machine() -> Machine:
    """The recorded GPU. Raises NoRecord, StaleRecord."""
    roofs, sms = recorded_ceilings(), runs.current()["gpu"]["sm_count"]
    return Machine(
        sms=sms,
        instructions=roofs.flop_per_second / FLOP / WARP / sms,  # each a multiply-add
        wavefronts=roofs.read_rate("shared memory") / (BANKS * BANK_BYTES) / sms,
        l2_bytes=roofs.read_rate("L2"),
        dram_bytes=roofs.bytes_per_second,
    )


def counts(rung: Rung, settings: Settings) -> Counts:
    """Counted in the simulator, once. Raises IllegalSetting where the model does not apply."""
    legal = ladder.settings_for(rung, settings)
    if rung.precision is not SINGLE or not _a_tile_each(rung, legal):
        raise IllegalSetting(
            f"the cost model is for FP32 products whose blocks compute a tile each, such as "
            f"09_double_buffering; {rung.name} with {ladder.listed(legal)} is none"
        )
    return _counted(rung, tuple(legal.items()))


def _a_tile_each(rung: Rung, settings: Settings) -> bool:
    """Whether one launch has a block for each tile, as that of two by three tiles shows."""
    rows, columns = rung.tile(settings)
    launches = rung.launches(Problem(2 * rows, 3 * columns, FLAT_K), settings, SIMULATED)
    return len(launches) == 1 and prod(launches[0].grid) == 2 * 3


@lru_cache(maxsize=2048)
def _counted(rung: Rung, settings: tuple[tuple[str, int], ...]) -> Counts:
    arch = arch_of(tuple(runs.current()["gpu"]["compute_capability"]))
    kernel = load(rung.name, arch, **dict(settings))
    rows, columns = rung.tile(kernel.settings)
    depth = rung.depth(kernel.settings) or FLAT_K
    counted = kernel.trace(rows, columns, STEPS * depth).counters
    threads, taken = prod(rung.block(kernel.settings)), kernel.taken(arch)
    fits = occupancy(
        arch, threads=threads, registers=taken.registers, shared_bytes=taken.shared_bytes
    )
    wavefronts = sum(counted[METRICS["shared", operation][1]] for operation in ("load", "store"))
    accesses = sum(
        counted[METRICS[access][0]] for access in (*METRICS,) if access != ("global", "store")
    )
    return Counts(
        instructions=(counted[FMA_METRIC] / WARP + accesses) / STEPS,
        wavefronts=wavefronts / STEPS,
        bytes=SECTOR_BYTES * counted[METRICS["global", "load"][1]] / STEPS,
        tile=(rows, columns), depth=depth,
        warps=ceil(threads / WARP), resident=max(1, fits.blocks_per_sm),
    )  # fmt: skip


def terms(counted: Counts, problem: Problem, gpu: Machine, extra: ExtraTerm | None = None) -> Terms:
    """Seconds of each thing at a problem. `extra`: a term of the reader's beside them.

    Blocks of few warps leave some of an SM's four schedulers without multiply-adds.
    """
    issued = wavefronts = 0.0
    for times, together in rounds(counted, problem, gpu):
        schedulers = min(SM_PARTITIONS, together * counted.warps)
        issued += times * together * counted.instructions * SM_PARTITIONS / schedulers
        wavefronts += times * together * counted.wavefronts
    steps = counted.steps(problem)
    result = Terms(
        issue=steps * issued / gpu.instructions,
        shared_memory=steps * wavefronts / gpu.wavefronts,
        l2=counted.blocks(problem) * steps * counted.bytes / gpu.l2_bytes,
        dram=problem.least_bytes(SINGLE) / gpu.dram_bytes,
    )
    return result if extra is None else replace(result, more=extra(counted, problem, gpu))


def rounds(counted: Counts, problem: Problem, gpu: Machine) -> list[tuple[int, int]]:
    """How many rounds of how many blocks on an SM; the last round shares the rest."""
    full, rest = divmod(counted.blocks(problem), gpu.sms * counted.resident)
    every = ((full, counted.resident), (1, ceil(rest / gpu.sms)))
    return [(times, together) for times, together in every if times and together]


def predictions(known: Recorded, extra: ExtraTerm | None = None) -> dict[Point, Terms]:
    """Of every recorded point what the model says. Raises what `counts` and `machine` raise."""
    space, gpu = known.space, machine()
    return {
        point: terms(counts(space.rung, space.settings(point)), space.problem, gpu, extra)
        for point in known.times_ms
    }


@dataclass(frozen=True)
class Ranking:
    """What a ranking is worth, by recorded times.

    `correlation`: Spearman's, of predicted and measured times; 0 if all predictions are equal.
    `until_near`: settings measured in its order until one has 98 % of the best's speed.
    `best_after`: the share of that speed after so many.
    """

    settings: int
    correlation: float
    until_near: int
    best_after: tuple[float, ...]


def judged(known: Recorded, predicted: dict[Point, Terms]) -> Ranking:
    """Compare predictions with the recorded times of the same points."""
    from scipy.stats import spearmanr

    order = sorted(predicted, key=lambda point: predicted[point].seconds)
    shares, best = [], 0.0
    for point in order:
        best = max(best, known.share(point))
        shares.append(best)
    times = [known.times_ms[point] for point in order]
    predicted_s = [predicted[point].seconds for point in order]
    correlation = (
        float(spearmanr(predicted_s, times).statistic) if len(set(predicted_s)) > 1 else 0.0
    )
    return Ranking(
        settings=len(order),
        correlation=correlation,
        until_near=next(at for at, share in enumerate(shares, 1) if share >= NEAR),
        best_after=tuple(shares),
    )


def table(names: tuple[str, ...], shape: tuple[int, int, int], keep: int = 10) -> pandas.DataFrame:
    """What pruning by the model saves and misses, a row for each rung, at a shape (M, N, K).

    "best of": the best of the `keep` first in the model's order, as a share of the fastest.
    """
    rows = []
    for name in names:
        known = recorded(name, shape)
        ranking = judged(known, predictions(known))
        rows.append({
            "rung": name, "settings": ranking.settings,
            "correlation": f"{ranking.correlation:.2f}",
            f"best of {keep}": f"{100 * ranking.best_after[keep - 1]:.1f} %",
            "measured to 98 %": ranking.until_near,
            "of all": f"{100 * ranking.until_near / ranking.settings:.0f} %",
        })  # fmt: skip
    return pandas.DataFrame(rows)
