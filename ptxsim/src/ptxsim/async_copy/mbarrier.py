"""mbarriers: counters in shared memory, of arrivals and of bytes that copies write.

A phase completes when all expected arrivals have come and the bytes that are expected equal those
that were brought. What is kept of an mbarrier is kept here, by its address; the eight bytes in
shared memory stay as they are. The 64-bit state that an arrival returns is an encoding of the
simulator's own: the number of the phase above, the arrivals that were missing below.

An address may lead to an mbarrier of another block of the cluster: `at` below, a Place, puts
together what lanes do by the block of their mbarrier.
"""

from __future__ import annotations

import numpy as np

from ptxsim.threads import clusters

BYTES = 8
MOST = 2**20 - 1  # arrivals, and bytes that may be expected
COUNT_BITS = 20  # of a state


class Mbarrier:
    """The mbarrier at one address, for all blocks: each array has an entry per block."""

    def __init__(self, blocks: int):
        self.blocks = blocks
        self.valid = np.zeros(blocks, bool)
        self.expected = np.zeros(blocks, np.int64)  # arrivals per phase
        self.missing = np.zeros(blocks, np.int64)  # arrivals until this phase is complete
        self.bytes = np.zeros(blocks, np.int64)  # still to be brought; below 0 if brought before
        self.landed = np.zeros(blocks, np.int64)  # bytes that were brought in this phase
        self.phase = np.zeros(blocks, np.int64)  # how many are complete
        self.announced = np.full(blocks, -1)  # the last instruction that did, or -1
        # The thread of the block that initialised it and has executed no fence since; or -1.
        self.unfenced = np.full(blocks, -1)
        # Whether since then there was neither a fence nor a barrier of the block.
        self.is_new = np.zeros(blocks, bool)


class Place:
    """Mbarriers at one place, in the blocks of the numbers `blocks`; None: the lane's own block."""

    def __init__(self, layout, blocks=None):
        self.layout, self.is_near = layout, blocks is None
        self._of = layout.block_number if blocks is None else np.asarray(blocks)
        self.blocks = layout.full(self._of)

    def reduce(self, values, ufunc=np.add):
        """(blocks,): the values of the lanes by the block of their mbarrier, by default summed."""
        if self.is_near:
            return self.layout.per_block(values, ufunc.reduce)
        sums = np.zeros(self.layout.blocks, np.int64)
        ufunc.at(sums, self.blocks, self.layout.full(values))
        return sums

    def of(self, values):
        return np.asarray(values)[self._of]

    def far(self, mask):
        """The lanes of `mask` whose mbarrier is in another block."""
        return mask & (self.blocks != self.layout.block_number)


class Mbarriers:
    """The mbarriers of a chunk. `addresses` are int32, bytes from the start of shared memory."""

    def __init__(self, lanes):
        self.lanes, self.layout = lanes, lanes.layout
        self.changed = False  # whether a phase was completed since this was last set to False
        self._known: dict[int, Mbarrier] = {}
        self._near = Place(self.layout)
        self._coming: dict[int, tuple] = {}  # by address: bytes of each block, and who brings them
        self._tried: dict[int, np.ndarray] = {}  # by instruction: the addresses last looked at

    def init(self, index: int, addresses, count, mask) -> None:
        for address, here, at in self._in_bounds(index, addresses, mask):
            count = np.asarray(count)
            if self.lanes.checker:
                self._tell_checker(index, address, count, here)
            wrong = ((count < 1) | (count > MOST)) & here
            what = f"the count of an mbarrier must be 1 to {MOST}"
            self.lanes.find("wrong mbarrier count", index, what, wrong)
            barrier = self._known.setdefault(address, Mbarrier(self.layout.blocks))
            blocks = at.reduce(here) > 0
            most = at.reduce(np.where(here, count, 0), np.maximum)
            for values in (barrier.expected, barrier.missing):
                values[blocks] = most[blocks]
            if self.lanes.checker:
                self.lanes.checker.mbarrier_initialised(address, blocks)
            barrier.valid[blocks], barrier.phase[blocks] = True, 0
            barrier.bytes[blocks], barrier.landed[blocks] = 0, 0
            thread = np.where(here, self.layout.thread_number, self.layout.threads)
            barrier.unfenced[blocks] = self.layout.per_block(thread, np.min)[blocks]
            barrier.is_new[blocks] = True

    def fence_inits(self, mask) -> None:
        """Other blocks, and copies, may use what the lanes of `mask` have initialised."""
        fences = np.zeros((self.layout.blocks, self.layout.threads), bool)
        block, thread = self.layout.block_number, self.layout.thread_number
        fences[self.layout.of(block, mask), self.layout.of(thread, mask)] = True
        for address, barrier in self._known.items():
            fenced = fences[np.arange(barrier.blocks), barrier.unfenced] & (barrier.unfenced >= 0)
            barrier.unfenced[fenced] = -1
            barrier.is_new[fenced] = False
            if self.lanes.checker and fenced.any():
                self.lanes.checker.cluster.fenced(address, fenced)

    def look_for_unfenced(self, index: int, addresses, mask) -> None:
        """Find copies that are to tell an mbarrier whose initialisation they may not see.

        By the manual only a fence makes it known; Triton's kernels have a barrier instead.
        """
        for address, barrier, here, at in self._valid(index, addresses, mask):
            what = f"the mbarrier at byte {address} was initialised, with no fence or barrier since"
            self.lanes.find("mbarrier not fenced", index, what, at.of(barrier.is_new) & here)

    def met(self, blocks) -> None:
        """All threads of the `blocks`, a (blocks,) mask, have met at a barrier."""
        for barrier in self._known.values():
            barrier.is_new &= ~blocks

    def _tell_checker(self, index: int, address: int, count, here) -> None:
        """Of the initialisations that change something: many threads may do the same alike."""
        barrier = self._known.get(address)
        here = self.layout.full(here)
        if barrier is not None:
            untouched = (barrier.missing == barrier.expected) & (barrier.bytes == 0)
            fresh = barrier.valid & (barrier.phase == 0) & untouched
            alike = self.layout.of_block(fresh) & (self.layout.of_block(barrier.expected) == count)
            here = here & ~alike
        counts = self.layout.full(count)
        most = self.layout.of_block(self._near.reduce(np.where(here, counts, 0), np.maximum))
        if (most == counts)[here].all():  # they agree: a thread of each block stands for all
            number = np.where(here, self.layout.thread_number, self.layout.threads)
            first = self.layout.of_block(self.layout.per_block(number, np.min))
            here = here & (number == first)
        if here.any():
            self.lanes.checker.access(index, "shared", "store", np.int32(address), BYTES, here)

    def invalidate(self, index: int, addresses, mask) -> None:
        for _, barrier, here, at in self._valid(index, addresses, mask):
            if self.lanes.checker:
                self.lanes.checker.access(index, "shared", "store", addresses, BYTES, here)
            barrier.valid[at.reduce(here) > 0] = False

    def arrive(self, index: int, addresses, count, expected_bytes, mask, drop=False):
        """Each lane announces bytes and arrives; int64 states. `drop`: for all coming phases."""
        states = np.zeros(self.layout.shape, np.int64)
        for address, barrier, here, at in self._valid(index, addresses, mask):
            if self.lanes.checker:
                here = self._fitting(index, barrier, count, here, at)
            counts = self.layout.full(np.where(here, count, 0))
            arrivals, before = at.reduce(counts), None
            if (arrivals > barrier.missing).any():
                before = self._before(counts, at.blocks)
            if at.is_near:  # an arrival at another block's gives no state
                states = np.where(here, self._states(barrier, before, at), states)
            announced = at.reduce(np.where(here, expected_bytes, 0))
            barrier.bytes += announced
            barrier.announced[announced > 0] = index
            if drop:
                barrier.expected -= arrivals
            self._arrived(index, address, addresses, arrivals, before, here, at)
        return states

    def _fitting(self, index: int, barrier: Mbarrier, count, lanes, at):
        """`lanes` without those that arrive when the instruction of their warp has already brought
        all arrivals that were pending in the phase: there a GPU stops the kernel."""
        counts = self.layout.full(np.where(lanes, count, 0))
        if (at.reduce(counts) <= barrier.missing).all():
            return lanes
        block = at.blocks * self.layout.blocks + self.layout.block_number
        warp = block * self.layout.warps_per_block + self.layout.special["warpid"]
        in_warp = self._before(counts, warp)
        before_warp = self._before(counts, at.blocks) - in_warp
        pending = pending_count(self._states(barrier, before_warp, at))
        over = lanes & (in_warp + counts > pending)
        what = "a warp arrives more often in one instruction than arrivals are pending in the phase"
        self.lanes.find("mbarrier overflow", index, what, over)
        return lanes & ~over

    def _before(self, counts, groups):
        """How many arrivals of its group come before each lane's, in the order of threads."""
        thread = self.layout.block_number * self.layout.threads + self.layout.thread_number
        thread, groups = (np.broadcast_to(v, counts.shape).reshape(-1) for v in (thread, groups))
        order = np.lexsort((thread, groups))
        arrivals, groups = counts.reshape(-1)[order], groups[order]
        sums = np.cumsum(arrivals) - arrivals
        before = np.empty_like(sums)
        before[order] = sums - sums[np.searchsorted(groups, groups)]
        return before.reshape(self.layout.shape)

    def _arrived(self, index: int, address: int, addresses, arrivals, before, lanes, at) -> None:
        """`arrivals`: (blocks,). Those beyond a complete phase belong to the next phase."""
        barrier, left, done = self._known[address], np.array(arrivals), np.zeros_like(arrivals)
        while True:
            now = np.minimum(left, barrier.missing)
            if self.lanes.checker:
                here = lanes
                if before is not None:
                    here = lanes & (before >= at.of(done)) & (before < at.of(done + now))
                self.lanes.checker.mbarrier_arrive(index, addresses, here)
            done = done + now
            barrier.missing -= now
            left = left - now
            completed = self._complete(address, barrier)
            if not (left > 0).any():
                return
            if not (completed & (left > 0)).any():
                over = at.of(left > 0) & lanes
                what = "more arrivals than the count of the mbarrier, in one phase"
                self.lanes.find("mbarrier overflow", index, what, over)
                return

    def expect_bytes(self, index: int, addresses, number, mask) -> None:
        """More bytes to be brought (number > 0), or bytes that were brought (number < 0)."""
        for address, barrier, here, at in self._valid(index, addresses, mask):
            if self.lanes.checker:
                self.lanes.checker.mbarrier_look(index, addresses, here)
            barrier.bytes += at.reduce(np.where(here, number, 0))
            barrier.landed -= at.reduce(np.where(here, np.minimum(number, 0), 0))
            self._too_many_bytes(index, barrier, here, at)
            self._complete(address, barrier)

    def comes(self, index: int, addresses, size: int, mask) -> None:
        """As `brought`, of copies that land next: they are added up first."""
        for address, here, at in self._by_place(addresses, mask):
            total, _, _ = self._coming.get(address, (0, index, here))
            self._coming[address] = total + at.reduce(here) * size, index, here

    def look_at_what_comes(self) -> None:
        """Find phases that only wait for bytes, and for fewer than those that come."""
        for address, (number, index, lanes) in self._coming.items():
            barrier = self._known.get(address, Mbarrier(self.layout.blocks))
            wrong = barrier.valid & (barrier.missing == 0) & (barrier.bytes < number) & (number > 0)
            if wrong.any():
                block = int(wrong.argmax())
                what = (
                    f"the copies have {number[block]} bytes, and the phase of the mbarrier waits "
                    f"for {barrier.bytes[block]}"
                )
                self.lanes.find("wrong transaction bytes", index, what, lanes)
        self._coming = {}

    def brought(self, index: int, addresses, size: int, mask) -> None:
        for address, here, at in self._by_place(addresses, mask):
            barrier, number = self._known.get(address), at.reduce(here) * size
            if barrier is None or not barrier.valid[number > 0].all():
                what = "a copy is to tell an mbarrier that is not initialised"
                self.lanes.find("uninitialised mbarrier", index, what, here)
                continue
            unfenced = at.far(here) & at.of(barrier.unfenced >= 0)
            what = (
                "a copy tells an mbarrier of another block, where the thread that initialised "
                "it has executed no fence.mbarrier_init since"
            )
            self.lanes.find("mbarrier not fenced", index, what, unfenced)
            barrier.bytes -= number
            barrier.landed += number
            self._too_many_bytes(index, barrier, here, at)
            self._complete(address, barrier)

    def expect_arrivals(self, index: int, addresses, mask) -> None:
        for _, barrier, here, at in self._valid(index, addresses, mask):
            barrier.missing += at.reduce(here)

    def completed(self, index: int, addresses, waited, by_parity: bool, mask):
        """Whether the phase is complete that has the parity or the state `waited`: bool."""
        result = np.zeros(self.layout.shape, bool)
        self._tried[index] = addresses
        for _, barrier, here, at in self._valid(index, addresses, mask):
            if (other := at.far(here)).any():
                what = "waits for an mbarrier of another block: a thread waits for its own block's"
                self.lanes.find("wait in another block", index, what, other)
            if self.lanes.checker:
                self.lanes.checker.mbarrier_look(index, addresses, here)
            phase = at.of(barrier.phase)
            if by_parity:
                done = (phase & 1) != (np.asarray(waited) & 1)
            else:
                done = phase != (np.asarray(waited) >> COUNT_BITS)
            done = done & here
            if self.lanes.checker and np.any(done):
                self.lanes.checker.mbarrier_acquire(index, addresses, done, by_parity)
            result |= done
        return result

    def finish(self) -> None:
        for barrier in self._known.values():
            wrong = barrier.valid & (barrier.bytes != 0) & (barrier.announced >= 0)
            if not wrong.any() or self.lanes.findings:
                continue
            block = int(wrong.argmax())
            bytes_left, index = int(barrier.bytes[block]), int(barrier.announced[block])
            how = f"{bytes_left} fewer" if bytes_left > 0 else f"{-bytes_left} more"
            what = f"in the end {how} bytes were copied than this mbarrier expects"
            lanes = self.layout.block_number == block
            self.lanes.find("wrong transaction bytes", index, what, lanes)

    def missing(self, index: int, lanes) -> str:
        """What the first of `lanes` waits for that looked at an mbarrier in instruction `index`."""
        address = int(self.layout.of(self._tried[index], lanes)[0]) & clusters.PLACE
        block = int(self.layout.of(self.layout.block_number, lanes)[0])
        barrier = self._known.get(address)
        if barrier is None or not barrier.valid[block]:
            return "it is not initialised"
        expected, arrivals = barrier.bytes[block] + barrier.landed[block], barrier.missing[block]
        text = f"{arrivals} of {barrier.expected[block]} arrivals are missing"
        if expected or barrier.landed[block]:
            text += f", {expected} bytes are expected, {barrier.landed[block]} have landed"
        return text

    def _complete(self, address: int, barrier: Mbarrier):
        done = barrier.valid & (barrier.missing == 0) & (barrier.bytes == 0)
        if done.any():
            barrier.phase[done] += 1
            barrier.missing[done], barrier.landed[done] = barrier.expected[done], 0
            self.changed = True
            if self.lanes.checker:
                self.lanes.checker.phase_completed(address, done)
        return done

    def _too_many_bytes(self, index: int, barrier: Mbarrier, lanes, at) -> None:
        wrong = at.of(np.abs(barrier.bytes) > MOST) & lanes
        what = f"an mbarrier can count {MOST} bytes at most"
        self.lanes.find("mbarrier overflow", index, what, wrong)

    def _states(self, barrier: Mbarrier, before, at):
        phase, missing, expected = map(at.of, (barrier.phase, barrier.missing, barrier.expected))
        if before is None:
            return phase << COUNT_BITS | missing
        late, expected = before - missing, np.maximum(expected, 1)
        number = phase + np.where(late < 0, 0, 1 + late // expected)
        left = np.where(late < 0, -late, expected - late % expected)
        return number << COUNT_BITS | left

    def _in_bounds(self, index: int, addresses, mask):
        """[(address, lanes, at)] of the places that can hold an mbarrier."""
        addresses = np.asarray(addresses)
        far = self.layout.cluster_size > 1 and clusters.are_far(np.where(mask, addresses, 0))
        memory = self.lanes.space("cluster") if far else self.lanes.shared
        [(_, _, allowed)], bad = memory.locate(addresses, BYTES, mask)
        self.lanes.find_bad(index, "write", bad)
        return self._by_place(addresses, allowed)

    def _by_place(self, addresses, mask):
        """[(address, lanes, at)], for each place in shared memory that the lanes name."""
        addresses = np.asarray(addresses)
        if not np.any(mask):
            return []
        at = self._near
        if self.layout.cluster_size > 1 and clusters.are_far(np.where(mask, addresses, 0)):
            at = Place(self.layout, clusters.owners(self.layout, addresses)[0])
            addresses = clusters.place_of(addresses)
        if addresses.size == 1:
            return [(int(addresses.flat[0]), mask, at)]
        addresses, mask = np.broadcast_arrays(addresses, mask)
        return [
            (int(place), mask & (addresses == place), at) for place in np.unique(addresses[mask])
        ]

    def _valid(self, index: int, addresses, mask):
        """[(address, Mbarrier, lanes, at)]; those that are not initialised are findings."""
        usable = []
        for address, here, at in self._in_bounds(index, addresses, mask):
            barrier = self._known.setdefault(address, Mbarrier(self.layout.blocks))
            if not barrier.valid.all():
                wrong = ~at.of(barrier.valid) & here
                if np.any(wrong):
                    what = f"the mbarrier at byte {address} of shared memory is not initialised"
                    self.lanes.find("uninitialised mbarrier", index, what, wrong)
                    here = here & ~wrong
            if np.any(here):
                usable.append((address, barrier, here, at))
        return usable


def pending_count(states):
    """How many arrivals were missing when the state was taken, int64 to int32."""
    return (np.asarray(states) & ((1 << COUNT_BITS) - 1)).astype(np.int32)
