"""The order of FMAs, measured: outer products of registers, alone or with loads among them.

10_fma_order.cu is what a thread of a fast kernel does most, and nothing else. It is
compiled in many ways; each is taken apart by gemmlab.sass, timed, and counted by Nsight Compute,
which runs this module on the very cubins that were timed:

    python -m gemmlab record 10_fma_order

One CSV file holds what came out, results/<gpu>/fma_order.csv, a row for each way (see
gemmlab.records.registry).
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import cache
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab.cuda.device import Gpu, gpu, require_gpu, software_versions
from gemmlab.cuda.options import LEVEL
from gemmlab.folders import kernel_file
from gemmlab.kernel.compiler import options_for, resources
from gemmlab.kernel.fingerprint import Fingerprint, fingerprint
from gemmlab.ladder import CEILINGS, Launch, Problem, Settings, Target
from gemmlab.measure import ceilings, profiler
from gemmlab.measure.timing import now
from gemmlab.processes import workers
from gemmlab.records.registry import (
    COUNTED,
    DATE,
    NOTE,
    NUMBER,
    POSITIVE,
    REPORTED,
    SIZE,
    TEXT,
    WHOLE,
    Say,
    Table,
)
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import register_reads
from ptxsim.compile import nvrtc

if TYPE_CHECKING:
    import numpy
    import pandas

NAME, ENTRY = "10_fma_order", "outer_products"
PATH = kernel_file(f"{NAME}.cu")
ORDERS = (
    "row by row", "rows snaking", "columns snaking", "2×2 zigzag", "strips of four columns",
)  # fmt: skip
TILES = ((8, 8), (8, 16), (16, 8))  # rows and columns of sums of a thread
LOADED, LOADED_ORDERS = (8, 16), (0, 1, 2)  # what is measured with loads, too
DEFAULT_LEVEL, KEEPS_ORDER = 3, 1  # of the assembler's optimization
STEPS, THREADS = 8, 256  # as in the kernel file
ITERATIONS = 4096  # of the loop; some 5 ms
CHECK_ITERATIONS = 3
COUNTED_ITERATIONS = ITERATIONS  # warps fall into step, or out of it, as a launch goes on
METRICS = {  # column: what Nsight Compute counts for it
    "issue_active_pct": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "cycles_active": "smsp__cycles_active.avg",  # with warps, the mean of all schedulers
    "cycles_elapsed": "sm__cycles_elapsed.max",
    "dispatch_stall": "smsp__average_warps_issue_stalled_dispatch_stall_per_issue_active.ratio",
    "instructions": "smsp__inst_executed.sum",
}
KEY = ("rows", "columns", "order", "loads", "level")
COLUMNS = {
    **WHOLE(*KEY), **POSITIVE("tflops", "tflops_q1", "tflops_q3", "roof_tflops"),
    **REPORTED("sm_clock_mhz", "power_w"), **SIZE("registers", "slots", "ffma"),
    **WHOLE("bank_0", "bank_1", "two_in_a_bank", "waits"), **NUMBER("reuse_pct"),
    **COUNTED(*METRICS), **TEXT("code", "gpu", "driver", "cuda", "nvrtc"), **NOTE("ncu"),
    **DATE("recorded"),
}  # fmt: skip


class OuterProductsError(RuntimeError):
    """10_fma_order.cu returned something wrong, so its time means nothing."""


@dataclass(frozen=True)
class Variant:
    """One way to compile 10_fma_order.cu: its settings, and the assembler's -O."""

    rows: int
    columns: int
    order: int = 0
    loads: int = 0
    level: int = DEFAULT_LEVEL

    @property
    def macros(self) -> Settings:
        return {"TM": self.rows, "TN": self.columns, "ORDER": self.order, "LOADS": self.loads}

    @property
    def settings(self) -> Settings:
        """The macros, and the assembler's level."""
        return {**self.macros, LEVEL: self.level}

    @property
    def options(self) -> tuple[str, ...]:
        """For NVRTC."""
        return options_for(self.settings)

    def launch(self, sm_count: int) -> Launch:
        """As many blocks as run at a time: 128 sums a thread leave room for one on each SM."""
        resident = 1 if self.rows * self.columns == 128 else 2
        return Launch(ENTRY, (sm_count * resident, 1, 1), (THREADS, 1, 1))

    def __str__(self) -> str:
        level = "" if self.level == DEFAULT_LEVEL else f", -O{self.level}"
        return f"{self.rows}×{self.columns} {ORDERS[self.order]}, {self.loads} loads{level}"


VARIANTS = (
    *(Variant(*tile, order, level=level)
      for level in (DEFAULT_LEVEL, KEEPS_ORDER) for tile in TILES for order in range(len(ORDERS))),
    *(Variant(*LOADED, order, loads, level)
      for level in (DEFAULT_LEVEL, KEEPS_ORDER) for order in LOADED_ORDERS
      for loads in range(1, sum(LOADED) // 4 + 1)),
)  # fmt: skip


# ---- what a variant computes ---------------------------------------------------------------------


def numbers(variant: Variant) -> numpy.ndarray:
    """The operands, float32 (2 * STEPS, 4 * rows + 8 * columns), at random.

    Products of two of these 12-bit numbers are exact in float32.
    """
    import numpy

    shape = 2 * STEPS, 4 * variant.rows + 8 * variant.columns
    drawn = numpy.random.default_rng(10).integers(-2047, 2048, shape)
    return (drawn * 2.0**-11).astype(numpy.float32)


def totals(variant: Variant, iterations: int) -> numpy.ndarray:
    """What each lane of a warp stores, float32 (32,): a NumPy twin of the kernel."""
    import numpy

    rows, columns = variant.rows, variant.columns
    down, across = numpy.divmod(numpy.arange(32), 8)
    found = numbers(variant)
    of_a = found[:, : 4 * rows].reshape(-1, rows // 4, 4, 4)[:, :, down]
    of_b = found[:, 4 * rows :].reshape(-1, columns // 4, 8, 4)[:, :, across]
    quads = numpy.concatenate([of_a, of_b], axis=1)  # row of numbers, quad, lane, element
    mine = [quads[0].copy(), quads[1].copy()]
    sums = numpy.zeros((32, rows, columns), numpy.float32)
    for step in range(iterations * STEPS):
        mine[(step + 1) % 2][: variant.loads] = quads[(step + 1) % len(quads)][: variant.loads]
        lanes = mine[step % 2].transpose(1, 0, 2).reshape(32, -1).astype(numpy.float64)
        products = lanes[:, :rows, None] * lanes[:, None, rows:]
        sums = (sums + products).astype(numpy.float32)  # exact in float64, so rounded once
    total = numpy.zeros(32, numpy.float32)
    for one in sums.reshape(32, -1).T:
        total += one
    return total


# ---- measuring -----------------------------------------------------------------------------------


def compiled(variant: Variant, arch: str) -> nvrtc.Program:
    """Compiled anew. Raises CompileError, NoCompiler."""
    text = PATH.read_text(encoding="utf-8")
    return nvrtc.compile_anew(text, PATH.name, arch=arch, options=variant.options)


def record(say: Say) -> Path:
    """Measure all variants on the GPU here, with counters, and write their file.

    Without Nsight Compute the counters are left out. Raises NoGpu, NoDisassembler,
    OuterProductsError.
    """
    import pandas

    here = require_gpu("Recording the order of FMAs")
    table = pandas.DataFrame(_measure(here, say, counted=True), columns=list(COLUMNS))
    return EVIDENCE.write(table, here.slug)


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    variant = Variant(row.rows, row.columns, row.order, row.loads, row.level)
    return fingerprint(PATH, variant.settings, [variant.launch(on.sm_count)])


EVIDENCE = Table(
    name=NAME, file="fma_order.csv", remake=record, key=KEY, columns=COLUMNS,
    fingerprint_of=_fingerprint_of,
)  # fmt: skip


def _measure(here: Gpu, say: Say, counted: bool) -> list[dict[str, Any]]:
    """A row for each of VARIANTS, its counters left out unless they are to be `counted`."""
    from tqdm.auto import tqdm

    versions = software_versions() | {"ncu": profiler.ncu_version() if counted else None}
    context = {name: versions[name] for name in ("driver", "cuda", "nvrtc", "ncu")}
    context |= {"gpu": here.name, "recorded": now()}
    roof = ceilings.measure_fma(CEILINGS.fma_launch(here.sm_count), CEILINGS.macros)
    context["roof_tflops"] = roof.per_second.median / 1e12
    # NVRTC takes a second for each, so other processes compile.
    with workers(get_context("spawn")) as pool:
        programs = list(pool.map(compiled, VARIANTS, repeat(here.arch)))
    rows, cubins = [], [program.cubin for program in programs]
    for variant, program in zip(
        tqdm(VARIANTS, desc=NAME, unit="variant", leave=False), programs, strict=True
    ):
        rows.append({**_row(variant, program), **_timed(variant, program.cubin, here), **context})
        say(f"{variant}: {rows[-1]['tflops']:.1f} TFLOP/s")
    if counted:
        try:
            for row, counters in zip(rows, _counters(cubins), strict=True):
                row |= {column: counters.get(metric) for column, metric in METRICS.items()}
        except profiler.CountersUnavailable as error:
            say(f"{NAME}: NO COUNTERS RECORDED. {error}")
    return rows


def _row(variant: Variant, program: nvrtc.Program) -> dict[str, Any]:
    """What can be said of a variant without a GPU."""
    loop = loops.analyse(program.cubin, ENTRY)
    return {
        **dict(zip(KEY, astuple(variant), strict=True)),
        **register_reads(loop),
        "registers": resources(program.log)[ENTRY].registers,
    }


def _launcher(variant: Variant, cubin: bytes, here: Gpu) -> tuple[Any, Callable[[int], None]]:
    """The array that the kernel fills, and a function that launches it for so many iterations."""
    import cupy
    import numpy

    shape = variant.launch(here.sm_count)
    operands = cupy.asarray(numbers(variant))
    out = cupy.full(shape.grid[0] * THREADS, cupy.nan, dtype=cupy.float32)
    module = cupy.cuda.function.Module()
    module.load(cubin)
    kernel = module.get_function(ENTRY)

    def launch(iterations: int) -> None:
        kernel(shape.grid, shape.block, (out, operands, numpy.int32(iterations)))

    return out, launch


def _timed(variant: Variant, cubin: bytes, here: Gpu) -> dict[str, Any]:
    """Raises OuterProductsError if a few iterations differ from NumPy's."""
    import cupy

    out, launch = _launcher(variant, cubin, here)
    launch(CHECK_ITERATIONS)
    if not bool((out.reshape(-1, 32) == cupy.asarray(totals(variant, CHECK_ITERATIONS))).all()):
        raise OuterProductsError(f"The sums of {PATH.name} differ from NumPy's: {variant}.")
    work = Problem(variant.rows, variant.columns, STEPS * ITERATIONS).flop * out.size
    roof = ceilings.time_launches(lambda: launch(ITERATIONS), work, str(variant))
    return {
        "tflops": roof.per_second.median / 1e12,
        "tflops_q1": roof.per_second.q1 / 1e12,
        "tflops_q3": roof.per_second.q3 / 1e12,
        "sm_clock_mhz": roof.state.sm_clock_mhz,
        "power_w": roof.state.power_w,
    }


def _counters(cubins: list[bytes]) -> list[dict[str, int | float]]:
    """METRICS of one launch of each of VARIANTS, from its cubin."""
    with tempfile.TemporaryDirectory() as folder:
        for at, (variant, cubin) in enumerate(zip(VARIANTS, cubins, strict=True)):
            (Path(folder) / f"{at:03}.cubin").write_bytes(cubin)
            (Path(folder) / f"{at:03}.json").write_text(json.dumps(astuple(variant)))
        child = ["-m", "gemmlab.lessons.register_banks.fma_order", folder]
        return profiler.profiled(child, ENTRY, len(cubins), tuple(METRICS.values()), NAME)


def main(folder: Path) -> None:
    """Launch each kernel of a folder once; this is what runs under ncu."""
    here = require_gpu("Counting")
    for path in sorted(folder.glob("*.cubin")):
        variant = Variant(*json.loads(path.with_suffix(".json").read_text()))
        out, launch = _launcher(variant, path.read_bytes(), here)
        launch(COUNTED_ITERATIONS)
        out.get()  # waits


# ---- what came out -------------------------------------------------------------------------------


def fma_order() -> pandas.DataFrame:
    """The variants of 10_fma_order.cu: measured here, once; without a GPU the recorded ones.

    A row for each. tile, order, loads: rows × columns of sums of a thread, the order of its FMAs,
    and 16-byte loads from shared memory for each outer product; ptxas: the assembler's level of
    optimization. Of one trip through the loop, which is 8 outer products, from the cubin: issue
    slots, FFMA; how many registers each bank has to deliver, operands that are reused left out;
    FFMAs that need two of one bank; waits, as issue_slots.waits() counts them; the share of FFMAs
    that mark an operand for reuse. Then TFLOP/s: of slots alone (the roof times FFMA over slots),
    predicted (over slots and waits), measured (the median), and the roof. Nsight Compute's, missing
    where this was measured now: issue active, % (of the cycles in which a scheduler has warps,
    those in which it issues), active, % (of the cycles of the launch, those in which a scheduler
    has warps: less where some SMs end before others), both the mean of all schedulers, and dispatch
    stall (warps that wait for the dispatcher, per issue). gpu, recorded.

    Raises what registry.Table.read raises; on a GPU NoDisassembler and OuterProductsError.
    """
    import pandas

    found = _measured_once() if gpu() is not None else recorded()
    active = found.cycles_active.astype(float)
    share = {"slots alone": found.ffma / found.slots}
    share["predicted"] = found.ffma / (found.slots + found.waits)
    return pandas.DataFrame({
        "tile": [f"{row.rows}×{row.columns}" for row in found.itertuples()],
        "order": [ORDERS[order] for order in found.order],
        "loads": found.loads,
        "ptxas": [f"-O{level}" for level in found.level],
        "issue slots": found.slots,
        "FFMA": found.ffma,
        "reads of bank 0": found.bank_0,
        "reads of bank 1": found.bank_1,
        "two in a bank": found.two_in_a_bank,
        "waits": found.waits,
        "FFMA with reuse, %": found.reuse_pct.round(1),
        **{f"{name} TFLOP/s": (part * found.roof_tflops).round(1) for name, part in share.items()},
        "measured TFLOP/s": found.tflops.round(1),
        "roof TFLOP/s": found.roof_tflops.round(1),
        "issue active, %": found.issue_active_pct.astype(float).round(1),
        "active, %": (100 * active / found.cycles_elapsed.astype(float)).round(1),
        "dispatch stall": found.dispatch_stall.astype(float).round(3),
        "gpu": found.gpu,
        "recorded": found.recorded,
    })  # fmt: skip


@cache
def _measured_once() -> pandas.DataFrame:
    import pandas

    rows = _measure(require_gpu("Measuring"), lambda line: None, counted=False)
    return pandas.DataFrame(rows, columns=list(COLUMNS))


def recorded() -> pandas.DataFrame:
    """The recorded variants, columns COLUMNS. Raises what registry.Table.read raises."""
    return EVIDENCE.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
