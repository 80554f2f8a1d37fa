"""Estimate the time of a product with a model whose coefficients were fitted to measured times.

The time of a kernel is a sum of costs, each a count times a coefficient. Counts follow from the
launch: k tiles that follow one another in a block, k tiles of the busiest SM (once more, the more
narrow their copies are), tiles that it stores, bytes of memory and of the tiles that blocks load,
workers that share a tile. A kernel with its tile has coefficients of its own (a Curve).
benchmarks/train.py measures every kernel at shapes that are drawn by a seed, and fits the
coefficients; choice.csv of a GPU's records keeps them. What the sum misses, products.trees adds.
"""

import csv
import math
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from math import prod

from gemmlab import ladder
from gemmlab.cuda.device import gpu, greatest_rates
from gemmlab.ladder import BRAIN, HALF, IllegalSetting, Problem, Rung, Settings, Target
from gemmlab.ladder.launch import multiplying
from gemmlab.ladder.settings import STREAM_K
from gemmlab.ladder.shapes import ceil_div
from gemmlab.products.trees import Features
from gemmlab.records import registry
from ptxsim.architectures import LIMITS, base

FILE, DIRECT = "choice.csv", "20_direct"
COSTS = (
    "launch", "k_tile", "narrow_k_tile", "k_tile_of_sm", "narrow_k_tile_of_sm", "store",
    "memory_mb", "tiles_mb", "narrow_c_mb", "join", "worker", "parts_mb",
)  # fmt: skip
VARIED = {  # what one Curve covers, where its settings do not say it: the values that are tried
    "WORKERS": (0, 1, 2, 3, 4, 5, 6), "SPLIT": (1, 2, 3, 4, 8, 16, 64), "CUT": (1, 2, 3, 4),
}  # fmt: skip
WIDEST = 16  # elements: whether rows begin at multiples of more does not matter to any kernel
WIDE_C = 4  # elements of C in a store, where its rows allow that
# Tiles that are cut into fewer parts, unevenly, get out of step, and read A and B at different
# times: not chosen for a product of more bytes than L2 holds.
FEW_PARTS, IN_L2 = 4, 40e6
# Beyond these no kernel was timed: operations of the largest product, those from which tiles have
# at least so many elements, and up to which a kernel without shared memory is tried.
MOST_FLOP = 4.4e12
LEAST_TILES = (1e11, 64 * 64), (2e12, 128 * 128)
MOST_DIRECT = 3e8
LEAST_ROWS, LEAST_COLUMNS = 16, 32  # of the largest tile for less, of which half may be empty
LEAST_OF_WGMMA = 64  # of both there: it multiplies so many rows at once
# Of the NVIDIA H200 on which choice.csv was measured, by greatest_rates. On a GPU that has none of
# its own, bytes of memory take longer as its memory is slower, and all but launches as its clock.
RATES, OF_MEMORY, OF_HOST = (1.98e9, 4.8143e12), "memory_mb", "launch"
# Of all SMs, those that clusters of so many blocks fill: one lies in one part of the GPU, and on an
# NVIDIA H200 times show 30 clusters of 4 side by side, and 15 of 8.
CLUSTERED = {4: 120 / 132, 8: 120 / 132}


@dataclass(frozen=True, eq=False)
class Curve:
    """A kernel with its tile. `settings`: those that differ from its defaults, and are neither
    varied nor how wide copies are. `coefficients`: seconds for each of COSTS."""

    rung: Rung
    settings: Settings
    coefficients: tuple[float, ...]

    def variants(self, dtype: str, problem: Problem) -> list[Settings]:
        """Its settings for a product of a type, with each legal value of those that are varied,
        and copies as wide as the rows allow. Empty where its tile is out of all proportion."""
        rung = self.rung
        settings = rung.defaults | self.settings | (ladder.of_type(rung, dtype) or {})
        settings |= ladder.stored_as(rung, problem.ops) | rung.suited(problem, settings)
        if not _suits(problem, rung, *rung.tile(settings)):
            return []
        return _variants(rung, tuple(settings.items()), tuple(VARIED.keys() - self.settings))

    def modelled(
        self, problem: Problem, settings: Settings, target: Target
    ) -> tuple[float, Features] | None:
        """Seconds, and by which features trees correct them; None where the rung takes no such
        problem."""
        counted = counts(self.rung, settings, problem, target)
        if counted is None:
            return None
        modelled_s = sum(c * n for c, n in zip(self.coefficients, counted, strict=True))
        return modelled_s, features(self.rung, settings, problem, counted, modelled_s)


def _suits(problem: Problem, rung: Rung, rows: int, columns: int) -> bool:
    if any(problem.flop > flop and rows * columns < least for flop, least in LEAST_TILES):
        return False
    if rung.name == DIRECT and problem.flop > MOST_DIRECT and min(problem.m, problem.n) > 1:
        return False
    least = (LEAST_OF_WGMMA,) * 2 if rung.by_wgmma else (LEAST_ROWS, LEAST_COLUMNS)
    return rows < 2 * max(least[0], problem.m) and columns < 2 * max(least[1], problem.n)


@cache
def _variants(
    rung: Rung, fixed: tuple[tuple[str, int], ...], apart: tuple[str, ...]
) -> list[Settings]:
    varied = [name for name in VARIED if name in apart and name in rung.defaults]
    every = (
        dict(fixed) | dict(zip(varied, values, strict=True))
        for values in product(*(VARIED[name] for name in varied))
    )
    legal = {parameter.name: parameter.legal for parameter in rung.parameters}
    return [
        settings
        for settings in every
        if all(settings[name] in legal[name] for name in settings) and not rung.broken(settings)
    ]


def _cuts(settings: Settings) -> bool:
    """Of the rungs without `divided`: whether blocks may share a tile."""
    by_blocks = settings.get("WORKERS") or settings.get("STREAM_K")
    return bool(by_blocks) or settings.get("JOIN") == STREAM_K


def counts(
    rung: Rung, settings: Settings, problem: Problem, target: Target
) -> tuple[float, ...] | None:
    """How often each of COSTS occurs; None where the rung takes no such problem."""
    try:
        every = rung.launches(problem, settings, target)
    except IllegalSetting:
        return None
    launch = every[multiplying(every)]
    if launch.entry != rung.entry(settings):  # the way out for what it is not made for
        return None
    rows, columns = rung.tile(settings)
    down, across = rung.cluster_tiles(settings)
    tiles_down = down * ceil_div(problem.m, rows * down)
    tiles_across = across * ceil_div(problem.n, columns * across)
    tiles, blocks = max(1, tiles_down * tiles_across), max(1, prod(launch.grid))  # C may be empty
    k_tiles = max(1, ceil_div(problem.k, rung.depth(settings) or problem.k or 1))
    part = rows * columns
    least_bytes = problem.least_bytes(rung.precision_of(settings))
    if rung.divided:
        workers, cut, sharing = rung.divided(problem, settings, target)
        if settings.get("CUT") and not cut:  # as with CUT=0
            return None
        whole = ceil_div(tiles // (down * across) - cut, workers) * k_tiles
        length = whole + (ceil_div(cut * k_tiles, sharing) if cut else 0)
        shared, share = cut > 0, sharing / max(1, cut)
        if cut and sharing % cut and share < FEW_PARTS and least_bytes > IN_L2:
            return None
        part = min(rows, ceil_div(problem.m, 16) * 16) * min(columns, ceil_div(problem.n, 8) * 8)
        parts = sharing * down * across
    elif _cuts(settings) or blocks > tiles:
        length, shared = ceil_div(tiles * k_tiles, blocks), tiles % blocks != 0
        share, parts = blocks / tiles, blocks
    else:
        length, shared = ceil_div(tiles, blocks) * k_tiles, False
        share = parts = 0
    limits = LIMITS.get(base(target.arch), LIMITS["sm_80"])
    by_memory = limits.shared_bytes // (launch.shared_bytes + limits.reserved_bytes)
    most = settings.get("MIN_BLOCKS", limits.threads // prod(launch.block))
    resident = max(1, min(by_memory, most))
    sm_count = CLUSTERED.get(prod(launch.cluster), 1.0) * target.sm_count
    busiest = math.ceil(blocks / sm_count)
    rounds = math.ceil(blocks / (sm_count * resident))
    size, megabyte = rung.precision_of(settings).a.bytes, 1e6
    tile_bytes = size * problem.k * (tiles_across * problem.m + tiles_down * problem.n)
    narrow = sum(8 / settings.get(name, 8) - 1 for name in ("COPY_A", "COPY_B"))
    narrow_c = WIDE_C // max(width for width in (1, 2, 4) if problem.n % width == 0) - 1
    alone, of_sm = rounds * length, busiest * length
    return (
        len(every), alone, alone * narrow, of_sm, of_sm * narrow,
        busiest * max(1.0, length / k_tiles),
        least_bytes / megabyte, tile_bytes / megabyte,
        narrow_c * size * problem.m * problem.n / megabyte, shared,
        shared * max(1.0, share), shared * 4 * part * parts / megabyte,
    )  # fmt: skip


def features(
    rung: Rung, settings: Settings, problem: Problem, counted: tuple[float, ...], modelled_s: float
) -> Features:
    """What trees may ask of a product and a kernel: sizes, what divides them, counts, settings."""
    sizes = dict(zip("MNK", (max(1, size) for size in problem.shape), strict=True))
    return (
        {name: math.log2(size) for name, size in sizes.items()}
        | {f"{name} mod {WIDEST}": math.gcd(size, WIDEST) for name, size in sizes.items()}
        | {cost: math.log1p(count) for cost, count in zip(COSTS, counted, strict=True)}
        | settings
        | {rung.name: 1.0, "modelled": math.log(modelled_s)}
    )


def _slower(slug: str) -> dict[str, float]:
    """How many times as long each cost takes on the GPU here as on that whose folder this is."""
    here = gpu()
    if here is None or here.slug == slug:
        return dict.fromkeys(COSTS, 1.0)
    clock, memory = (of_h200 / rate for of_h200, rate in zip(RATES, greatest_rates(), strict=True))
    return dict.fromkeys(COSTS, clock) | {OF_MEMORY: memory, OF_HOST: 1.0}


def measured_for(dtype: str) -> str:
    """The type whose times stand for it."""
    return HALF.name if dtype == BRAIN.name else dtype


@lru_cache(maxsize=16)
def curves(dtype: str, arch: str) -> tuple[Curve, ...]:
    """Of this GPU's records, else of those that are replayed; of bfloat16 those of float16, which
    takes the same instructions and bytes. Raises NoRecord."""
    path, measured = registry.made_by("benchmarks/train.py", FILE), measured_for(dtype)
    slower = _slower(path.parent.name)
    with path.open(encoding="utf-8", newline="") as lines:
        made = [
            Curve(
                ladder.find(row["rung"]), ladder.read_settings(row["settings"]),
                tuple(slower[cost] * float(row[cost]) for cost in COSTS),
            )
            for row in csv.DictReader(lines)
            if row["dtype"] == measured
        ]  # fmt: skip
    return tuple(
        curve for curve in made if curve.rung.runs_on(curve.rung.defaults | curve.settings, arch)
    )
