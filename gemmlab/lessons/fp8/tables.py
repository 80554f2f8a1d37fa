"""What scales reach, as traced, and what FP8 costs and gains, as recorded."""

from dataclasses import dataclass

import numpy as np
import pandas

from gemmlab import ladder
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import random_values
from gemmlab.kernel.trace import Trace
from gemmlab.ladder import Problem
from gemmlab.ladder.precision import BFLOAT16, BLOCK, Scales
from gemmlab.lessons.fp8 import measure, types
from gemmlab.lessons.fp8.quantize import quantize
from gemmlab.lessons.fp8.rung import SCALES
from gemmlab.lessons.tma_wgmma.rung import GROUP_ROWS
from gemmlab.lessons.tma_wgmma.tables import TENSOR_FLOP_PER_CYCLE, cycles, sm_count
from gemmlab.lessons.warp_specialized import comparisons
from gemmlab.loading import load
from gemmlab.plots import style
from gemmlab.plots.style import plural
from gemmlab.records import runs
from gemmlab.records.ablations import HUGE, SQUARES
from gemmlab.records.runs import LARGE, Measured
from ptxsim.architectures import WARP
from ptxsim.hopper import GROUP_WARPS
from ptxsim.occupancy import SM_PARTITIONS


def zeros(matrix: np.ndarray, kind: str) -> str:
    """In words, how many elements of an A, M×K, become 0 in E4M3 with this kind of scales."""
    Q, scales = quantize(matrix, kind, "A")
    zero = int((Q % 128 == 0).sum())  # without the bit of the sign
    return f"{plural(scales.size, 'scale')}: {zero:,} of {Q.size:,} elements become 0"


def errors_by_signs(rows: int = 64, k: int = 4096) -> pandas.DataFrame:
    """How wrong products of random numbers are, and of their absolute values: a row for each.

    Of C = A @ B.T, A and B of `rows` × k: root mean squares of the whole error as percent of
    |A| @ |B|.T, from float64 on the numbers before their conversion.
    """
    random = [random_values(rows * k, seed).reshape(rows, k).astype(np.float32) for seed in (6, 7)]
    table = {}
    for signs, (A, B) in {"random": random, "all +": [abs(matrix) for matrix in random]}.items():
        bits = (BFLOAT16.encode(matrix, BFLOAT16.storage) for matrix in (A, B.T.copy()))
        (q_a, scale_a), (q_b, scale_b) = quantize(A, "tensors"), quantize(B, "tensors")
        products = {"18 in BF16": load("18_persistent", DTYPE=1, OUT32=1)(*bits)}
        for promote, words in ((BLOCK, f"promoted every {BLOCK}"), (0, "never promoted")):
            kernel = load("19_fp8", OUT32=1, PROMOTE=promote)
            products[f"19, {words}"] = kernel(q_a, q_b, scales=(scale_a, scale_b))
        exact, size = (x.astype(np.float64) @ y.T for x, y in ((A, B), (abs(A), abs(B))))
        table[signs] = {
            name: 100 * np.sqrt(np.mean(((C - exact) / size) ** 2)) for name, C in products.items()
        }
    return pandas.DataFrame(table).T.rename_axis("signs")


ADDITIONS = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
SM_CYCLES, AT_FULL_RATE = "SM cycles", "tensor cores multiply, at their full rate"
PROMOTING = "schedulers start FMAs that promote"


def account(*names: str) -> pandas.DataFrame:
    """Cycles of an SM that has tiles, at LARGE, a column for each of 16 to 19, as counted.

    Of them those in which the tensor cores multiply all products at their full rate, and those in
    which each scheduler starts an FMA. Raises LadderError, NoRecord, StaleRecord.
    """
    shares, table = cycles(*names), {}
    for name in names:
        busy = 1 - shares.loc["SMs without a tile", name] / 100
        _, counted = runs.counters_at(Measured(ladder.find(name)), *LARGE)
        total, sms = shares.loc["cycles", name], busy * sm_count()
        table[name] = {
            SM_CYCLES: total,
            AT_FULL_RATE: total * shares.loc["products at full rate", name] / 100 / busy,
            PROMOTING: counted[ADDITIONS] / WARP / SM_PARTITIONS / sms,
        }
    return pandas.DataFrame(table)


BF16 = "BF16"  # in a column `scales`: rung 18, which takes none
CLOCKED = {  # a variant of hopper_ablations: its kind of scales
    "two sets": "per-tensor scales", "row scales, two sets": "per-row scales",
    "block scales, two sets": "block scales",
}  # fmt: skip
BY_SCALES = (measure.TENSORS, measure.BY_ROWS, measure.BY_BLOCKS)  # in the order of SCALES


def speeds() -> pandas.DataFrame:
    """The rows of fp8_steps.csv of all kinds of scales, and of rung 18 in BF16, at large shapes.

    scales: "BF16", "tensors", "rows" or "blocks".
    """
    names = {step.title: kind.name for step, kind in zip(BY_SCALES, SCALES, strict=True)}
    table = measure.BY_STEPS.read()
    table = table.assign(scales=table["step"].map(names | {measure.BESIDE[0].title: BF16}))
    return table[table["scales"].notna()].reset_index(drop=True)


def beside_the_product() -> pandas.DataFrame:
    """Microseconds of quantizing bfloat16 A and B, stored K×N, beside the product of squares.

    A row for each kind of scales and square; 18 in BF16 needs no quantizing.
    """
    products, rows = speeds().set_index(["scales", "m", "n", "k"])["us"], {}
    by = ["scales", "which", "transposed", "rows", "cols"]
    made = measure.QUANTIZING.read().set_index(by)["us"]
    for kind in SCALES:
        of_b = "B" if kind.depth else "A"  # of others A and B are quantized alike
        for m, n, k in SQUARES:
            a, b = made[kind.name, "A", "no", m, k], made[kind.name, of_b, "yes", k, n]
            product = products[kind.name, m, n, k]
            rows[kind.name, f"{m}×{n}×{k}"] = {
                "quantizing A": a, "quantizing B, transposed": b, "product": product,
                "all": a + b + product, "18 in BF16": products[BF16, m, n, k],
            }  # fmt: skip
    return pandas.DataFrame(rows).T.rename_axis(["scales", "M×N×K"])


def at_its_clock() -> pandas.DataFrame:
    """How near the tensor cores' full rate products of 8192×8192×8192 are, without a pause.

    The SMs counted the clock; the full rate is 8,192 FLOP for each SM and cycle of it.
    """
    table = comparisons.changes("accumulators", comparisons.LOADED).loc[str(Problem(*HUGE))]
    table = table.set_index("variant").loc[[*CLOCKED]].rename(index=CLOCKED).rename_axis("19 with")
    cycles = runs.current()["gpu"]["sm_count"] * 1e6 * table["SM clock, MHz"]
    table["% of full rate"] = 100e12 * table["TFLOP/s"] / (2 * TENSOR_FLOP_PER_CYCLE * cycles)
    return table[["TFLOP/s", "SM clock, MHz", "% of full rate"]]


# ---- what scales reach ---------------------------------------------------------------------------

WARP_ROWS = GROUP_ROWS // GROUP_WARPS  # of C, for which a warp has the sums


Region = tuple[tuple[int, int], tuple[int, int]]  # of a matrix: rows and columns, ends excluded


@dataclass(frozen=True)
class Reach:
    """What the scales reach that go into C[row, column]: regions of A, M×K, and of B, K×N."""

    scales: Scales
    problem: Problem
    row: int
    column: int
    a: tuple[Region, ...]
    b: tuple[Region, ...]


def reach(kernel: Kernel, m: int, n: int, k: int, row: int, column: int) -> Reach:
    """The scales that go into C[row, column], in its first tile: of those that its warp reads, as
    traced. kernel: one that takes scales."""
    trace, scales = kernel.trace(m, n, k), kernel.precision.scales
    problem, warp = trace.problem, row // WARP_ROWS
    of_a = _read(trace, warp, "scale_a", scales.shape_of_a(problem))
    of_b = _read(trace, warp, "scale_b", scales.shape_of_b(problem))
    over_a = _regions(of_a, scales.rows, scales.depth, m, k, row)
    over_b = _regions(of_b, scales.columns, scales.depth, n, k, column)
    return Reach(scales, problem, row, column, over_a, tuple((deep, of) for of, deep in over_b))


def every_kind(load, m: int, n: int, k: int, row: int, column: int) -> list[Reach]:
    """`reach` for scales of tensors, rows and blocks. load: makes the kernel of SCALES."""
    return [reach(load(SCALES=kind), m, n, k, row, column) for kind in range(len(SCALES))]


def _read(trace: Trace, warp: int, name: str, shape: tuple[int, ...]) -> set[tuple[int, int]]:
    """Places of scales, (of lines, along k), that this warp of the first block reads."""
    numbers = {
        int(address) // 4
        for access in trace.run.accesses((0, 0, 0), warp)
        if access.array == name
        for address in access.addresses[access.active]
    }
    along = shape[1] if len(shape) > 1 else 1
    return {divmod(number, along) for number in numbers}


def _regions(
    places: set[tuple[int, int]], together: int, depth: int, lines: int, k: int, line: int
) -> tuple[Region, ...]:
    """Of a matrix of `lines` × k, what these scales reach, as far as `line` is in it."""
    regions = []
    for of_lines, along in sorted(places):
        low = of_lines * together
        high = min(low + together, lines) if together else lines
        if low <= line < high:
            deep = (along * depth, min((along + 1) * depth, k)) if depth else (0, k)
            regions.append(((low, high), deep))
    return tuple(regions)


# ---- beside libraries, as pages show it ----------------------------------------------------------

SHAPES = ("4096×4096×4096", "8192×8192×8192", "4096×7168×2048", "128×7168×2048", "64×4096×7168")
EARLY = "Launches of ours overlap with the launch before them, those of libraries do not."
KERNELS = (  # type, step of the record, its column that has the share, and of what it is a share
    ("int8", "INT8", "% of cuBLASLt", "the fastest that cuBLASLt proposes"),
    ("tf32", "TF32", "% of cuBLASLt", "cuBLAS's first choice"),
    ("tf32", "TF32", "% of its fastest proposal", "the fastest that cuBLASLt proposes"),
    ("fp8", "FP8 with scales of blocks", "% of cuBLASLt",
     "the fastest that cuBLASLt proposes for the same scales"),
)  # fmt: skip


def types_beside_libraries() -> str:
    """INT8, TF32 and FP8 with scales of blocks as a Markdown table. Raises NoRecord."""
    lines = [f"| TFLOP/s, % | {' | '.join(SHAPES)} | of |", "|---" * (len(SHAPES) + 2) + "|"]
    for name, step, column, share in KERNELS:
        every = types.fastest(name)
        rows = every[every["kernel"] == step].set_index("M×N×K").loc[[*SHAPES]]
        pairs = zip(rows["TFLOP/s"], rows[column], strict=True)
        cells = " | ".join(f"{rate:.0f}, {percent:.1f} %" for rate, percent in pairs)
        lines.append(f"| {step} | {cells} | {share} |")
    source = style.provenance(pandas.concat(table.read() for table in types.EVIDENCE))
    return "\n".join(
        [*lines, "", f"INT8: TOPS. {source}; medians, in turn with the library. {EARLY}"]
    )
