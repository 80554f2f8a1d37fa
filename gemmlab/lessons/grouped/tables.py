"""Which block computes which tile of which product, as traced; and what the record says."""

from dataclasses import dataclass

import numpy as np
import pandas

from gemmlab import ladder
from gemmlab.kernel.in_simulator import findings_of
from gemmlab.kernel.kernel import Kernel, KernelMistake
from gemmlab.kernel.operands import Operands, random_values
from gemmlab.ladder import Problem
from gemmlab.ladder.shapes import ceil_div, tile
from gemmlab.lessons.fp8.tables import EARLY
from gemmlab.lessons.grouped.measure import (
    CASES,
    FP8_CASES,
    IN_FP8,
    LOOP,
    RUNG,
    TABLE,
    WAYS,
    Case,
    K,
    N,
    settings_of,
)
from gemmlab.lessons.grouped.product import suited
from gemmlab.plots import style
from gemmlab.records.roofs import recorded_ceilings


@dataclass(frozen=True)
class Turn:
    """A tile that a block computes, its `round`-th: `row` is its first one in C, of `height` that
    the product has there, and `column` its first column."""

    block: int
    round: int
    product: int
    row: int
    column: int
    height: int


def turns(kernel: Kernel, heights: list[int], n: int, k: int, sm_count: int) -> list[Turn]:
    """Of products of these heights, if the GPU had so many SMs, by the boxes that are requested.

    Raises KernelMistake.
    """
    starts = np.cumsum([0, *heights])
    operands = grouped_operands(kernel, heights, n, k)
    (run,) = kernel.scheduled_for(sm_count).simulate(operands, 1.0, 0.0, count=True)
    if findings := findings_of([run]):
        raise KernelMistake(findings)
    tall, every_turn = kernel.settings["BM"], []
    for block in range(sm_count * kernel.settings["MIN_BLOCKS"]):
        loads = [box for box in run.boxes((block, 0, 0)) if box.operation == "load"]
        firsts = [at for at, box in enumerate(loads) if box.array == "A" and not box.corner[1]]
        for turn, at in enumerate(firsts):
            row, (product, _, column) = loads[at].corner[0], loads[at + 1].corner
            height = min(tall, int(starts[product + 1]) - row)
            every_turn.append(Turn(block, turn, product, row, column, height))
    return every_turn


def grouped_operands(kernel: Kernel, heights: list[int], n: int, k: int) -> Operands:
    """NumPy arrays for products of these heights, the rows of A below one another."""
    count, total, element = len(heights), sum(heights), kernel.precision.a
    A = element.encode(random_values(total * k, 0), element.storage).reshape(total, k)
    problem = Problem(ceil_div(total, count), n, k, count, kernel.ops)
    B = element.encode(random_values(count * k * n, 1), element.storage)
    B = B.reshape(count, *problem.shape_of_b[-2:])
    C = np.zeros((total, n), kernel.precision.c.storage)
    rows = np.cumsum([0, *heights]).astype(np.int32)
    return Operands(problem, kernel.precision, A, B, C, rows=rows)


def numbered(heights: list[int], n: int, tall: int, wide: int) -> pandas.DataFrame:
    """What a block counts beforehand: where the rows and the tiles of each product begin."""
    rows = np.array(heights)
    tiles = np.array([ceil_div(height, tall) * ceil_div(n, wide) for height in heights])
    table = pandas.DataFrame({
        "height": rows, "first row": rows.cumsum() - rows,
        "tiles": tiles, "first tile": tiles.cumsum() - tiles,
    })  # fmt: skip
    return table.rename_axis("product")


def lookup(turns: list[Turn], heights: list[int], tall: int) -> tuple[np.ndarray, np.ndarray]:
    """For an exercise: where the rows of each product begin and the last ones end; and of each
    tile, in order, its product and its row of tiles there. Both int32."""
    starts = np.cumsum([0, *heights], dtype=np.int32)
    in_order = sorted(turns, key=lambda turn: (turn.round, turn.block))
    places = [(turn.product, (turn.row - starts[turn.product]) // tall) for turn in in_order]
    return starts, np.array(places, np.int32).ravel()


# ---- the record ----------------------------------------------------------------------------------


def fastest(table: pandas.DataFrame, cases: tuple[Case, ...] = CASES) -> pandas.DataFrame:
    """Of each case and way the row with the least time, in the order of the cases."""
    order = {case.name: at for at, case in enumerate(cases)}
    rows = table[table["case"].isin([*order])]
    least = rows.loc[rows.groupby(["case", "way"], sort=False)["us"].idxmin()]
    return least.sort_values("case", key=lambda names: names.map(order), kind="stable")


def as_launched(table: pandas.DataFrame, sm_count: int) -> pandas.DataFrame:
    """The same without the settings of 24 that gl.grouped_matmul, which does not know the heights,
    would not choose. A row for each of CASES and way."""
    cases = {case.name: case for case in CASES}
    rows = table[table["case"].isin([*cases])]
    chosen = {
        name: ladder.written(settings_of(case, suited(case.problem, sm_count)))
        for name, case in cases.items()
    }
    return rows[(rows["way"] != RUNG) | (rows["settings"] == rows["case"].map(chosen))]


def by_way(table: pandas.DataFrame, value: str) -> pandas.DataFrame:
    """A row for each of CASES, a column for each way."""
    rows = fastest(table)
    shown = rows.pivot(index="case", columns="way", values=value)
    return shown.loc[rows["case"].unique(), [way for way in WAYS if way in shown]]


def waves(table: pandas.DataFrame, sm_count: int) -> pandas.DataFrame:
    """Waves of 24's tiles on so many SMs, with a launch for each product and with one for all.

    A row for each of CASES, with the tile of its fastest settings in `table`. rows that count: in
    percent of those that the tiles multiply. FLOP per byte: of what must move at least.
    """
    ours = fastest(table).query("way == @RUNG").set_index("case")
    waves_of = {case.name: _waves(case, ours["settings"][case.name], sm_count) for case in CASES}
    return pandas.DataFrame(waves_of).T.assign(**{"TFLOP/s": ours["tflops"].round(0).astype(int)})


def _waves(case: Case, settings: str, sm_count: int) -> dict[str, float]:
    tall, wide = tile(ladder.read_settings(settings))
    tiles = [ceil_div(height, tall) * ceil_div(N, wide) for height in case.heights]
    return {
        "tile": f"{tall}×{wide}", "tiles": sum(tiles),
        "waves, one by one": sum(ceil_div(each, sm_count) for each in tiles),
        "waves, one launch": ceil_div(sum(tiles), sm_count),
        "rows that count, %": round(100 * case.rows * N / (sum(tiles) * tall * wide)),
        "FLOP per byte": round(case.flop / case.least_bytes, 1),
    }  # fmt: skip


def of_a_copy(table: pandas.DataFrame) -> pandas.DataFrame:
    """The bytes that must move at least, over the time, in percent of a copy's rate; for LOOP and
    24. Raises what recorded_ceilings raises."""
    rate = recorded_ceilings().bytes_per_second
    return (100e9 * by_way(table, "gb_per_s")[[LOOP, RUNG]] / rate).round(1)


# ---- beside libraries, as pages show it ----------------------------------------------------------

SHOWN = ("4 of 8192", "8 of 4096", "128 of 1 to 64", "64 masked, 192 of 256")


def on_the_ladder() -> tuple[dict, str]:
    """The first of SHOWN beside cuBLAS's calls, one after the other, and its shape."""
    rows = fastest(TABLE.read()).query("case == @SHOWN[0]").set_index("way")
    ours = rows.loc[RUNG]
    row = {**ours, "pct_cublas": 100 * rows.loc[LOOP, "us"] / ours["us"]}
    height = ours["rows"] // ours["products"]
    return row, f" at {ours['products']} × {height}×{ours['n']}×{ours['k']}"


def groups_beside_libraries() -> str:
    """Grouped products as a Markdown table. Raises NoRecord."""
    table = TABLE.read()
    cases = [case for case in (*CASES, *FP8_CASES) if case.name.removeprefix("FP8, ") in SHOWN]
    rows = fastest(table, tuple(cases)).set_index(["case", "way"])
    lines = ["| products, rows of each | TFLOP/s | beside others |", "|---|---|---|"]
    for case in (case for case in cases if case.name in rows.index):
        ways = rows.loc[case.name]
        ours = ways.loc[case.rung]
        others = [
            f"{100 * way.us / ours.us:.1f} % of {name}"
            for name, way in ways.iterrows()
            if name != case.rung
        ]
        label = case.name if case.rung == IN_FP8 else f"BF16, {case.name}"
        lines.append(f"| {label} | {ours.tflops:.0f} | {'; '.join(others)} |")
    how = "24 with its fastest settings; gl.grouped_matmul chooses without the heights"
    note = f"N={N}, K={K}, {how}. {style.provenance(table)}; medians, in turn. {EARLY}"
    return "\n".join([*lines, "", note])
