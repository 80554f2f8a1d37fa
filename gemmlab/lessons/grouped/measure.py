"""Products of different heights: by 24 in one launch, one after the other, by cuBLAS and PyTorch.

    python -m gemmlab record grouped

times the CASES in all ways; results/<gpu>/grouped.csv. The heights are those of experts of a
mixture, the weights those of a layer of DeepSeek-V3, in BF16, and in FP8 with scales of blocks,
where 19_blocks multiplies one product after the other. Every way is verified on the very case,
captured into a CUDA graph, and all ways of a case are timed in turn. No inputs take turns: A, B and
C of every case are many times what the L2 cache holds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from math import ceil
from types import SimpleNamespace
from typing import Any

import numpy as np

from gemmlab import ladder
from gemmlab.cuda.cublas import Cublas
from gemmlab.cuda.device import require_gpu
from gemmlab.kernel.bounds import error_bound, reference
from gemmlab.kernel.fingerprint import Fingerprint, of_rung
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands, random_values
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import BRAIN, Precision, Problem, Settings, Target
from gemmlab.ladder.precision import BLOCK
from gemmlab.lessons.grouped.kernels import GROUPED_FP8
from gemmlab.loading import load
from gemmlab.measure.in_turn import SAMPLE_MS, Side, in_rounds, make_sets
from gemmlab.measure.timing import Spread
from gemmlab.records import registry
from gemmlab.records.registry import POSITIVE, SIZE, TEXT, WHOLE, Row, Say, Table
from gemmlab.records.runs import spread

NAME, RUNG, IN_FP8 = "grouped", "24_grouped", GROUPED_FP8.name
N, K = 4096, 7168
ROUNDS = 10

LOOP = "cuBLAS, one after the other"
GROUPED, TORCH = "cuBLAS, grouped", "PyTorch, grouped"
ALL_ROWS = "PyTorch, bmm of all rows"
WAYS = (RUNG, LOOP, GROUPED, TORCH, ALL_ROWS)
BLOCKS = "19_blocks"
LOOP_FP8 = f"{BLOCKS}, one after the other"
# The fastest of ten that were timed on an NVIDIA H200, each at some of the cases.
TRIED = (
    {"BM": 128, "BN": 256, "STAGES": 4, "GROUP": 8},
    {"BM": 128, "BN": 256, "STAGES": 4, "GROUP": 32},
    {"BM": 64, "BN": 256, "STAGES": 5, "GROUP": 16},
)
TRIED_FP8 = tuple(GROUPED_FP8.families[at] | {"GROUP": group} for at, group in (
    (0, 8), (0, 32), (1, 8), (2, 8), (3, 8), (4, 8),
))  # fmt: skip
ROWS_CHECKED, PRODUCTS_CHECKED = 8, 16


def drawn(count: int, least: int, most: int, seed: int) -> tuple[int, ...]:
    """Whole numbers, uniform from least to most; the same for a seed on every machine."""
    shares = (random_values(count, seed).astype(np.float64) + 1) / 2
    return tuple(least + int(share * (most - least + 1)) for share in shares)


@dataclass(frozen=True)
class Case:
    """Products of these heights. `capacity`: masked, the rows that A and C have for each. `rung`:
    the name of the kernel of 24, whose type is that of the case."""

    name: str
    heights: tuple[int, ...]
    capacity: int = 0
    rung: str = RUNG

    @property
    def precision(self) -> Precision:
        return BRAIN if self.rung == RUNG else GROUPED_FP8.precision_of(GROUPED_FP8.defaults)

    @property
    def tried(self) -> tuple[Settings, ...]:
        return TRIED if self.rung == RUNG else TRIED_FP8

    @property
    def rows(self) -> int:
        return sum(self.heights)

    @property
    def flop(self) -> int:
        return 2 * self.rows * N * K

    @property
    def least_bytes(self) -> int:
        """A and C of the rows that are used, and each B that is needed, once. Without scales."""
        used = sum(height > 0 for height in self.heights)
        of_c = self.precision.c.bytes * self.rows * N
        return of_c + self.precision.a.bytes * K * (self.rows + used * N)

    @property
    def problem(self) -> Problem:
        """As 24 is launched for it."""
        count, ops = len(self.heights), "NN" if self.rung == RUNG else "NT"
        return Problem(self.capacity or ceil(self.rows / count), N, K, count, ops)

    @property
    def alone(self) -> list[Problem]:
        """Each product with rows, as 19_blocks is launched for it."""
        return [Problem(height, N, K, 1, "NT") for height in self.heights if height]

    @property
    def room(self) -> int:
        """Rows of A and C."""
        return len(self.heights) * self.capacity or self.rows

    @property
    def first_rows(self) -> list[int]:
        if self.capacity:
            return [at * self.capacity for at in range(len(self.heights))]
        return [0, *accumulate(self.heights)][:-1]

    @property
    def given_rows(self) -> np.ndarray:
        """As the kernel takes them."""
        return np.array(self.heights if self.capacity else [*self.first_rows, self.rows], np.int32)


CASES = (
    Case("4 of 8192", (8192,) * 4),
    Case("4 around 8192", drawn(4, 5734, 10650, 1)),
    Case("8 of 4096", (4096,) * 8),
    Case("8 around 4096", drawn(8, 2867, 5325, 2)),
    Case("8, one empty", (4096,) * 3 + (0,) + (4096,) * 4),
    Case("8, one has all", (0,) * 3 + (32768,) + (0,) * 4),
    Case("128 of 1 to 64", drawn(128, 1, 64, 3)),
    Case("64 masked, 192 of 256", (192,) * 64, 256),
    Case("64 masked, 0 to 256 of 256", drawn(64, 0, 256, 4), 256),
)
FP8_CASES = tuple(
    Case(f"FP8, {case.name}", case.heights, case.capacity, IN_FP8)
    for case in (*CASES[:4], *CASES[-3:])
)


def settings_of(case: Case, tried: Settings) -> Settings:
    """Of 24, with all that is not named as it is by default."""
    what = {"MASKED": int(case.capacity > 0)} | ({"DTYPE": 1} if case.rung == RUNG else {})
    return ladder.settings_for(ladder.find(case.rung), tried | what)


def settings_alone(case: Case) -> Settings:
    """Of 19_blocks, as for a product with as many rows as there are on average."""
    rung = ladder.find(BLOCKS)
    mean = Problem(ceil(case.rows / len(case.alone)), N, K)
    return rung.defaults | rung.suited(mean, rung.defaults)


@dataclass(eq=False)
class Way:
    """One that is timed: what launches it, and its samples."""

    name: str
    settings: str
    launch: Callable[[], None]
    side: Side


class Inputs:
    """The matrices of a case on the GPU, and what multiplies them."""

    def __init__(self, case: Case, stream: Any, cublas: Cublas) -> None:
        import cupy

        self.case, self.stream, self.cublas = case, stream, cublas
        ((A, self.B, C),) = make_sets(case.problem, 1, case.precision)
        self.A, self.C = A.reshape(-1, K)[: case.room], C.reshape(-1, N)[: case.room]
        self.rows = cupy.asarray(case.given_rows)
        places = zip(case.first_rows, case.heights, strict=True)
        self.slices = [slice(first, first + height) for first, height in places]
        self.scales: tuple[Any, ...] = ()  # of A and of B
        if case.precision.scales is not None:
            along_k, across = ceil(K / BLOCK), ceil(N / BLOCK)
            shapes = (along_k, case.room), (len(case.heights), across, along_k)
            self.scales = tuple(
                cupy.asarray(random_values(int(np.prod(shape)), seed).reshape(shape) / 2 + 1)
                for seed, shape in enumerate(shapes)
            )

    def alone(self, product: int, lines: Any) -> Operands:
        """These rows of A and C, which are of a product, with its B."""
        import cupy

        m, ops = len(self.A[lines]), self.case.problem.ops
        scales: tuple[Any, ...] = ()
        if self.scales:
            scales = cupy.ascontiguousarray(self.scales[0][:, lines]), self.scales[1][product]
        matrices = self.A[lines], self.B[product], self.C[lines]
        return Operands(Problem(m, N, K, 1, ops), self.case.precision, *matrices, None, *scales)

    @property
    def products(self) -> list[tuple[Any, Any, Any]]:
        """A, B and C of those that have rows."""
        every = zip(self.slices, self.B, strict=True)
        return [(self.A[at], B, self.C[at]) for at, B in every if at.stop > at.start]

    def by_24(self, kernel: Kernel) -> Callable[[], None]:
        capacity, count = self.case.capacity, len(self.case.heights)
        A, C = (X.reshape(count, capacity, -1) if capacity else X for X in (self.A, self.C))
        operands = Operands(
            self.case.problem, self.case.precision, A, self.B, C, None, *self.scales, rows=self.rows
        )
        return kernel.prepared(operands, 1.0, 0.0)

    def by_19(self, kernel: Kernel) -> Callable[[], None]:
        products = [self.alone(*product) for product in enumerate(self.slices)]
        return _all([kernel.prepared(each, 1.0, 0.0) for each in products if each.problem.m])

    def by_cublas(self) -> Callable[[], None]:
        return _all([partial(self.cublas.launch_into, *matrices) for matrices in self.products])

    def require_right(self, way: Way) -> None:
        """Launch it, look at some rows of some products, and that no other rows were written.

        Raises VerificationError.
        """
        import cupy

        bits = self.C.view(BRAIN.c.bits)
        bits.fill(BRAIN.c.guard)
        way.launch()
        self.stream.synchronize()
        where = f"{way.name} at {self.case.name}"
        used = np.zeros(len(self.C), bool)
        for at in self.slices:
            used[at] = True
            if not bool(cupy.isfinite(BRAIN.c.decode(self.C[at])).all()):
                raise VerificationError(f"{where}: rows {at.start} to {at.stop - 1} are not finite")
        unused = cupy.asarray(np.flatnonzero(~used))
        if way.name != ALL_ROWS and bool((bits[unused] != BRAIN.c.guard).any()):
            raise VerificationError(f"{where}: rows that belong to no product were written")
        with_rows = [p for p, at in enumerate(self.slices) if at.stop > at.start]
        for product in _some(with_rows, PRODUCTS_CHECKED):
            at = self.slices[product]
            lines = cupy.asarray(_some(range(at.start, at.stop), ROWS_CHECKED))
            some = self.alone(product, lines)
            A, B, C = some.numbers()
            least = some.least() if self.scales else (0.0, 0.0)
            bound = error_bound(A, B, None, 1.0, 0.0, some.precision, least=least)
            if not bool((abs(C - reference(A, B, None, 1.0, 0.0)) <= bound).all()):
                raise VerificationError(f"{where}: C of product {product} is not A @ B")


def _all(launches: list[Callable[[], None]]) -> Callable[[], None]:
    """One after the other."""

    def launch() -> None:
        for each in launches:
            each()

    return launch


def _some(values: Any, most: int) -> list[int]:
    """At most so many of them, evenly spread, the first and the last among them."""
    places = np.linspace(0, len(values) - 1, min(most, len(values))).astype(int)
    return [values[at] for at in np.unique(places)]


# ---- samples -------------------------------------------------------------------------------------


class TorchSide(Side):
    """Captured by PyTorch, so that its results are allocated within the graph."""

    def repeat(self, launches: int, graph: bool = True) -> None:
        import torch

        captured, self.launches = torch.cuda.CUDAGraph(), launches
        with torch.cuda.graph(captured):
            for _ in range(launches):
                self.launch()
        self._graph = SimpleNamespace(launch=partial(_replay, captured))


def _replay(captured: Any, stream: Any) -> None:
    import torch

    with torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        captured.replay()


def _side(launch: Callable[[], Any], stream: Any, kind: type[Side] = Side) -> Side:
    """A graph that lasts SAMPLE_MS or more."""
    side = kind(launch, [()], stream)
    side.elapsed_ms()  # loads the module, or makes cuBLAS choose its kernel
    side.repeat(1)
    side.elapsed_ms()
    side.repeat(max(1, ceil(SAMPLE_MS / side.elapsed_ms())))
    return side


def _by_torch(inputs: Inputs, torch: Any) -> Way:
    """By the product that it has for this case; its result is copied into C to be looked at."""
    import cupy

    case, count = inputs.case, len(inputs.case.heights)
    A, B = (torch.from_dlpack(X.view(np.int16)).view(torch.bfloat16) for X in (inputs.A, inputs.B))
    ends = torch.tensor([*case.first_rows[1:], case.rows], dtype=torch.int32, device="cuda")

    def call() -> Any:
        if case.capacity:
            return torch.bmm(A.reshape(count, case.capacity, K), B)
        return torch._grouped_mm(A, B, offs=ends)

    def launch() -> None:
        result = call().reshape(-1, N).view(torch.int16)
        torch.cuda.synchronize()
        inputs.C[...] = cupy.from_dlpack(result).view(inputs.C.dtype)

    launch()
    name = ALL_ROWS if case.capacity else TORCH
    side = _side(call, inputs.stream, TorchSide)
    return Way(name, f"torch {torch.__version__}", launch, side)


# ---- the table -----------------------------------------------------------------------------------


def _measured(say: Say) -> Iterator[Row]:
    """Raises VerificationError for a way that multiplies wrongly. What PyTorch refuses is left out,
    in a line."""
    import cupy

    require_gpu("Measuring grouped products")
    try:
        import torch
    except ImportError:
        torch = None
    stream = cupy.cuda.Stream(non_blocking=True)
    for case in (*CASES, *FP8_CASES):
        cupy.get_default_memory_pool().free_all_blocks()
        with stream, Cublas(stream, BRAIN.name) as cublas:
            yield from _measure(Inputs(case, stream, cublas), torch, say)


@cache
def _kernel(name: str, settings: str) -> Kernel:
    """`settings`: as ladder.written has them."""
    return load(name, **ladder.read_settings(settings))


def _measure(inputs: Inputs, torch: Any, say: Say) -> Iterator[Row]:
    case, stream, cublas = inputs.case, inputs.stream, inputs.cublas
    ours = {ladder.written(settings_of(case, tried)) for tried in case.tried}
    launches = [(case.rung, each, inputs.by_24(_kernel(case.rung, each))) for each in sorted(ours)]
    if case.rung == RUNG:
        launches += [
            (LOOP, "cublasGemmEx, its first choice", inputs.by_cublas()),
            (GROUPED, "cublasGemmGroupedBatchedEx", cublas.prepared_grouped(inputs.products)),
        ]
    else:
        settings = ladder.written(settings_alone(case))
        launches.append((LOOP_FP8, settings, inputs.by_19(_kernel(BLOCKS, settings))))
    stream.synchronize()
    ways = [Way(*launch, _side(launch[-1], stream)) for launch in launches]
    for way in ways:
        inputs.require_right(way)
    if torch is not None and case.rung == RUNG:
        try:
            of_torch = _by_torch(inputs, torch)
            inputs.require_right(of_torch)
            ways.append(of_torch)
        except Exception as error:  # whatever PyTorch of this version refuses
            say(f"{NAME}: {case.name}: PyTorch is left out. {error}")
    times, state = in_rounds([way.side for way in ways], ROUNDS, case.name)
    (loop,) = (ms for way, ms in zip(ways, times, strict=True) if way.name in (LOOP, LOOP_FP8))
    for way, ms in zip(ways, times, strict=True):
        us = Spread.of([1e3 * each for each in ms], min)
        share = Spread.of([100 * b / a for a, b in zip(ms, loop, strict=True)], max)
        say(f"{case.name}: {way.name} [{way.settings}]: {us.median:.1f} us, {share.median:.1f} %")
        yield {
            "case": case.name, "way": way.name, "settings": way.settings,
            "products": len(case.heights), "rows": case.rows, "n": N, "k": K,
            "capacity": case.capacity, **spread("us", us),
            "tflops": case.flop / us.median / 1e6, "gb_per_s": case.least_bytes / us.median / 1e3,
            **spread("pct_loop", share), "rounds": len(ms), "sm_clock_mhz": state.sm_clock_mhz,
            "power_w": state.power_w,
        }  # fmt: skip


def _fingerprint(row: Any, on: Target) -> Fingerprint | None:
    """Of the kernel of a row; None of a case that is no longer measured."""
    case = next((case for case in (*CASES, *FP8_CASES) if case.name == row.case), None)
    if case is None:
        return None
    if row.way not in (RUNG, IN_FP8, LOOP_FP8):
        return Fingerprint({}, {}, registry.LIBRARY)
    name, problems = row.way, [case.problem]
    if row.way == LOOP_FP8:
        name, problems = BLOCKS, case.alone
    return of_rung(ladder.find(name), ladder.read_settings(row.settings), problems, on)


TABLE = Table(
    name=NAME, file="grouped.csv", key=("case", "way", "settings"),
    columns={
        **TEXT("case", "way", "settings"), **SIZE("products"), **WHOLE("rows"), **SIZE("n", "k"),
        **WHOLE("capacity"), **POSITIVE("us", "us_q1", "us_q3", "tflops", "gb_per_s"),
        **POSITIVE("pct_loop", "pct_loop_q1", "pct_loop_q3"), **SIZE("rounds"),
        **registry.REPORTED("sm_clock_mhz", "power_w"), **registry.WITH_CUBLAS,
    },
    measure=_measured, fingerprint_of=_fingerprint,
)  # fmt: skip
EVIDENCE = (TABLE,)
