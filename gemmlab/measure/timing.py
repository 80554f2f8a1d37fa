"""Time a kernel against cuBLAS so that the figure means something.

Both are launched on the same GPU in turn, A B B A, and what is reported is the median of the paired
ratios. Four habits keep the numbers honest:

- Nothing is timed before it has passed its verification, and a check of the very shape.
- Everything is enqueued at once behind a warm-up, and launches under a millisecond are captured
  into CUDA graphs, so that the GPU never waits for Python.
- Inputs are random and rotate through so many sets that a set has left the L2 cache before its
  turn comes again.
- The kernel is also timed against itself. Differences smaller than that noise are no differences.
"""

from __future__ import annotations

import math
import statistics
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from gemmlab.cuda import cublaslt
from gemmlab.cuda.cublas import Cublas
from gemmlab.cuda.device import GpuState, require_gpu
from gemmlab.kernel import faults
from gemmlab.kernel.operands import Launchable, Operands, random_values
from gemmlab.kernel.verify import check_sample
from gemmlab.ladder import Precision, Problem
from gemmlab.ladder.launch import POINTERS
from gemmlab.ladder.precision import OF_TENSORS, PROMOTED, of_cublaslt
from gemmlab.measure.in_turn import Side, TimingError, alternate, input_sets, make_sets

if TYPE_CHECKING:
    import pandas

    from gemmlab.kernel import verify
    from gemmlab.kernel.kernel import Kernel

PAIRS = 20
LONG_SAMPLE_MS = 50.0  # above this, the noise floor is taken from fewer pairs ...
FEW_PAIRS = 5  # ... this many
LAUNCH_LIMIT_MS = 1000.0  # a launch longer than this is not measured
SEED = 2024  # of the bias

COLUMNS = (
    "kernel", "dtype", "m", "n", "k", "time_ms", "gflops", "pct_cublas", "verify", "gpu",
    "recorded",
)  # fmt: skip


@dataclass(frozen=True)
class Spread:
    """The best, the quartiles and the median of some samples: milliseconds, or a ratio. Raises
    ValueError for what is no number above 0."""

    best: float
    q1: float
    median: float
    q3: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf:
                raise ValueError(f"{name} is {value!r}, not a number above 0")

    @classmethod
    def of(cls, samples: Sequence[float], best: Callable[[Iterable[float]], float]) -> Spread:
        """best is min for times and max for ratios and rates. Needs two samples or more."""
        q1, median, q3 = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(best(samples), q1, median, q3)


@dataclass(frozen=True)
class Measurement:
    """One kernel against cuBLAS at one shape. Times are milliseconds per launch."""

    kernel: str
    dtype: str
    m: int
    n: int
    k: int
    time_ms: Spread
    cublas_ms: Spread
    ratio: Spread  # cuBLAS's time over ours, pair by pair: above 1, ours is faster
    noise: Spread  # the same with ours on both sides
    sm_clock_mhz: float | None  # medians of what NVML reported while the GPU was busy
    power_w: float | None
    temperature_c: float | None
    pairs: int
    noise_pairs: int
    launches: int  # of ours in one sample
    cublas_launches: int
    input_sets: int  # through which each side rotates
    verify: str  # "pass": there is no other time
    gpu: str
    recorded: str  # ISO date and time, UTC
    batch: int = 1  # products in one launch
    ops: str = "NN"  # how A and B are stored, see Problem

    @property
    def problem(self) -> Problem:
        return Problem(self.m, self.n, self.k, self.batch, self.ops)

    @property
    def gflops(self) -> float:
        """10^9 floating-point operations per second, from the median time."""
        return self.problem.flop / (self.time_ms.median * 1e6)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Measurement:
        """Raises ValueError for what was not verified, TypeError and KeyError for other fields."""
        if fields["verify"] != "pass":
            raise ValueError(f"verify is {fields['verify']!r}, not 'pass'")
        spreads = {name: Spread(**fields[name]) for name in SPREADS}
        return cls(**{**fields, **spreads})


SPREADS = ("time_ms", "cublas_ms", "ratio", "noise")


def now() -> str:
    """The time in UTC to the second, as records write it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


_reports: weakref.WeakKeyDictionary[Kernel, verify.Report] = weakref.WeakKeyDictionary()


def require_verified(kernel: Kernel) -> verify.Report:
    """The kernel's report, made once per object; raises VerificationError if it did not pass."""
    if kernel not in _reports:
        _reports[kernel] = kernel.verify()
    _reports[kernel].require()
    return _reports[kernel]


@dataclass(frozen=True)
class Race:
    """A kernel and cuBLAS, launched in turn: milliseconds per launch, and the GPU meanwhile."""

    our_ms: list[float]
    cublas_ms: list[float]
    state: GpuState

    @property
    def time_ms(self) -> Spread:
        return Spread.of(self.our_ms, min)

    @property
    def pairs(self) -> int:
        return len(self.our_ms)

    @property
    def ratio(self) -> Spread:
        """cuBLAS's time over ours, pair by pair."""
        return Spread.of([c / o for o, c in zip(self.our_ms, self.cublas_ms, strict=True)], max)


class Arena:
    """One product on the GPU here: inputs that rotate past the L2 cache, and cuBLAS on them.

    Kernels are raced against cuBLAS in it; what is the same for all of them is made once. Of eight
    bits it is cuBLASLt, whose B is stored transposed, with scales if the kernel has them; without,
    the bits of a B of E5M2 it takes as E4M3. Use as a context manager. `pointers`: cuBLAS takes
    batches by arrays of addresses. Raises NoGpu and, for an empty product, TimingError; entering it
    CublasError, if the environment asks cuBLAS for less than FP32, or there is no such product of
    eight bits.
    """

    def __init__(self, problem: Problem, precision: Precision, pointers: bool = False) -> None:
        self.here = require_gpu("Timing")
        if 0 in (*problem.shape, problem.batch):
            raise TimingError(f"Timing takes M, N, K and batches of 1 or more, not {problem}.")

        import cupy

        self.problem, self.precision, self.pointers = problem, precision, pointers
        self.stream = cupy.cuda.Stream(non_blocking=True)
        # Of each side, so that neither finds what the other has just read.
        self.sets = input_sets(problem.least_bytes(precision), self.here.l2_bytes)
        self._operands: list[Operands] = []
        self._theirs: Side | None = None
        self._open = ExitStack()

    def __enter__(self) -> Arena:
        self._open.enter_context(self.stream)
        self.their_problem, self.their_precision = self.problem, self.precision
        self.cublas = self._cublas()
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def _cublas(self) -> Launchable:
        """Also says what cuBLAS takes for the problem and the precision, where that is another."""
        precision, shape = self.precision, self.problem.shape
        if precision.name in cublaslt.EIGHT_BITS:
            self.their_problem = replace(self.problem, ops="NT")
        elif precision.scales is None:
            return self._open.enter_context(Cublas(self.stream, precision.name, self.pointers))
        library = self._open.enter_context(cublaslt.CublasLt(self.stream))
        if precision.scales is None:
            self.their_precision = of_cublaslt(precision)
            return cublaslt.UnscaledProduct(library, *shape, precision.name)
        scales, types = precision.scales, (precision.a.name, precision.b.name, precision.c.name)
        if scales.name in cublaslt.IN_TILES:  # with other scales it would be another format
            return cublaslt.ScaledProduct(library, *shape, types, scales.name)
        try:
            product = cublaslt.ScaledProduct(library, *shape, types, scales.name)
        except cublaslt.NoAlgorithm:
            scales = OF_TENSORS
            product = cublaslt.ScaledProduct(library, *shape, types, scales.name)
        self.their_precision = replace(precision, scales=scales, promoted=PROMOTED)
        return product

    @faults.reported()
    def side(self, kernel: Launchable) -> Side:
        """The kernel on inputs of its own, warm; it is checked at this very shape.

        Raises VerificationError, TimingError for a launch over LAUNCH_LIMIT_MS and for a product
        that does not fit, and GpuFault.
        """
        import cupy

        try:
            check_sample(kernel, self.problem)
            if not self._operands:
                check_sample(self.cublas, self.their_problem, precision=self.their_precision)
                self._make_operands()
        except cupy.cuda.memory.OutOfMemoryError as error:
            raise TimingError(f"{self.problem} does not fit on the GPU: {error}") from error
        ours = Side(kernel.launch, self._sets(kernel, self._operands[: self.sets]), self.stream)
        if (launch_ms := ours.plan()) > LAUNCH_LIMIT_MS:
            raise TimingError(f"{kernel.name} at {self.problem}: {_too_long(launch_ms)}")
        return ours

    @faults.reported()
    def race(self, kernel: Launchable, ours: Side, pairs: int) -> Race:
        """The kernel, whose `side` is ours, against cuBLAS in so many pairs. Raises GpuFault."""
        theirs = self.cublas_side()
        return Race(*alternate(ours, theirs, pairs, f"{kernel.name} {self.problem}"))

    def cublas_side(self) -> Side:
        """cuBLAS on inputs that no kernel has, warm."""
        if self._theirs is None:
            theirs = self._operands[self.sets :]
            if (problem := self.their_problem) != self.problem:
                theirs = [  # the same random numbers, as another matrix
                    replace(each, problem=problem, B=each.B.reshape(problem.shape_of_b))
                    for each in theirs
                ]
            if self.precision.scales is not None:
                theirs = _scaled([replace(each, precision=self.their_precision) for each in theirs])
            self._theirs = Side(self.cublas.launch, self._sets(self.cublas, theirs), self.stream)
            self._theirs.plan()
        return self._theirs

    @faults.reported()
    def noise(self, kernel: Launchable, side: Side, pairs: int) -> list[float]:
        """The kernel's time over its own, on the other inputs, pair by pair."""
        twin = side.twin(self._sets(kernel, self._operands[self.sets :]))
        own_ms, other_ms, _ = alternate(side, twin, pairs, f"{kernel.name} {self.problem}")
        return [b / a for a, b in zip(own_ms, other_ms, strict=True)]

    def _make_operands(self) -> None:
        every = make_sets(self.problem, 2 * self.sets, self.precision)
        self._operands = [Operands(self.problem, self.precision, *each) for each in every]
        if self.precision.scales is not None:
            self._operands = _scaled(self._operands)
        if self.pointers:
            for each in self._operands:
                _ = each.pointers  # made before anything is captured
        self.stream.synchronize()

    def _sets(self, launched: Launchable, operands: list[Operands]) -> list[tuple]:
        """What a kernel, or cuBLAS, is launched with: operands, alpha, beta."""
        if launched.takes_bias:
            bias = launched.to_device(random_values(self.problem.n, SEED))
            operands = [replace(each, bias=bias) for each in operands]
        return [(each, 1.0, 0.0) for each in operands]


def _scaled(operands: list[Operands]) -> list[Operands]:
    """With scales of their own, on the GPU here."""
    import cupy

    return [each.scaled(SEED + i, cupy.asarray) for i, each in enumerate(operands)]


def compare(
    kernel: Kernel, m: int, n: int, k: int, *, batch: int = 1, pairs: int = PAIRS
) -> Measurement:
    """Time a kernel against cuBLAS at one shape, on the GPU here.

    `batch`: products in one launch, of cuBLAS too: by strides, or by arrays of addresses where the
    kernel takes these. A and B are stored as the kernel takes them. `pairs`: 2 or more.

    Raises NoGpu without a GPU, CublasError if the environment asks cuBLAS for less than FP32,
    VerificationError if the kernel is wrong, TimingError for a shape that takes too long or does
    not fit, GpuFault for a fault, then and ever after.
    """
    arena = arena_of(kernel, m, n, k, batch)
    require_verified(kernel)
    with arena:
        ours = arena.side(kernel)
        race = arena.race(kernel, ours, pairs)
        noise_pairs = FEW_PAIRS if race.time_ms.median > LONG_SAMPLE_MS else pairs
        noise = Spread.of(arena.noise(kernel, ours, noise_pairs), max)
        cublas_launches = arena.cublas_side().launches
    return Measurement(
        kernel.name, kernel.dtype, m, n, k, race.time_ms, Spread.of(race.cublas_ms, min),
        race.ratio, noise, **asdict(race.state), pairs=pairs, noise_pairs=noise_pairs,
        launches=ours.launches, cublas_launches=cublas_launches, input_sets=arena.sets,
        verify="pass", gpu=arena.here.name, recorded=now(), batch=batch, ops=arena.problem.ops,
    )  # fmt: skip


def arena_of(kernel: Kernel, m: int, n: int, k: int, batch: int = 1) -> Arena:
    """Where a kernel is timed at a shape. Raises what Arena raises, and TimingError for a batch
    that it does not take."""
    if batch > 1 and kernel.rung.batch == 1:
        raise TimingError(f"{kernel.name} takes no batches.")
    problem = kernel.problem(m, n, k, batch)
    return Arena(problem, kernel.precision, pointers=kernel.takes(POINTERS[0]))


@dataclass(frozen=True)
class Skipped:
    """A shape that was not measured, and why."""

    m: int
    n: int
    k: int
    reason: str


def sweep(
    kernel: Kernel, shapes: Iterable[tuple[int, int, int]]
) -> Iterator[Measurement | Skipped]:
    """Measure a kernel at shapes (M, N, K), the small ones first; see compare for the errors.

    A shape where one launch takes too long, as it does or as the rate of the shape before lets
    expect, that does not fit, or for which cuBLASLt has nothing to compare with, is yielded as
    Skipped.
    """
    flop_per_ms = math.inf
    for m, n, k in shapes:
        expected_ms = Problem(m, n, k).flop / flop_per_ms
        if expected_ms > LAUNCH_LIMIT_MS:
            yield Skipped(m, n, k, f"{_too_long(expected_ms)}; not tried")
            continue
        try:
            measured = compare(kernel, m, n, k)
        except (TimingError, cublaslt.NoAlgorithm) as error:
            yield Skipped(m, n, k, str(error))
        else:
            flop_per_ms = Problem(m, n, k).flop / measured.time_ms.median
            yield measured


def _too_long(time_ms: float) -> str:
    limit_s = LAUNCH_LIMIT_MS / 1000
    return f"one launch takes {time_ms / 1000:.2f} s, over the limit of {limit_s:g} s"


def table(measurements: Iterable[Measurement]) -> pandas.DataFrame:
    """One row per kernel and shape, and one for cuBLAS per shape, with the columns COLUMNS.

    time_ms is the median per launch, pct_cublas the median ratio in percent. Where several
    measurements timed cuBLAS at one shape, its fastest median stands for it. Where there are
    batches, or operands stored transposed, also columns of these.
    """
    import pandas

    ours = pandas.DataFrame(
        {
            "kernel": item.kernel, "dtype": item.dtype, **vars(item.problem),
            "time_ms": item.time_ms.median, "cublas_ms": item.cublas_ms.median,
            "pct_cublas": 100 * item.ratio.median, "verify": item.verify, "gpu": item.gpu,
            "recorded": item.recorded,
        }
        for item in measurements
    )  # fmt: skip
    fastest = ours.sort_values("cublas_ms", kind="stable")
    fastest = fastest.drop_duplicates(["dtype", "m", "n", "k", "batch", "ops", "gpu"]).sort_index()
    cublas = fastest.assign(kernel="cublas", time_ms=fastest["cublas_ms"], pct_cublas=100.0)
    table = pandas.concat([ours, cublas], ignore_index=True)
    flop = 2.0 * table["m"] * table["n"] * table["k"] * table["batch"]
    usual = {"batch": 1, "ops": "NN"}
    more = [name for name, value in usual.items() if (table[name] != value).any()]
    return table.assign(gflops=flop / (1e6 * table["time_ms"]))[[*COLUMNS, *more]]
