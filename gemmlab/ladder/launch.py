"""The launches of a product: kernels with their grids, blocks and arguments, in order.

The GPU and the simulator take the same list. An argument is a name ("A", "M", "alpha", see NAMES),
a number (int32), a tensor map of a matrix, or memory that the kernels share and nobody else sees.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gemmlab.ladder.problem import Problem
from gemmlab.ladder.settings import Settings
from ptxsim.architectures import SIMULATED_ARCH

Triple = tuple[int, int, int]
MATRICES = ("A", "B", "C")
LEADING = ("lda", "ldb", "ldc")
STRIDES = ("stride_a", "stride_b", "stride_c")
POINTERS = ("pointers_a", "pointers_b", "pointers_c")
LD_SCALE_A = "ld_scale_a"
NAMES = (
    *MATRICES, "bias", "scale_a", "scale_b",  # arrays
    *POINTERS,  # arrays of 64-bit addresses, one for each product of a batch
    "M", "N", "K", "batch", *LEADING,  # int32; elements from one row to the next
    *STRIDES,  # int64; elements from one matrix of a batch to the next
    LD_SCALE_A,  # int32; elements from one row of an array of scales to the next
    "rows",  # int32: which rows each product has, of a rung whose products may differ in height
    "lost",  # int32, one element or None: set where a product may not be what float32 gives
    "alpha", "beta",  # float32
)  # fmt: skip
PRODUCT = ("A", "B", "C", "M", "N", "K", "alpha", "beta")


@dataclass(frozen=True)
class Target:
    """What a launch may depend on: the GPU's architecture, such as "sm_90a", and its SMs."""

    arch: str
    sm_count: int


SIMULATED = Target(SIMULATED_ARCH, 132)


@dataclass(frozen=True)
class MapOf:
    """A tensor map of a matrix: `box` is the (rows, columns) that one copy loads, of a batch also
    how many matrices; without that, the matrices of a batch are one, their rows below one another.
    `swizzle`: "none", "32B", "64B" or "128B". `element`: "tf32" rounds each float32 to it."""

    matrix: str
    box: tuple[int, ...]
    swizzle: str = "none"
    element: str = ""

    def view(self, array: Any) -> Any:
        """The array with as many axes as the box has."""
        if array.ndim == len(self.box):
            return array
        return array.reshape(-1, *array.shape[-len(self.box) + 1 :])


@dataclass(frozen=True)
class Workspace:
    """Memory that the launches of one product share: the same name is the same memory.

    `zeroed`: all bytes are 0 before the first launch, and the launches must leave them so, for the
    next product finds them as they are; otherwise nobody has written them.
    """

    name: str
    bytes: int
    zeroed: bool = False


Argument = str | int | MapOf | Workspace


@dataclass(frozen=True)
class Launch:
    """One launch: the kernel `entry`, blocks, threads per block, and its arguments in their order.

    `shared_bytes`: dynamic shared memory of a block. `cluster`: blocks of a cluster, as the
    kernel's __cluster_dims__ says it; a grid is a multiple of it along every axis. `early`: on a
    GPU it may begin while the launch before it on the stream ends, and waits for that by itself.
    `prepares`: it makes of A and B what the next launch multiplies.
    """

    entry: str
    grid: Triple
    block: Triple
    shared_bytes: int = 0
    cluster: Triple = (1, 1, 1)
    args: tuple[Argument, ...] = PRODUCT
    early: bool = False
    prepares: bool = False


def multiplying(launches: Sequence[Launch]) -> int:
    """Which of the launches of a product multiplies: the first after those that prepare that is
    given A, else the first of these."""
    first = sum(launch.prepares for launch in launches)
    for at, launch in enumerate(launches[first:], first):
        named = {arg.matrix if isinstance(arg, MapOf) else arg for arg in launch.args}
        if named & {"A", "pointers_a"}:
            return at
    return first


Plan = Callable[["Problem", Settings, Target], list[Launch]]


def single(
    entry: str,
    grid: Callable[[int, int, Settings], Triple],
    block: Callable[[Settings], Triple],
    shared_bytes: Callable[[Settings], int] = lambda settings: 0,
    args: tuple[Argument, ...] = PRODUCT,
) -> Plan:
    """A plan of one launch: `grid` from the rows and columns of C, the rest from the settings."""

    def plan(problem: Problem, settings: Settings, target: Target) -> list[Launch]:
        blocks = grid(problem.m, problem.n, settings)
        return [Launch(entry, blocks, block(settings), shared_bytes(settings), args=args)]

    return plan
