"""Runs a kernel: which lanes go next, where they part, where they wait.

Blocks are run in chunks (see grid.py), each chunk on its own. Inside a chunk, lanes that stand at
the same instruction form a group, and a group executes one basic block at a time for all its lanes.
Where a branch parts a group, the group that stands first in the program goes next, so that parted
lanes meet again. Four kinds of group wait until no other can go on: lanes at a barrier, lanes that
try an mbarrier, part of a warp at an instruction of the whole warp, and lanes that poll (see
threads/polling.py). When nobody can go on, other chunks may; then the chunk ends with the finding
"deadlock".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from ptxsim import metrics
from ptxsim.architectures import SIMULATED_ARCH, WARP
from ptxsim.arithmetic import compiled, exactness
from ptxsim.arithmetic.multiply_add import Magnitudes, Stacks
from ptxsim.async_copy import counted
from ptxsim.async_copy.copies import Copies
from ptxsim.async_copy.map_bytes import MapsInMemory
from ptxsim.checks.checker import Checker
from ptxsim.counting import SHARED, Counting, Recorded, Stretch
from ptxsim.hopper import to_groups
from ptxsim.memory import global_memory, merging, shared_memory
from ptxsim.memory.shared_memory import ClusterMemory, LocalMemory, SharedMemory
from ptxsim.ptx import Kernel, lines_of, register_types
from ptxsim.system_calls import FirstLines
from ptxsim.tensor_cores.tensor_memory import TensorMemory
from ptxsim.textures import Image
from ptxsim.threads.barriers import Barriers
from ptxsim.threads.clusters import ClusterBarrier, ranks_of
from ptxsim.threads.launch_control import Pending
from ptxsim.threads.layout import Layout, Triple
from ptxsim.threads.polling import Polling
from ptxsim.translate import Writer, translate

# Elements per step of a NumPy operation. Rows as long as this or longer are used where they are;
# shorter ones are copied together first, which makes an outer product three times as slow.
UFUNC_BUFFER = 512


@dataclass(frozen=True)
class Finding:
    """A mistake of the kernel: its kind, its line, and the first lane that made it.

    `line`: of the source; `header`: "helper.h, line 3", if the line calls code of a header. `line`
    is 0 for a kernel that is in a header itself.
    """

    kind: str  # "out-of-bounds read", "misaligned write", "divergent barrier", …
    kernel: str
    line: int
    block: Triple
    thread: Triple
    what: str  # "C[2800] of 2800 elements"
    lanes: int
    header: str = ""

    @property
    def place(self) -> tuple[str, int]:
        """The name of the header in which the instruction is, "" for none, and the line there."""
        name, _, line = self.header.rpartition(", line ")
        return (name, int(line)) if name else ("", self.line)

    def __str__(self):
        lines = lines_of(self.line, self.header)
        return (
            f"{self.kind} in kernel '{self.kernel}', {lines}: {self.what}, "
            f"by block {self.block}, thread {self.thread}"
            + (f" and {self.lanes - 1} more" if self.lanes > 1 else "")
        )


class Translation:
    """A kernel's basic blocks as Python functions, each made when it is first needed."""

    def __init__(self, kernel: Kernel, flush_operands: bool):
        self.kernel, self.flush_operands = kernel, flush_operands
        self.types, self.degrees = register_types(kernel), exactness.degrees_of(kernel)
        self.flush_operands |= exactness.may_make_subnormals(kernel, self.types)
        self._functions: dict = {}
        for block in kernel.blocks.values():
            # Now, so that what is unknown is met before memory is touched.
            writer = Writer(kernel, block, self.types, self.degrees, self.flush_operands)
            writer.each_instruction()

    def function(self, start: int, kept: frozenset):
        at_once = compiled.batch() is not None
        key = start, kept, at_once
        if key not in self._functions:
            block = self.kernel.blocks[start]
            self._functions[key] = translate(
                self.kernel, block, self.types, self.degrees, kept, self.flush_operands, at_once
            )
        return self._functions[key]


Check: TypeAlias = bool | Literal["strict"]


@dataclass
class PreparedLaunch:
    """One launch: a kernel, its shape and arguments. `parameters`: name -> NumPy scalar."""

    kernel: Kernel
    grid: Triple
    block: Triple
    parameters: dict[str, np.generic]
    memory: global_memory.GlobalMemory
    maps: MapsInMemory
    shared_bytes: int  # static and dynamic
    dynamic_bytes: int
    translation: Translation
    known_sums: dict[tuple[int, bool], exactness.KnownSum]
    count: bool
    check: Check
    cluster: Triple = (1, 1, 1)  # in blocks
    images: Mapping[int, Image] = field(default_factory=dict)  # textures and surfaces, by handle
    arch: str = SIMULATED_ARCH
    pending: Pending | None = None  # clusters that can be taken before they begin
    prints: bool = True  # whether what the kernel prints is to be seen


class TooLong(Exception):
    """A launch that would pass its time limit; the message says how long it would take."""


class Deadline:
    """When to give up: after `limit_s` seconds both on the wall and of processor time.

    Beside other work the first runs on, with several threads the second runs faster.
    """

    def __init__(self, limit_s: float):
        self.limit_s, self._begun = limit_s, time.monotonic()
        self._spent_s, self._lock = 0.0, threading.Lock()  # of what threads have finished
        self._working = threading.local()

    @contextmanager
    def at_work(self):
        """Around what a thread does for the launch."""
        self._working.since = begun = time.thread_time()
        try:
            yield
        finally:
            del self._working.since
            with self._lock:
                self._spent_s += time.thread_time() - begun

    @property
    def elapsed(self) -> float:
        """Seconds by the slower clock, without what other threads are just doing."""
        work, since = self._spent_s, getattr(self._working, "since", None)
        if since is not None:
            work += time.thread_time() - since
        return min(time.monotonic() - self._begun, work)

    @property
    def passed(self) -> bool:
        on_the_wall = time.monotonic() - self._begun  # asked often: the other clock can be slow
        return on_the_wall > self.limit_s and self.elapsed > self.limit_s

    def stop(self) -> None:
        self.limit_s = -1.0


class Chunk:
    """The lanes of some blocks, and all that is theirs: registers, shared memory, counts."""

    def __init__(self, launch: PreparedLaunch, ranges, record: Triple | None, deadline: Deadline):
        self.launch, self.ranges, self.record = launch, ranges, record
        self.counter = metrics.Counter()
        self.findings: dict = {}  # (kind, instruction) -> Finding
        self.recorded = Recorded()
        self.parameters, self.known_sums = launch.parameters, launch.known_sums
        self.magnitudes, self.stacks = Magnitudes(), Stacks()
        self.observed = launch.count or record is not None
        self.counting = Counting(self)
        self._lanes = None, 0  # the last mask, and how many lanes are in it
        self.deadline = deadline
        self._begun, self._is_last = False, False
        self.why_for_ever = ""  # what the grid has to say to a deadlock
        self._free: tuple | None = None
        self.changes = 0  # how often anything was changed that a lane can wait for
        self.printed = FirstLines(StringIO())
        self.fenced_maps: dict = {}  # (address, bytes) of a tensor map -> blocks that know it so
        self.executed = 0  # instructions, each counted once for all lanes that execute it together

    @property
    def blocks(self) -> int:
        return prod(last - first for first, last in self.ranges)

    @property
    def blocks_left(self) -> int:
        """Of which some thread has not returned yet."""
        return int((self.layout.per_block(self.alive) > 0).sum())

    def run(self) -> None:
        if not self.go_as_far_as_possible():
            self.go_as_far_as_possible(last=True)

    def go_as_far_as_possible(self, last: bool = False) -> bool:
        """Run until all lanes have returned, or (False) wait for other chunks, if any."""
        before, done = np.setbufsize(UFUNC_BUFFER), True
        try:
            with np.errstate(all="ignore"), self.deadline.at_work():
                if not self._begun:
                    self._prepare()
                    self._begun = True
                self.polling.try_again()
                self._is_last = last
                done = self._schedule()
        except BaseException:
            done = True
            raise
        finally:
            np.setbufsize(before)
            if done:  # these hold the chunk: let go of all its memory
                for name in (
                    "checker", "copies", "tensor_memory", "cluster_barrier", "polling", "counting",
                ):  # fmt: skip
                    setattr(self, name, None)
        return done

    def _prepare(self) -> None:
        launch = self.launch
        self.layout = Layout(self.ranges, launch.block, launch.grid, launch.cluster)
        self.shape, self.special = self.layout.shape, self.layout.special
        self.alive, self.barriers, self.copies = True, Barriers(self.layout), Copies(self)
        self.cluster_barrier = ClusterBarrier(self)
        self.shared = SharedMemory(self.layout, launch.shared_bytes, launch.kernel)
        self._of_cluster = ClusterMemory(self.layout, self.shared)
        # Where an address of `mapa` leads; a cluster of one block has no other.
        self.far = "cluster" if self.layout.cluster_size > 1 else "shared"
        self.tensor_memory = TensorMemory(self)
        self.local = LocalMemory(self.layout, launch.kernel.local_bytes)
        self.checker = Checker(self) if launch.check else None
        self.recorded_warps = self.layout.warps_of(self.record) if self.record else slice(0, 0)
        self.polling = Polling(self)
        self.registers = {n: t.type(0) for n, t in launch.translation.types.items()}
        # Instruction -> lanes that stand there: a mask, or True for all lanes of the chunk.
        self.ready: dict = {0: True}
        self.trying: dict = {}
        self._parked = False  # the lanes that the last instruction left at a barrier

    # --- who runs next --------------------------------------------------------------------------

    def _schedule(self) -> bool:
        blocks = self.launch.kernel.blocks
        while True:
            start = self._next()
            if start is None:
                if self.polling.places and not self._is_last:
                    return False
                self._report_deadlock()
                self.copies.finish()
                self.tensor_memory.finish()
                if self.checker and not any(kind == "deadlock" for kind, _ in self.findings):
                    self.checker.finish()
                return True
            self.go_on()
            mask = self.ready.pop(start)
            if self.polling.places:
                mask = self._without_held(start, mask)
            block = blocks[start]
            at_barriers: list = [
                *self.barriers.waiting, *self.barriers.in_warps, *self.cluster_barrier.waiting,
            ]  # fmt: skip
            elsewhere = [
                *self.ready, *self.trying, *self.polling.places,
                *(stopped.place for stopped in at_barriers),
            ]  # fmt: skip
            waiting = (blocks[place].live_in for place in elsewhere if place in blocks)
            kept = frozenset(block.defined.intersection(set().union(*waiting)))
            function = self.launch.translation.function(start, kept)
            if self.record is not None:
                warps = np.any(self.layout.to_warps(mask), axis=1)[self.recorded_warps]
                done = self.recorded
                first = len(done.accesses), len(done.boxes)
                done.stretches.append(Stretch(start, block.end, warps, *first))
            if self.checker:
                self.checker.executes(start, mask)
            condition = function(self.registers, self, mask)
            self.executed += block.end - start
            self.counter.executed.add(start)
            if self.checker:
                self.checker.warpgroups.executed(block, mask)
            self._continue(block, mask, condition)

    def _next(self) -> int | None:
        """Where the lanes stand that go next; None when all have returned, or nobody can go on."""
        blocks = self.launch.kernel.blocks
        held = False  # whether all lanes that can go on are of warps of which some rest
        while True:
            whole = [p for p in self.ready if self._whole(blocks[p], self.ready[p])]
            if whole and self.polling.places and not held:
                self._free = self.polling.hold({place: self.ready[place] for place in whole})
                held = self._free is None
                if self._free:
                    return self._free[0]
            elif whole:
                return min(whole)
            opened = self._open_barriers()
            if not opened and self.copies.advance():
                for place, mask in self.trying.items():
                    self._join(place, mask)
                opened, self.trying = bool(self.trying), {}
            if not opened and self.polling.places and (self._wake() or whole):
                continue
            if not opened and not self.ready and (not self.polling.places or self._is_last):
                opened = self._part_warps()
            if not opened:
                break
            self.changes += 1
        # If there are any, then only parts of warps, at instructions of the whole warp.
        return min(self.ready, default=None)

    def _without_held(self, start: int, mask):
        """The lanes of `mask`, which go on at `start`, that are not held; the others stay there."""
        if self._free is None or self._free[0] != start:
            return mask
        free, self._free = self._free[1], None
        if (stay := mask & ~free).any():
            self.ready[start] = stay
        return self._settle(free)

    def _wake(self) -> bool:
        """Let lanes that rest look again, if anything was changed; whether they do."""
        woken = self.polling.wake(self.changes)
        for place, mask in woken.items():
            self._join(place, mask)
        return bool(woken)

    def _whole(self, block, mask) -> bool:
        """Whether all living lanes of the warps in `mask`, or warpgroups, are in it, if need be."""
        if not block.whole_warp or mask is True or mask is self.alive:
            return True
        to_rows = self.layout.to_warps
        if block.whole_group:
            to_rows = partial(to_groups, self.layout)
        rows, alive = to_rows(mask), to_rows(self.alive)
        return bool((rows == alive)[rows.any(axis=1)].all())

    def _continue(self, block, mask, condition) -> None:
        last = self.launch.kernel.instructions[block.end - 1]
        if self._parked is not False:  # a barrier has taken these
            rest = self._settle(self.both(mask, ~np.asarray(self._parked)))
            self._parked = False
            self._join(block.end, rest)
            return
        leaves = last.name in ("bra", "ret", "exit")
        if condition is None:
            taken, rest = (mask, False) if leaves else (False, mask)
        elif np.ndim(condition) == 0:
            taken, rest = (mask, False) if condition else (False, mask)
        else:
            taken = self._settle(self.both(mask, condition))
            rest = self._settle(self.both(mask, ~condition))
        if last.waits_for_phase:
            self.shared.synchronized()
            self._join(block.end, taken)
            if rest is not False:
                self.trying[block.start] = rest | np.asarray(self.trying.get(block.start, False))
            return
        if last.name == "bra":
            polls = taken is not False and block.start in self.polling.branches
            if not (polls and self.polling.rests(block, taken)):
                self._join(block.target, taken)
        elif leaves:
            self._return(taken)
        self._join(block.end, rest)

    def _join(self, place: int, mask) -> None:
        if mask is False:
            return
        if place not in self.launch.kernel.blocks:  # past the last instruction
            self._return(mask)
        elif place in self.ready:
            self.ready[place] = self._settle(self.ready[place] | mask)
        else:
            self.ready[place] = mask

    def _return(self, mask) -> None:
        if mask is not False:
            self.alive = self._settle(self.both(self.alive, ~np.asarray(mask)))

    @staticmethod
    def both(a, b):
        """Lanes in both masks; True stands for all lanes."""
        if a is True or b is True:
            return b if a is True else a
        return a & b

    def _settle(self, mask):
        if isinstance(mask, bool) or not mask.any():
            return mask if isinstance(mask, bool) else False
        return True if mask.all() else mask

    # --- barriers -------------------------------------------------------------------------------

    def barrier(self, index: int, number, count, reduction, mask) -> None:
        """bar.sync: the lanes of `mask` wait. `count`: None for all threads of the block."""
        self._parked = mask
        self.barriers.wait(index + 1, number, count, mask, reduction)
        if self.checker:
            self.checker.arrive(index, number, count, mask, waits=True)

    def arrive(self, index: int, number, count, mask) -> None:
        """bar.arrive: the lanes of `mask` are counted as there and go on."""
        self.barriers.arrive(number, mask)
        if self.checker:
            self.checker.arrive(index, number, count, mask, waits=False)

    def warp_barrier(self, index: int, members, mask) -> None:
        """bar.warp.sync: the lanes of `mask` wait for those that `members` has the bits of."""
        self._parked = mask
        self.barriers.wait_in_warp(index + 1, members, mask)

    def cluster_wait(self, index: int, mask) -> None:
        self._parked = mask
        self.cluster_barrier.wait(index, mask)

    def fence_async(self, mask) -> None:
        """fence.proxy.async: what the lanes know is written is there for bulk stores and wgmma."""
        self.copies.mbarriers.fence_inits(mask)
        if self.checker:
            self.checker.races.fence_async(mask)

    def check_members(self, index: int, members, mask) -> None:
        """Find lanes that are named and missing, here and unnamed, or named by a different mask."""
        if (mask is True or mask is self.alive) and np.ndim(members) == 0 and members == -1:
            return
        members = self.layout.to_warps(members).view(np.uint32)
        rows = self.layout.active(mask)
        bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
        asked = np.bitwise_or.reduce(np.where(rows, members, np.uint32(0)), axis=1)[:, None]
        named = (members & bits) != 0
        missing = self.layout.to_warps(self.alive) & ((asked & bits) != 0) & ~rows
        wrong = missing | (rows & ~named)
        if ((members != members[:, :1]) & rows).any():
            pairs = ((members[:, :, None] & bits) != 0) & rows[:, :, None] & rows[:, None, :]
            wrong |= (pairs & (members[:, :, None] != members[:, None, :])).any(axis=2)
        wrong = self.layout.from_warps(wrong)
        what = (
            "lanes that its mask names are elsewhere or have another mask, or lanes are here "
            "that it does not name"
        )
        self.find("divergent warp", index, what, wrong)

    def _open_barriers(self) -> bool:
        opened = self.barriers.open(self.alive)
        if opened:
            self.shared.synchronized()
        for barrier in opened:
            if len(barrier.places) > 1:
                self._look_for_divergence(barrier)
            if self.checker:
                self.checker.open(barrier)
                if barrier.whole_block:
                    self.copies.mbarriers.met(barrier.blocks)
            for register, value in barrier.results:
                old = self.registers[register]
                self.registers[register] = np.where(barrier.lanes, value.astype(old.dtype), old)
            for place, mask in barrier.places.items():
                self._join(place, self._settle(mask))
        met = self.barriers.open_in_warps(self.alive)
        if met is not None:
            lanes, members, places = met
            if self.checker:
                self.checker.warp_barrier(members, lanes)
            for place, mask in places.items():
                self._join(place, self._settle(mask))
        gone_on = self.cluster_barrier.open(self.alive)
        for place, mask in gone_on.items():
            self._join(place, self._settle(mask))
        return bool(opened) or met is not None or bool(gone_on)

    def _part_warps(self) -> bool:
        """Let lanes go on that wait for others of their warp in vain; whether there are any."""
        stuck = self.barriers.in_warps
        for waiting in stuck:
            self.check_members(waiting.place - 1, waiting.members, waiting.mask)
        for place, mask in self.barriers.take_from_warps(np.True_).items():
            self._join(place, self._settle(mask))
        return bool(stuck)

    def _look_for_divergence(self, opened) -> None:
        """Lanes of one block ought to wait at the same instruction."""
        seen = np.zeros(self.shape, bool)  # lanes of blocks that wait at a barrier further up
        for place in sorted(opened.places):
            waiting = self.layout.full(opened.places[place])
            what = "some threads of the block wait at this barrier, others at one further up"
            self.find("divergent barrier", place - 1, what, seen & waiting & opened.whole_block)
            seen |= waiting.any(self.layout.thread_axes, keepdims=True)

    def _report_deadlock(self) -> None:
        stuck: list = [*self.barriers.waiting, *self.cluster_barrier.waiting]
        for waiting in stuck:
            what = "threads wait at this barrier for others that never come"
            self.find("deadlock", waiting.place - 1, what, waiting.mask)
        for place, mask in self.trying.items():
            missing = self.copies.mbarriers.missing(place, mask)
            what = f"threads wait for a phase of an mbarrier that nobody completes: {missing}"
            self.find("deadlock", place, what, mask)
        for place, mask in self.polling.places.items():
            what = "threads wait for ever in a loop for what nobody writes" + self.why_for_ever
            self.find("deadlock", place, what, mask)

    # --- what the translated blocks call ----------------------------------------------------------

    def member(self, parameter: str, offset: int, dtype: np.dtype):
        """What stands at byte `offset` of a structure that is a parameter."""
        raw = self.launch.memory.variables[parameter].view(np.dtype("u1"))
        return raw[offset : offset + dtype.itemsize].view(dtype)[0]

    def go_on(self) -> None:
        """Raise TooLong past the deadline, wherever the lanes stand."""
        if self.deadline.passed:
            raise TooLong("longer, for its first blocks alone")

    def load(self, index: int, space: str, addresses, dtype, count: int, mask):
        """`count` values per lane. `space`: as in the PTX, "cluster" or "generic"."""
        if space == "generic":
            parts = shared_memory.split(self, addresses, mask)
            if len(parts) > 1:
                values = [dtype.type(0)] * count
                for named, offsets, active in parts:
                    taken = self.load(index, named, offsets, dtype, count, active)
                    values = [np.where(active, a, b) for a, b in zip(taken, values, strict=True)]
                return values
            space, addresses, mask = parts[0]
        memory_, addresses = self.space(space), np.asarray(addresses)
        values, bad = global_memory.load(memory_, addresses, dtype, count, mask)
        if space == "global":
            self.forget_sums(addresses)
        if bad or self.observed or self.checker:
            self.note(index, space, "load", addresses, dtype.itemsize * count, mask, bad)
        return values

    def forget_sums(self, addresses=None) -> None:
        """Nothing is known of sums if what is read may be no argument: see exactness.py."""
        if addresses is None or self.launch.memory.has_written(addresses):
            self.known_sums = exactness.nothing_known()

    def load_shared(self, index: int, base, offset: int, dtype, count: int, mask):
        """As `load` from shared memory at base + offset."""
        if not self.checker and self.shared is not None:
            values = self.shared.take_from(base, offset, dtype, count, mask)
            if values is not None:
                if self.observed:
                    addresses, size = base + np.int32(offset), dtype.itemsize * count
                    self.counting.access(index, "shared", "load", addresses, size, mask)
                return values
        return self.load(index, "shared", base + np.int32(offset), dtype, count, mask)

    def store(self, index: int, space: str, addresses, values, dtype, mask) -> None:
        """The reverse of `load`: `values[i]` goes to the i-th element of each lane."""
        if space == "generic":
            for named, offsets, active in shared_memory.split(self, addresses, mask):
                self.store(index, named, offsets, values, dtype, active)
            return
        memory_, addresses = self.space(space), np.asarray(addresses)
        if self.checker and space in ("shared", "cluster"):
            self.checker.races.about_to_store(addresses, values, dtype, mask, space)
        elif self.checker and space == "global":
            self.checker.global_races.about_to_store(addresses, values, dtype, mask)
        bad = global_memory.store(memory_, addresses, values, dtype, mask)
        self.changes += space != "local"
        if bad or self.observed or self.checker:
            size = dtype.itemsize * len(values)
            self.note(index, space, "store", addresses, size, mask, bad)

    def count_fma(self, count: int, mask) -> None:
        if self.launch.count:
            if self._lanes[0] is not mask:  # a loop asks again and again for the same mask
                self._lanes = mask, int(self.layout.full(mask).sum())
            self.counter.events[metrics.FMA_METRIC] += count * self._lanes[1]

    def count_product(self, multiply_adds: int, hmma: int, mask, imma: int = 0) -> None:
        """Count one product of matrices, and how many instructions the GPU makes of it."""
        if self.launch.count:
            warps = int(self.layout.distinct_warps(mask, ()).times.sum())
            self.counter.tensor_multiply_adds += warps * multiply_adds
            self.counter.events[metrics.HMMA_METRIC] += warps * hmma
            self.counter.events[metrics.IMMA_METRIC] += warps * imma

    def count_idle_loads(self, index: int, mask) -> None:
        """Count the loads of no lane that come before the asynchronous copy `index`, if any."""
        if self.launch.count and index in merging.copies_after_idle_loads(self.launch.kernel):
            warps = int(self.layout.distinct_warps(mask, ()).times.sum())
            key = self.line(index), "shared", "load", SHARED
            self.counter.add_again(key, metrics.Cost(merging.IDLE_LOADS * warps, 0, 0, 0))

    def count_far(self, what: str, addresses, mask) -> None:
        """Count an instruction for each warp of which a lane reaches another block's memory."""
        rank = self.special["cluster_ctarank"]
        reaches = (ranks_of(self.layout, addresses) != rank) & mask
        warps = self.layout.to_warps(reaches).any(axis=1)
        if warps.any():
            counted.count(self, what, int(warps.sum()))

    def space(self, name: str):
        spaces = {"shared": self.shared, "local": self.local, "cluster": self._of_cluster}
        return spaces.get(name, self.launch.memory)

    def note(self, index, space, operation, addresses, size, mask, bad, unit=None) -> None:
        """Tell of an access of `size` bytes a lane. `unit`: what counts it, such as "ldmatrix"."""
        self.check_access(index, space, operation, addresses, size, mask, bad)
        if self.observed and space in ("global", "shared"):
            self.counting.access(index, space, unit or operation, addresses, size, mask)

    def check_access(self, index, space, operation, addresses, size, mask, bad) -> None:
        """As `note`, for findings and checks alone."""
        right = self.find_bad(index, "read" if operation == "load" else "write", bad, mask)
        if self.checker:
            self.checker.access(index, space, operation, addresses, size, right)
        if space == "cluster" and self.launch.count and operation in ("load", "store"):
            what = {"load": "dshared_ld", "store": "dshared_st"}[operation]
            self.count_far(what, addresses, mask)

    # --- findings ---------------------------------------------------------------------------------

    def line(self, index: int) -> int:
        """The source line of an instruction."""
        return self.launch.kernel.instructions[index].line

    def find_bad(self, index: int, does: str, bad, mask=True):
        """Find BadAccesses; `does`: "read" or "write". Returns the other lanes of `mask`."""
        for access in bad:
            self.find(f"{access.problem} {does}", index, access.what, access.lanes)
            mask = self.both(mask, ~access.lanes)
        return mask

    def find(self, kind: str, index: int, what: str, lanes) -> None:
        """Keep the first finding of each kind and place. `lanes`: who did it, perhaps nobody."""
        instruction = self.launch.kernel.instructions[index]
        lanes = np.broadcast_to(lanes, self.shape)
        key = (kind, instruction.where)
        if key not in self.findings and lanes.any():
            self.findings[key] = Finding(
                kind, self.launch.kernel.name, instruction.line, *self.layout.first(lanes), what,
                int(lanes.sum()), instruction.header,
            )  # fmt: skip
