"""Asynchronous copies of a matrix into shared memory: what one warp takes, and where it puts it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gemmlab import ladder
from gemmlab.kernel.trace import Access, Trace, TraceError
from gemmlab.ladder.problem import OPERATIONS
from gemmlab.loading import load

if TYPE_CHECKING:
    import pandas

BANKS, WORD_BYTES = 32, 4


@dataclass(frozen=True)
class Copy:
    """One copy of one warp.

    `access`: what it reads of the matrix as it is stored. `words`: int (L, each), the words of
    shared memory that each of its lanes fills, counted from the first word of the block's tiles.
    `along_k`: whether K goes along the stored rows, else down them. `requests`: the copies by which
    all warps of the block bring their tile of this matrix.
    """

    access: Access
    words: np.ndarray
    along_k: bool
    requests: int

    @property
    def banks(self) -> np.ndarray:
        """int (32,): how many words go to each bank."""
        return np.bincount(self.words.ravel() % BANKS, minlength=BANKS)


def of(trace: Trace, array: str, block: tuple[int, int, int] = (0, 0, 0), warp: int = 0) -> Copy:
    """The first copy of `array`, "A" or "B", by a warp.

    trace: of a kernel that brings tiles by asynchronous copies; with K of one step, `requests` are
    those of one tile. Raises TraceError for a warp that copies nothing of the matrix.
    """
    accesses = trace.run.accesses(block, warp)
    pairs = pairwise(accesses)
    kept = next((to for at, to in pairs if at.array == array and to.operation == "copy"), None)
    if kept is None:
        raise TraceError(
            f"{trace.kernel_name}: warp {warp} of block {block} copies nothing of {array}"
        )
    every = [one.addresses[one.active] for one in trace.run.accesses(block) if _is_copy(one)]
    base = min(int(addresses.min()) for addresses in every)
    first = (kept.addresses[kept.active] - base) // WORD_BYTES
    letter = trace.ops["AB".index(array)]
    loads = [one for one in trace.run.accesses(block) if one.array == array]
    return Copy(
        access=trace.warp_access(array, block=block, warp=warp),
        words=first[:, None] + np.arange(kept.size // WORD_BYTES),
        along_k=(array == "A") == (letter == "N"),
        requests=len(loads),
    )


def by_layout(name: str, **settings: int) -> pandas.DataFrame:
    """Copies by which a block of rung `name` brings a tile of A and one of B, for each layout.

    A row for each of NN, NT, TN and TT. settings: of the rung, without OP_A and OP_B. Raises what
    gl.load raises.
    """
    import pandas

    rung, found = ladder.find(name), {}
    for ops in OPERATIONS:
        kernel = load(name, **settings, **ladder.stored_as(rung, ops))
        trace = kernel.trace(*rung.tile(kernel.settings), kernel.settings["BK"])
        found[ops] = {
            f"{what} of {array}": value
            for array in "AB"
            for what, value in _counted(of(trace, array)).items()
        }
    return pandas.DataFrame(found).T


def _counted(copy: Copy) -> dict[str, int]:
    return {
        "copies": copy.requests, "bytes a lane": copy.access.width,
        "sectors a copy": copy.access.sectors,
    }  # fmt: skip


def _is_copy(access) -> bool:
    return access.space == "shared" and access.operation == "copy"
