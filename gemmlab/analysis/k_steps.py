"""One block's way along K, frame by frame, made from its trace alone.

What happens between two barriers may happen in any order, so that is a frame: what a block loads,
what lies in shared memory at its end, what was read of it, and how far its sums are. C is written
in a frame of its own.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from gemmlab.analysis.block_replay import COPY, KEEP, LOAD, NOTHING, OUT, READ, WRITE, Move, Played
from gemmlab.kernel.trace import Trace

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Frame:
    """What one block does in a stretch of its way along K, and how things stand at its end.

    Dictionaries have the keys "A", of shape (M, K), and "B", of shape (K, N).

    `loaded`: bool, elements that the block loaded from global memory in this frame. `stored`: bool,
    those that it stored from registers into shared memory. `read`: bool, those that threads took
    for products from shared memory. `kept`: int, the buffer of shared memory in which the element
    lies at the end, or NOTHING. `arriving`: bool, loaded or copied, but not there yet at the end.
    `memory`: int (words,), the element in each word of shared memory, numbered through A and then
    B, or NOTHING; those that are arriving included. `sums`: bool (words,), where sums lie on their
    way to C; what is left of a tile that they overwrote is no tile, and NOTHING. `done`: int
    (M, N), of each sum of the block, how many of its K products have had both elements read.
    `written`: bool (M, N), of C.
    """

    trace: Trace
    block: Triple
    number: int
    frames: int
    loaded: dict[str, np.ndarray]
    stored: dict[str, np.ndarray]
    read: dict[str, np.ndarray]
    kept: dict[str, np.ndarray]
    arriving: dict[str, np.ndarray]
    memory: np.ndarray
    sums: np.ndarray
    mine: np.ndarray  # bool (M, N), the block's elements of C
    done: np.ndarray
    written: np.ndarray

    @cached_property
    def products(self) -> tuple[int, int]:
        """The fewest and the most products that are done, over the block's sums."""
        done = self.done[self.mine]
        return (int(done.min()), int(done.max())) if done.size else (0, 0)

    @property
    def progress(self) -> str:
        """ "48 of 64 products", of each sum."""
        low, high = self.products
        some = f"{low}" if low == high else f"{low} to {high}"
        return f"{some} of {self.trace.k} products"

    @cached_property
    def actions(self) -> dict[str, str]:
        """What happens in the frame -> the same in words: "load", "store", "multiply", "write C".
        What is loaded and stored in the same frame is said to be loaded."""
        only_stored = {name: stored & ~self.loaded[name] for name, stored in self.stored.items()}
        happens = {
            "load": (self.loaded, "loads {}"),
            "store": (only_stored, "stores {} from registers"),
            "multiply": (self.read, "multiplies {}"),
        }
        words = {
            action: verb.format(_elements(masks))
            for action, (masks, verb) in happens.items()
            if _any(masks)
        }
        if count := int(self.written.sum()):
            words["write C"] = f"writes its {count:,} elements of C"
        return words

    @property
    def caption(self) -> str:
        """All of it in two sentences."""
        after = [f"each sum has {self.progress}"]
        if _any(there := {name: kept != NOTHING for name, kept in self.kept.items()}):
            after.append(f"{_elements(there)} lie in shared memory")
        if _any(self.arriving):
            after.append(f"{_elements(self.arriving)} are on their way")
        return f"Block {self.block} {' and '.join(self.actions.values())}. Then {'; '.join(after)}."


def of(trace: Trace, block: Triple = (0, 0, 0)) -> list[Frame]:
    """The frames of one block, in their order.

    Barriers are those that each warp executed, found in its instructions. An asynchronous copy
    counts as arrived at the end of the frame before its first read: it is then that its warp has
    waited for it. A product counts as done once both of its elements have been read.

    Raises LaunchError for a block that is not there, and ValueError where threads seem to read what
    their elements of C do not need, and for a kernel without shared memory, or with mbarriers,
    whose warps take no steps together.
    """
    block = cast(Triple, tuple(block))  # a list is as good
    if any(step.opcode.startswith("mbarrier.") for step in trace.run.instructions(block, 0)):
        raise ValueError(
            f"steps: the warps of {trace.kernel_name} wait for mbarriers, each at its own time: "
            "there are no steps that a whole block takes together."
        )
    played = Played.of(trace, block)
    played.require_reads("steps")
    groups = _groups(played)
    starts = _buffers(played)
    memory = np.full(played.shared_words, NOTHING)
    unread = np.zeros(len(memory), bool)  # copied, not known to have arrived
    sums = unread.copy()
    first_words = np.unique(np.concatenate(list(starts.values())))
    buffer = np.searchsorted(first_words, np.arange(len(memory)), "right")  # of each word
    reads = [_words_read(group, len(memory)) for group in [*groups, []]]
    seen = np.zeros(trace.m * trace.k + trace.k * trace.n, bool)
    in_registers = seen.copy()
    written = np.zeros(trace.m * trace.n, bool)
    mine = played.owner != NOTHING
    frames = []
    for number, group in enumerate(groups):
        for move in group:
            active = move.elements != NOTHING
            if move.kind in (KEEP, COPY):
                lanes = move.access.active
                memory[move.words[lanes]] = move.elements[lanes]
                unread[move.words[lanes]] = move.kind == COPY
                sums[move.words[lanes]] = False
                in_registers[move.elements[active]] = False
            elif move.kind == LOAD:
                in_registers[move.elements[active]] = True
            elif move.kind == OUT:
                sums[move.words[move.access.active]] = True
            elif move.kind == WRITE:
                written[move.elements[active]] = True
        memory[np.isin(buffer, buffer[sums])] = NOTHING
        loaded, stored, read = (played.moved(group, kind) > 0 for kind in (LOAD, KEEP, READ))
        seen |= read
        unread &= ~(reads[number] | reads[number + 1])
        on_way = in_registers.copy()
        on_way[memory[unread & (memory != NOTHING)]] = True
        a, b = (both.astype(np.float32) for both in played.split(seen).values())
        frame = Frame(
            trace, block, number, frames=len(groups),
            loaded=played.split(loaded), stored=played.split(stored), read=played.split(read),
            arriving=played.split(on_way),
            kept=played.split(_in_buffers(played, np.where(unread, NOTHING, memory), starts)),
            memory=memory.copy(), sums=sums.copy(), mine=mine,
            done=np.where(mine, a @ b, 0).astype(np.int32),
            written=written.reshape(mine.shape).copy(),
        )  # fmt: skip
        frames.append(frame)
    return frames


# ---- where frames begin --------------------------------------------------------------------------


def _groups(played: Played) -> list[list[Move]]:
    """The moves of each frame, in the order of execution."""
    phases = _phases(played)
    keyed: dict[tuple[int, bool], list[Move]] = {}
    for move in played.moves:
        keyed.setdefault((phases[id(move.access)], move.kind == WRITE), []).append(move)
    groups: list[list[Move]] = [[]]
    for _, moves in sorted(keyed.items(), key=lambda item: item[0]):
        groups[-1] += moves  # sums on their way through shared memory go with what follows
        if any(move.moves_elements for move in moves):
            groups.append([])
    return groups[:-1]


def _phases(played: Played) -> dict[int, int]:
    """{id of an access: how many barriers its warp had passed before}."""
    phases: dict[int, int] = {}
    for warp in {move.warp for move in played.moves}:
        passed = 0
        for step in played.trace.run.instructions(played.block, warp):
            phases |= dict.fromkeys(map(id, step.accesses), passed)
            if step.opcode.startswith(("bar.", "barrier.")) and ".warp." not in step.opcode:
                passed += 1
    return phases


# ---- what lies where -----------------------------------------------------------------------------


def _words_read(group: list[Move], words: int) -> np.ndarray:
    """bool (words,): which words of shared memory are read."""
    touched = np.zeros(words, bool)
    for move in group:
        if move.kind == READ:
            touched[move.words[move.access.active]] = True
    return touched


def _buffers(played: Played) -> dict[str, np.ndarray]:
    """For A and B, the first word of each buffer: the lowest that a tile along K was kept in."""
    first_of_b = played.trace.m * played.trace.k
    step = played.trace.settings["BK"]
    lowest: dict[str, dict[int, int]] = {"A": {}, "B": {}}
    for move in played.moves:
        if move.kind not in (KEEP, COPY):
            continue
        tiles = played.along(move.elements) // step
        for name, low in lowest.items():
            inside = (move.elements != NOTHING) & ((move.elements >= first_of_b) == (name == "B"))
            for tile in np.unique(tiles[inside]):
                word = int(move.words[inside & (tiles == tile)].min())
                low[tile] = min(low.get(tile, word), word)
    return {name: np.unique(list(low.values())) for name, low in lowest.items()}


def _in_buffers(played: Played, memory: np.ndarray, starts: dict[str, np.ndarray]) -> np.ndarray:
    """int: of each element of A and then of B the buffer that it lies in, or NOTHING."""
    first_of_b = played.trace.m * played.trace.k
    buffer_of = np.full(first_of_b + played.trace.k * played.trace.n, NOTHING, np.int8)
    for name, firsts in starts.items():
        words = np.flatnonzero((memory != NOTHING) & ((memory >= first_of_b) == (name == "B")))
        buffer_of[memory[words]] = np.searchsorted(firsts, words, side="right") - 1
    return buffer_of


def _any(masks: dict[str, np.ndarray]) -> bool:
    return any(mask.any() for mask in masks.values())


def _elements(masks: dict[str, np.ndarray]) -> str:
    """ "k 0 to 63 of A and B", or each for itself where they differ."""
    ks = {name: _ks(np.any(masks[name], axis=0 if name == "A" else 1)) for name in masks}
    there = {name: words for name, words in ks.items() if words}
    if len(set(there.values())) == 1:
        return f"{next(iter(there.values()))} of {' and '.join(there)}"
    return " and ".join(f"{words} of {name}" for name, words in there.items())


def edges(touched: np.ndarray) -> list[int]:
    """Where each run of indices begins and ends."""
    return np.flatnonzero(np.diff(np.r_[0, touched.astype(int), 0])).tolist()


def _ks(touched: np.ndarray) -> str:
    """ "k 0 to 7", "k 0 to 7 and 16 to 23", "k 4"; empty where there are none."""
    ends = edges(touched)
    runs = [(first, end - 1) for first, end in zip(ends[::2], ends[1::2], strict=True)]
    words = [f"{first}" if first == last else f"{first} to {last}" for first, last in runs]
    return f"k {' and '.join(words)}" if words else ""
