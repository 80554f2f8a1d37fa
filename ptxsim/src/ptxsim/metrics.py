"""The counters of the memory units: requests, sectors, wavefronts, bank conflicts.

The names of the totals are Nsight Compute's. The rules:

- A *request* is one instruction of one warp with at least one active lane.
- A *sector* is 32 aligned bytes. A request to global memory costs as many sectors as its active
  lanes touch.
- An asynchronous copy of 16 bytes with `.cg` goes past the L1 cache. It costs a sector for each 32
  aligned bytes of shared memory that it brings, and another where these come from two lines of 128
  bytes. So rows that begin in the middle of 32 bytes there cost more than they have sectors.
- Shared memory has 32 banks of 4 bytes. A request to it takes one *wavefront* for each different
  word that the busiest bank has to deliver; every wavefront past the first is a bank conflict.
- Accesses of 8 and 16 bytes go by half and quarter warps, each with wavefronts of its own. But two
  halves or quarters of a load go together if each lane has the address of its neighbour, or each
  that of the lane two further on, also where only one of the two takes part. Every wavefront past
  the first of what goes together is a bank conflict.

What counts as one load from shared memory is not what the PTX has, but what the GPU's assembler
makes of it: see merging.py.

In larger products, where several blocks share an SM, the GPU's wavefronts and bank conflicts of
shared memory (TIMING_DEPENDENT) come out a little higher, and differ from one run to the next. Here
only the conflicts that addresses cause are counted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ptxsim.architectures import WARP
from ptxsim.async_copy import counted
from ptxsim.hopper import GROUP_WARPS

SECTOR_BYTES, LINE_BYTES = 32, 128
SHARED_BITS = 20  # more than an address in shared memory has
BANKS = 32
BANK_BYTES = 4
ROWS = 64  # of a product of a warpgroup

FMA_METRIC = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
# Of warps, products of floats, wgmma among them.
HMMA_METRIC = "sm__inst_executed_pipe_tensor_op_hmma.sum"
IMMA_METRIC = "sm__inst_executed_pipe_tensor_op_imma.sum"  # the same of integers
# (space, operation) -> Nsight Compute's names of (requests, sectors or wavefronts, conflicts).
METRICS: dict[tuple[str, str], tuple[str, ...]] = {
    ("global", operation): (
        f"l1tex__t_requests_pipe_lsu_mem_global_op_{short}.sum",
        f"l1tex__t_sectors_pipe_lsu_mem_global_op_{short}.sum",
    )
    for operation, short in (("load", "ld"), ("store", "st"))
} | {
    ("shared", operation): (
        f"smsp__inst_executed_op_shared_{short}.sum",
        f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{short}.sum",
        f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{short}.sum",
    )
    for operation, short in (("load", "ld"), ("store", "st"))
}
# The same of ldmatrix and stmatrix, which share wavefronts and conflicts with the others; no metric
# has the number of stmatrix instructions.
MATRIX_METRICS = {
    ("shared", "ldmatrix"): (
        "smsp__inst_executed_op_ldsm.sum", *METRICS["shared", "load"][1:],
    ),
    ("shared", "stmatrix"): (None, *METRICS["shared", "store"][1:]),
}  # fmt: skip

# wgmma: instructions of a warp; wavefronts by which it reads shared memory.
WGMMA_METRICS = {
    ("shared", "wgmma"): (
        "sm__inst_executed_pipe_tensor_op_gmma.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",
    )
}
# What the copy engine does in global memory, which is counted as counted.py says.
BULK_METRICS = {
    ("global", operation): (counted.INSTRUCTIONS.format(what), counted.sectors_metric(what))
    for what, operation in counted.IN_GLOBAL_MEMORY.items()
}
WGMMA_BYTES = "sm__sass_data_bytes_mem_shared_op_gmma.sum"
# Its multiplications and additions, by the type of A.
WGMMA_OPERATIONS = {
    "f16": "sm__ops_path_tensor_op_hgmma_src_fp16.sum",
    "bf16": "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32.sum",
    "tf32": "sm__ops_path_tensor_op_hgmma_src_tf32_dst_fp32.sum",
    **dict.fromkeys(("e4m3", "e5m2"), "sm__ops_path_tensor_src_fp8.sum"),
    **dict.fromkeys(("s8", "u8"), "sm__ops_path_tensor_op_igmma_src_int8.sum"),
}

EVERY_KERNEL = METRICS | MATRIX_METRICS | WGMMA_METRICS  # a total is given where it is 0 too
# What is counted where it occurs.
COPIES = (*counted.IN_GLOBAL_MEMORY, *counted.COPIES_ACROSS)
RARE = {counted.sectors_metric(what) for what in COPIES} | {
    counted.INSTRUCTIONS.format(what) for what in (*COPIES, *counted.ACCESSES_ACROSS)
}

# What the GPU counts besides depends on when accesses meet.
TIMING_DEPENDENT = frozenset(METRICS["shared", "load"][1:] + METRICS["shared", "store"][1:])


@dataclass(frozen=True)
class LineCount:
    """The traffic of one source line with one array.

    `units` are sectors in global memory and wavefronts in shared memory; `bytes_asked` are the
    bytes that the active lanes request. A request is an instruction of a warp, or, for the copy
    engine, of one thread.
    """

    line: int
    space: str  # "global" or "shared"
    operation: str  # "load", "store", "ldmatrix", "stmatrix", "wgmma" or one of BULK_METRICS
    array: str
    requests: int
    units: int
    bytes_asked: int


class Cost(NamedTuple):
    """As in a LineCount, and the bank conflicts."""

    requests: int
    units: int
    bytes_asked: int
    conflicts: int


class Totals(dict):
    """Metric -> its total. One of RARE that did not occur is 0; one that is not counted, KeyError.

    Empty where nothing was counted.
    """

    def __missing__(self, metric: str) -> int:
        if not self:
            raise KeyError(f"{metric}: nothing was counted; launch(…, count=True) counts")
        if metric in RARE:
            return 0
        from difflib import get_close_matches  # here, for it takes time to load

        nearest = get_close_matches(str(metric), [*self, *RARE], n=2, cutoff=0)
        raise KeyError(
            f"{metric} is not counted by the simulator; the nearest that are: {', '.join(nearest)}"
        )


class Counter:
    """Adds up accesses by (line, space, operation, array)."""

    def __init__(self) -> None:
        self._counts: defaultdict = defaultdict(lambda: [0, 0, 0, 0])  # as a Cost
        self.tensor_multiply_adds = 0
        self.events: dict[str, int] = defaultdict(int)  # by metric
        self.executed: set[int] = set()  # the first instructions of basic blocks

    def add(
        self, key: tuple[int, str, str, str], addresses: np.ndarray, active: np.ndarray, size: int,
        times: np.ndarray, to: np.ndarray | None = None,
    ) -> Cost:  # fmt: skip
        """Count one instruction, whose `key` is (line, space, operation, array); its `cost`."""
        amounts = cost(*key[1:3], addresses, active, size, times, to)
        self.add_again(key, amounts)
        return amounts

    def add_again(self, key: tuple[int, str, str, str], cost: Cost) -> None:
        """Count an instruction that costs the same as an earlier one."""
        count = self._counts[key]
        for at, amount in enumerate(cost):
            count[at] += amount

    def add_wgmma(self, line: int, product: Any, bytes_read: int, groups: int) -> None:
        """Count a wgmma.GroupProduct of so many warpgroups; no layout of it has conflicts."""
        amounts = Cost(GROUP_WARPS, bytes_read // (BANKS * BANK_BYTES), bytes_read, 0)
        key = line, "shared", "wgmma", "shared memory"
        self.add_again(key, Cost(*(amount * groups for amount in amounts)))
        multiply_adds = ROWS * product.n * product.k * groups
        self.tensor_multiply_adds += multiply_adds
        self.events[WGMMA_OPERATIONS[product.types[1]]] += 2 * multiply_adds
        pipe = IMMA_METRIC if product.types[0] == "s32" else HMMA_METRIC
        self.events[pipe] += GROUP_WARPS * groups

    def merge(self, other: Counter) -> None:
        self.tensor_multiply_adds += other.tensor_multiply_adds
        self.executed |= other.executed
        for metric, number in other.events.items():
            self.events[metric] += number
        for key, amounts in other._counts.items():
            self.add_again(key, Cost(*amounts))

    def lines(self) -> list[LineCount]:
        return [LineCount(*key, *values[:3]) for key, values in sorted(self._counts.items())]

    def totals(self) -> Totals:
        """Nsight Compute's metric names and their values."""
        names_of = EVERY_KERNEL | BULK_METRICS
        totals = {name: 0 for names in EVERY_KERNEL.values() for name in names if name}
        others = (FMA_METRIC, WGMMA_BYTES, HMMA_METRIC, IMMA_METRIC, *WGMMA_OPERATIONS.values())
        totals |= dict.fromkeys(others, 0)
        for (_, space, operation, _), (requests, units, size, conflicts) in self._counts.items():
            totals[WGMMA_BYTES] += size if operation == "wgmma" else 0
            names = names_of[space, operation]
            for name, value in zip(names, (requests, units, conflicts), strict=False):
                if name is not None:
                    totals[name] = totals.get(name, 0) + value
        return Totals(totals | self.events)


def cost(
    space: str, operation: str, addresses: np.ndarray, active: np.ndarray, size: int,
    times: np.ndarray, to: np.ndarray | None = None,
) -> Cost:  # fmt: skip
    """What one instruction asks of memory.

    `addresses`, `active`: arrays (rows, 32), byte addresses and active lanes of one warp a row, at
    least one lane active; `times`: (rows,), how many warps each row stands for; `size`: bytes per
    lane; `to`: of a copy past the L1 cache, where in shared memory, as `addresses`.
    """
    requests, asked = int(times.sum()), int(active.sum(axis=1) @ times) * size
    if space == "global":
        units = sectors(addresses, active, size) if to is None else past_l1(addresses, to, active)
        return Cost(requests, int(units @ times), asked, 0)
    parts = max(1, size // BANK_BYTES)  # of a warp: whole, half or quarter
    passes = wavefronts(addresses, active, size, parts)
    some = np.any(active.reshape(len(active), parts, WARP // parts), axis=2)
    if operation == "load" and parts > 1:
        together = wavefronts(addresses, active, size, parts // 2)
        apart, of_pair = (x.reshape(len(x), -1, 2).sum(axis=2) for x in (passes, some))
        paired = in_pairs(addresses, active, parts // 2)
        passes = np.where(paired, together, apart)
        some = np.where(paired, of_pair > 0, of_pair)
    conflicts = int((passes - some).sum(axis=1) @ times)
    return Cost(requests, int(passes.sum(axis=1) @ times), asked, conflicts)


def period(space: str, size: int) -> int:
    """If all addresses move by a multiple of so many bytes, the cost stays the same."""
    return SECTOR_BYTES if space == "global" else max(BANK_BYTES, size)


def sectors(addresses: np.ndarray, active: np.ndarray, size: int) -> np.ndarray:
    """Sectors per warp. An access of 16 aligned bytes or fewer lies inside one sector."""
    return _first_of_each(addresses // SECTOR_BYTES, active)[1].sum(axis=1)


def past_l1(addresses: np.ndarray, to: np.ndarray, active: np.ndarray) -> np.ndarray:
    """Sectors per warp of a copy that goes to shared memory past the L1 cache."""
    both = (addresses // LINE_BYTES << SHARED_BITS) + to // SECTOR_BYTES
    return _first_of_each(both, active)[1].sum(axis=1)


def wavefronts(addresses: np.ndarray, active: np.ndarray, size: int, parts: int) -> np.ndarray:
    """(warps, parts): wavefronts of each of so many parts of a warp, on its own."""
    words = max(1, size // BANK_BYTES)
    places = BANKS // words  # at each one unit of so many words is delivered at a time
    groups = (len(addresses) * parts, WARP // parts)
    units, first = _first_of_each(
        addresses.reshape(groups) // (BANK_BYTES * words), active.reshape(groups)
    )
    place = units % places + places * np.arange(groups[0])[:, None]
    asked = np.bincount(place[first], minlength=groups[0] * places).reshape(groups[0], places)
    return asked.max(axis=1).reshape(len(addresses), parts)


def in_pairs(addresses: np.ndarray, active: np.ndarray, parts: int) -> np.ndarray:
    """(warps, parts): whether each lane has the address of its neighbour, or the next but one."""
    lanes = np.arange(WARP)
    paired = np.zeros((len(addresses), parts), bool)
    for distance in (1, 2):
        other = lanes ^ distance
        same = (addresses == addresses[:, other]) | ~(active | active[:, other])
        paired |= same.reshape(len(addresses), parts, -1).all(axis=2)
    return paired


def _first_of_each(values: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row sorted, and where in it each different value of an active entry stands first."""
    if not active.all():
        # An inactive lane takes the row's largest active value, which counts once anyway.
        largest = values.max(axis=1, where=active, initial=np.iinfo(values.dtype).min)
        values = np.where(active, values, largest[:, None])
    if (values[:, 1:] < values[:, :-1]).any():
        values = np.sort(values, axis=1)
    first = np.empty(values.shape, bool)
    first[:, 0] = True
    np.not_equal(values[:, 1:], values[:, :-1], out=first[:, 1:])
    return values, first & np.any(active, axis=1)[:, None]
