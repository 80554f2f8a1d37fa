"""One thread's products for one k: a column of A times a row of B, in its registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from gemmlab.analysis.thread_reads import ThreadReads
from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, require_trace
from gemmlab.plots.page import Entry, Picture, draw_key, page, styled, write_notes
from gemmlab.plots.style import ARRAYS, MARGIN, NORMAL, SMALL, WIDTH, plural
from ptxsim.metrics import FMA_METRIC

MOST_SIDE = 16  # rows and columns of a thread's tile that can be drawn
NOTES = 2.35  # inches for notes at the right
LABELS = 0.95  # beside A and above B, for a row's number and how often its register is used
USED = 0.42  # from a row's number to how often its register is used
WAITING = 0.26  # the shorter side of an element that waits in a register for its k
GAP = 0.3  # between a, b and the sums
HEAD = 0.5  # above all of it
PALE, LATER = 0.25, 0.4  # of a matrix's colour


@styled
def outer_product(
    trace: Trace,
    *,
    thread: int | tuple[int, int, int] = 0,
    block: tuple[int, int, int] = (0, 0, 0),
    k: int = 0,
) -> Picture:
    """What one thread multiplies for one k of the first step: its column of A, its row of B.

    Each cell of A and B is an element in a register; hatched are those that the same loads brought
    for a later k, at the right of A's column or below B's row. Between them are the sums, the
    elements of C that the thread owns, and each takes the product of its row of A and its column of
    B. At each register stands how many products use it.

    Raises TypeError for anything but a trace, LaunchError for a block that is not there, and
    ValueError for a thread that is not there, owns nothing, or more than 16 rows or columns, for
    a k that is not in the first step, and for a kernel without shared memory.
    """
    require_trace(trace, "outer_product")
    reads = ThreadReads.of(trace, tuple(block), thread, "outer_product")
    if isinstance(k, bool) or k not in reads.ks:
        raise ValueError(f"outer_product: k is {k!r}; the first step has k 0 to {reads.ks[-1]}.")
    drawn = _Drawn.of(reads, k)
    title = (
        f"{trace.kernel_name}: {len(drawn.rows)} + {len(drawn.columns)} registers feed "
        f"{plural(drawn.products, 'multiply-add')}"
    )
    height = max(drawn.bottom, HEAD + 3.6) + 0.2 - 0.42
    fig = page(title, height, _caption(drawn))
    drawn.draw(fig)
    left = WIDTH - MARGIN - NOTES
    top = draw_key(fig, _key(drawn), HEAD, left, left)
    write_notes(fig, left, top + 0.12, _notes(drawn))
    return fig


@dataclass(frozen=True)
class _Drawn:
    """What is drawn, and where, in inches.

    `rows`, `columns`: of C, those that the thread owns. `a`: along k from k on, which elements of
    its rows are in registers, bool (rows, ks); `b`: bool (ks, columns).
    """

    reads: ThreadReads
    k: int
    rows: list[int]
    columns: list[int]
    a: np.ndarray
    b: np.ndarray

    @classmethod
    def of(cls, reads: ThreadReads, k: int) -> _Drawn:
        rows, columns = (np.flatnonzero(reads.owned.any(axis=axis)).tolist() for axis in (1, 0))
        if max(len(rows), len(columns)) > MOST_SIDE:
            raise ValueError(
                f"outer_product: thread {reads.thread} owns {len(rows)} × {len(columns)} elements "
                f"of C; it draws {MOST_SIDE} × {MOST_SIDE} at most."
            )
        m, n, depth = reads.trace.m, reads.trace.n, reads.trace.k
        there = {"A": np.zeros((m, depth), bool), "B": np.zeros((depth, n), bool)}
        for name, loads in reads.loads_at(k).items():
            for row, column in np.concatenate(loads):
                there[name][row, column] = True
        along = there["A"].any(axis=0), there["B"].any(axis=1)
        last = [int(np.flatnonzero(ks)[-1]) + 1 for ks in along]
        a = there["A"][rows, k : last[0]]
        b = there["B"][k : last[1], columns]
        return cls(reads, k, rows, columns, a, b)

    @property
    def products(self) -> int:
        return int(self.reads.owned.sum())

    @property
    def width(self) -> float:
        room = WIDTH - 2 * MARGIN - LABELS - GAP - NOTES - 0.25 - (self.a.shape[1] - 1) * WAITING
        return min(0.85, room / (len(self.columns) + 1))

    @property
    def height(self) -> float:
        return min(0.55, 3.4 / (len(self.rows) + 1))

    @property
    def left(self) -> float:
        """Where the sums begin, at the right of A."""
        return MARGIN + LABELS + self.width + (self.a.shape[1] - 1) * WAITING + GAP

    @property
    def top(self) -> float:
        """Where the sums begin, below B."""
        return HEAD + 0.62 + self.height + (self.b.shape[0] - 1) * WAITING + GAP

    @property
    def bottom(self) -> float:
        return self.top + len(self.rows) * self.height

    def draw(self, fig: Picture) -> None:
        owned = self.reads.owned[np.ix_(self.rows, self.columns)]
        down, across = len(self.rows), len(self.columns)
        wide, high = across * self.width, down * self.height
        c = bare(fig.add_axes_at(self.left, self.top, wide, high, gid="sums"), across, down)
        for row, column in np.argwhere(owned):
            self._cell(c, "C", (column, row, 1, 1), f"a{row}·b{column}", PALE)
        # Along K as in the matrices: what waits for a later k at the right of A, below B.
        along = self.width + (self.a.shape[1] - 1) * WAITING
        a = fig.add_axes_at(self.left - GAP - along, self.top, along, high, gid="registers A")
        bare(a, along, down)
        for row, later in np.argwhere(self.a):
            self._register(a, "A", row, later)
        along = self.height + (self.b.shape[0] - 1) * WAITING
        b = fig.add_axes_at(self.left, self.top - GAP - along, wide, along, gid="registers B")
        bare(b, across, along)
        for later, column in np.argwhere(self.b):
            self._register(b, "B", column, later)
        self._label(fig, owned)

    def _cell(
        self, ax: Axes, name: str, place: tuple[float, float, float, float], words: str,
        share: float,
    ) -> None:  # fmt: skip
        look = {"facecolor": style.tint(ARRAYS[name], share), "linewidth": 1.2}
        fits = style.text_width(words, SMALL) < self.width - 0.04
        text = {"color": "white" if share == 1 else style.INK}
        box(ax, *place, words if fits else "", text, gid=f"{name} {words}", **look)

    def _register(self, ax: Axes, name: str, at: int, later: int) -> None:
        """Element `at` of the column or row; hatched where it is for a `later` k."""
        if later == 0:
            place = (0, at, self.width, 1) if name == "A" else (at, 0, 1, self.height)
            self._cell(ax, name, place, f"{name.lower()}{at}", 1)
            return
        away = (self.width if name == "A" else self.height) + (later - 1) * WAITING
        place = (away, at, WAITING, 1) if name == "A" else (at, away, 1, WAITING)
        box(ax, *place, linewidth=1.2, gid=f"waiting {name}", **_waiting(name))

    def _label(self, fig: Picture, owned: np.ndarray) -> None:
        """Beside each register its row or column, and how many products use it."""
        right = MARGIN + LABELS - 0.08
        for at, row in enumerate(self.rows):
            middle = self.top + (at + 0.5) * self.height
            look = {"size": SMALL, "ha": "right", "va": "center"}
            fig.text_at(right - USED, middle, f"{row}", gid=f"row {row}", **look)
            fig.text_at(right, middle, f"{owned[at].sum()}×", gid=f"used {row}", **look)
        look = {"size": SMALL, "ha": "right", "va": "bottom"}
        fig.text_at(right - USED, self.top - 0.06, "row", **look)
        fig.text_at(right, self.top - 0.06, "used", **look)
        bottom = self.top - GAP - self.height - (self.b.shape[0] - 1) * WAITING - 0.05
        for at, column in enumerate(self.columns):
            middle = self.left + (at + 0.5) * self.width
            words = f"{column}\n{owned[:, at].sum()}×"
            look = {"size": SMALL, "ha": "center", "va": "bottom", "linespacing": style.LINE}
            fig.text_at(middle, bottom, words, **look)
        look = {"size": SMALL, "ha": "right", "va": "bottom", "linespacing": style.LINE}
        fig.text_at(self.left - 0.08, bottom, "column\nused", **look)
        name = {"size": NORMAL, "weight": "bold"}
        fig.text_at(self.left, HEAD, f"B, row k = {self.k}", **name)
        fig.text_at(MARGIN + 0.1, self.top - 0.64, f"A, column\nk = {self.k}", **name)


def _waiting(name: str) -> dict:
    """How an element for a later k looks."""
    return {"facecolor": style.tint(ARRAYS[name], LATER), "hatch": "////", "edgecolor": "white"}


def _key(drawn: _Drawn) -> list[Entry]:
    return [
        ("a register, an element of A", {"facecolor": ARRAYS["A"]}),
        ("a register, an element of B", {"facecolor": ARRAYS["B"]}),
        ("a register, a sum: += a · b", {"facecolor": style.tint(ARRAYS["C"], PALE)}),
        *(
            ("from the same loads, for a later k", _waiting(name))
            for name, cells in (("A", drawn.a[:, 1:]), ("B", drawn.b[1:]))
            if cells.any()
        ),
    ]


def _used(counts: Sequence[int]) -> str:
    low, high = int(min(counts)), int(max(counts))
    return f"{high}" if low == high else f"{low} to {high}"


def _notes(drawn: _Drawn) -> dict[str, list[str]]:
    reads, counters = drawn.reads, drawn.reads.trace.counters
    owned = reads.owned[np.ix_(drawn.rows, drawn.columns)]
    step = len(reads.ks)
    threads = math.prod(reads.trace.grid) * math.prod(reads.trace.block)
    products = counters[FMA_METRIC] / (threads * reads.trace.k)
    elements = len(drawn.rows) + len(drawn.columns)
    return {
        f"thread {reads.thread}, k = {drawn.k}": [
            f"reads {len(drawn.rows)} elements of A and {len(drawn.columns)} of B",
            f"multiplies each with each: {len(drawn.rows)} × {len(drawn.columns)} = "
            f"{drawn.products} multiply-adds",
        ],
        "Use of a register": [
            f"each of A {_used(owned.sum(axis=1))} times, each of B {_used(owned.sum(axis=0))}; "
            "a sum once for each k",
        ],
        "Load instructions": [
            f"{len(reads.loads)} in the step of {step}, so {len(reads.loads) / step:g} for one k "
            f"and its {elements} elements",
        ],
        "Mean of all threads, counted": [
            f"{products:,g} multiply-adds for one k",
        ],
    }


def _caption(drawn: _Drawn) -> str:
    reads = drawn.reads
    waiting = int(drawn.a[:, 1:].sum() + drawn.b[1:].sum())
    later = f" {waiting} more elements came with the same loads and wait." if waiting else ""
    return (
        f"Thread {reads.thread} of block {reads.played.block} of {reads.trace.kernel_name} at "
        f"k = {drawn.k}: {plural(len(drawn.rows), 'element')} of A times "
        f"{plural(len(drawn.columns), 'element')} of B make {plural(drawn.products, 'product')}, "
        f"one for each sum.{later} Traced from its loads of shared memory and its stores of C."
    )
