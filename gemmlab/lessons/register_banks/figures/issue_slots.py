"""What a kernel's inner loop spends its cycles on, and how near its measured speed comes."""

from __future__ import annotations

import pandas
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH, percent, styled
from gemmlab.sass.inner_loop import ADDRESS, CONTROL, COPY, OTHER, SHARED_LOAD

MULTIPLY_ADD, WAITS, REST = "FFMA", "waits", "control and other"
PREDICTED, MEASURED = "predicted, % of roof", "measured, % of roof"
COLUMNS = (
    "kernel", "issue slots", MULTIPLY_ADD, SHARED_LOAD, COPY, ADDRESS, CONTROL, OTHER, WAITS,
    PREDICTED, MEASURED, "gpu", "recorded",
)  # fmt: skip
PARTS = {  # what a bar is made of, from the left: its colour, and its name in the key
    MULTIPLY_ADD: (style.BLUE, "", "multiply-adds"),
    SHARED_LOAD: (style.GREEN, "///", "shared loads"),
    COPY: (style.ORANGE, "...", "copies"),
    ADDRESS: (style.PURPLE, "\\\\\\", "addresses"),
    REST: (style.SKY, "xxx", REST),
    WAITS: (style.VERMILION, "---", "waits for register banks"),
}
ROW, BAR = 0.46, 0.26  # inches: from bar to bar, and the height of one
KEY_COLUMNS = 4
LOOKS = {
    PREDICTED: ("v", "predicted share of the roof"),
    MEASURED: ("D", "measured share of the roof"),
}


@styled
def issue_slots(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """The cycles of one trip through each kernel's inner loop, by what the scheduler does in them.

    table: as gl.issue_slots() gives. A bar is a trip, a cycle for every issue slot and every wait.
    Two markers show shares of the arithmetic roof: where multiply-adds end, and the measured one.

    Raises TypeError and ValueError for anything else.
    """
    style.require_table(table, COLUMNS, "issue_slots")
    style.require_positive(table, ("issue slots", PREDICTED, MEASURED), "issue_slots")
    names = list(table["kernel"])
    left = MARGIN + max(style.text_width(name, NORMAL) for name in names) + 0.12
    both = zip(table["issue slots"], table[WAITS], strict=True)
    labels = [f"{slots:,} + {lost:,}" for slots, lost in both]
    head = "slots + waits"
    right = MARGIN + max(style.text_width(words, NORMAL) for words in (head, *labels)) + 0.15
    lines = -(-(len(PARTS) + len(LOOKS)) // KEY_COLUMNS)
    top = 0.45 + lines * 0.22 + 0.28
    height = ROW * len(names) + 0.1
    fig = style.page(top + height + 0.55, caption or _caption(table), style.provenance(table))
    title = "One trip through the inner loop, cycle by cycle"
    fig.text_at(MARGIN, 0.12, title, size=style.LARGE, weight="bold")
    _draw_key(fig)
    ax = fig.add_axes_at(left, top, WIDTH - left - right, height, gid="issue slots")
    ax.set(xlim=(0, 100), ylim=(height, 0), xlabel="share of the cycles, and of the roof, %")
    for at, (_, row) in enumerate(table.iterrows()):
        _draw_trip(ax, row, (at + 0.5) * ROW + 0.05)
    ax.set_yticks([(at + 0.5) * ROW + 0.05 for at in range(len(names))], names)
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    for words, y in ((head, -0.12), *((w, (at + 0.5) * ROW + 0.05) for at, w in enumerate(labels))):
        ax.annotate(
            words, (1, y), (6, 0), xycoords=("axes fraction", "data"), va="center",
            textcoords="offset points", size=NORMAL, annotation_clip=False,
        )  # fmt: skip
    ax.grid(axis="x")
    return fig


def _parts(row: pandas.Series) -> dict[str, int]:
    """Cycles of a trip, by the names of PARTS."""
    known = {name: row[name] for name in PARTS if name != REST}
    return {name: known.get(name, row[CONTROL] + row[OTHER]) for name in PARTS}


def _draw_trip(ax: Axes, row: pandas.Series, y: float) -> None:
    parts = _parts(row)
    cycles, start = sum(parts.values()), 0.0
    for name, (colour, hatch, _) in PARTS.items():
        wide = 100 * parts[name] / cycles
        ax.barh(
            y, wide, BAR, start, facecolor=style.tint(colour, 0.45), edgecolor=colour,
            hatch=hatch, linewidth=0.8, gid=f"{name} {row['kernel']}",
        )  # fmt: skip
        start += wide
    for name, (marker, _) in LOOKS.items():
        ax.plot(
            row[name], y - (BAR / 2 + 0.05 if name == PREDICTED else 0), marker, markersize=7,
            color=style.BLACK, markeredgecolor=style.GROUND, zorder=3, clip_on=False,
            gid=f"{name} {row['kernel']}",
        )  # fmt: skip


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()
    pitch = (WIDTH - 2 * MARGIN) / KEY_COLUMNS
    words = [(look, name) for *look, name in PARTS.values()] + [
        ((marker,), name) for marker, name in LOOKS.values()
    ]
    for at, (look, name) in enumerate(words):
        x, y = MARGIN + at % KEY_COLUMNS * pitch, 0.45 + at // KEY_COLUMNS * 0.22
        if len(look) == 2:
            patch = Rectangle(
                (x / across, 1 - (y + 0.13) / down), 0.2 / across, 0.13 / down,
                facecolor=style.tint(look[0], 0.45), edgecolor=look[0], hatch=look[1],
                transform=fig.transFigure,
            )  # fmt: skip
            fig.add_artist(patch)
        else:
            mark = Line2D(
                [(x + 0.1) / across], [1 - (y + 0.065) / down], marker=look[0], markersize=7,
                color=style.BLACK, linestyle="",
            )  # fmt: skip
            fig.add_artist(mark)
        fig.text_at(x + 0.28, y, name, size=SMALL)


def _caption(table: pandas.DataFrame) -> str:
    """Which kernel gives multiply-adds most, which comes nearest to that, and which exceed it."""
    rows = table.set_index("kernel")
    best = rows[PREDICTED].idxmax()
    reached = rows[MEASURED] / rows[PREDICTED]
    nearest, most = reached.idxmax(), percent(100 * reached.max())
    words = (
        f"Cycles of one trip through the inner loop, as the compiled code has them: {best} gives "
        f"multiply-adds {percent(rows[PREDICTED][best])} of them, the largest share. The measured "
        f"speed of {nearest} comes nearest to its prediction, with {most} of it."
    )
    if over := list(reached.index[reached > 1]):
        words += f" Faster than predicted: {style.listed(over)}."
    return words
