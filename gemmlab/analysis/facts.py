"""Facts of one kernel with its settings, or of two: counted, compiled and recorded.

Counted is one block of a small product, as its blocks inside a large product do; only what does not
depend on the size of the product is shown. Where several blocks compute a tile together, all blocks
are counted, and the last one of those of the first tile is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import ceil, nan, prod

import pandas

from gemmlab.analysis.counters import bytes_moved
from gemmlab.kernel.compiler import Resources
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import Trace
from gemmlab.ladder import IllegalSetting, Problem
from gemmlab.measure import timing
from gemmlab.records import runs, tuning
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord
from gemmlab.report import Shown, number, sheet
from ptxsim import LineCount
from ptxsim.metrics import METRICS, SECTOR_BYTES
from ptxsim.occupancy import Occupancy, occupancy

UNREADABLE = (NoRecord, StaleRecord, BadRecord)  # then facts go on without records
WINDOW = 128  # rows and columns of C that are looked at, at least
STEPS = 2  # along K, at least
LEAST_K = 32
GLOBAL, SHARED = "global", "shared"
OF_CUBLAS = "of cuBLAS"
NOT_RECORDED = "not recorded"
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
SPEED_AT = (4096, 4096, 4096)  # the product whose speed is given
PAIRS = 5  # of launches, where it is measured


@dataclass(frozen=True)
class Speed:
    """A median rate at SPEED_AT in GFLOP/s, that of cuBLAS in percent, and where they come from.

    `dram_intensity`: FLOP per byte that Nsight Compute counted at the DRAM, if it did.
    """

    gflops: float
    pct_cublas: float
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

    def units_per_request(self, space: str, operation: str, array: str | None = None) -> float:
        """Sectors of global memory, or wavefronts of shared, per request; 0 without requests."""
        lines = [line for line in self._lines(space, operation) if array in (None, line.array)]
        requests = sum(line.requests for line in lines)
        return sum(line.units for line in lines) / requests if requests else 0.0

    def _lines(self, space: str, operation: str) -> list[LineCount]:
        operations = (operation, *ALSO[space, operation])
        return [
            line
            for line in self.trace.run.lines
            if line.space == space and line.operation in operations
        ]

    @cached_property
    def intensity(self) -> float:
        """FLOP per byte moved: of the sectors that the block's loads of A and B touch. A bias and
        sums of other blocks do not count."""
        lines = self._lines(GLOBAL, "load")
        loaded_bytes = SECTOR_BYTES * sum(line.units for line in lines if line.array in "AB")
        return 2 * self.trace.run.multiply_adds / loaded_bytes

    @cached_property
    def conflicts(self) -> float:
        """Bank conflicts per request to shared memory, loads and stores together."""
        conflicts = requests = 0
        for operation in ("load", "store"):
            conflicts += self.trace.counters[METRICS[SHARED, operation][-1]]
            requests += sum(line.requests for line in self._lines(SHARED, operation))
        return conflicts / requests if requests else 0.0

    def table(self) -> pandas.DataFrame:
        """Columns quantity, value, unit: the same quantities in the same order for every kernel."""
        rows, columns = self.kernel.rung.tile(self.kernel.settings)
        taken, fits = self.taken, self.fits
        shared = {op: self.units_per_request(SHARED, op) for op in ("load", "store")}
        conflicts = self.conflicts if any(shared.values()) else "none"
        rows_of_table: list[tuple[str, object, str]] = [
            ("threads per block", self.threads, "threads"),
            ("C per block", rows * columns, "elements"),
            *(
                (name, self.units_per_request(GLOBAL, operation, array), "sectors per request")
                for (array, operation), name in NAMES.items()
            ),
            ("shared loads", shared["load"] or "none", "wavefronts per request"),
            ("shared stores", shared["store"] or "none", "wavefronts per request"),
            ("bank conflicts", conflicts, "per shared request"),
            ("arithmetic intensity", self.intensity, "FLOP per byte moved"),
            ("registers", taken.registers, "per thread"),
            ("spilled", taken.spilled_bytes, "bytes per thread"),
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
    size, block = shape(kernel), (parts(kernel) - 1, 0, 0)
    # The last block of a tile, after those that it waits for.
    blocks = [(x, 0, 0) for x in range(block[0] + 1)]
    trace = _on_few_sms(kernel).trace(*size, batch=1, blocks=blocks)
    return Facts(kernel, arch, trace, block, taken, _speed(kernel))


def parts(kernel: Kernel) -> int:
    """How many blocks there are for each tile, if the GPU had few SMs; of a batch, one."""
    if kernel.rung.batch > 1:
        return 1
    return ceil(prod(_on_few_sms(kernel).grid(*_window(kernel))) / _tiles(kernel))


def _tiles(kernel: Kernel) -> int:
    """Of C, in the product that is traced."""
    (rows, columns), (m, n, _) = kernel.rung.tile(kernel.settings), _window(kernel)
    return ceil(m / rows) * ceil(n / columns)


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
    return pandas.DataFrame(
        {name: of(kernel).table().set_index("quantity").value for name, kernel in kernels.items()}
    )


def shape(kernel: Kernel) -> tuple[int, int, int]:
    """(M, N, K) of the product that is traced: the first tile is whole in it."""
    m, n, along_k = _window(kernel)
    return m, n, along_k * parts(kernel)


def _window(kernel: Kernel) -> tuple[int, int, int]:
    """The same, where a block has all of K."""
    (rows, columns), (down, across) = (
        count(kernel.settings) for count in (kernel.rung.tile, kernel.rung.cluster_tiles)
    )
    along_k = max(LEAST_K, STEPS * kernel.rung.depth(kernel.settings))
    return max(WINDOW, rows * down), max(WINDOW, columns * across), along_k


def _speed(kernel: Kernel) -> Speed | None:
    if not kernel.on_gpu:
        return recorded_speed(kernel)
    try:
        run = timing.compare(kernel, *SPEED_AT, pairs=PAIRS)
    except timing.TimingError:
        return None
    return Speed(run.gflops, 100 * run.ratio.median, f"{run.gpu}, measured here")


def recorded_speed(kernel: Kernel) -> Speed | None:
    """What a record or a sweep says of this code with these settings; None if neither can be read
    or says anything."""
    with suppress(*UNREADABLE):
        run = runs.replay_at(kernel, *SPEED_AT)
        where, share = f"{run.gpu}, recorded {run.recorded[:10]}", 100 * run.ratio.median
        return Speed(run.gflops, share, where, _counted_intensity(kernel))
    with suppress(*UNREADABLE):
        row = tuning.of(kernel, SPEED_AT)
        where, share = f"{row['gpu']}, recorded {row['recorded'][:10]}", row["pct_cublas"]
        return Speed(row["gflops"], share, where, _counted_intensity(kernel))
    return None


def _counted_intensity(kernel: Kernel) -> float | None:
    with suppress(*UNREADABLE):
        _, counted = runs.counters_at(kernel, *SPEED_AT)
        return Problem(*SPEED_AT).flop / bytes_moved(counted)["DRAM"]
    return None


# ---- two kernels, or two settings of one ---------------------------------------------------------


def compare(a: Kernel, b: Kernel) -> Comparison:
    """What is known of kernel `b`, beside the same of kernel `a`; of registers and occupancy, on
    the architecture of `a`. One block of each is traced, inside of a small product. Raises what
    `of` raises.
    """
    return Comparison(of(a), of(b, a.arch))


@dataclass(frozen=True, repr=False)
class Comparison:
    """The facts of two kernels. Show it, or its `table`."""

    a: Facts
    b: Facts

    @cached_property
    def names(self) -> tuple[str, str]:
        """What the two are called: the rung and the settings in which they differ."""
        kernel, other = self.a.kernel, self.b.kernel
        names = _name_beside(kernel, other), _name_beside(other, kernel)
        return names if names[0] != names[1] else (f"{names[0]} (a)", f"{names[1]} (b)")

    @property
    def mixed(self) -> bool:
        """Whether the two multiply matrices of different types."""
        return self.a.kernel.dtype != self.b.kernel.dtype

    @cached_property
    def table(self) -> pandas.DataFrame:
        """Columns: quantity, one for each kernel, ratio (of b to a), unit. ratio is NaN where a
        value is 0, a word or not recorded."""
        a, b = self.a.table(), self.b.table()
        numbers = (pandas.to_numeric(each["value"], errors="coerce") for each in (b, a))
        after, before = (each.astype(float).replace(0.0, nan) for each in numbers)
        ratios = after / before
        if self.mixed:  # shares of different cuBLAS products are not one quantity
            ratios[a["quantity"] == OF_CUBLAS] = nan
        columns = dict(zip(self.names, (a["value"], b["value"]), strict=True))
        return pandas.DataFrame(
            {
                "quantity": a["quantity"],
                **{
                    name: [NOT_RECORDED if value is None else value for value in column]
                    for name, column in columns.items()
                },
                "ratio": ratios,
                "unit": a["unit"],
            }
        )

    @cached_property
    def sentences(self) -> list[str]:
        """What was traced, and where the speed comes from."""
        both = (self.a, self.b)
        shapes = dict.fromkeys(f"{each.trace.m}×{each.trace.n}×{each.trace.k}" for each in both)
        sentences = [f"Counted in the simulator: one block, at {' and '.join(shapes)}."]
        if self.mixed:
            types = " and ".join(f"{each.kernel.name} {each.kernel.dtype}" for each in both)
            sentences.append(f"{types}: each share is of cuBLAS in the same precision.")
        at = "×".join(map(str, SPEED_AT))
        if where := dict.fromkeys(f"{at}: {each.speed.where}" for each in both if each.speed):
            sentences.append(f"Speed at {'; at '.join(where)}.")
        return sentences

    def __repr__(self) -> str:
        return self._sheet.text

    def _repr_html_(self) -> str:
        return self._sheet.markup

    @cached_property
    def _sheet(self) -> Shown:
        rows = [
            [quantity, number(a), number(b), "" if factor != factor else f"×{factor:.3g}", unit]
            for quantity, a, b, factor, unit in self.table.itertuples(index=False, name=None)
        ]
        title = f"{self.names[1]} beside {self.names[0]}"
        heads = ["quantity", *self.names, "ratio", "unit"]
        return sheet(title, heads, rows, (0, 4), self.sentences)


def _name_beside(kernel: Kernel, other: Kernel) -> str:
    """The rung, the settings that the other has otherwise, and those it lacks if not as usual."""
    shown = [
        f"{name}={value}"
        for name, value in kernel.settings.items()
        if value != other.settings.get(name, kernel.rung.defaults[name])
    ]
    edited = kernel.text != kernel.rung.path.read_text(encoding="utf-8")
    return " ".join([kernel.name, *shown]) + (" edited" if edited else "")
