"""How often a block reuses its tiles."""

import math

import numpy as np
from matplotlib.axes import Axes

from gemmlab.analysis.block_replay import LOAD, NOTHING, READ, Played
from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.plots.cells import bare, draw_grid, fill, name_above, product_axes, write
from gemmlab.plots.charts import note
from gemmlab.plots.page import Picture, page, styled, write_notes
from gemmlab.plots.style import LINE, MARGIN

SIDE = 0.1375  # inches, of one element
GAP = 0.62  # inches between two panels: room for a name and column numbers
LEFT = MARGIN + 0.42  # room for row numbers


@styled
def tile_reuse(trace: Trace, block: tuple[int, int, int]) -> Picture:
    """How often one block loads each element from global memory and reads it from shared memory.

    A lies at the left of C and B above it, so that a row of A and a column of B meet in their
    element of C. Coloured is what the block touches, tile by tile along K; each element carries
    how often threads read it from shared memory. trace: of a product small enough to see elements.

    Raises LaunchError for a block that is not there, and ValueError for a kernel without shared
    memory.
    """
    played = Played.of(trace, block)
    played.require_reads("tile_reuse")
    both = [played.split(played.moved(played.moves, kind)) for kind in (LOAD, READ)]
    counts = {name: [counted[name] for counted in both] for name in "AB"}
    mine = played.owner != NOTHING
    m, n, k = trace.m, trace.n, trace.k
    notes = {f"{math.prod(trace.block):,} threads": [f"compute {mine.sum():,} elements of C"]}
    parts = []
    for name, (loaded, reads) in counts.items():
        notes[name] = [
            f"{loaded.sum():,} loads of elements from global memory",
            f"{reads.sum():,} reads by threads from shared memory",
        ]
        parts.append(
            f"each of the {(loaded > 0).sum():,} elements of {name} {_span(loaded[loaded > 0])} "
            f"from global memory and reads it {_span(reads[loaded > 0])} from shared memory"
        )
    caption = (
        f"Block {block} of {trace.kernel_name} at {style.shape_label(m, n, k)} loads "
        f"{style.listed(parts)}. Counted element by element from the traced addresses."
    )
    title = f"{trace.kernel_name}: what block {block} loads, and how often it reads it"
    fig = page(title, 0.53 + (k + m) * SIDE + GAP + 0.75, caption)
    top = fig.top + 0.53
    axes = product_axes(fig, LEFT, top, (k * SIDE, k * SIDE), (n * SIDE, m * SIDE), (GAP, GAP))
    for name, (rows, columns) in {"A": (m, k), "B": (k, n), "C": (m, n)}.items():
        ax = bare(axes[name], columns, rows)
        draw_grid(ax, range(rows), range(columns), (rows, columns), SIDE, SIDE)
        name_above(ax, f"{name}, {rows} × {columns}", 20)
    for name, (loaded, reads) in counts.items():
        _draw_tiles(axes[name], name, loaded, reads, trace.settings["BK"])
    fill(axes["C"], mine, facecolor=style.tint(style.GREEN, 0.35), edgecolor=style.GREEN)
    write_notes(fig, LEFT + (k + n) * SIDE + GAP + 1.05, top, notes)
    return fig


def _draw_tiles(ax: Axes, name: str, loaded: np.ndarray, reads: np.ndarray, step: int) -> None:
    """The tiles along K, paler in turn, with their step and counts outside the matrix."""
    in_a, colour = name == "A", style.ARRAYS[name]
    ks = np.arange(loaded.shape[in_a])
    for number in range(-(-len(ks) // step)):
        touched = (loaded > 0) & ((ks if in_a else ks[:, None]) // step == number)
        look: style.Look = {"facecolor": style.tint(colour, 0.22 if number % 2 else 0.45)}
        fill(ax, touched, linewidth=1.2, edgecolor=colour, **look)
        words = f"step {number}\nloaded {_span(loaded[touched])}\nread {_span(reads[touched])}"
        middle = (number + 0.5) * step
        if in_a:
            at, shift, look = (middle, loaded.shape[0]), (0, -5), {"ha": "center", "va": "top"}
        else:
            at, shift, look = (loaded.shape[1], middle), (6, 0), {"va": "center"}
        note(ax, words, at, shift, linespacing=LINE, **look)
    for row, column in np.argwhere(reads > 0):
        write(ax, column + 0.5, row + 0.53, str(reads[row, column]))


def _span(counts: np.ndarray) -> str:
    """ "32×", or "20 to 32×" where not all are the same."""
    low, high = counts.min(), counts.max()
    return f"{high}×" if low == high else f"{low} to {high}×"
