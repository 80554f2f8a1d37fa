"""Many small products: in one launch, in a graph of launches, in a loop of them.

    python -m gemmlab record batches

times square products in batches in all WAYS; results/<gpu>/batches.csv. Whatever can be captured
is captured into CUDA graphs and timed in turn with one launch of rung 13. A loop waits for Python,
which makes each of its launches: its time is Python's as much as the GPU's.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from math import ceil

from gemmlab import ladder
from gemmlab.cuda.cublas import Cublas
from gemmlab.cuda.device import gpu_state, require_gpu
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.kernel.verify import VerificationError, check_sample
from gemmlab.ladder import SINGLE, Problem
from gemmlab.measure.in_turn import SAMPLE_MS, Side, alternate, input_sets, make_sets
from gemmlab.measure.timing import Spread, require_verified
from gemmlab.records import registry, tuning
from gemmlab.records.registry import POSITIVE, SIZE, TEXT, Row, Say, Table
from gemmlab.records.runs import spread

NAME, RUNG = "batches", "13_batched"
SIZES = (32, 64, 128)
BATCHES = (1, 4, 64, 1024, 16384)

ONE, ADDRESSES = "13, one launch", "13, one launch, by addresses"
CUBLAS, CUBLAS_ADDRESSES = "cuBLAS, strided batch", "cuBLAS, batch by addresses"
GRAPH, LOOP = "13, graph of launches", "13, loop of launches"
WAYS = (ONE, ADDRESSES, GRAPH, LOOP, CUBLAS, CUBLAS_ADDRESSES)

PAIRS = 5


@dataclass(frozen=True, eq=False)
class Batch:
    """One set of inputs: the whole batch, and its products, each prepared once for all ways."""

    operands: Operands  # (batch, rows, columns) each, also for a batch of 1
    kernel: Kernel
    by_addresses: Kernel
    cublas: Cublas
    cublas_by_addresses: Cublas

    @cached_property
    def products(self) -> list[Operands]:
        problem = self.operands.problem
        single = Problem(*problem.shape, ops=problem.ops)
        matrices = zip(self.operands.A, self.operands.B, self.operands.C, strict=True)
        return [Operands(single, self.operands.precision, *each) for each in matrices]

    @cached_property
    def launches(self) -> list[Callable[[], None]]:
        return [self.kernel.prepared(product, 1.0, 0.0) for product in self.products]

    def way(self, name: str) -> Callable[[], None]:
        """What enqueues the batch on the current stream in one of WAYS."""
        if name in (GRAPH, LOOP):
            return partial(in_a_row, self.launches)
        by_name = {
            ONE: self.kernel, ADDRESSES: self.by_addresses, CUBLAS: self.cublas,
            CUBLAS_ADDRESSES: self.cublas_by_addresses,
        }  # fmt: skip
        return by_name[name].prepared(self.operands, 1.0, 0.0)


def in_a_row(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()


def _measured(say: Say) -> Iterator[Row]:
    """All ways, in milliseconds for a batch. ratio: to one launch of rung 13, pair by pair.

    Raises VerificationError, TimingError, and NoRecord without a sweep of the rung.
    """
    kernels: dict[str, Kernel] = {}  # each is compiled and verified once
    for size in SIZES:
        for batch in BATCHES:
            for row in _measure(Problem(size, size, size, batch), kernels):
                say(f"{batch} x {size}: {row['way']}: {row['time_ms']:.4g} ms, "
                    f"{row['ratio']:.3f} of one launch")  # fmt: skip
                yield row


TABLE = Table(
    name=NAME, file="batches.csv", key=("way", "settings", "m", "n", "k", "batch"),
    columns={
        **TEXT("way", "settings"), **SIZE("m", "n", "k", "batch"),
        **POSITIVE("time_ms", "time_q1_ms", "time_q3_ms"),
        **POSITIVE("one_launch_ms", "ratio", "ratio_q1", "ratio_q3"), **SIZE("pairs"),
        **registry.REPORTED("sm_clock_mhz", "power_w"),
        **registry.provenance("driver", "cuda", "cublas", "cupy", "python"),
    },
    measure=_measured, fingerprint_of=partial(registry.of_row, ladder.find(RUNG)),
)  # fmt: skip
EVIDENCE = (TABLE,)


def _measure(problem: Problem, kernels: dict[str, Kernel]) -> Iterator[Row]:
    import cupy

    here = require_gpu("Measuring batches")
    kernel = _kernel(problem, kernels)
    by_addresses = _kernel(problem, kernels, POINTERS=1)
    stream = cupy.cuda.Stream(non_blocking=True)
    count = input_sets(problem.least_bytes(SINGLE), here.l2_bytes)
    with stream, Cublas(stream) as cublas, Cublas(stream, pointers=True) as cublas_by_addresses:
        for launched in (kernel, by_addresses, cublas, cublas_by_addresses):
            check_sample(launched, problem)
        every = [
            Batch(Operands(problem, SINGLE, *matrices), kernel, by_addresses, cublas,
                  cublas_by_addresses)
            for matrices in map(partial(_as_batch, problem), make_sets(problem, 2 * count))
        ]  # fmt: skip
        for inputs in every:
            _ = inputs.operands.pointers  # made before anything is captured
        stream.synchronize()
        mine, others = every[:count], every[count:]
        ours = _side(mine, ONE, stream)
        for way in WAYS:
            theirs = _side(others, way, stream)
            _require_product(theirs, others, way)
            time_ms, our_ms, state = _in_turn(theirs, ours, way, f"{way} {problem}")
            ratio = Spread.of([b / a for a, b in zip(our_ms, time_ms, strict=True)], min)
            yield {
                "way": way, "settings": ladder.written(kernel.settings),
                **dict(zip("mnk", problem.shape, strict=True)), "batch": problem.batch,
                **spread("time_ms", Spread.of(time_ms, min)),
                "one_launch_ms": Spread.of(our_ms, min).median, **spread("ratio", ratio),
                "pairs": PAIRS, "sm_clock_mhz": state.sm_clock_mhz, "power_w": state.power_w,
            }  # fmt: skip


def _kernel(problem: Problem, kernels: dict[str, Kernel], **others: int) -> Kernel:
    kernel = tuning.kernel_for(ladder.find(RUNG), (*problem.shape, problem.batch), **others)
    kernel = kernels.setdefault(ladder.written(kernel.settings), kernel)
    require_verified(kernel)
    return kernel


def _as_batch(problem: Problem, matrices: tuple) -> list:
    """A batch of one, too, has the batch before its rows."""
    return [X.reshape(problem.batch, *X.shape[-2:]) for X in matrices]


def _side(every: list[Batch], way: str, stream) -> Side:
    """A way on inputs that rotate, warm, with samples that are long enough."""
    side = Side(lambda call: call(), [(inputs.way(way),) for inputs in every], stream)
    side.elapsed_ms()  # loads the module, or makes cuBLAS choose its kernel
    graph = way != LOOP
    sets = len(every) if graph else 1  # a graph visits every set equally often
    side.repeat(sets, graph=graph)
    side.elapsed_ms()
    side.repeat(sets * max(1, ceil(SAMPLE_MS / side.elapsed_ms())), graph=graph)
    return side


def _require_product(side: Side, every: list[Batch], way: str) -> None:
    """Every product of the first and the last input is there after a sample of all.

    Raises VerificationError where C is off by more than twice the error of k sums below 1.
    """
    import cupy

    problem = every[0].operands.problem
    looked_at = every[0], every[-1]
    for inputs in looked_at:
        inputs.operands.C.fill(cupy.nan)
    for _ in range(ceil(len(every) / side.launches)):
        side.sample()
    for inputs in looked_at:
        far = cupy.abs(inputs.operands.C - cupy.matmul(inputs.operands.A, inputs.operands.B)).max()
        if not float(far) <= 2 * problem.k**2 * 2.0**-24:
            raise VerificationError(f"{way} at {problem}: C is not A @ B")


def _in_turn(theirs: Side, ours: Side, way: str, label: str):
    """Milliseconds for a batch of both, pair by pair, and the GPU's state."""
    if way != LOOP:
        return alternate(theirs, ours, PAIRS, label)
    samples = chain.from_iterable((theirs, ours) for _ in range(PAIRS))
    elapsed = [side.elapsed_ms() / side.launches for side in samples]
    return elapsed[::2], elapsed[1::2], gpu_state()
