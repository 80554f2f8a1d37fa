"""Where copies of a warp come from in a matrix, and which banks of shared memory they fill."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from gemmlab.lessons.batched.tables import BANKS, WORD_BYTES, Copy
from gemmlab.plots import style
from gemmlab.plots.matrix import SECTOR_BYTES
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, plural, styled
from ptxsim.architectures import WARP

MOST = 4  # copies beside each other
HEAD, NAMES, GAP, LEFT = 0.5, 0.42, 0.42, 0.34  # inches; LEFT is room for an arrow
LEAST_ROWS = 8  # of stretches of shared memory that are drawn
PALEST, DARKEST = 0.25, 1.0  # of a matrix's colour: lane 0, lane 31


@styled
def copies(found: Mapping[str, Copy], *, caption: str | None = None) -> Picture:
    """One copy of a warp from each of some matrices, beside each other.

    Above, the piece of the matrix as it is stored: a box is what one lane copies, paler for lane 0,
    darker for lane 31. Below, shared memory in rows of 32 words, one in each bank, with the same
    boxes where they go.

    found: by name, what analysis.traced.copies.of(trace, array) gives, one to four. Raises
    TypeError and ValueError for anything else.
    """
    if not 1 <= len(found) <= MOST:
        raise ValueError(f"copies takes 1 to {MOST} copies by name, not {len(found)}.")
    for name, one in found.items():
        if not isinstance(one, Copy):
            raise TypeError(
                f"copies takes what analysis.traced.copies.of(trace, array) gives, not {one!r} as "
                f"{name!r}."
            )
    pitch = (WIDTH - 2 * MARGIN) / max(3, len(found))
    pieces = {name: _piece(one) for name, one in found.items()}
    cell = (pitch - LEFT - 0.15) / max(BANKS, *(len(columns) for _, columns in pieces.values()))
    above = max(len(rows) for rows, _ in pieces.values()) * cell
    below = max(_stretches(one) for one in found.values()) * cell
    notes = {name: _notes(one) for name, one in found.items()}
    down = HEAD + NAMES + above + GAP + below + 0.22
    notes_height = max(map(len, notes.values())) * SMALL * LINE / 72
    fig = style.page(down + notes_height + 0.15, caption or _caption(found))
    fig.text_at(MARGIN, 0.12, "One copy of one warp", size=style.LARGE, weight="bold")
    _draw_key(fig)
    for at, (name, one) in enumerate(found.items()):
        x = MARGIN + at * pitch + LEFT
        fig.text_at(x, HEAD, name, size=NORMAL, weight="bold")
        rows, columns = pieces[name]
        size = (len(columns) * cell, len(rows) * cell)
        _draw_piece(
            fig.add_axes_at(x, HEAD + NAMES, *size, gid=f"piece {name}"), one, rows, columns
        )
        _draw_arrow(fig, one, x, HEAD + NAMES, *size)
        top = HEAD + NAMES + above + GAP
        fig.text_at(x, top - 0.22, "shared memory, 32 banks", size=SMALL)
        height = _stretches(one) * cell
        _draw_banks(fig.add_axes_at(x, top, BANKS * cell, height, gid=f"banks {name}"), one)
        fig.text_at(x, down, "\n".join(notes[name]), size=SMALL, linespacing=LINE,
                    gid=f"notes {name}")  # fmt: skip
    return fig


def _piece(one: Copy) -> tuple[range, range]:
    """Rows and columns of the matrix that are drawn: 32 of them, or as many as are copied."""
    (rows, columns), last = one.access.shape, one.access.elements.max(axis=(0, 1)) + 1
    return range(min(rows, max(BANKS, last[0]))), range(min(columns, max(BANKS, last[1])))


def _stretches(one: Copy) -> int:
    """Rows of 32 words of shared memory that are drawn."""
    return max(LEAST_ROWS, 1 + int(one.words.max() - _first(one)) // BANKS)


def _first(one: Copy) -> int:
    """The first word that is drawn: in bank 0, at or before the first one that is filled."""
    return int(one.words.min()) // BANKS * BANKS


def _shade(one: Copy, lane: int) -> tuple[float, float, float]:
    share = PALEST + (DARKEST - PALEST) * lane / (WARP - 1)
    return style.tint(style.ARRAYS[one.access.array], share)


def _draw_piece(ax: Axes, one: Copy, rows: range, columns: range) -> None:
    _frame(ax, len(rows), len(columns))
    each = SECTOR_BYTES // WORD_BYTES
    ax.vlines(range(each, len(columns), each), 0, len(rows), color=style.FAINT, linewidth=0.6,
              zorder=2)  # fmt: skip
    for lane, elements in zip(one.access.lanes, one.access.elements, strict=True):
        row, column = (int(index) for index in elements[0])
        _box(ax, column, row, len(elements), one, int(lane))


def _draw_banks(ax: Axes, one: Copy) -> None:
    _frame(ax, _stretches(one), BANKS)
    for lane, words in zip(one.access.lanes, one.words - _first(one), strict=True):
        row, bank = divmod(int(words[0]), BANKS)
        _box(ax, bank, row, len(words), one, int(lane))
    ax.set_xticks([0.5, BANKS - 0.5], ["0", str(BANKS - 1)])
    ax.tick_params(length=0, pad=1)


def _frame(ax: Axes, rows: int, columns: int) -> None:
    ax.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.add_patch(
        Rectangle((0, 0), columns, rows, facecolor="white", edgecolor=style.FAINT, linewidth=0.8,
                  clip_on=False, zorder=0)
    )  # fmt: skip
    ax.hlines(range(1, rows), 0, columns, color=style.GRID, linewidth=0.4, zorder=0.5)
    ax.vlines(range(1, columns), 0, rows, color=style.GRID, linewidth=0.4, zorder=0.5)


def _box(ax: Axes, x: int, y: int, width: int, one: Copy, lane: int) -> None:
    ax.add_patch(
        Rectangle((x, y), width, 1, facecolor=_shade(one, lane), edgecolor="white", linewidth=0.4,
                  zorder=1, gid=f"lane {lane}")
    )  # fmt: skip


def _draw_arrow(fig: Picture, one: Copy, x: float, y: float, width: float, height: float) -> None:
    """Which way K goes through the stored matrix."""
    across, down = fig.get_size_inches()
    length = 0.55
    if one.along_k:
        begin, end, words = (x, y - 0.07), (x + length, y - 0.07), (x + length + 0.05, y - 0.14)
    else:
        begin, end, words = (x - 0.09, y), (x - 0.09, y + length), (x - 0.14, y + length + 0.03)
    points = [(a / across, 1 - b / down) for a, b in (begin, end)]
    fig.add_artist(
        FancyArrowPatch(*points, arrowstyle="-|>", mutation_scale=9, color=style.INK, linewidth=1.2,
                        shrinkA=0, shrinkB=0)
    )  # fmt: skip
    fig.text_at(*words, "K", size=SMALL, weight="bold")


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()
    right = WIDTH - MARGIN
    words = "a box is what one lane copies, from lane 0 (pale) to lane 31"
    right -= style.text_width(words, SMALL) + 0.05
    fig.text_at(right, 0.15, words, size=SMALL)
    right -= 0.08
    for lane in range(WARP - 1, -1, -4):
        right -= 0.09
        share = PALEST + (DARKEST - PALEST) * lane / (WARP - 1)
        fig.add_artist(
            Rectangle((right / across, 1 - 0.27 / down), 0.09 / across, 0.12 / down, linewidth=0,
                      facecolor=style.tint(style.FAINT, share))
        )  # fmt: skip


def _notes(one: Copy) -> list[str]:
    access = one.access
    return [
        f"{access.width} bytes a lane, {plural(access.sectors, 'sector')}",
        _banks_in_words(one),
        f"{one.requests} {'copy' if one.requests == 1 else 'copies'} for the block's tile",
    ]


def _banks_in_words(one: Copy) -> str:
    used = one.banks[one.banks > 0]
    alike = "" if (used == used[0]).all() else "up to "
    return f"{alike}{plural(int(used.max()), 'word')} in each of {len(used)} banks"


def _caption(found: Mapping[str, Copy]) -> str:
    parts = [
        f"{name}, {one.access.width} bytes a lane, {plural(one.access.sectors, 'sector')} and "
        f"{_banks_in_words(one)}"
        for name, one in found.items()
    ]
    return (
        f"One copy of warp 0 from the matrix above into shared memory below, traced: "
        f"{'; '.join(parts)}. Lines in the matrix part sectors of {SECTOR_BYTES} bytes."
    )
