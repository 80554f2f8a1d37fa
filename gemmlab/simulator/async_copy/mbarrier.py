"""mbarriers: counters in shared memory, of arrivals and of bytes that copies bring.

A phase completes when all expected arrivals have come and the bytes that are expected equal those
that were brought. What is kept of an mbarrier is kept here, by its address; the eight bytes in
shared memory stay as they are. The 64-bit state that an arrival returns is an encoding of the
simulator's own: the number of the phase above, the arrivals that were missing below.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

BYTES = 8
MOST = 2**20 - 1  # arrivals, and bytes that may be expected
COUNT_BITS = 20  # of a state


@dataclass
class Mbarrier:
    """The mbarrier at one address, for all blocks: each array has an entry per block."""

    blocks: int
    valid: np.ndarray = field(init=False)
    expected: np.ndarray = field(init=False)  # arrivals per phase
    missing: np.ndarray = field(init=False)  # arrivals until this phase is complete
    bytes: np.ndarray = field(init=False)  # still to be brought; below 0 if brought before
    landed: np.ndarray = field(init=False)  # bytes that were brought in this phase
    phase: np.ndarray = field(init=False)  # how many are complete

    def __post_init__(self):
        self.valid = np.zeros(self.blocks, bool)
        for name in ("expected", "missing", "bytes", "landed", "phase"):
            setattr(self, name, np.zeros(self.blocks, np.int64))


class Mbarriers:
    """The mbarriers of a chunk. `addresses` are int32, bytes from the start of shared memory."""

    def __init__(self, lanes):
        self.lanes, self.layout = lanes, lanes.layout
        self.changed = False  # whether a phase was completed since this was last set to False
        self._known: dict[int, Mbarrier] = {}
        self._tried: dict[int, np.ndarray] = {}  # by instruction: the addresses last looked at

    def init(self, index: int, addresses, count, mask) -> None:
        for address, here in self._in_bounds(index, addresses, mask):
            count = np.asarray(count)
            if self.lanes.checker:
                self._tell_checker(index, address, count, here)
            wrong = ((count < 1) | (count > MOST)) & here
            if np.any(wrong):
                what = f"the count of an mbarrier must be 1 to {MOST}"
                self.lanes.find("wrong mbarrier count", index, what, wrong)
            one = self._known.setdefault(address, Mbarrier(self.layout.blocks))
            blocks = self.layout.per_block(here) > 0
            most = self._most(count, here)
            for values in (one.expected, one.missing):
                values[blocks] = most[blocks]
            one.valid[blocks], one.phase[blocks] = True, 0
            one.bytes[blocks], one.landed[blocks] = 0, 0

    def _tell_checker(self, index: int, address: int, count, here) -> None:
        """Of the initialisations that change something: many threads may do the same alike."""
        one = self._known.get(address)
        here = np.broadcast_to(here, self.layout.shape)
        if one is not None:
            fresh = one.valid & (one.phase == 0) & (one.missing == one.expected) & (one.bytes == 0)
            alike = self.layout.of_block(fresh) & (self.layout.of_block(one.expected) == count)
            here = here & ~alike
        counts = np.broadcast_to(count, self.layout.shape)
        most = self.layout.of_block(self._most(counts, here))
        if (most == counts)[here].all():  # they agree: one of each block stands for all
            number = np.where(here, self.layout.thread_number, self.layout.threads)
            first = self.layout.of_block(self.layout.per_block(number, np.min))
            here = here & (number == first)
        if here.any():
            self.lanes.checker.mbarrier_init(index, np.int32(address), here)

    def invalidate(self, index: int, addresses, mask) -> None:
        for address, one, here in self._valid(index, addresses, mask):
            if self.lanes.checker:
                self.lanes.checker.mbarrier_init(index, np.int32(address), here)
            one.valid[self.layout.per_block(here) > 0] = False

    def arrive(self, index: int, addresses, count, expected_bytes, mask, drop=False):
        """Each lane arrives `count` times, after it has announced the bytes; int64 states.

        `drop`: the coming phases expect that many arrivals less.
        """
        states = np.zeros(self.layout.shape, np.int64)
        for address, one, here in self._valid(index, addresses, mask):
            if self.lanes.checker:
                self.lanes.checker.mbarrier_arrive(index, np.int32(address), here)
            counts = np.where(here, count, 0)
            arrivals = self.layout.per_block(counts)
            states = np.where(here, self._states(one, counts, arrivals), states)
            one.bytes += self.layout.per_block(np.where(here, expected_bytes, 0))
            if drop:
                one.expected -= arrivals
            self.arrived(index, address, arrivals, here)
        return states

    def arrived(self, index: int, address: int, arrivals, lanes) -> None:
        """`arrivals`: (blocks,). Those beyond a phase that is complete belong to the next one."""
        one, left = self._known[address], np.array(arrivals)
        while True:
            now = np.minimum(left, one.missing)
            one.missing -= now
            left = left - now
            completed = self._complete(address, one)
            if not (left > 0).any():
                return
            if not (completed & (left > 0)).any():
                over = self.layout.of_block(left > 0) & lanes
                what = "more arrivals than the count of the mbarrier, in one phase"
                self.lanes.find("mbarrier overflow", index, what, over)
                return

    def expect_bytes(self, index: int, addresses, number, mask) -> None:
        """More bytes to be brought (number > 0), or bytes that were brought (number < 0)."""
        for address, one, here in self._valid(index, addresses, mask):
            if self.lanes.checker:
                self.lanes.checker.mbarrier_look(index, np.int32(address), here)
            one.bytes += self.layout.per_block(np.where(here, number, 0))
            one.landed -= self.layout.per_block(np.where(here, np.minimum(number, 0), 0))
            self._too_many_bytes(index, one, here)
            self._complete(address, one)

    def brought(self, index: int, address: int, number, lanes) -> None:
        """`number`: (blocks,) bytes that copies have brought."""
        one = self._known.get(address)
        if one is None or not one.valid[number > 0].all():
            what = "a copy is to tell an mbarrier that is not initialised"
            self.lanes.find("uninitialised mbarrier", index, what, lanes)
            return
        one.bytes -= number
        one.landed += number
        self._too_many_bytes(index, one, lanes)
        self._complete(address, one)

    def expect_arrivals(self, index: int, addresses, mask) -> None:
        """This phase waits for one arrival more of each lane."""
        for _, one, here in self._valid(index, addresses, mask):
            one.missing += self.layout.per_block(here)

    def completed(self, index: int, addresses, waited, by_parity: bool, mask):
        """Whether the phase is complete that has the parity or the state `waited`: bool."""
        result = np.zeros(self.layout.shape, bool)
        self._tried[index] = addresses
        for address, one, here in self._valid(index, addresses, mask):
            if self.lanes.checker:
                self.lanes.checker.mbarrier_look(index, np.int32(address), here)
            phase = self.layout.of_block(one.phase)
            if by_parity:
                done = (phase & 1) != (np.asarray(waited) & 1)
            else:
                done = phase != (np.asarray(waited) >> COUNT_BITS)
            done = done & here
            if self.lanes.checker and np.any(done):
                self.lanes.checker.mbarrier_acquire(index, np.int32(address), done)
            result |= done
        return result

    def missing(self, index: int, lanes) -> str:
        """What the first of `lanes` waits for that looked at an mbarrier in instruction `index`."""
        lanes = np.broadcast_to(lanes, self.layout.shape)
        address = int(np.broadcast_to(self._tried[index], lanes.shape)[lanes][0])
        block = int(np.broadcast_to(self.layout.block_number, lanes.shape)[lanes][0])
        one = self._known.get(address)
        if one is None or not one.valid[block]:
            return "it is not initialised"
        expected, arrivals = one.bytes[block] + one.landed[block], one.missing[block]
        text = f"{arrivals} of {one.expected[block]} arrivals are missing"
        if expected or one.landed[block]:
            text += f", {expected} bytes are expected, {one.landed[block]} have landed"
        return text

    def _complete(self, address: int, one: Mbarrier):
        done = one.valid & (one.missing == 0) & (one.bytes == 0)
        if done.any():
            one.phase[done] += 1
            one.missing[done], one.landed[done] = one.expected[done], 0
            self.changed = True
            if self.lanes.checker:
                self.lanes.checker.phase_completed(address, done)
        return done

    def _too_many_bytes(self, index: int, one: Mbarrier, lanes) -> None:
        wrong = self.layout.of_block(np.abs(one.bytes) > MOST) & lanes
        if wrong.any():
            what = f"an mbarrier can count {MOST} bytes at most"
            self.lanes.find("mbarrier overflow", index, what, wrong)

    def _states(self, one: Mbarrier, counts, arrivals):
        phase, missing = one.phase, one.missing
        if (arrivals <= missing).all():
            return self.layout.of_block(phase << COUNT_BITS | missing)
        # Some arrive after others have completed the phase: threads come in their order.
        rows = self.layout.to_warps(counts).reshape(self.layout.blocks, -1)
        before = np.cumsum(rows, axis=1) - rows
        late = before - missing[:, None]
        expected = np.maximum(one.expected, 1)[:, None]
        number = phase[:, None] + np.where(late < 0, 0, 1 + late // expected)
        left = np.where(late < 0, -late, expected - late % expected)
        return self.layout.from_warps(number << COUNT_BITS | left)

    def _most(self, values, mask):
        return self.layout.per_block(np.where(mask, values, 0), np.max)

    def _in_bounds(self, index: int, addresses, mask):
        """[(address, lanes)] of the places that can hold an mbarrier."""
        addresses = np.asarray(addresses)
        [(_, _, allowed)], bad = self.lanes.shared.locate(addresses, BYTES, mask)
        for access in bad:
            self.lanes.find(f"{access.problem} write", index, access.what, access.lanes)
        if not np.any(allowed):
            return []
        if addresses.size == 1:
            return [(int(addresses.flat[0]), allowed)]
        addresses, allowed = np.broadcast_arrays(addresses, allowed)
        return [(int(one), allowed & (addresses == one)) for one in np.unique(addresses[allowed])]

    def _valid(self, index: int, addresses, mask):
        """[(address, Mbarrier, lanes)]; those that are not initialised are findings."""
        found = []
        for address, here in self._in_bounds(index, addresses, mask):
            one = self._known.setdefault(address, Mbarrier(self.layout.blocks))
            if not one.valid.all():
                wrong = ~self.layout.of_block(one.valid) & here
                if np.any(wrong):
                    what = f"the mbarrier at byte {address} of shared memory is not initialised"
                    self.lanes.find("uninitialised mbarrier", index, what, wrong)
                    here = here & ~wrong
            if np.any(here):
                found.append((address, one, here))
        return found


def pending_count(states):
    """How many arrivals were missing when the state was taken, int64 to int32."""
    return (np.asarray(states) & ((1 << COUNT_BITS) - 1)).astype(np.int32)
