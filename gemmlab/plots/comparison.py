"""Two kernels side by side: how many times as much of each quantity the second one has."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from gemmlab.analysis.comparison import Comparison
from gemmlab.plots import style
from gemmlab.plots.cells import plate
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.rows import at_edge, note, rows_of
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH
from gemmlab.report import number, times

ROW = 0.27  # inches
MOST_TICKS = 9
LOOKS = {True: (">", style.BLUE), False: ("<", style.VERMILION)}  # more than before, or less


@styled
def comparison(compared: Comparison, *, caption: str | None = None) -> Picture:
    """The ratio of each quantity of two kernels, b to a, on a logarithmic axis.

    compared: as gl.compare(a, b) gives. A row for each quantity whose ratio is not 1; those that
    have no ratio, since one of the values is 0, a word or not recorded, are written out.
    """
    if not isinstance(compared, Comparison):
        raise TypeError(f"comparison takes what gl.compare(a, b) gives, not {compared!r}.")
    table = compared.table
    rows = [
        (quantity, number(a), number(b), factor, unit)
        for quantity, a, b, factor, unit in table.itertuples(index=False, name=None)
        if a != b
    ]
    same = [quantity for quantity, a, b, *_ in table.itertuples(index=False) if a == b]
    labels = [f"{quantity}, {unit}" if unit else quantity for quantity, *_, unit in rows]
    values = [f"{a} → {b}" for _, a, b, *_ in rows]
    first, second = compared.names
    equal = f"Equal in both: {style.listed(same)}." if same else "Nothing is equal in both."
    equal = style.wrap(equal, WIDTH - 2 * MARGIN, SMALL)
    head = len(equal) * SMALL * LINE / 72 + 0.06
    height = head + ROW * max(1, len(rows)) + 0.65
    title, footer = f"{second} against {first}", " ".join(compared.sentences)
    fig = page(title, height, caption or _caption(compared, rows), footer)
    look = {"size": SMALL, "color": style.FAINT, "linespacing": LINE}
    fig.text_at(MARGIN, fig.top - 0.08, "\n".join(equal), **look)
    right = WIDTH - MARGIN - style.widest(values) - 0.15
    ax = rows_of(fig, labels or [""], fig.top + head, ROW, right=right, gid="ratios")
    _axis(ax, [row[3] for row in rows if not math.isnan(row[3])])
    for at, (quantity, _, _, factor, _) in enumerate(rows):
        _draw(ax, at, quantity, factor)
        at_edge(ax, at, values[at])
    return fig


def _axis(ax: Axes, numbers: list[float]) -> None:
    """Powers of two, at least from a half to twice, with a line where both are equal."""
    least, most = (extreme([1.0, *numbers]) for extreme in (min, max))
    low = min(-1, math.floor(math.log2(least)))
    high = max(1, math.ceil(math.log2(most)))
    step = -(-(high - low) // MOST_TICKS)
    powers = [power for power in range(low, high + 1) if power % step == 0]
    room = 1.35  # for the words beside a marker at the edge
    ax.set(xscale="log", xlim=(2.0**low / room, 2.0**high * room))
    words = [f"×{2**power}" if power >= 0 else f"×1/{2**-power}" for power in powers]
    ax.set_xticks([2.0**power for power in powers], words)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.axvline(1, color=style.BLACK, linewidth=1.2, zorder=1.5)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("times as much as before; to the left of the line less, to the right more")


def _draw(ax: Axes, at: int, quantity: str, factor: float) -> None:
    if math.isnan(factor):
        look = {"va": "center", "color": style.FAINT, "bbox": plate(1)}
        note(ax, "no ratio", (1, at + 0.5), (6, 0), **look)
        return
    more = factor > 1
    marker, colour = LOOKS[more]
    ax.add_line(Line2D([1, factor], [at + 0.5] * 2, color=style.tint(colour, 0.5), linewidth=4))
    ax.plot(factor, at + 0.5, marker, color=colour, markersize=8, zorder=3, gid=f"ratio {quantity}")
    # On the far side of the line there is nothing else.
    look = {"va": "center", "ha": "right" if more else "left", "size": NORMAL}
    note(ax, times(factor), (1, at + 0.5), (-6 if more else 6, 0), **look)


def _caption(compared: Comparison, rows: list[tuple]) -> str:
    """The largest change, what became of the speed, and how many quantities did not move."""
    first, second = compared.names
    moved = [row for row in rows if not math.isnan(row[3])]
    if not rows:
        return f"{second} and {first} do not differ in any of {len(compared.table)} quantities."
    if not moved:
        changes = [f"{quantity} from {a} to {b}" for quantity, a, b, *_ in rows]
        return f"{second} against {first}: {style.listed(changes)}, which have no ratio."
    quantity, a, b, factor, unit = max(moved, key=lambda row: abs(math.log(row[3])))
    words = (
        f"{second} against {first}: of {len(compared.table)} quantities {len(rows)} differ, most "
        f"of all {quantity}, from {a} to {b} {unit}, {times(factor)}."
    )
    speed = next((row for row in moved if row[0] == "speed"), None)
    if speed is None:
        return f"{words} The speed is not recorded for both."
    return f"{words} The speed is {times(speed[3])}: from {speed[1]} to {speed[2]} GFLOP/s."
