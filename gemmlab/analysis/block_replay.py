"""The tiles of one block, and of one of its threads, followed through shared memory."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gemmlab.kernel.trace import Trace
from ptxsim import WarpAccess
from ptxsim.architectures import WARP

SHARED = "shared memory"
NOTHING = -1  # instead of an element's number: a lane that is not active, or a zero at an edge
LOAD, KEEP, COPY, READ, WRITE = "load", "keep", "copy", "read", "write"
OUT = "out"  # sums on their way through shared memory to C
MATRICES = "ldmatrix"  # the load with which a warp brings matrices into its registers together
SUMS = "wmma.store"  # the instruction that stores sums, not elements of A or B


@dataclass(frozen=True)
class Move:
    """One access of one warp, and which elements it moved.

    `kind`: LOAD from A or B in global memory, KEEP by a store or COPY past the registers into
    shared memory, READ from there, OUT by a store of sums there, or WRITE to C. `elements`: int
    (32, words), numbers of elements of A or, after all of A, of B; of C where it is written.
    `words`: int (32, words), the places of shared memory, each of the size of an element; of a LOAD
    or WRITE, those of its array.
    """

    kind: str
    access: WarpAccess
    elements: np.ndarray
    words: np.ndarray

    @property
    def warp(self) -> int:
        return self.access.warp

    @property
    def moves_elements(self) -> bool:
        return bool((self.elements != NOTHING).any())


@dataclass(frozen=True)
class Played:
    """One block, played from its trace in the order of execution.

    Shared memory has addresses alone. What lies there is followed from the loads of global memory:
    a warp stores what it loaded in the order in which it loaded it. That a thread then reads the
    rows of A and the columns of B that its own elements of C need can be checked
    (`require_reads`), and would not hold if the order were another.

    `owner`: int (M, N), the thread of the block that stores each element of C, or NOTHING; of a
    batch, its matrices stand one below the other.
    `shared_words`: how much of shared memory was touched, up to the last word.
    """

    trace: Trace
    block: tuple[int, int, int]
    moves: list[Move]
    owner: np.ndarray
    shared_words: int

    @classmethod
    def of(cls, trace: Trace, block: tuple[int, int, int]) -> Played:
        """Follow one block. Raises LaunchError for a block that is not there."""
        rows, n = trace.batch * trace.m, trace.n
        first = {"A": 0, "B": rows * trace.k}
        accesses = trace.run.accesses(block)
        owner = np.full(rows * n, NOTHING)
        waiting: defaultdict[int, deque] = defaultdict(deque)  # of each warp: loaded, not yet kept
        ends = [int(a.addresses[a.active].max()) + a.size for a in accesses if a.array == SHARED]
        places = max(ends, default=0) // trace.element_bytes
        here = np.full(places, NOTHING)  # the element in each place
        moves = []
        for access in accesses:
            size = trace.bytes_of(access.array)
            starts = np.where(access.active, access.addresses // size, 0)
            words = starts[:, None] + np.arange(max(1, access.size // size))
            active = access.active[:, None]
            if access.array in first and access.operation == "load":
                kind, elements = LOAD, np.where(active, words + first[access.array], NOTHING)
                waiting[access.warp].extend(elements.T)
            elif access.array == "C":
                if access.operation != "store":
                    continue
                kind, elements = WRITE, np.where(active, words, NOTHING)
                lanes = np.flatnonzero(access.active)
                owner[words[lanes]] = access.warp * WARP + lanes[:, None]
            elif access.array != SHARED:
                continue
            elif access.operation in ("load", MATRICES):
                kind, elements = READ, np.where(active, here[words], NOTHING)
            else:
                kind = COPY if access.operation == "copy" else KEEP
                if trace.run.opcode(access).startswith(SUMS):
                    kind = OUT
                queue = deque() if kind == OUT else waiting[access.warp]
                kept = [queue.popleft() if queue else np.full(WARP, NOTHING) for _ in words.T]
                elements = np.where(active, np.stack(kept, axis=1), NOTHING)
                here[words[access.active]] = elements[access.active]
            moves.append(Move(kind, access, elements, words))
        return cls(trace, block, moves, owner.reshape(rows, n), len(here))

    @property
    def reads(self) -> list[Move]:
        """The loads of elements of A and B from shared memory."""
        return [move for move in self.moves if move.kind == READ and move.moves_elements]

    def require_reads(self, who: str) -> None:
        """Raise ValueError unless threads read what their elements of C need, and something."""
        where = f"block {self.block} of {self.trace.kernel_name}"
        if self.trace.run.boxes(self.block):
            raise ValueError(
                f"{who}: no thread of {where} copies or reads its tiles; they are copied as boxes, "
                "which trace.run.boxes() has, and tensor cores read them."
            )
        if not self.reads:
            raise ValueError(f"{who}: {where} reads nothing from shared memory.")
        threads = math.ceil(math.prod(self.trace.block) / WARP) * WARP
        m, n, batch = self.trace.m, self.trace.n, self.trace.batch
        rows, columns = np.zeros((threads, batch * m), bool), np.zeros((threads, batch * n), bool)
        row, column = np.nonzero(self.owner != NOTHING)
        owner = self.owner[row, column]
        rows[owner, row] = columns[owner, row // m * n + column] = True
        shared_by_warp = any(read.access.operation == MATRICES for read in self.reads)
        of_warps: defaultdict[int, list[np.ndarray]] = defaultdict(list)
        for read in self.reads:
            of_warps[read.warp].append(read.elements)
        for warp, loads in of_warps.items():
            lanes = warp * WARP + np.arange(WARP)[:, None]
            if shared_by_warp:  # what a lane asks for, other lanes get
                rows[lanes], columns[lanes] = (x[lanes].any(axis=0) for x in (rows, columns))
            works = rows[lanes].any(axis=2)  # beyond the edge of C a thread only brings elements
            elements = np.concatenate(loads, axis=1)
            of_a, product, line, _ = self._places(elements)
            of_b = ~of_a & (elements != NOTHING)
            of_a &= elements != NOTHING
            needed_a = rows[lanes, np.where(of_a, product * m + line, 0)]
            needed_b = columns[lanes, np.where(of_b, product * n + line, 0)]
            if (works & ((of_a & ~needed_a) | (of_b & ~needed_b))).any():
                raise ValueError(
                    f"{who}: a thread of {where} seems to read what its elements of C do not need. "
                    "Either the kernel does so, and its result is wrong, or the order of its loads "
                    "and stores does not tell which element lies where in shared memory; then "
                    "choose a block that lies whole in C, and a K that the step divides."
                )

    def _places(self, elements: np.ndarray) -> tuple[np.ndarray, ...]:
        """Whether elements are of A, their product in the batch, their row of op(A) or column of
        op(B), and their k. Without meaning for NOTHING."""
        m, n, k, batch = self.trace.m, self.trace.n, self.trace.k, self.trace.batch
        of_a = elements < batch * m * k
        size = np.where(of_a, max(1, m * k), max(1, k * n))
        product, at = np.divmod(np.where(of_a, elements, elements - batch * m * k), size)
        line_of_a, k_of_a = (at // k, at % k) if self.trace.ops[0] == "N" else (at % m, at // m)
        line_of_b, k_of_b = (at % n, at // n) if self.trace.ops[1] == "N" else (at // k, at % k)
        line, along = np.where(of_a, line_of_a, line_of_b), np.where(of_a, k_of_a, k_of_b)
        return of_a, product, line, along

    def along(self, elements: np.ndarray) -> np.ndarray:
        """Which k these elements of A and B belong to; NOTHING where there is no element."""
        return np.where(elements == NOTHING, NOTHING, self._places(elements)[3])

    def product(self, elements: np.ndarray) -> np.ndarray:
        """Which product of the batch these elements of A and B belong to; or NOTHING."""
        return np.where(elements == NOTHING, NOTHING, self._places(elements)[1])

    def count(self, elements: list[np.ndarray]) -> np.ndarray:
        """How often each element of A and then of B is among these numbers."""
        m, n, k = self.trace.m, self.trace.n, self.trace.k
        numbers = np.concatenate([np.array([], int), *(each.ravel() for each in elements)])
        every = self.trace.batch * (m * k + k * n)
        return np.bincount(numbers[numbers != NOTHING], minlength=every)

    def moved(self, moves: Iterable[Move], kind: str) -> np.ndarray:
        """How often these moves, those of a kind, moved each element of A and then of B."""
        return self.count([move.elements for move in moves if move.kind == kind])

    def split(self, counts: np.ndarray) -> dict[str, np.ndarray]:
        """A number for each element of A and then of B, as "A", (M, K), and "B", (K, N)."""
        m, n, k = self.trace.m, self.trace.n, self.trace.k
        return {"A": counts[: m * k].reshape(m, k), "B": counts[m * k :].reshape(k, n)}

    def frame(self) -> tuple[range, range]:
        """The rows and columns of C that the block stores."""
        rows, columns = np.nonzero(self.owner != NOTHING)
        return range(rows.min(), rows.max() + 1), range(columns.min(), columns.max() + 1)


@dataclass(frozen=True)
class ThreadReads:
    """What one thread stores in C, and reads of A and B in the first step along K.

    `thread`: its number in the block. `loads`: of each instruction with which the thread reads in
    this step, the elements that its warp gets, int (32, words), numbered as a Move has them.
    """

    played: Played
    thread: int
    loads: list[np.ndarray]

    @classmethod
    def of(cls, trace: Trace, thread: int, who: str) -> ThreadReads:
        """Of a thread of the first block.

        Raises ValueError for a thread that owns nothing, and for a kernel without shared memory;
        `who` asks.
        """
        played = Played.of(trace, (0, 0, 0))
        played.require_reads(who)
        if not (played.owner == thread).any():
            raise ValueError(f"{who}: thread {thread} of block (0, 0, 0) stores nothing in C.")
        reads = cls(played, thread, [])
        for read in played.reads:
            along = played.along(read.elements[reads.lane])
            if read.warp == reads.warp and np.isin(along, reads.ks).all():
                reads.loads.append(read.elements)
        return reads

    @property
    def trace(self) -> Trace:
        return self.played.trace

    @property
    def warp(self) -> int:
        return self.thread // WARP

    @property
    def lane(self) -> int:
        return self.thread % WARP

    @property
    def ks(self) -> range:
        """The k of the step."""
        return range(min(self.trace.settings["BK"], self.trace.k))

    @property
    def owned(self) -> np.ndarray:
        """bool (M, N): the thread's elements of C."""
        return self.played.owner == self.thread

    @property
    def lanes(self) -> np.ndarray:
        """int (M, N): the lane of the thread's warp that stores an element of C, or NOTHING."""
        owner = self.played.owner
        return np.where(owner // WARP == self.warp, owner % WARP, NOTHING)

    def read_by(self, lanes: int | slice) -> dict[str, np.ndarray]:
        """Which elements some lanes read in the step: "A", bool (M, K), and "B", bool (K, N)."""
        elements = np.concatenate([load[lanes].ravel() for load in self.loads])
        in_step = elements[np.isin(self.played.along(elements), self.ks)]
        return self.played.split(self.played.count([in_step]) > 0)

    def readers(self, k: int) -> dict[str, list[frozenset[int]]]:
        """The lanes that read each row of A, "A", and each column of B, "B", at one k."""
        by_lane = [self.read_by(lane) for lane in range(WARP)]
        at_k = {
            "A": np.stack([reads["A"][:, k] for reads in by_lane]),
            "B": np.stack([reads["B"][k] for reads in by_lane]),
        }
        return {
            name: [frozenset(np.flatnonzero(column).tolist()) for column in reads.T]
            for name, reads in at_k.items()
        }
