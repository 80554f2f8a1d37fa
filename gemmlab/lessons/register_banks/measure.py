"""What is measured for this lesson: the order of FMAs, and the path from 09 to 10.

    python -m gemmlab record 10_fma_order

10_fma_order.cu has what a thread of a fast kernel does most: outer products of registers. It is
compiled in many ways; each is taken apart and timed; results/<gpu>/fma_order.csv.
"""

from dataclasses import astuple, dataclass
from typing import Any

import numpy
import pandas

from gemmlab.cuda.device import Gpu, require_gpu
from gemmlab.cuda.options import LEVEL
from gemmlab.folders import kernel_file
from gemmlab.kernel.compiler import options_for, resources
from gemmlab.kernel.fingerprint import Fingerprint, fingerprint
from gemmlab.ladder import CEILINGS, Launch, Problem, Settings, Target
from gemmlab.lessons.register_banks.rung import RUNG
from gemmlab.measure import ceilings
from gemmlab.records import registry
from gemmlab.records.ablations import path_to, steps_beside
from gemmlab.records.registry import POSITIVE, SIZE, WHOLE, Row, Say, Table
from gemmlab.records.roofs import cells_of_roof
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import register_reads
from ptxsim.compile import nvrtc

NAME, ENTRY = "10_fma_order", "outer_products"
PATH = kernel_file(f"{NAME}.cu")
ORDERS = (
    "row by row", "rows snaking", "columns snaking", "2×2 zigzag", "strips of four columns",
)  # fmt: skip
TILES = ((8, 8), (8, 16), (16, 8))  # rows and columns of sums of a thread
KEEPS_ORDER = 1  # the level of the assembler's optimization that does
STEPS, THREADS = 8, 256  # as in the kernel file
ITERATIONS = 4096  # of the loop; some 5 ms
CHECK_ITERATIONS = 3
KEY = ("rows", "columns", "order")
COLUMNS = {
    **WHOLE(*KEY), **POSITIVE("tflops", "tflops_q1", "tflops_q3", "roof_tflops"),
    **registry.REPORTED("sm_clock_mhz", "power_w"), **SIZE("registers", "slots", "ffma"),
    **WHOLE("bank_0", "bank_1", "two_in_a_bank", "waits"), **registry.NUMBER("reuse_pct"),
    **registry.provenance("driver", "cuda", "nvrtc"),
}  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """One way to compile 10_fma_order.cu."""

    rows: int
    columns: int
    order: int = 0

    @property
    def macros(self) -> Settings:
        return {"TM": self.rows, "TN": self.columns, "ORDER": self.order, "LOADS": 0}

    @property
    def settings(self) -> Settings:
        return {**self.macros, LEVEL: KEEPS_ORDER}

    def launch(self, sm_count: int) -> Launch:
        """As many blocks as run at a time: 128 sums a thread leave room for one on each SM."""
        resident = 1 if self.rows * self.columns == 128 else 2
        return Launch(ENTRY, (sm_count * resident, 1, 1), (THREADS, 1, 1))

    def __str__(self) -> str:
        return f"{self.rows}×{self.columns} {ORDERS[self.order]}"


VARIANTS = tuple(Variant(*tile, order) for tile in TILES for order in range(len(ORDERS)))


def numbers(variant: Variant) -> numpy.ndarray:
    """The operands, float32 (2 * STEPS, 4 * rows + 8 * columns), at random, of 12 bits.

    Products of two of them are exact in float32.
    """
    shape = 2 * STEPS, 4 * variant.rows + 8 * variant.columns
    drawn = numpy.random.default_rng(10).integers(-2047, 2048, shape)
    return (drawn * 2.0**-11).astype(numpy.float32)


def totals(variant: Variant, iterations: int) -> numpy.ndarray:
    """What each lane of a warp stores, float32 (32,): a NumPy twin of the kernel."""
    rows, columns = variant.rows, variant.columns
    down, across = numpy.divmod(numpy.arange(32), 8)
    operands = numbers(variant)
    of_a = operands[:, : 4 * rows].reshape(-1, rows // 4, 4, 4)[:, :, down]
    of_b = operands[:, 4 * rows :].reshape(-1, columns // 4, 8, 4)[:, :, across]
    quads = numpy.concatenate([of_a, of_b], axis=1)  # row of numbers, quad, lane, element
    accumulators = numpy.zeros((32, rows, columns), numpy.float32)
    for step in range(iterations * STEPS):
        lanes = quads[step % 2].transpose(1, 0, 2).reshape(32, -1).astype(numpy.float64)
        products = lanes[:, :rows, None] * lanes[:, None, rows:]
        # exact in float64, so rounded once
        accumulators = (accumulators + products).astype(numpy.float32)
    total = numpy.zeros(32, numpy.float32)
    for addends in accumulators.reshape(32, -1).T:
        total += addends
    return total


def compiled(variant: Variant, arch: str) -> nvrtc.Program:
    """Compiled anew. Raises CompileError, NoCompiler."""
    text = PATH.read_text(encoding="utf-8")
    return nvrtc.compile_anew(text, PATH.name, arch=arch, options=options_for(variant.settings))


def _measured(say: Say) -> list[Row]:
    """A row for each of VARIANTS: a list, for half of them would be no record.

    Raises NoDisassembler, CeilingsError.
    """
    here = require_gpu("Measuring the order of FMAs")
    roof = ceilings.measure_fma(CEILINGS.launch(here.sm_count), CEILINGS.macros)
    rows = []
    for variant in VARIANTS:
        program = compiled(variant, here.arch)
        speed = _timed(variant, program.cubin, here)
        rows.append(_row(variant, program) | speed | {"roof_tflops": cells_of_roof(roof)["tflops"]})
        say(f"{variant}: {rows[-1]['tflops']:.1f} TFLOP/s")
    return rows


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    variant = Variant(row.rows, row.columns, row.order)
    return fingerprint(PATH, variant.settings, [variant.launch(on.sm_count)])


TABLE = Table(
    name=NAME, file="fma_order.csv", by_default=True, key=KEY, columns=COLUMNS, measure=_measured,
    fingerprint_of=_fingerprint_of,
)  # fmt: skip


def _row(variant: Variant, program: nvrtc.Program) -> Row:
    loop = loops.analyse(program.cubin, ENTRY)
    return {
        **dict(zip(KEY, astuple(variant), strict=True)),
        **register_reads(loop),
        "registers": resources(program.log)[ENTRY].registers,
    }


def _timed(variant: Variant, cubin: bytes, here: Gpu) -> Row:
    """Raises CeilingsError if a few iterations differ from NumPy's."""
    import cupy

    shape = variant.launch(here.sm_count)
    operands = cupy.asarray(numbers(variant))
    out = cupy.full(shape.grid[0] * THREADS, cupy.nan, dtype=cupy.float32)
    module = cupy.cuda.function.Module()
    module.load(cubin)
    kernel = module.get_function(ENTRY)

    def launch(iterations: int) -> None:
        kernel(shape.grid, shape.block, (out, operands, numpy.int32(iterations)))

    launch(CHECK_ITERATIONS)
    if not bool((out.reshape(-1, 32) == cupy.asarray(totals(variant, CHECK_ITERATIONS))).all()):
        raise ceilings.CeilingsError(f"The sums of {PATH.name} differ from NumPy's: {variant}.")
    work = Problem(variant.rows, variant.columns, STEPS * ITERATIONS).flop * out.size
    roof = ceilings.time_launches(lambda: launch(ITERATIONS), work, str(variant))
    return cells_of_roof(roof)


def fma_order() -> pandas.DataFrame:
    """The recorded variants of 10_fma_order.cu, a row for each.

    tile: rows × columns of sums of a thread. TFLOP/s: predicted, the roof times FFMA over slots and
    waits of the loop, see Loop.waits(); measured, the median.
    """
    table = TABLE.read()
    predicted = table.ffma / (table.slots + table.waits) * table.roof_tflops
    return pandas.DataFrame({
        "tile": [f"{row.rows}×{row.columns}" for row in table.itertuples()],
        "order": [ORDERS[order] for order in table.order],
        "predicted TFLOP/s": predicted.round(1),
        "measured TFLOP/s": table.tflops.round(1),
        "roof TFLOP/s": table.roof_tflops.round(1),
        "gpu": table.gpu,
        "recorded": table.recorded,
    })  # fmt: skip


EVIDENCE = (TABLE, path_to(RUNG, steps_beside(__file__)))
