"""A sweep over the settings of a kernel: speed by two of its parameters."""

from __future__ import annotations

import pandas
from matplotlib.patches import Rectangle

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled
from gemmlab.records import tuning

CELL_HEIGHT = 0.62  # inches
MOST_CELL_WIDTH = 1.6
SETTING_LINES = 2  # of the settings that a cell names and has room for as it is
LINE_HEIGHT = 0.15  # inches, of each further one
INSET = 0.186  # inches, from the edge of a cell to the middle of its rate, and of its settings


@styled
def sweep(
    table: pandas.DataFrame,
    rows: str,
    columns: str,
    shape: tuple[int, int, int] = tuning.SHAPES[0],
    *,
    caption: str | None = None,
) -> Picture:
    """The fastest recorded setting for each pair of values of two parameters, at one shape.

    table: as tuning.recorded gives. rows, columns: names of two parameters, such as "TM" and "TN".
    Each cell has the rate of the best choice of all other parameters, and that choice. The best of
    all has a thick frame, and pairs that no legal setting has stay empty.

    Raises TypeError and ValueError for a table without these columns, NoRecord for a shape that
    was not measured.
    """
    names = _parameters(table, rows, columns)
    at = tuning.at(table, shape)  # the fastest first
    best = at.groupby([rows, columns], sort=True).first()
    downs = sorted(set(table[rows]))
    acrosses = sorted(set(table[columns]))
    others = [name for name in names if name not in (rows, columns)]
    fastest = at.iloc[0]
    if caption is None:
        caption = _caption(fastest, at, names, rows, columns, shape)

    left = MARGIN + style.text_width(f"{rows} = {downs[-1]}", NORMAL) + 0.15
    cell = min(MOST_CELL_WIDTH, (WIDTH - MARGIN - left) / len(acrosses))
    settings = {
        place: _in_lines([f"{name} {row[name]:.0f}" for name in others], cell - 0.22)
        for place, row in best.iterrows()
    }
    most = max(text.count("\n") + 1 for text in settings.values())
    more = LINE_HEIGHT * max(0, most - SETTING_LINES)
    head, height = 0.62, CELL_HEIGHT + more
    fig = style.page(head + len(downs) * height + 0.12, caption, style.provenance(at))
    fig.text_at(MARGIN, 0.12, style.shape_label(*shape), size=LARGE, weight="bold")
    ax = fig.add_axes_at(
        left, head, cell * len(acrosses), height * len(downs), gid="sweep",
        xlim=(0, len(acrosses)), ylim=(len(downs), 0),
    )  # fmt: skip
    for y, down in enumerate(downs):
        for x, across in enumerate(acrosses):
            if (down, across) not in best.index:
                _cell(ax, x, y, None)
                ax.text(x + 0.5, y + 0.5, "not legal", size=SMALL, color=style.FAINT,
                        ha="center", va="center")  # fmt: skip
                continue
            row = best.loc[(down, across)]
            first = (down, across) == (fastest[rows], fastest[columns])
            _cell(ax, x, y, row["gflops"] / fastest["gflops"], first)
            above, below = y + INSET / height, y + 1 - (INSET + more / 2) / height
            ax.text(x + 0.5, above, style.rate(row["gflops"]), size=NORMAL, ha="center",
                    va="center", weight="bold" if first else "normal")  # fmt: skip
            ax.text(x + 0.5, below, settings[down, across], size=SMALL, ha="center", va="center",
                    linespacing=1.15)  # fmt: skip
    ax.set_xticks([x + 0.5 for x in range(len(acrosses))], [f"{columns} = {v}" for v in acrosses])
    ax.set_yticks([y + 0.5 for y in range(len(downs))], [f"{rows} = {v}" for v in downs])
    ax.xaxis.tick_top()
    ax.tick_params(length=0, labelsize=NORMAL)
    for side in ax.spines.values():
        side.set_visible(False)
    return fig


def _parameters(table: pandas.DataFrame, rows: str, columns: str) -> list[str]:
    """The parameters of the sweep: what stands before the shape. Raises TypeError, ValueError."""
    style.require_table(table, ("m", "n", "k", "gflops", "gpu", "recorded"), "sweep")
    names = list(table.columns[: list(table.columns).index("m")])
    for name in (rows, columns):
        if name not in names:
            raise ValueError(f"sweep: {name} is no parameter of this kernel: {', '.join(names)}.")
    if rows == columns:
        raise ValueError(f"sweep: rows and columns are both {rows}; choose two parameters.")
    return names


def _cell(ax, x: int, y: int, share: float | None, first: bool = False) -> None:
    """One cell, darker the faster. Black text stays readable on the darkest."""
    face = style.GROUND if share is None else style.tint(style.SKY, max(0.0, share) ** 2)
    ax.add_patch(Rectangle(
        (x + 0.03, y + 0.04), 0.94, 0.92, facecolor=face,
        edgecolor=style.BLACK if first else style.GRID, linewidth=2.2 if first else 0.8,
        hatch=".." if share is None else None,
    ))  # fmt: skip


def _in_lines(words: list[str], width: float) -> str:
    """The settings in as many lines as they need in a cell, about as many in each."""
    for lines in range(1, len(words) + 1):
        each = -(-len(words) // lines)
        parts = [" ".join(words[at : at + each]) for at in range(0, len(words), each)]
        if all(style.text_width(part, SMALL) <= width for part in parts):
            break
    return "\n".join(parts)


def _caption(fastest, at: pandas.DataFrame, names, rows: str, columns: str, shape) -> str:
    setting = ", ".join(f"{name}={fastest[name]}" for name in names)
    slowest = at.iloc[-1]
    factor = fastest["gflops"] / slowest["gflops"]
    return (
        f"Every legal setting was measured at {style.shape_label(*shape)}: {len(at)} of them. Each "
        f"cell has the fastest for its {rows} and {columns}, and the other parameters that made "
        f"it so. The best is {setting} with {style.rate(fastest['gflops'])}, "
        f"{style.percent(fastest['pct_cublas'])} of cuBLAS and {style.digits(factor)} times the "
        "slowest setting."
    )
