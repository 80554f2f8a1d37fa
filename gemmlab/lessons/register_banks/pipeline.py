"""A pipeline of tiles in shared memory, as one warp uses it: which tile is where, and when.

For kernels whose warps meet at mbarriers. They take no steps together, as in k_steps; there is the
order in which each warp does its own.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from gemmlab.analysis.block_replay import COPY, NOTHING, READ, Move, Played
from gemmlab.kernel.trace import Trace

# What a warp does. It copies its part of a tile into a place and leaves its arrival at the place's
# full mbarrier with these copies; it waits until a place is full, reads, and arrives at empty. Of a
# batch it stores C after the last tile of a product.
COPIES, LEAVES_FULL, AWAITS_FULL, READS, ARRIVES_EMPTY, AWAITS_EMPTY, STORES = (
    "copies", "leaves full", "awaits full", "reads", "arrives empty", "awaits empty", "stores",
)  # fmt: skip
NO_PLACE = -1  # of C
WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")


@dataclass(frozen=True)
class Event:
    """Neighbouring instructions of one kind, for one tile, which lies in `place` of the pipeline.

    Where a warp waits until a place is empty, `tile` is the one that it will copy there. Tiles are
    counted on from product to product of a batch; where C is stored, `tile` is the last one of the
    product, and there is no place.
    """

    kind: str
    tile: int
    place: int


@dataclass(frozen=True)
class Pipeline:
    """What warp 0 of the first block does with the places of a pipeline, in its order.

    `alike`: of the block's `warps`, those that do the same in the same order. `elements`: of A and
    B in a tile; `copied`, `read`: of one tile by this warp, the most over all tiles.
    """

    trace: Trace
    events: tuple[Event, ...]
    warps: int
    alike: int
    elements: int
    copied: int
    read: int

    @property
    def places(self) -> int:
        return 1 + max(event.place for event in self.events)

    def product(self, tile: int) -> tuple[int, int]:
        """The product of the batch that a tile belongs to, and its number among that one's."""
        return divmod(tile, _tiles_of_product(self.trace))


def of(trace: Trace) -> Pipeline:
    """The pipeline as warp 0 of the first block uses it, from what it executed.

    A tile is known by the elements that are copied and read, a place by its address, lowest first;
    a wait by what the warp does next in a place, an arrival by what it did last. Of a batch, C is
    one tile a product.
    """
    played = Played.of(trace, (0, 0, 0))
    played.require_reads("pipeline")
    warps = sorted({move.warp for move in played.moves})
    tiles = {
        id(move.access): _tile(played, move)
        for move in played.moves
        if move.kind in (COPY, READ) and move.moves_elements
    }
    places = _places(played, tiles)
    events = [_events(played, warp, tiles, places) for warp in warps]
    copied, read, elements = (
        _most(played, tiles, kind, who) for kind, who in ((COPY, [0]), (READ, [0]), (COPY, warps))
    )
    alike = events.count(events[0])
    return Pipeline(trace, events[0], len(warps), alike, elements, copied, read)


def _tile(played: Played, move: Move) -> int:
    """The tile along K that an access belongs to."""
    real = move.elements[move.elements != NOTHING]
    along = played.along(real) // played.trace.settings["BK"]
    (tile,) = np.unique(played.product(real) * _tiles_of_product(played.trace) + along).tolist()
    return tile


def _tiles_of_product(trace: Trace) -> int:
    return -(-trace.k // trace.settings["BK"])


def _places(played: Played, tiles: dict[int, int]) -> dict[int, int]:
    """{tile: its place}, by the lowest word that it was copied to."""
    lowest: dict[int, int] = {}
    for move in played.moves:
        if move.kind == COPY and id(move.access) in tiles:
            tile = tiles[id(move.access)]
            low = int(move.words[move.access.active].min())
            lowest[tile] = min(lowest.get(tile, low), low)
    order = sorted(set(lowest.values()))
    return {tile: order.index(low) for tile, low in lowest.items()}


def _events(
    played: Played, warp: int, tiles: dict[int, int], places: dict[int, int]
) -> tuple[Event, ...]:
    kinds = {id(move.access): move.kind for move in played.moves if id(move.access) in tiles}
    events: list[Event] = []
    waits = False  # a wait was met; the next copy or read says what for

    def put(kind: str, tile: int) -> None:
        event = Event(kind, tile, NO_PLACE if kind == STORES else places[tile])
        if not events or events[-1] != event:
            events.append(event)

    def last(kind: str) -> int:
        return next(event.tile for event in reversed(events) if event.kind == kind)

    for step in played.trace.run.instructions(played.block, warp):
        if step.opcode.startswith("cp.async.mbarrier.arrive"):
            put(LEAVES_FULL, last(COPIES))
        elif step.opcode.startswith("mbarrier.arrive"):
            put(ARRIVES_EMPTY, last(READS))
        elif step.opcode.startswith(WAITS):
            waits = True
        for access in step.accesses:
            if played.trace.batch > 1 and access.array == "C" and access.operation == "store":
                put(STORES, last(READS))
            if id(access) not in tiles:
                continue
            copies, tile = kinds[id(access)] == COPY, tiles[id(access)]
            if waits:
                put(AWAITS_EMPTY if copies else AWAITS_FULL, tile)
                waits = False
            put(COPIES if copies else READS, tile)
    return tuple(events)


def _most(played: Played, tiles: dict[int, int], kind: str, warps: list[int]) -> int:
    """How many elements of one tile were moved so by these warps; the most of any tile."""
    moved: defaultdict[int, set[int]] = defaultdict(set)
    for move in played.moves:
        if move.kind == kind and id(move.access) in tiles and move.warp in warps:
            moved[tiles[id(move.access)]] |= set(move.elements[move.elements != NOTHING].tolist())
    return max(map(len, moved.values()), default=0)
