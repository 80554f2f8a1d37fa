"""The account of an SM's cycles, and the banks of L1 that a load meets."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas
from matplotlib.axes import Axes

from gemmlab import ladder
from gemmlab.analysis import counters
from gemmlab.kernel.kernel import Kernel
from gemmlab.lessons.naive.measure import BANKS, WORD_BYTES
from gemmlab.plots import style
from gemmlab.plots.banks import GOES, WAITS
from gemmlab.plots.cells import bare, box, number_banks
from gemmlab.plots.charts import bar, note, rows_of
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import MARGIN, NORMAL, WIDTH, plural
from gemmlab.records import runs
from gemmlab.records.runs import Measured

ROW = 0.62  # inches, of a rung's three bars
FLOOR = "FP32 units busy: the floor of every kernel"
OF_ALL_RUNGS = {
    "SM cycles": swatch(style.FAINT, 0.3),
    "banks of L1 and shared memory busy": swatch(style.ORANGE),
}
LOOKS = {**OF_ALL_RUNGS, FLOOR: swatch(style.PURPLE, 0.8)}


@styled
def cycles(*names: str, shape: tuple[int, int, int] = runs.LARGE) -> Picture:
    """The account of cycles: what an SM takes for a warp FMA, and what is busy meanwhile.

    names: float32 rungs, shape: (M, N, K). Three bars each, per warp FMA: the SM's cycles, those in
    which the banks of L1 and shared memory deliver a wavefront, those that fill all FP32 units.
    """
    table = account(*names, shape=shape)
    parts = [
        f"{name} takes {total:.2f} SM cycles; the banks are busy in {banks:.2f} of them, the FP32 "
        f"units in {units:.2f}"
        for name, (total, banks, units) in zip(names, table.to_numpy(), strict=True)
    ]
    caption = f"Per warp FMA at {style.shape_label(*shape)}: {'. '.join(parts)}."
    fig, ax = bars(table, LOOKS, "warp FMA", caption, shape)
    ax.axvline(table[FLOOR].min(), color=style.PURPLE, linestyle="--", linewidth=1.0)
    return fig


def bars(
    table: pandas.DataFrame, looks: Mapping[str, Any], unit: str, caption: str,
    shape: tuple[int, int, int], per: str = "", digits: int = 2,
) -> tuple[Picture, Axes]:  # fmt: skip
    """An account of cycles, three bars for each row of `table`, a rung, as recorded at (M, N, K).

    looks: of its columns, for the key; unit, per: what the cycles are counted for, in the title
    and along the axis, there the title's where it is left out; digits: behind the point.
    """
    names = [str(name) for name in table.index]
    recorded = [runs.replay_at(Measured(ladder.find(name)), *shape) for name in names]
    source = style.provenance(pandas.DataFrame({
        "gpu": [run.gpu for run in recorded], "recorded": [run.recorded for run in recorded],
    }))  # fmt: skip
    title = f"SM cycles per {unit}, and what is busy in them"
    fig = page(title, 0.1 + ROW * len(names) + 0.6, caption, source, key=[*looks.items()])
    ax = rows_of(
        fig, names, fig.top + 0.1, ROW, right=WIDTH - MARGIN - 0.55 + digits / 10,
        xlim=(0, 1.02 * table.to_numpy().max()), xlabel=per or f"SM cycles per {unit}",
    )  # fmt: skip
    for at, name in enumerate(names):
        for lane, (what, look) in enumerate(looks.items()):
            value, row = table.loc[name, what], at + (lane - 1) * 0.27
            if value:
                bar(ax, row, 0, value, share=0.24, gid=f"{name} {what}", **look)
                note(ax, f"{value:,.{digits}f}", (value, row + 0.5), (4, 0), va="center")
    return fig, ax


def account(*names: str, shape: tuple[int, int, int] = runs.LARGE) -> pandas.DataFrame:
    """Per warp FMA at (M, N, K), a row for each rung: the keys of LOOKS, in cycles of an SM."""
    counted = counters.side_by_side(*names, shape=shape).T
    total = counted["SM cycles per warp FMA"]
    banks = counted["data wavefronts per warp FMA"]  # a wavefront takes a cycle
    busy = total * counted["FP32 units busy, %"] / 100
    return pandas.DataFrame(dict(zip(LOOKS, (total, banks, busy), strict=True)))


THIN, TALL = 0.09, 0.22  # inches: a wavefront without and with the numbers of its lanes


@styled
def l1_banks(kernel: Kernel, ks: Iterable[int]) -> Picture:
    """In which banks of L1 the words lie that the first load of A by warp 0 wants, for each K.

    The banks lie along x; each row is a wavefront, and a cell is a word that a lane wants.
    """
    met = {k: _wavefronts(kernel, k) for k in ks}
    heights = {k: len(rows) * (THIN if len(rows) > 1 else TALL) for k, rows in met.items()}
    parts = [f"with K = {k} it takes {plural(len(rows), 'wavefront')}" for k, rows in met.items()]
    caption = f"One load of A by warp 0, over the 32 banks of L1: {style.listed(parts)}."
    key = [("a lane's word", GOES), ("waits for the row above", WAITS)]
    height = sum(heights.values()) + 0.65 * len(met)
    fig = page("The banks that one load of A needs", height, caption, key=key)
    top = fig.top
    for k, rows in met.items():
        cost = plural(len(rows), "wavefront")
        fig.text_at(MARGIN, top, f"K = {k}: {cost}", size=NORMAL, weight="bold")
        size = (WIDTH - 2 * MARGIN, heights[k])
        ax = fig.add_axes_at(MARGIN, top + 0.42, *size)
        bare(ax, BANKS, len(rows))
        box(ax, 0, 0, BANKS, len(rows), facecolor="white", zorder=0)
        ax.vlines(range(BANKS + 1), 0, len(rows), color=style.GRID, linewidth=0.5)
        for at, lanes in enumerate(rows):
            for bank, lane in lanes.items():
                label = str(lane) if len(rows) == 1 else ""
                box(ax, bank + 0.05, at, 0.9, 1, label, **(WAITS if at else GOES))
        number_banks(ax, BANKS)
        if idle := BANKS - len(set().union(*rows)):
            words = f"{plural(idle, 'bank')} of {BANKS} have nothing to deliver"
            ax.text(BANKS / 2, len(rows) / 2, words, ha="center", va="center", size=NORMAL)
        top += heights[k] + 0.65
    return fig


def _wavefronts(kernel: Kernel, k: int) -> list[dict[int, int]]:
    """For each wavefront of that load, the banks that deliver a word: the first lane to want it."""
    load = kernel.trace(*kernel.rung.tile(kernel.settings), k).warp_access("A")
    rows: list[dict[int, int]] = []
    words = dict(zip(reversed(load.addresses // WORD_BYTES), reversed(load.lanes), strict=True))
    for word, lane in reversed(words.items()):
        bank = int(word) % BANKS
        row = next((row for row in rows if bank not in row), None)
        if row is None:
            rows.append(row := {})
        row[bank] = int(lane)
    return rows
