"""Mistakes that hardware hides: races, reads of what nobody wrote, barriers that threads miss.

The rest of the simulator tells the Checker what happens, through the methods below. Addresses are
bytes from the start of the block's shared memory (int, broadcastable to all lanes), `mask` the
lanes concerned (True: all), `size` the bytes of each lane, `index` the instruction.
"""

from __future__ import annotations


class Checker:
    """Watches the accesses and barriers of a chunk."""

    def __init__(self, lanes):
        self.lanes = lanes

    # --- accesses: called through lanes.note ------------------------------------------------------

    def access(self, index: int, space: str, operation: str, addresses, size: int, mask) -> None:
        """`size` bytes per lane, all inside their memory. `operation`: "load", "store", "atomic".

        Of an atomic on shared memory too: two atomics never race, an atomic and a load can.
        """

    # --- barriers of blocks and warps -------------------------------------------------------------

    def arrive(self, index: int, number, mask) -> None:
        """The lanes of `mask` come to barrier `number` of their block."""

    def open(self, opened) -> None:
        """A barrier opens: a barriers.Opened."""

    def warp_barrier(self, index: int, members, mask) -> None:
        """The lanes of `mask` synchronise with those of their warp that `members` names."""

    # --- asynchronous copies ----------------------------------------------------------------------

    def copy_started(self, index: int, addresses, size: int, mask) -> None:
        """Each lane of `mask` starts a copy into `size` bytes of shared memory, from `addresses`.

        `size` may be large (a tile of a bulk copy). Until `copy_landed` is told of the same bytes,
        whoever reads or writes them makes a mistake.
        """

    def copy_landed(self, index: int, addresses, size: int, mask, barrier=None) -> None:
        """The copies that the lanes of `mask` started at instruction `index` are complete.

        `barrier` None: the same lanes have just waited for them (cp.async.wait_group), so that the
        bytes count as written by them now. Otherwise the byte address of the mbarrier that tells
        of the copy (bulk copies, cp.async.mbarrier.arrive): who sees that mbarrier's phase complete
        knows the bytes, and nobody else. Call `phase_completed` after it.
        """

    def source_started(self, index: int, addresses, size: int, mask) -> None:
        """Shared memory is read asynchronously from now on: the source of a bulk store, wgmma.

        Until `source_released`, whoever writes those bytes makes a mistake.
        """

    def source_released(self, index: int, addresses, size: int, mask) -> None:
        """The lanes that started the asynchronous read have waited for its end."""

    # --- mbarriers: `barrier` is the byte address of each lane's mbarrier -------------------------

    def mbarrier_init(self, index: int, barrier, mask) -> None:
        """The lanes initialise (or invalidate) an mbarrier: a write of 8 bytes."""

    def mbarrier_arrive(self, index: int, barrier, mask) -> None:
        """The lanes arrive (arrive, arrive_drop, arrive.expect_tx): what they did before is known
        to those who see the phase complete. Call it before the phase is completed."""

    def mbarrier_look(self, index: int, barrier, mask) -> None:
        """The lanes look at an mbarrier without effect: test_wait and try_wait, also expect_tx."""

    def phase_completed(self, barrier: int, blocks) -> None:
        """The mbarrier at byte `barrier` completes a phase in `blocks`, a (blocks,) bool array."""

    def mbarrier_acquire(self, index: int, barrier, mask) -> None:
        """The lanes have seen the last completed phase: a try_wait or test_wait gave true."""
