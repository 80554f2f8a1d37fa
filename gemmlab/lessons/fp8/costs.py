"""What FP8 costs and brings, as recorded: speeds, quantizing beside the product, promotion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab.ladder import Problem
from gemmlab.lessons.fp8 import hopper_changes, measure
from gemmlab.lessons.fp8.rung import SCALES
from gemmlab.lessons.tma_wgmma.block_phases import TENSOR_FLOP_PER_CYCLE
from gemmlab.records import runs
from gemmlab.records.ablations import HUGE, SQUARES
from gemmlab.records.comparisons import LOADED

if TYPE_CHECKING:
    import pandas

BF16 = "BF16"  # in a column `scales`: rung 18, which takes none
CLOCKED = {  # a variant of hopper_ablations: the step of fp8_steps that it is
    "two sets": measure.TENSORS.title, "never promoted, 128×256": measure.ONE_SUM.title,
    "row scales, two sets": measure.BY_ROWS.title,
    "block scales, two sets": measure.BY_BLOCKS.title,
}  # fmt: skip
BY_SCALES = (measure.TENSORS, measure.BY_ROWS, measure.BY_BLOCKS)  # in the order of SCALES


def speeds() -> pandas.DataFrame:
    """The rows of fp8_steps.csv of all kinds of scales, and of rung 18 in BF16, at large shapes.

    A column `scales` says which: "BF16", "tensors", "rows" or "blocks". Raises what
    registry.Table.read raises.
    """
    names = {step.title: kind.name for step, kind in zip(BY_SCALES, SCALES, strict=True)}
    table = measure.BY_STEPS.read()
    table = table.assign(scales=table["step"].map(names | {measure.BESIDE[0].title: BF16}))
    return table[table["scales"].notna()].reset_index(drop=True)


def by_kind() -> pandas.DataFrame:
    """Each kind of scales at large shapes, beside cuBLASLt, scales of tensors, and rung 18 in BF16.

    A row for each of BY_SCALES and shape. Columns: step, M×N×K, µs, TFLOP/s, % of cuBLASLt (with
    the same kind of scales), % of scales of tensors, times 18 in BF16. Raises what
    registry.Table.read raises.
    """
    table = measure.steps(*BY_SCALES)
    tensors, bf16 = (
        table["M×N×K"].map(measure.steps(step).set_index("M×N×K")["µs"])
        for step in (measure.TENSORS, measure.BESIDE[0])
    )
    table["% of scales of tensors"] = 100 * tensors / table["µs"]
    table["times 18 in BF16"] = bf16 / table["µs"]
    return table[[
        "step", "M×N×K", "µs", "TFLOP/s", "% of cuBLASLt", "% of scales of tensors",
        "times 18 in BF16",
    ]]  # fmt: skip


def beside_the_product() -> pandas.DataFrame:
    """Quantizing A and a B stored K×N, from bfloat16, beside the product of squares; by scales.

    A row for each kind of scales and square. Columns, in µs: quantizing A; quantizing B,
    transposed; the product; all three; 18 in BF16, which needs no quantizing. Raises what
    registry.Table.read raises.
    """
    import pandas

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

    A row for each of CLOCKED. Columns: TFLOP/s; SM clock, MHz, as the SMs counted it meanwhile; %
    of full rate: of 8,192 FLOP for each SM and cycle of that clock. Raises what registry.Table.read
    raises, also where the question "accumulators" of hopper_ablations is not recorded.
    """
    found = hopper_changes.changes("accumulators", LOADED).loc[str(Problem(*HUGE))]
    found = found.set_index("variant").loc[[*CLOCKED]].rename(index=CLOCKED).rename_axis("step")
    cycles = runs.current()["gpu"]["sm_count"] * 1e6 * found["SM clock, MHz"]
    found["% of full rate"] = 100e12 * found["TFLOP/s"] / (2 * TENSOR_FLOP_PER_CYCLE * cycles)
    return found[["TFLOP/s", "SM clock, MHz", "% of full rate"]]
