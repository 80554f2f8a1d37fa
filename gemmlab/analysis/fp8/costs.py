"""What FP8 costs and brings, as recorded: speeds, quantizing beside the product, promotion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab.ladder.element_types import E4M3
from gemmlab.ladder.rungs.fp8 import SCALES
from gemmlab.records.experiments import wgmma_ceilings
from gemmlab.records.experiments.fp8 import quantizing, steps

if TYPE_CHECKING:
    import pandas

BF16 = "BF16"  # in a column `scales`: rung 18, which takes none
CLOCKED = (steps.TENSORS, steps.ONE_SUM, steps.BY_ROWS, steps.BLOCKS_IN_PAIRS)
BY_SCALES = (steps.TENSORS, steps.BY_ROWS, steps.BY_BLOCKS)  # in the order of SCALES


def speeds() -> pandas.DataFrame:
    """The rows of fp8_steps.csv of all kinds of scales, and of rung 18 in BF16, at large shapes.

    A column `scales` says which: "BF16", "tensors", "rows" or "blocks". Raises what
    registry.Table.read raises.
    """
    names = {step.what: kind.name for step, kind in zip(BY_SCALES, SCALES, strict=True)}
    table = steps.EVIDENCE.read()
    table = table.assign(scales=table["step"].map(names | {steps.BESIDE[0].what: BF16}))
    return table[table["scales"].notna()].reset_index(drop=True)


def by_kind() -> pandas.DataFrame:
    """Each kind of scales at large shapes, beside cuBLASLt, scales of tensors, and rung 18 in BF16.

    A row for each of BY_SCALES and shape. Columns: step, M×N×K, µs, TFLOP/s, % of cuBLASLt (with
    the same kind of scales), % of scales of tensors, times 18 in BF16. Raises what
    registry.Table.read raises.
    """
    table = steps.steps(*BY_SCALES)
    tensors, bf16 = (
        table["M×N×K"].map(steps.steps(step).set_index("M×N×K")["µs"])
        for step in (steps.TENSORS, steps.BESIDE[0])
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
    made = quantizing.times().set_index(["scales", "which", "transposed", "rows", "cols"])["us"]
    for kind in SCALES:
        of_b = "B" if kind.depth else "A"  # of others A and B are quantized alike
        for m, n, k in steps.SQUARES:
            a, b = made[kind.name, "A", "no", m, k], made[kind.name, of_b, "yes", k, n]
            product = products[kind.name, m, n, k]
            rows[kind.name, f"{m}×{n}×{k}"] = {
                "quantizing A": a, "quantizing B, transposed": b, "product": product,
                "all": a + b + product, "18 in BF16": products[BF16, m, n, k],
            }  # fmt: skip
    return pandas.DataFrame(rows).T.rename_axis(["scales", "M×N×K"])


def at_its_clock() -> pandas.DataFrame:
    """How near the tensor cores' ceiling products of 8192×8192×8192 are, at the clock they had.

    A row for each of CLOCKED. Columns: TFLOP/s; the SM clock in MHz and the power in W, as the
    driver told them meanwhile; % of ceiling: of the recorded wgmma of E4M3 on random numbers
    without end, both per cycle of the driver's clock. Raises what registry.Table.read raises.
    """
    table = wgmma_ceilings.EVIDENCE.read()
    (ceiling,) = table[
        (table["dtype"] == E4M3.name) & (table["data"] == "random") & (table["load"] == "sustained")
    ].itertuples()
    found = steps.EVIDENCE.read()
    found = found[(found[["m", "n", "k"]] == list(steps.HUGE)).all(axis=1)]
    found = found.set_index("step").loc[[step.what for step in CLOCKED]]
    per_cycle = found["tflops"] / found["sm_clock_mhz"]
    found["% of ceiling"] = 100 * per_cycle / (ceiling.tflops / ceiling.driver_clock_mhz)
    named = {"tflops": "TFLOP/s", "sm_clock_mhz": "SM clock, MHz", "power_w": "W"}
    return found.rename(columns=named)[[*named.values(), "% of ceiling"]]
