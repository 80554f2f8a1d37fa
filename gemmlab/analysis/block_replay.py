"""What one block does with its tiles, followed through shared memory from the trace."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np

from gemmlab.kernel.trace import Trace
from ptxsim import WarpAccess
from ptxsim.architectures import WARP

SHARED = "shared memory"
NOTHING = -1  # in place of an element's number: a lane that is not active, or a zero at an edge
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

    @property
    def loaded(self) -> np.ndarray:
        """How often each element of A and then of B was loaded from global memory."""
        loads = [move.elements.ravel() for move in self.moves if move.kind == LOAD]
        return self.count(np.concatenate(loads)) if loads else self.count(np.array([], int))

    def require_reads(self, who: str) -> None:
        """Raise ValueError unless threads read what their elements of C need, and something."""
        where = f"block {self.block} of {self.trace.kernel_name}"
        if self.trace.run.boxes(self.block):
            raise ValueError(
                f"{who}: no thread of {where} brings its tiles or reads them; they come as boxes, "
                "which trace.run.boxes() has, and tensor cores read them."
            )
        if not self.reads:
            raise ValueError(f"{who}: {where} reads nothing from shared memory.")
        threads = math.ceil(math.prod(self.trace.block) / WARP) * WARP
        m, n, batch = self.trace.m, self.trace.n, self.trace.batch
        rows = np.zeros((threads, batch * m), bool)
        columns = np.zeros((threads, batch * n), bool)
        row, column = np.nonzero(self.owner != NOTHING)
        owner = self.owner[row, column]
        rows[owner, row] = columns[owner, row // m * n + column] = True
        shared_by_warp = any(read.access.operation == MATRICES for read in self.reads)
        of_warps: defaultdict[int, list[np.ndarray]] = defaultdict(list)
        for read in self.reads:
            of_warps[read.warp].append(read.elements)
        for warp, elements in of_warps.items():
            lanes = warp * WARP + np.arange(WARP)[:, None]
            if shared_by_warp:  # what a lane asks for, other lanes get
                rows[lanes], columns[lanes] = (x[lanes].any(axis=0) for x in (rows, columns))
            works = rows[lanes].any(axis=2)  # beyond the edge of C a thread only brings elements
            in_a, in_b, row, column = self._places(np.concatenate(elements, axis=1))
            wrong = works & ((in_a & ~rows[lanes, row]) | (in_b & ~columns[lanes, column]))
            if wrong.any():
                raise ValueError(
                    f"{who}: a thread of {where} seems to read what its elements of C do not need. "
                    "Either the kernel does so, and its result is wrong, or the order of its loads "
                    "and stores does not tell which element lies where in shared memory; then "
                    "choose a block that lies whole in C, and a K that the step divides."
                )

    def _places(self, elements: np.ndarray) -> tuple[np.ndarray, ...]:
        """Which numbers are of A and which of B; row in A of the former, column in B of the rest.

        Of a batch, rows and columns are counted on from product to product. Row and column are 0
        where they mean nothing.
        """
        m, n, k = self.trace.m, self.trace.n, self.trace.k
        in_a = self._in_a(elements)
        in_b = ~in_a & (elements != NOTHING)
        product, at = self._in_matrix(elements)
        row = at // k if self.trace.ops[0] == "N" else at % m
        column = at % n if self.trace.ops[1] == "N" else at // k
        return (
            in_a, in_b, np.where(in_a, product * m + row, 0),
            np.where(in_b, product * n + column, 0),
        )  # fmt: skip

    def along(self, elements: np.ndarray) -> np.ndarray:
        """Which k these elements of A and B belong to; NOTHING where there is no element."""
        m, n, k = self.trace.m, self.trace.n, self.trace.k
        _, at = self._in_matrix(elements)
        of_a = at % k if self.trace.ops[0] == "N" else at // m
        of_b = at // n if self.trace.ops[1] == "N" else at % k
        return np.where(elements == NOTHING, NOTHING, np.where(self._in_a(elements), of_a, of_b))

    def product(self, elements: np.ndarray) -> np.ndarray:
        """Which product of the batch these elements of A and B belong to; or NOTHING."""
        return np.where(elements == NOTHING, NOTHING, self._in_matrix(elements)[0])

    def _in_a(self, elements: np.ndarray) -> np.ndarray:
        return (elements != NOTHING) & (elements < self.trace.batch * self.trace.m * self.trace.k)

    def _in_matrix(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The product of each element, and its number in its own matrix of it."""
        m, n, k, batch = self.trace.m, self.trace.n, self.trace.k, self.trace.batch
        in_a = self._in_a(elements)
        size = np.where(in_a, max(1, m * k), max(1, k * n))
        return np.divmod(np.where(in_a, elements, elements - batch * m * k), size)

    def count(self, elements: np.ndarray) -> np.ndarray:
        """How often each element of A and then of B is among these numbers."""
        m, n, k = self.trace.m, self.trace.n, self.trace.k
        every = self.trace.batch * (m * k + k * n)
        return np.bincount(elements[elements != NOTHING], minlength=every)

    def matrices(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How often each element of A, int (M, K), and of B, int (K, N), is among these numbers."""
        return self.split(self.count(elements))

    def split(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A number for each element of A and then of B, as the two matrices."""
        m, n, k = self.trace.m, self.trace.n, self.trace.k
        return counts[: m * k].reshape(m, k), counts[m * k :].reshape(k, n)

    def frame(self) -> tuple[range, range]:
        """The rows and columns of C that the block stores."""
        rows, columns = np.nonzero(self.owner != NOTHING)
        return range(rows.min(), rows.max() + 1), range(columns.min(), columns.max() + 1)
