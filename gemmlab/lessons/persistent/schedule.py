"""Which tiles of C each block computes, and the boxes that it requests for them, as traced."""

from dataclasses import dataclass
from math import prod

from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import Trace
from ptxsim import BoxCopy


@dataclass(frozen=True)
class Turn:
    """One tile of C that a block computes: the first one is its `round` 0.

    `row` and `column`: counted in tiles. `loads`: the boxes of A and B that the block requests, for
    itself or also for others of its cluster, in their order.
    """

    block: int
    round: int
    row: int
    column: int
    loads: tuple[BoxCopy, ...]


@dataclass(frozen=True)
class Schedule:
    """A whole product. `tile`: rows and columns of C in one; `tiles`: how many down and across."""

    settings: dict[str, int]
    shape: tuple[int, int, int]
    blocks: int
    cluster: int  # blocks
    tile: tuple[int, int]
    tiles: tuple[int, int]
    turns: tuple[Turn, ...]
    ops: str = "NN"
    element_bytes: int = 2  # of A and B

    @property
    def rounds(self) -> int:
        return 1 + max(turn.round for turn in self.turns)

    def brought(self, of_round: int, array: str) -> set[int]:
        """The rows of A, or the columns of B, that the blocks have brought in a round."""
        m, n, _ = self.shape
        axis, end = (0, m) if array == "A" else (1 if self.ops[1] == "N" else 0, n)
        return {
            at
            for turn in self.turns
            if turn.round == of_round
            for box in turn.loads
            if box.array == array
            for at in range(box.corner[axis], min(box.corner[axis] + box.box[axis], end))
        }


def schedule(kernel: Kernel, m: int, n: int, k: int, sm_count: int) -> Schedule:
    """Of an m×n×k product, if the GPU had `sm_count` SMs.

    Raises LookupError for a kernel that does not copy tile by tile, by tensor map.
    """
    trace = kernel.scheduled_for(sm_count).trace(m, n, k)
    tile = kernel.rung.tile(kernel.settings)
    turns = [turn for block in range(trace.grid[0]) for turn in _turns(trace, block, tile)]
    return Schedule(
        kernel.settings, (m, n, k), trace.grid[0], kernel.settings.get("CLUSTER", 1),
        tile, (-(-m // tile[0]), -(-n // tile[1])), tuple(turns), kernel.ops, trace.element_bytes,
    )  # fmt: skip


def moved(schedule: Schedule) -> dict[str, int]:
    """Of A and B: the boxes that are requested, their bytes, and the bytes that arrive in blocks.

    A box by multicast is requested once, and arrives in several blocks.
    """
    boxes = [box for turn in schedule.turns for box in turn.loads]
    sizes = [prod(box.box) * schedule.element_bytes for box in boxes]
    arrive = sum(size * max(1, len(box.ranks)) for box, size in zip(boxes, sizes, strict=True))
    return {"boxes": len(boxes), "bytes requested": sum(sizes), "bytes that arrive": arrive}


def _turns(trace: Trace, block: int, tile: tuple[int, int]) -> list[Turn]:
    """The tiles that it stores. It has as many boxes brought for each of them."""
    boxes = trace.run.boxes((block, 0, 0))
    stored = dict.fromkeys(
        (box.corner[0] // tile[0], box.corner[1] // tile[1])
        for box in boxes
        if box.operation == "store"
    )
    loads = [box for box in boxes if box.operation == "load"]
    if not stored or len(loads) % len(stored):
        raise LookupError(
            f"{trace.kernel_name}: block {block} stores {len(stored)} tiles of C and copies "
            f"{len(loads)} boxes of A and B: it does not copy tile by tile"
        )
    each = len(loads) // len(stored)
    return [
        Turn(block, at, *where, tuple(loads[at * each : (at + 1) * each]))
        for at, where in enumerate(stored)
    ]
