"""What is known of one kernel with its settings: counted, compiled and recorded.

Counted is one block of a small product, as its blocks inside a large product do; only what does not
depend on the size of the product is shown. Where several blocks compute a tile together, all blocks
are counted, and the last one of those of the first tile is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import pandas

from gemmlab.analysis.roofline import counted_intensity
from gemmlab.kernel.compiler import Resources
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import Trace
from gemmlab.ladder import IllegalSetting, listed
from gemmlab.measure.timing import LaunchTooLong, compare
from gemmlab.records import runs, tuning
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord
from ptxsim import LineCount
from ptxsim.metrics import METRICS, SECTOR_BYTES
from ptxsim.occupancy import Occupancy, occupancy

UNREADABLE = (NoRecord, StaleRecord, BadRecord)  # then facts go on without records
WINDOW = 128  # rows and columns of C that are looked at, at least
STEPS = 2  # along K, at least
LEAST_K = 32
GLOBAL, SHARED = "global", "shared"
OF_CUBLAS = "of cuBLAS"
NAMES = {  # what a table calls the loads and stores of each array
    ("A", "load"): "loads of A",
    ("B", "load"): "loads of B",
    ("C", "store"): "stores to C",
}
# What counts as loads and stores too: of whole matrices by a warp, of boxes by the copy engine.
ALSO = {
    (SHARED, "load"): ("ldmatrix", "wgmma"), (SHARED, "store"): ("stmatrix",),
    (GLOBAL, "load"): ("bulk load",), (GLOBAL, "store"): ("bulk store",),
}  # fmt: skip
FLOP_PER_FMA = 2
LARGE, PAIRS = 4096, 5  # of the product whose speed is told; of launches, where it is measured


@dataclass(frozen=True)
class Speed:
    """A median rate in GFLOP/s, that of cuBLAS in percent, and where the numbers come from.

    `dram_intensity`: FLOP per byte that Nsight Compute counted at the DRAM at this shape; None
    where nobody counted it.
    """

    gflops: float
    pct_cublas: float
    shape: tuple[int, int, int]
    where: str  # "NVIDIA H200, recorded 2026-11-21"
    dram_intensity: float | None = None


@dataclass(frozen=True)
class Facts:
    """`trace`: of `block`, alone where it is (0, 0, 0); `arch`: of the resources; `speed`: None
    without record."""

    kernel: Kernel
    arch: str
    trace: Trace
    block: tuple[int, int, int]
    taken: Resources
    speed: Speed | None

    @cached_property
    def fits(self) -> Occupancy:
        registers, shared_bytes = self.taken.registers, self.taken.shared_bytes
        return occupancy(
            self.arch, threads=self.threads, registers=registers, shared_bytes=shared_bytes
        )

    @property
    def threads(self) -> int:
        return prod(self.trace.block)

    @property
    def settings(self) -> str:
        return listed(self.kernel.settings)

    def units_per_request(self, space: str, operation: str, array: str | None = None) -> float:
        """Sectors of global memory, or wavefronts of shared, per request; 0 without requests."""
        lines = [line for line in self._lines(space, operation) if array in (None, line.array)]
        requests = sum(line.requests for line in lines)
        return sum(line.units for line in lines) / requests if requests else 0.0

    @cached_property
    def loaded_bytes(self) -> int:
        """What loads of A and B move: whole sectors. A bias and sums of others do not count."""
        lines = self._lines(GLOBAL, "load")
        return SECTOR_BYTES * sum(line.units for line in lines if line.array in "AB")

    def _lines(self, space: str, operation: str) -> list[LineCount]:
        operations = (operation, *ALSO[space, operation])
        return [
            line
            for line in self.trace.run.lines
            if line.space == space and line.operation in operations
        ]

    @cached_property
    def intensity(self) -> float:
        """FLOP per byte moved: of the sectors that the block's loads of A and B touch."""
        return FLOP_PER_FMA * self.trace.run.multiply_adds / self.loaded_bytes

    @cached_property
    def conflicts(self) -> float:
        """Bank conflicts per request to shared memory, loads and stores together."""
        operations = ("load", "store")
        conflicts = sum(
            self.trace.counters[METRICS[SHARED, operation][-1]] for operation in operations
        )
        requests = sum(
            line.requests for operation in operations for line in self._lines(SHARED, operation)
        )
        return conflicts / requests if requests else 0.0

    def table(self) -> pandas.DataFrame:
        """Columns quantity, value, unit: the same quantities in the same order for every kernel."""
        rows, columns = self.kernel.rung.tile(self.kernel.settings)
        taken, fits = self.taken, self.fits
        shared = {op: self.units_per_request(SHARED, op) for op in ("load", "store")}
        rows_of_table: list[tuple[str, object, str]] = [
            ("threads per block", self.threads, "threads"),
            ("C per block", rows * columns, "elements"),
            *(
                (name, self.units_per_request(GLOBAL, operation, array), "sectors per request")
                for (array, operation), name in NAMES.items()
            ),
            ("shared loads", shared["load"] or "none", "wavefronts per request"),
            ("shared stores", shared["store"] or "none", "wavefronts per request"),
            (
                "bank conflicts",
                self.conflicts if any(shared.values()) else "none",
                "per shared request",
            ),
            ("arithmetic intensity", self.intensity, "FLOP per byte moved"),
            ("registers", taken.registers, "per thread"),
            ("spilled", taken.spill_store_bytes + taken.spill_load_bytes, "bytes per thread"),
            ("shared memory", taken.shared_bytes, "bytes per block"),
            ("blocks per SM", fits.blocks_per_sm, f"on {self.arch}"),
            ("occupancy", round(100 * fits.occupancy, 1), "%"),
            ("limited by", fits.limited_by, ""),
            ("speed", self.speed and round(self.speed.gflops), "GFLOP/s"),
            (OF_CUBLAS, self.speed and round(self.speed.pct_cublas, 1), "%"),
        ]
        return pandas.DataFrame(rows_of_table, columns=["quantity", "value", "unit"])


def of(kernel: Kernel, arch: str | None = None) -> Facts:
    """Trace one block of `kernel`, ask the compiler about `arch`, and look up the recorded speed.

    `arch`: of registers and occupancy, such as "sm_86"; that of the kernel if None. On a GPU the
    speed is measured there, once the kernel is verified. Raises OccupancyError, NoCompiler,
    IllegalSetting, KernelMistake and, on a GPU, VerificationError and TimingError.
    """
    arch = arch or kernel.arch
    taken = kernel.taken(arch)
    few, size, block = _on_few_sms(kernel), shape(kernel), (parts(kernel) - 1, 0, 0)
    # The last block of a tile, after those that it waits for.
    blocks = [(x, 0, 0) for x in range(block[0] + 1)]
    trace = few.trace(*size, batch=1, blocks=blocks)
    return Facts(kernel, arch, trace, block, taken, _speed(kernel))


def parts(kernel: Kernel) -> int:
    """How many blocks there are for each tile, if the GPU had few SMs; of a batch, one."""
    if kernel.rung.batch > 1:
        return 1
    return -(-prod(_on_few_sms(kernel).grid(*_window(kernel))) // _tiles(kernel))


def _tiles(kernel: Kernel) -> int:
    """Of C, in the product that is traced."""
    (rows, columns), size = kernel.rung.tile(kernel.settings), _window(kernel)
    return -(-size[0] // rows) * -(-size[1] // columns)


def _on_few_sms(kernel: Kernel) -> Kernel:
    """On one SM, or as it is where that has no room for blocks that wait for each other, and where
    a block of few would have several tiles, as of a batch."""
    stays = kernel.rung.has_maps(kernel.settings) and _tiles(kernel) > 1
    if kernel.rung.batch > 1 or stays:
        return kernel
    one_sm = kernel.scheduled_for(1)
    try:
        one_sm.grid(*_window(kernel))
    except IllegalSetting:
        return kernel
    return one_sm


def side_by_side(kernels: Mapping[str, Kernel]) -> pandas.DataFrame:
    """The facts of kernels, a row for each quantity and a column for each kernel, by its name.
    Raises what `of` raises."""
    tables = {name: of(kernel).table() for name, kernel in kernels.items()}
    return pandas.DataFrame(
        {name: table.set_index("quantity").value for name, table in tables.items()}
    )


def shape(kernel: Kernel) -> tuple[int, int, int]:
    """(M, N, K) of the product that is traced: the first tile is whole in it."""
    m, n, along_k = _window(kernel)
    return m, n, along_k * parts(kernel)


def _window(kernel: Kernel) -> tuple[int, int, int]:
    """The same, where a block has all of K."""
    rows, columns = (
        size * together
        for size, together in zip(
            kernel.rung.tile(kernel.settings), kernel.rung.cluster_tiles(kernel.settings),
            strict=True,
        )
    )  # fmt: skip
    along_k = max(LEAST_K, STEPS * kernel.rung.depth(kernel.settings))
    return max(WINDOW, rows), max(WINDOW, columns), along_k


def _speed(kernel: Kernel) -> Speed | None:
    shape = 3 * (LARGE,)
    if not kernel.on_gpu:
        return recorded_speed(kernel)
    try:
        run = compare(kernel, *shape, pairs=PAIRS)
    except LaunchTooLong:
        return None
    return Speed(run.gflops, 100 * run.ratio.median, shape, f"{run.gpu}, measured here")


def recorded_speed(kernel: Kernel) -> Speed | None:
    """What a record or a sweep says of this code with these settings; None if neither can be read
    or says anything."""
    for read in (_run, _swept):
        try:
            return read(kernel, 3 * (LARGE,))
        except UNREADABLE:
            pass
    return None


def _swept(kernel: Kernel, shape: tuple[int, int, int]) -> Speed:
    row = tuning.of(kernel, shape)
    where, counted = _recorded(row), _counted(kernel, shape)
    return Speed(row["gflops"], row["pct_cublas"], shape, where, counted)


def _run(kernel: Kernel, shape: tuple[int, int, int]) -> Speed:
    run = runs.replay_at(kernel, *shape)
    where = _recorded({"gpu": run.gpu, "recorded": run.recorded})
    return Speed(run.gflops, 100 * run.ratio.median, shape, where, _counted(kernel, shape))


def _counted(kernel: Kernel, shape: tuple[int, int, int]) -> float | None:
    try:
        return counted_intensity(kernel, shape)
    except UNREADABLE:
        return None


def _recorded(row: Mapping[str, str]) -> str:
    return f"{row['gpu']}, recorded {row['recorded'][:10]}"
