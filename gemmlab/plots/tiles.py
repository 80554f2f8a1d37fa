"""What one thread owns of C, and reads for it of the tiles in shared memory."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes

from gemmlab.analysis.block_replay import NOTHING, ThreadReads
from gemmlab.kernel.trace import Trace
from gemmlab.plots import cells, style
from gemmlab.plots.charts import note
from gemmlab.plots.page import Entry, Picture, draw_key, page, styled, write_notes
from gemmlab.plots.style import ARRAYS, LINE, MARGIN, SMALL, WIDTH, plural
from ptxsim.architectures import WARP

TILE = 0.7  # inches along K, of the tiles of A and B
STRIP = 0.55  # room for the lanes beside A
THREAD_GAP, NAME = 0.42, 0.6  # between A and C, for row numbers; above C, for a name and numbers
THREAD_NOTES = 1.85  # for notes at the right
C_WIDTH = WIDTH - MARGIN - STRIP - TILE - THREAD_GAP - THREAD_NOTES - 0.25 - MARGIN
MOST_ELEMENT, MOST_ROWS = 0.3, 3.0  # inches: of an element of C, and of the warp's rows of it
LINE_HEIGHT = SMALL * LINE / 72
INSET = 1.25  # the longer side of the block
PALE, LATER = 0.2, 0.45  # of a matrix's colour


@styled
def thread_tile(trace: Trace, *, thread: int = 0) -> Picture:
    """Which elements of C each lane of a thread's warp owns, and what the thread reads for them.

    The numbers are lanes: in C of those that own an element, beside A and B of those that read a
    row or a column of the tile for the first k. The tiles are those of the first step along K,
    drawn as the pieces of A and B that they hold, wherever these lie in shared memory. Dark is what
    the thread owns, and reads for the first k; hatched what it reads in the rest of the step. Where
    the warp lies in the first block is at the right.

    Raises ValueError for a thread that is not there or owns nothing, or a kernel without shared
    memory.
    """
    reads = ThreadReads.of(trace, thread, "thread_tile")
    window = [range(where.min(), where.max() + 1) for where in np.nonzero(reads.lanes != NOTHING)]
    (rows, columns), readers, ks = window, reads.readers(0), reads.ks
    above = [(run, "\n".join(_listed(lanes))) for run, lanes in _runs(readers["B"])]
    beside = [(run, _in_a_line(lanes)) for run, lanes in _runs(readers["A"])]
    width = min(MOST_ELEMENT, C_WIDTH / len(columns))  # of an element of C, in inches
    height = min(MOST_ELEMENT, MOST_ROWS / len(rows))
    head = 0.62 + max(words.count("\n") + 1 for _, words in above) * LINE_HEIGHT
    bottom = head + TILE + NAME + len(rows) * height
    title = f"{trace.kernel_name}: what each lane of warp {reads.warp} owns of C, and reads for it"
    now, _, owned = _counted(reads)
    caption = (
        f"Numbers are lanes of warp {reads.warp} in block {reads.played.block} of "
        f"{reads.trace.kernel_name}. Lane {reads.lane}, thread {reads.thread}, owns "
        f"{plural(owned, 'element')} of C. For each k it reads {plural(now['A'], 'element')} of "
        f"A's tile and {now['B']} of B's from shared memory, for {plural(owned, 'multiply-add')}. "
        f"All of it is traced: stores of C, and loads in the first step along K."
    )
    fig = page(title, max(bottom, head + 4.35) - 0.27, caption)
    left, c = MARGIN + STRIP, (len(columns) * width, len(rows) * height)
    axes = cells.product_axes(fig, left, head, (TILE, TILE), c, (THREAD_GAP, NAME))
    along = TILE / len(ks)
    for name, across, down, shape, cell, words, up in (
        ("A", ks, rows, (trace.m, trace.k), (along, height), "A's tile", 20),
        ("B", columns, ks, (trace.k, trace.n), (width, along), "B's tile", 72 * (head - 0.45) - 6),
        ("C", columns, rows, (trace.m, trace.n), (width, height),
         f"C, the elements of warp {reads.warp}", 20),
    ):  # fmt: skip
        cells.draw_grid(cells.bare(axes[name], len(across), len(down)), down, across, shape, *cell)
        cells.name_above(axes[name], words, up)
        if name != "C":  # rows are numbered at C, and columns
            axes[name].set(xticks=[], yticks=[])
        _draw_warp(axes[name], name, reads, window, (width, height))
    words = f"k = {ks[0]} to {ks[-1]}"
    note(axes["A"], words, (0, 0), (0, 4))
    note(axes["B"], words, (0, len(ks) / 2), (-4, 0), ha="right", va="center")
    for name in "AB":
        note(axes[name], "lanes", (0, 0), (-4, 4), ha="right")
    _draw_readers(axes, reads, (beside, above), window, (width, height))
    right = WIDTH - MARGIN - THREAD_NOTES
    key: list[Entry] = [
        (f"lane {reads.lane}; of A and B at k = 0", {"facecolor": style.FAINT}),
        ("read later in this step", {"facecolor": style.tint(style.FAINT, LATER), "hatch": "////",
                                     "edgecolor": "white", "linewidth": 0}),
        ("the other lanes", {"facecolor": style.tint(style.FAINT, PALE)}),
        ("the matrix goes on", {"color": style.INK, "linewidth": 1.0, "linestyle": cells.CUT}),
    ]  # fmt: skip
    top = draw_key(fig, key, 0.5, right, right)
    top = write_notes(fig, right, top + 0.1, _notes(reads))
    _draw_block(fig, reads, right, top + 0.05)
    return fig


def _draw_readers(
    axes: dict[str, Axes], reads: ThreadReads, runs: tuple[list, list],
    window: list[range], cell: tuple[float, float],
) -> None:  # fmt: skip
    """Beside A and above B the lanes that read a row or a column for the first k."""
    (beside, above), (rows, columns), (width, height) = runs, window, cell
    own_rows, own_columns = (np.flatnonzero(reads.owned.any(axis=axis)) for axis in (1, 0))
    for run, words in _that_fit(beside, height, LINE_HEIGHT, own_rows):
        at, look = (0, run[0] + len(run) / 2 - rows[0]), {"ha": "right", "va": "center"}
        note(axes["A"], words, at, (-5, 0), **look)
    needed = style.widest((words for _, words in above), SMALL) + 0.03
    for run, words in _that_fit(above, width, needed, own_columns):
        above_run, look = (run[0] + len(run) / 2 - columns[0], 0), {"ha": "center", "va": "bottom"}
        note(axes["B"], words, above_run, (0, 3), linespacing=LINE, **look)
    edge: style.Look = {"color": "white", "linewidth": 1.0, "zorder": 1.3}
    firsts = [run[0] - rows[0] for run, _ in beside[1:]]
    axes["A"].hlines(firsts, 0, len(reads.ks), **edge)
    firsts = [run[0] - columns[0] for run, _ in above[1:]]
    axes["B"].vlines(firsts, 0, len(reads.ks), **edge)


def _runs(readers: Sequence[frozenset[int]]) -> list[tuple[range, frozenset[int]]]:
    """Neighbouring rows or columns that the same lanes read; those that nobody reads left out."""
    runs = [(list(run), lanes) for lanes, run in groupby(range(len(readers)), readers.__getitem__)]
    return [(range(run[0], run[-1] + 1), lanes) for run, lanes in runs if lanes]


def _listed(lanes: frozenset[int]) -> list[str]:
    """Up to four pieces: ["0–15"], ["0", "16"], or how many lanes they are."""
    firsts = [lane for lane in sorted(lanes) if lane - 1 not in lanes]
    lasts = [lane for lane in sorted(lanes) if lane + 1 not in lanes]
    ends = zip(firsts, lasts, strict=True)
    pieces = [f"{first}–{last}" if first < last else f"{first}" for first, last in ends]
    return pieces if len(pieces) <= 4 else [f"{len(lanes)}"]


def _in_a_line(lanes: frozenset[int]) -> str:
    words = ", ".join(_listed(lanes))
    fits = style.text_width(words, SMALL) < STRIP - 0.08
    return words if fits else plural(len(lanes), "lane")


def _that_fit(
    runs: list[tuple[range, str]], cell: float, needed: float, mine: np.ndarray
) -> list[tuple[range, str]]:
    """Every label, or every 2nd, 4th, ... of them, so that each has the inches it needs.

    The first run that has some of the rows or columns `mine` keeps its label.
    """
    step = 1
    while step < len(runs) and step * min(len(run) for run, _ in runs) * cell < needed:
        step *= 2
    kept = next(at for at, (run, _) in enumerate(runs) if set(run) & set(mine.tolist()))
    return runs[kept % step :: step]


def _draw_warp(
    ax: Axes, name: str, reads: ThreadReads, window: list[range], cell: tuple[float, float]
) -> None:
    """What the warp touches of a matrix pale, what the thread touches dark or hatched.

    window: the rows and columns of C; cell: the width and height of its elements in inches.
    """
    colour, (rows, columns) = ARRAYS[name], window
    if name == "C":
        shown = np.ix_(rows, columns)
        _draw_lanes(ax, reads, reads.lanes[shown], cell)
        now = reads.owned[shown]
    else:
        of_warp, step = (reads.read_by(lanes)[name] for lanes in (slice(None), reads.lane))
        first = np.zeros_like(step)
        first[(slice(None), 0) if name == "A" else 0] = True
        shown = np.ix_(*((rows, reads.ks) if name == "A" else (reads.ks, columns)))
        now = (step & first)[shown]
        cells.fill(ax, of_warp[shown], facecolor=style.tint(colour, PALE), edgecolor="none")
        look: style.Look = {"facecolor": style.tint(colour, LATER), "edgecolor": "white"}
        cells.fill(ax, (step & ~first)[shown], hatch="////", zorder=1.2, linewidth=0, **look)
    edge = 0.4 if name == "C" else 0  # none between cells that are thinner than it
    look = {"facecolor": colour, "linewidth": edge, "zorder": 1.4}
    for row, column in np.argwhere(now):
        cells.box(ax, column, row, 1, 1, **look)


def _draw_lanes(ax: Axes, reads: ThreadReads, lanes: np.ndarray, cell: tuple[float, float]) -> None:
    """The elements of each lane, with its number where it fits; of narrow ones every second."""
    ground = {"facecolor": ARRAYS["C"], "edgecolor": "none", "pad": 0.5}
    mine = {"color": "white", "weight": "bold", "bbox": ground}
    look = {"facecolor": style.tint(ARRAYS["C"], PALE), "linewidth": 1.2, "zorder": 1}
    needed = style.text_width(str(WARP - 1), SMALL)
    for lane in range(WARP):
        for x, y, across, down in cells.rectangles(lanes == lane):
            width, height = across * cell[0], down * cell[1]
            every = 1 if width >= needed + 0.05 else 2
            fits = width >= needed - 0.03 and height >= SMALL / 72
            words = str(lane) if fits and (lane - reads.lane) % every == 0 else ""
            text = {"zorder": 2, **(mine if lane == reads.lane else {})}
            cells.box(ax, x, y, across, down, words, text, **look)


def _draw_block(fig: Picture, reads: ThreadReads, left: float, top: float) -> None:
    """Where in the block the warp lies."""
    rows, columns = reads.played.frame()
    down, across = len(rows), len(columns)
    fig.text_at(left, top, f"warp {reads.warp} in the block's {down} × {across}", size=SMALL)
    size = (across * INSET / max(down, across), down * INSET / max(down, across))
    ax = fig.add_axes_at(left + 0.02, top + 0.22, *size)
    cells.bare(ax, across, down).spines[:].set(visible=True, color=style.INK)
    window, later = np.ix_(rows, columns), style.tint(ARRAYS["C"], LATER)
    cells.fill(ax, (reads.lanes != NOTHING)[window], facecolor=later, linewidth=0)
    cells.fill(ax, reads.owned[window], zorder=2, facecolor=ARRAYS["C"], linewidth=0)


def _counted(reads: ThreadReads) -> tuple[dict[str, int], int, int]:
    """Elements of A and B that the thread reads for the first k, and in the step; of C it owns."""
    a, b = (reads.read_by(reads.lane)[name] for name in "AB")
    now = {"A": int(a[:, 0].sum()), "B": int(b[0].sum())}
    return now, int(a.sum() + b.sum()), int(reads.owned.sum())


def _notes(reads: ThreadReads) -> dict[str, list[str]]:
    x, y, _ = reads.trace.block
    index = (reads.thread % x, reads.thread // x % y, reads.thread // (x * y))
    now, step, owned = _counted(reads)
    return {
        f"thread {reads.thread}": [f"threadIdx {index}", f"warp {reads.warp}, lane {reads.lane}"],
        f"C: {plural(owned, 'element')}": [cells.extent(reads.owned)],
        "For each k": [f"{now['A']} + {now['B']} elements feed {plural(owned, 'multiply-add')}"],
        f"In the step of {len(reads.ks)}": [
            f"{plural(len(reads.loads), 'load instruction')} bring {step:,} elements",
        ],
    }
