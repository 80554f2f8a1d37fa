"""The memory accesses of a kernel, traced in the simulator: counts, and single warp accesses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmlab.ladder import Problem
from gemmlab.ladder.precision import FLOAT32
from ptxsim import Run
from ptxsim.metrics import SECTOR_BYTES, sectors

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Access:
    """What one warp touches of a matrix in one instruction.

    `lanes`: the active lanes, int (L,). `addresses`: int64 (L,), bytes from the matrix's start.
    `elements`: int (L, each, 2), row and column of each element that a lane touches, of the matrix
    as it is stored; of a batch, its matrices stand one below the other.
    `width`: bytes per lane. `sectors`: how many 32-byte sectors the lanes fall into.
    """

    array: str
    op: str
    line: int
    shape: tuple[int, int]
    lanes: np.ndarray
    elements: np.ndarray
    addresses: np.ndarray
    width: int
    sectors: int

    @property
    def sector_elements(self) -> int:
        """Elements of the array in one sector."""
        return SECTOR_BYTES * self.elements.shape[1] // self.width


@dataclass
class Trace:
    """One product, or a batch of them, in the simulator, counted. `counters`: Nsight Compute's
    metric names and their totals; another name is a KeyError."""

    kernel_name: str
    m: int
    n: int
    k: int
    settings: dict[str, int]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    counters: dict[str, int]
    text: str = field(repr=False)
    run: Run = field(repr=False)
    element_bytes: int  # of A and B
    ops: str
    batch: int
    c_bytes: int  # of an element of C

    def bytes_of(self, array: str) -> int:
        """Of an element of "A", "B", "C" or "bias"."""
        return {"C": self.c_bytes, "bias": FLOAT32.bytes}.get(array, self.element_bytes)

    @property
    def problem(self) -> Problem:
        return Problem(self.m, self.n, self.k, self.batch, self.ops)

    @property
    def lines(self) -> pandas.DataFrame:
        """pandas.DataFrame: the traffic of each source line with each array.

        Columns: line, source, space ("global" or "shared"), array, op ("load" or "store"),
        requests, sectors (global), wavefronts (shared), bytes_asked, sectors_per_request.
        """
        import pandas as pd

        sources = dict(enumerate(map(str.strip, self.text.splitlines()), 1))
        return pd.DataFrame(
            {
                "line": line.line, "source": sources.get(line.line, ""), "space": line.space,
                "array": line.array, "op": line.operation, "requests": line.requests,
                "sectors": line.units if line.space == "global" else 0,
                "wavefronts": 0 if line.space == "global" else line.units,
                "bytes_asked": line.bytes_asked,
                "sectors_per_request":
                    line.units / line.requests if line.space == "global" else 0.0,
            }
            for line in self.run.lines
        )  # fmt: skip

    def warp_access(
        self, array: str, *, op: str = "load", block: Any = (0, 0, 0), warp: int = 0,
        occurrence: int = 0,
    ) -> Access:  # fmt: skip
        """The `occurrence`-th time that this warp loads from, or stores to, `array`. Raises
        LookupError, saying how often it does, where it does so less often."""
        accesses = self.run.accesses(block, warp)
        accesses = [each for each in accesses if (each.array, each.operation) == (array, op)]
        if not -len(accesses) <= occurrence < len(accesses):
            raise LookupError(
                f"{self.kernel_name}: block {tuple(block)}, warp {warp} has {len(accesses)} {op}s "
                f"of {array} at M={self.m} N={self.n} K={self.k}; there is none numbered "
                f"{occurrence}"
            )
        access = accesses[occurrence]
        addresses = access.addresses[access.active]
        problem = self.problem
        rows, columns = {
            "A": problem.shape_of_a[-2:], "B": problem.shape_of_b[-2:],
            "C": problem.shape_of_c[-2:], "bias": (1, self.n),
        }[array]  # fmt: skip
        size = self.bytes_of(array)
        index = (addresses // size)[:, None] + np.arange(max(1, access.size // size))
        return Access(
            array, op, access.line, (rows, columns),
            lanes=np.flatnonzero(access.active), addresses=addresses, width=access.size,
            elements=np.stack([index // columns, index % columns], axis=-1),
            sectors=int(sectors(access.addresses[None], access.active[None], access.size)[0]),
        )  # fmt: skip
