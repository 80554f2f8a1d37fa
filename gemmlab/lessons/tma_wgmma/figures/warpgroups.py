"""Where the copy engine puts the chunks of a box, and which thread holds which sum of wgmma."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.plots import style
from gemmlab.plots.matrix import draw_grid
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import ARRAYS, LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled
from ptxsim.architectures import WARP

BANKS, BANK_BYTES, CHUNK_BYTES, ROWS = 32, 4, 16, 8
ACROSS = BANKS * BANK_BYTES // CHUNK_BYTES  # chunks side by side in all banks
CELL_WIDTH, CELL_HEIGHT, GAP = 0.46, 0.27, 0.55  # inches
PALE, DARK = 0.12, 0.6  # of a matrix's colour
SIDE, BETWEEN, ZOOM = 3.9, 0.5, 16  # inches; rows and columns that are shown larger


@styled
def swizzles(boxes: Mapping[str, np.ndarray], *, caption: str | None = None) -> Picture:
    """In which banks of shared memory the chunks of a box lie, for each way to swizzle it.

    boxes: by the name of the swizzle, int (places,), the chunk of 16 bytes at each place, of a box
    of 8 rows whose chunks count along its rows: see analysis.traced.warpgroup_layouts. The first
    chunk of every row is dark. Raises ValueError for anything else.
    """
    for name, chunks in boxes.items():
        if sorted(chunks) != list(range(len(chunks))) or len(chunks) % ROWS:
            raise ValueError(f"swizzles: {name!r} is no box of {ROWS} rows of whole chunks.")
    columns = [list(boxes.items())[at::2] for at in (0, 1)]
    heights = [sum(len(c) // ACROSS * CELL_HEIGHT + GAP + 0.25 for _, c in one) for one in columns]
    fig = style.page(max(heights) + 0.35, caption or _of_banks(boxes))
    across = ACROSS * CELL_WIDTH
    for column, some in enumerate(columns):
        left, top = MARGIN + 0.1 + column * (WIDTH / 2), 0.35
        for name, chunks in some:
            down = len(chunks) // ACROSS
            words = "not swizzled" if name == "none" else f"swizzle of {name[:-1]} bytes"
            fig.text_at(left, top - 0.3, words, size=LARGE, weight="bold")
            fig.text_at(left, top - 0.08, "banks", size=SMALL, color=style.FAINT)
            ax = fig.add_axes_at(
                left, top + 0.25, across, down * CELL_HEIGHT, gid=f"swizzle {name}"
            )
            _draw_banks(ax, np.asarray(chunks).reshape(down, ACROSS), len(chunks) // ROWS)
            top += down * CELL_HEIGHT + GAP + 0.25
    return fig


def _draw_banks(ax: Axes, chunks: np.ndarray, width: int) -> None:
    """Rows of 128 bytes; of each chunk the row of the box and its place there."""
    down = len(chunks)
    ax.set(xlim=(0, ACROSS), ylim=(down, 0))
    for (y, x), chunk in np.ndenumerate(chunks):
        row, place = divmod(int(chunk), width)
        share = DARK if place == 0 else PALE
        ax.add_patch(
            Rectangle((x, y), 1, 1, facecolor=style.tint(ARRAYS["A"], share), edgecolor=style.GRID)
        )
        ax.text(x + 0.5, y + 0.5, f"{row}·{place}", size=SMALL, ha="center", va="center_baseline")
    each = CHUNK_BYTES // BANK_BYTES
    ax.set_xticks(np.arange(ACROSS) + 0.5, [f"{at * each}–{at * each + each - 1}" for at in range(ACROSS)])  # fmt: skip # noqa: E501
    ax.set_yticks([])
    ax.tick_params(length=0, pad=2, top=False, labeltop=True, bottom=False, labelbottom=False)


def _of_banks(boxes: Mapping[str, np.ndarray]) -> str:
    taken = []
    for name, chunks in boxes.items():
        width = len(chunks) // ROWS
        places = np.flatnonzero(np.asarray(chunks) % width == 0) % ACROSS
        taken.append(
            f"{len(np.unique(places)) * CHUNK_BYTES // BANK_BYTES} "
            f"{'without' if name == 'none' else f'with {name[:-1]} bytes'}"
        )
    return (
        f"A box of {ROWS} rows in shared memory: chunks of {CHUNK_BYTES} bytes, the row of the box "
        "and the chunk's place in it. The first chunk of each row is dark: what is read at a time "
        f"down a column of the box. These {ROWS} lie in so many of the {BANKS} banks: "
        f"{style.listed(taken)}."
    )


@styled
def warpgroup_sums(held: np.ndarray, *, thread: int = 0, caption: str | None = None) -> Picture:
    """Which thread of a warpgroup holds which sums of 64 rows of C; one thread's are dark.

    held: int (128, places), row * columns + column of each sum that a thread has: see
    analysis.traced.warpgroup_layouts.sums. Raises ValueError for a thread that a warpgroup does not
    have, and for sums that are held by none or by two.
    """
    threads, places = np.asarray(held).shape
    rows = 64
    columns = threads * places // rows
    if isinstance(thread, bool) or not isinstance(thread, int) or not 0 <= thread < threads:
        raise ValueError(f"thread is {thread!r}; a warpgroup has threads 0 to {threads - 1}.")
    if sorted(np.ravel(held)) != list(range(rows * columns)):
        raise ValueError("warpgroup_sums: each sum is held by one thread.")
    owner = np.empty(rows * columns, int)
    owner[held] = np.arange(threads)[:, None]
    owner = owner.reshape(rows, columns)
    fig = style.page(SIDE + 1.0, caption or _of_sums(owner, thread, places))
    left, top = MARGIN + 0.3, 0.75
    panels = {
        "warps": (f"C, {rows} × {columns}: a band for each warp", owner),
        "lanes": (f"the first {ZOOM} × {ZOOM}: a number is a lane", owner[:ZOOM, :ZOOM]),
    }
    for name, (words, some) in panels.items():
        at = left if name == "warps" else left + SIDE + BETWEEN
        fig.text_at(at, top - 0.55, words, size=LARGE, weight="bold")
        ax = fig.add_axes_at(at, top, SIDE, SIDE, gid=name)
        down, across = some.shape
        ax.set(xlim=(0, across), ylim=(down, 0))
        draw_grid(ax, range(down), range(across), some.shape, SIDE / across, SIDE / down)
        if name == "warps":
            _draw_warps(ax, owner, thread)
        else:
            _draw_lanes(ax, some, thread)
    return fig


def _draw_warps(ax: Axes, owner: np.ndarray, thread: int) -> None:
    for warp in np.unique(owner // WARP):
        band = np.flatnonzero((owner // WARP == warp).all(axis=1))
        share = PALE * (1 + warp % 2)
        ax.add_patch(
            Rectangle((0, band[0]), owner.shape[1], len(band), zorder=0.7,
                      facecolor=style.tint(ARRAYS["C"], share), edgecolor=style.INK, linewidth=0.6)
        )  # fmt: skip
        ax.text(owner.shape[1] / 2, band[0] + 4.5, f"warp {warp}", size=NORMAL, ha="center",
                va="center_baseline", zorder=2)  # fmt: skip
    for row, column in np.argwhere(owner == thread):
        ax.add_patch(Rectangle((column, row), 1, 1, facecolor=ARRAYS["C"], zorder=1))


def _draw_lanes(ax: Axes, owner: np.ndarray, thread: int) -> None:
    """Two neighbours of a row belong to one lane, and are one cell."""
    for row in range(len(owner)):
        for column in range(0, owner.shape[1], 2):
            own = int(owner[row, column])
            share = DARK if own == thread else PALE * (1 + (own % 4 + own // 4) % 2)
            ax.add_patch(
                Rectangle((column, row), 2, 1, zorder=1, linewidth=0.5, edgecolor=style.GRID,
                          facecolor=style.tint(ARRAYS["C"], share))
            )  # fmt: skip
            ax.text(column + 1, row + 0.5, str(own % WARP), size=SMALL, ha="center",
                    va="center_baseline", zorder=2)  # fmt: skip


def _of_sums(owner: np.ndarray, thread: int, places: int) -> str:
    rows, columns = (np.unique(one) for one in np.nonzero(owner == thread))
    return (
        f"Who holds the {owner.size:,} sums of 64 rows, {places} to a thread. Dark: thread "
        f"{thread}, lane {thread % WARP} of warp {thread // WARP}, which has {len(columns)} "
        f"columns of rows {style.listed([str(row) for row in rows])}."
    )
