"""Which parts of A and B share a scale with an element of C, by kind of scales."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.lessons.fp8.scales import Reach, Region
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import ARRAYS, LARGE, MARGIN, NORMAL, SMALL, WIDTH, plural, styled

TALL_B, WIDE_A, GAP, HEAD, BETWEEN = 1.15, 1.05, 0.12, 1.1, 0.3  # inches
TALL_C = 1.05
PALE, STRONG, SECOND = 0.1, 0.75, 0.4  # of a matrix's colour


@styled
def scale_reach(*found: Reach, caption: str | None = None) -> Picture:
    """A panel for each kind of scales: what of A and B they reach that go into one element of C.

    found: as analysis.fp8.scales.reach gives. Regions that lie behind one another along K have
    scales of their own, drawn in turn dark and lighter. Rows and columns are not to one scale.
    Raises TypeError and ValueError for anything else.
    """
    if not found:
        raise ValueError("scale_reach takes what analysis.fp8.scales.reach gives, one or more.")
    for one in found:
        if not isinstance(one, Reach):
            raise TypeError(f"scale_reach takes what reach gives, not {one!r}.")
    fig = style.page(HEAD + TALL_B + GAP + TALL_C + 0.2, caption or _caption(found))
    title = "What shares a scale: all of a matrix, a row of A or column of B, or a block"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    _draw_key(fig)
    each = (WIDTH - 2 * MARGIN - BETWEEN * (len(found) - 1)) / len(found)
    for at, one in enumerate(found):
        left = MARGIN + at * (each + BETWEEN)
        words = f"of {one.scales.name}: {plural(len(one.a), 'scale')} of A, {len(one.b)} of B"
        fig.text_at(left, HEAD - 0.28, words, size=NORMAL, weight="bold")
        wide_c = each - WIDE_A - GAP
        c_left, c_top = left + WIDE_A + GAP, HEAD + TALL_B + GAP
        m, n, k = one.problem.shape
        where = {
            "A": (left, c_top, WIDE_A, TALL_C, m, k),
            "B": (c_left, HEAD, wide_c, TALL_B, k, n),
            "C": (c_left, c_top, wide_c, TALL_C, m, n),
        }  # fmt: skip
        regions = {"A": one.a, "B": one.b, "C": (_element(one),)}
        for name, (x, y, wide, tall, rows, columns) in where.items():
            ax = fig.add_axes_at(x, y, wide, tall, gid=f"{one.scales.name} {name}")
            _draw(ax, name, rows, columns, regions[name])
    return fig


def _element(one: Reach) -> Region:
    return Region((one.row, one.row + 1), (one.column, one.column + 1))


def _draw(ax: Axes, name: str, rows: int, columns: int, regions: tuple[Region, ...]) -> None:
    ax.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[])
    ax.set_facecolor(style.tint(ARRAYS[name], PALE))
    for side in ax.spines.values():
        side.set(visible=True, color=style.FAINT, linewidth=0.6)
    for at, one in enumerate(regions):
        if name == "C":  # one element, too small to see
            ax.plot(one.columns[0], one.rows[0], "s", color=ARRAYS["C"], markersize=6, gid="C 0")
            continue
        share = (STRONG, SECOND)[at % 2]
        size = one.columns[1] - one.columns[0], one.rows[1] - one.rows[0]
        ax.add_patch(
            Rectangle((one.columns[0], one.rows[0]), *size, gid=f"{name} {at}", edgecolor="none",
                      facecolor=style.tint(ARRAYS[name], share))
        )  # fmt: skip
    words = f"{name} {rows}×{columns}"
    ground = {"facecolor": style.GROUND, "edgecolor": "none", "alpha": 0.75, "pad": 1.5}
    ax.text(0.97, 0.95, words, transform=ax.transAxes, ha="right", va="top", size=SMALL,
            bbox=ground)  # fmt: skip


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()
    entries = (
        (ARRAYS["C"], 1.0, "the element of C"),
        (ARRAYS["A"], STRONG, "what a scale of A reaches;"),
        (ARRAYS["A"], SECOND, "the next along K"),
        (ARRAYS["B"], STRONG, "what a scale of B reaches;"),
        (ARRAYS["B"], SECOND, "the next along K"),
    )
    x = MARGIN
    for colour, share, words in entries:
        fig.add_artist(
            Rectangle((x / across, 1 - 0.57 / down), 0.2 / across, 0.14 / down, linewidth=0.5,
                      facecolor=style.tint(colour, share), edgecolor=style.FAINT)
        )  # fmt: skip
        fig.text_at(x + 0.28, 0.43, words, size=SMALL)
        x += 0.28 + style.text_width(words, SMALL) + 0.25


def _caption(found: tuple[Reach, ...]) -> str:
    one = found[0]
    counts = [f"{len(each.a)} and {len(each.b)} of {each.scales.name}" for each in found]
    return (
        f"C[{one.row}, {one.column}] of a product of {one.problem.m}×{one.problem.n}×"
        f"{one.problem.k} (M×N×K) and the scales of A and B that go into it, of those that its "
        "warp reads: "
        f"{style.listed(counts)}. M, N and K are not drawn to one scale."
    )
