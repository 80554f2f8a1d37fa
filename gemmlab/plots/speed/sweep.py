"""A sweep over the settings of a kernel: speed by two of its parameters."""

from __future__ import annotations

import pandas
from matplotlib.patches import Rectangle

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled
from gemmlab.records import tuning

CELL_HEIGHT = 0.62  # inches
MOST_CELL_WIDTH = 2.1
PANEL_GAP = 0.2  # inches, between tables side by side
KEY = (1.0, 0.9, 0.75, 0.5)  # shares of the fastest whose shades the key shows
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
    beside: str | None = None,
    caption: str | None = None,
) -> Picture:
    """The fastest recorded setting for each pair of values of two parameters, at one shape.

    table: as tuning.recorded gives. rows, columns: names of two parameters, such as "TM" and "TN".
    beside: a third one; each of its values gets a table of its own, side by side in one scale.
    Each cell has the rate of the best choice of all others that differ, and that choice. The best
    of all has a thick frame, and pairs that no legal setting has stay empty.

    Raises TypeError and ValueError for a table without these columns, NoRecord for a shape that
    was not measured.
    """
    of_panels = [] if beside is None else [beside]
    names = _parameters(table, rows, columns, *of_panels)
    at = tuning.at(table, shape)  # the fastest first
    best = at.groupby([rows, columns, *of_panels], sort=True).first()
    downs, acrosses = sorted(set(table[rows])), sorted(set(table[columns]))
    panels = [()] if beside is None else [(value,) for value in sorted(set(table[beside]))]
    others = [
        name for name in names if name not in (rows, columns, beside) and at[name].nunique() > 1
    ]
    fastest = at.iloc[0]
    if caption is None:
        caption = _caption(fastest, at, names, (rows, columns, *of_panels), shape)

    left = MARGIN + style.text_width(f"{rows} = {downs[-1]}", NORMAL) + 0.15
    room = WIDTH - MARGIN - left - PANEL_GAP * (len(panels) - 1)
    cell = min(MOST_CELL_WIDTH, room / (len(panels) * len(acrosses)))
    settings = {
        place: _in_lines([f"{name} {row[name]:.0f}" for name in others], cell - 0.22)
        for place, row in best.iterrows()
    }
    most = max(text.count("\n") + 1 for text in settings.values())
    more = LINE_HEIGHT * max(0, most - SETTING_LINES)
    head, height = 0.62 + 0.25 * len(of_panels), CELL_HEIGHT + more
    fig = style.page(head + len(downs) * height + 0.12, caption, style.provenance(at))
    fig.text_at(MARGIN, 0.12, style.shape_label(*shape), size=LARGE, weight="bold")
    _key(fig)
    for number, panel in enumerate(panels):
        x0 = left + number * (cell * len(acrosses) + PANEL_GAP)
        words = "".join(f"{beside} = {value}" for value in panel)
        fig.text_at(x0 + cell * len(acrosses) / 2, head - 0.48, words, size=NORMAL, ha="center",
                    weight="bold")  # fmt: skip
        ax = fig.add_axes_at(
            x0, head, cell * len(acrosses), height * len(downs), gid=f"sweep {words}".strip(),
            xlim=(0, len(acrosses)), ylim=(len(downs), 0),
        )  # fmt: skip
        for y, down in enumerate(downs):
            for x, across in enumerate(acrosses):
                place = (down, across, *panel)
                if place not in best.index:
                    _cell(ax, x, y, None)
                    ax.text(x + 0.5, y + 0.5, "not legal", size=SMALL, color=style.FAINT,
                            ha="center", va="center")  # fmt: skip
                    continue
                row = best.loc[place]
                first = all(fastest[name] == value for name, value in zip(
                    (rows, columns, *of_panels), place, strict=True))  # fmt: skip
                _cell(ax, x, y, row["gflops"] / fastest["gflops"], first)
                above, below = y + INSET / height, y + 1 - (INSET + more / 2) / height
                ax.text(x + 0.5, above, style.rate(row["gflops"]), size=NORMAL, ha="center",
                        va="center", weight="bold" if first else "normal")  # fmt: skip
                ax.text(x + 0.5, below, settings[place], size=SMALL, ha="center", va="center",
                        linespacing=1.15)  # fmt: skip
        ax.set_xticks(
            [x + 0.5 for x in range(len(acrosses))], [f"{columns} = {v}" for v in acrosses]
        )
        ax.set_yticks(
            [y + 0.5 for y in range(len(downs))],
            [f"{rows} = {v}" if number == 0 else "" for v in downs],
        )
        ax.xaxis.tick_top()
        ax.tick_params(length=0, labelsize=NORMAL)
        ax.spines[:].set_visible(False)
    return fig


def _key(fig: Picture) -> None:
    """Shares of the fastest and their shades, at the upper right."""
    across, down = fig.get_size_inches()
    right = WIDTH - MARGIN
    for share in reversed(KEY):
        words = "the fastest" if share == 1 else f"{share:.0%} of it"
        right -= style.text_width(words, SMALL) + 0.05
        fig.text_at(right, 0.15, words, size=SMALL)
        right -= 0.25
        corner = (right / across, 1 - 0.285 / down)
        fig.add_artist(
            Rectangle(corner, 0.2 / across, 0.14 / down, clip_on=False, **_look(share, share == 1))
        )
        right -= 0.15


def _parameters(table: pandas.DataFrame, *chosen: str) -> list[str]:
    """The parameters of the sweep: what stands before the shape. Raises TypeError, ValueError."""
    style.require_table(table, ("m", "n", "k", "gflops", "gpu", "recorded"), "sweep")
    names = list(table.columns[: list(table.columns).index("m")])
    for at, name in enumerate(chosen):
        if name not in names:
            raise ValueError(f"sweep: {name} is no parameter of this kernel: {', '.join(names)}.")
        if name in chosen[:at]:
            raise ValueError(
                f"sweep: two of rows, columns and beside are both {name}; each takes another one."
            )
    return names


def _cell(ax, x: int, y: int, share: float | None, first: bool = False) -> None:
    """One cell, darker the faster. Black text stays readable on the darkest."""
    ax.add_patch(Rectangle((x + 0.03, y + 0.04), 0.94, 0.92, **_look(share, first)))


def _look(share: float | None, first: bool) -> dict[str, object]:
    face = style.GROUND if share is None else style.tint(style.SKY, max(0.0, share) ** 2)
    return {
        "facecolor": face, "edgecolor": style.BLACK if first else style.GRID,
        "linewidth": 2.2 if first else 0.8, "hatch": ".." if share is None else None,
    }  # fmt: skip


def _in_lines(words: list[str], width: float) -> str:
    """The settings in as many lines as they need in a cell, about as many in each."""
    parts: list[str] = []
    for lines in range(1, len(words) + 1):
        each = -(-len(words) // lines)
        parts = [" ".join(words[at : at + each]) for at in range(0, len(words), each)]
        if all(style.text_width(part, SMALL) <= width for part in parts):
            break
    return "\n".join(parts)


def _caption(fastest, at: pandas.DataFrame, names, chosen: tuple[str, ...], shape) -> str:
    setting = ", ".join(f"{name}={fastest[name]}" for name in names)
    slowest = at.iloc[-1]
    factor = fastest["gflops"] / slowest["gflops"]
    return (
        f"Every legal setting was measured at {style.shape_label(*shape)}: {len(at)} of them. Each "
        f"cell has the fastest for its {style.listed(chosen)}, and the other parameters that made "
        f"it so. The best is {setting} with {style.rate(fastest['gflops'])}, "
        f"{style.percent(fastest['pct_cublas'])} of cuBLAS and {style.digits(factor)} times the "
        "slowest setting."
    )
