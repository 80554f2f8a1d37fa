"""One thread's products for one k: a column of A times a row of B, in its registers."""

import math

import numpy as np

from gemmlab.analysis.block_replay import ThreadReads
from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, write
from gemmlab.plots.page import Picture, draw_key, page, styled, write_notes
from gemmlab.plots.style import ARRAYS, MARGIN, NORMAL, WIDTH, plural
from ptxsim.metrics import FMA_METRIC

NOTES = 2.35  # inches for notes at the right
A_LEFT, B_TOP = MARGIN + 0.95, 1.12  # below and beside the labels
MOST_WIDE, MOST_TALL = 0.81, 0.55  # inches, of a register
WAITING = 0.26  # the shorter side of an element that waits in a register for its k
GAP = 0.3  # between A, B and the sums
PALE, LATER = 0.25, 0.4  # of a matrix's colour


@styled
def outer_product(trace: Trace, *, thread: int = 0) -> Picture:
    """What one thread of the first block multiplies for k = 0: its column of A, its row of B.

    Each cell of A and B is an element in a register; hatched are those that the same loads got
    for a later k, at the right of A's column. Between them are the sums, the elements of C that the
    thread owns, and each takes the product of its row of A and its column of B. At each register
    stands how many products use it.

    Raises ValueError for a thread that is not there or owns nothing, and for a kernel without
    shared memory. trace: of a product without edges in the block.
    """
    reads = ThreadReads.of(trace, thread, "outer_product")
    rows, columns = (np.flatnonzero(reads.owned.any(axis=axis)) for axis in (1, 0))
    # Elements of A in registers after the loads for k = 0: (rows, ks).
    played, of_thread = reads.played, [load[reads.lane] for load in reads.loads]
    first = played.count([x for x in of_thread if 0 in played.along(x)]) > 0
    a = played.split(first)["A"][rows]
    a = a[:, : 1 + np.flatnonzero(a.any(axis=0))[-1]]
    room = WIDTH - A_LEFT - 2 * GAP - NOTES - MARGIN - (a.shape[1] - 1) * WAITING
    wide = min(MOST_WIDE, room / (len(columns) + 1))  # of a register
    tall = min(MOST_TALL, 3.4 / (len(rows) + 1))
    along_a = wide + (a.shape[1] - 1) * WAITING
    left, top = A_LEFT + along_a + GAP, B_TOP + tall + GAP  # of the sums
    bottom = max(top + len(rows) * tall, 4.1)
    title = (
        f"{trace.kernel_name}: {len(rows)} + {len(columns)} registers feed "
        f"{plural(len(rows) * len(columns), 'multiply-add')}"
    )
    caption = (
        f"Thread {reads.thread} of block {reads.played.block} of {trace.kernel_name} at k = 0: "
        f"{plural(len(rows), 'element')} of A times {plural(len(columns), 'element')} of B make "
        f"{plural(len(rows) * len(columns), 'product')}, one for each sum. {int(a[:, 1:].sum())} "
        "more elements came with the same loads and wait. Traced from its loads of shared memory "
        "and its stores of C."
    )
    fig = page(title, bottom + 0.2 - 0.42, caption)
    across = left + len(columns) * wide
    ax = bare(fig.add_axes_at(0, 0, across, bottom), across, bottom)
    white = {"color": "white"}
    for at, row in enumerate(rows):
        y = top + at * tall
        box(ax, A_LEFT, y, wide, tall, f"a{at}", white, facecolor=ARRAYS["A"], linewidth=1.2)
        for later in np.flatnonzero(a[at, 1:]):
            x = A_LEFT + wide + later * WAITING
            box(ax, x, y, WAITING, tall, **_waiting())
        write(ax, A_LEFT - 0.5, y + tall / 2, str(row), ha="right")
        write(ax, A_LEFT - 0.08, y + tall / 2, f"{len(columns)}×", ha="right")
    for at, column in enumerate(columns):
        x = left + at * wide
        box(ax, x, B_TOP, wide, tall, f"b{at}", white, facecolor=ARRAYS["B"], linewidth=1.2)
        write(ax, x + wide / 2, B_TOP - 0.27, str(column))
        write(ax, x + wide / 2, B_TOP - 0.12, f"{len(rows)}×")
    look = {"facecolor": style.tint(ARRAYS["C"], PALE), "linewidth": 1.2}
    for row, column in np.ndindex(len(rows), len(columns)):
        x, y = left + column * wide, top + row * tall
        box(ax, x, y, wide, tall, f"a{row}·b{column}", **look)
    for x, y, words in (
        (A_LEFT - 0.5, top - 0.14, "row"), (A_LEFT - 0.08, top - 0.14, "used"),
        (left - 0.08, B_TOP - 0.27, "column"), (left - 0.08, B_TOP - 0.12, "used"),
    ):  # fmt: skip
        write(ax, x, y, words, ha="right")
    fig.text_at(left, B_TOP - 0.62, "B, row k = 0", size=NORMAL, weight="bold")
    fig.text_at(MARGIN + 0.1, top - 0.64, "A, column\nk = 0", size=NORMAL, weight="bold")
    right = WIDTH - MARGIN - NOTES
    key = [
        ("a register, an element of A", {"facecolor": ARRAYS["A"]}),
        ("a register, an element of B", {"facecolor": ARRAYS["B"]}),
        ("a register, a sum: += a · b", {"facecolor": style.tint(ARRAYS["C"], PALE)}),
        ("from the same loads, for a later k", _waiting()),
    ]
    below = draw_key(fig, key, 0.5, right, right)
    write_notes(fig, right, below + 0.12, _notes(reads, len(rows), len(columns)))
    return fig


def _waiting() -> dict:
    """How an element of A for a later k looks."""
    look = {"facecolor": style.tint(ARRAYS["A"], LATER), "hatch": "////", "edgecolor": "white"}
    return {**look, "linewidth": 1.2}


def _notes(reads: ThreadReads, down: int, across: int) -> dict[str, list[str]]:
    trace, step = reads.trace, len(reads.ks)
    threads = math.prod(trace.grid) * math.prod(trace.block)
    products = trace.counters[FMA_METRIC] / (threads * trace.k)
    return {
        f"thread {reads.thread}, k = 0": [
            f"reads {down} elements of A and {across} of B",
            f"multiplies each with each: {down} × {across} = {down * across} multiply-adds",
        ],
        "Use of a register": [
            f"each of A {across} times, each of B {down}; a sum once for each k",
        ],
        "Load instructions": [
            f"{len(reads.loads)} in the step of {step}, so {len(reads.loads) / step:g} for one k "
            f"and its {down + across} elements",
        ],
        "Mean of all threads, counted": [f"{products:,g} multiply-adds for one k"],
    }
