"""Figures of this lesson: boxes, and the account of cycles."""

from math import prod

from gemmlab.kernel.trace import Trace
from gemmlab.lessons.naive.figures import OF_ALL_RUNGS, bars
from gemmlab.lessons.tma_wgmma import tables
from gemmlab.plots import style
from gemmlab.plots.cells import box, number_above, product_axes
from gemmlab.plots.charts import note
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import ARRAYS, LARGE, MARGIN, NORMAL, WIDTH, plural
from gemmlab.records import runs
from ptxsim import BoxCopy
from ptxsim.architectures import WARP
from ptxsim.hopper import GROUP_WARPS

MOST = 0.0165  # inches for an element
BLOCK = (0, 0, 0)
LABELS, GAP, BAR = 0.4, 0.75, 0.36  # inches
PALE, STRONG = 0.16, 0.5  # of a matrix's colour


@styled
def boxes(trace: Trace) -> Picture:
    """The boxes of A and B that block 0 loads for its first step, and who computes what of C.

    Boxes are numbered in the order of their requests. Below them is where they lie in shared
    memory. trace: of 16 with B as it is.
    """
    first = _first_step(trace)
    each = min(MOST, (WIDTH - 2 * MARGIN - LABELS - GAP) / (trace.k + trace.n))
    wide, tall, deep = trace.n * each, trace.m * each, trace.k * each
    key = [("boxes of the first step along K, in their order", swatch(style.FAINT, STRONG)),
           ("boxes of the steps that follow", swatch(style.FAINT, PALE))]  # fmt: skip
    height = 0.45 + deep + GAP + tall + 0.7 + BAR + 0.3
    title = "What one thread loads, and what each warpgroup multiplies"
    who = f"thread {WARP * first[0].warp + first[0].lane}"
    of_each = {name: [box.box for box in first if box.array == name] for name in "AB"}
    sizes = [f"{len(b)} of {name} of {'×'.join(map(str, b[0]))}" for name, b in of_each.items()]
    groups = _groups(trace)
    caption = (
        f"Block 0 of {trace.kernel_name}. For each step along K {who} starts the loads of "
        f"{len(first)} boxes: {style.listed(sizes)} elements. "
        f"Each of {plural(len(groups), 'warpgroup')} multiplies its own rows of A with all of B."
    )
    fig = page(title, height, caption, key=key)
    left, along, of_c = MARGIN + LABELS, (deep, deep), (wide, tall)
    axes = product_axes(fig, left, fig.top + 0.45, along, of_c, (GAP, GAP))
    shapes = {"A": (trace.m, trace.k), "B": (trace.k, trace.n), "C": (trace.m, trace.n)}
    for name, (rows, columns) in shapes.items():
        ax = axes[name]
        ax.set(xlim=(0, columns), ylim=(rows, 0))
        ax.set(xticks=[0, columns // 2, columns], yticks=[0, rows // 2, rows])
        number_above(ax)
        note(ax, name, (0, 0), (0, 22), size=LARGE, weight="bold")
    for copy in trace.run.boxes(BLOCK):
        if copy.operation == "load":
            (y, x), (tall, wide) = copy.corner, copy.box
            words = str(first.index(copy) + 1) if copy in first else ""
            look = {"facecolor": style.tint(ARRAYS[copy.array], STRONG if words else PALE)}
            text = {"size": LARGE, "weight": "bold"}
            box(axes[copy.array], x, y, wide, tall, words, text, edgecolor=style.INK, **look)
    for group, (low, high) in groups.items():
        words = f"warpgroup {group}: {high + 1 - low} rows"
        look = swatch(ARRAYS["C"], PALE * (1 + group % 2), edgecolor=style.INK)
        box(axes["C"], 0, low, trace.n, high + 1 - low, words, {"size": NORMAL}, **look)
    _draw_stage(fig, trace, first, fig.top + height - BAR - 0.3)
    return fig


def _first_step(trace: Trace) -> list[BoxCopy]:
    """The boxes that are loaded for the first step along K, in their order."""
    loads = (box for box in trace.run.boxes(BLOCK) if box.operation == "load")
    return [box for box in loads if box.corner[1 if box.array == "A" else 0] == 0]


def _bytes(trace: Trace, box: BoxCopy) -> int:
    return prod(box.box) * trace.bytes_of(box.array)


def _groups(trace: Trace) -> dict[int, tuple[int, int]]:
    """{warpgroup: the first row of C that it stores, and the last}."""
    rows_of_group: dict[int, set[int]] = {}
    for access in trace.run.accesses(BLOCK):
        if (access.array, access.operation) == ("C", "store"):
            rows = access.addresses[access.active] // trace.c_bytes // trace.n
            rows_of_group.setdefault(access.warp // GROUP_WARPS, set()).update(rows.tolist())
    return {group: (min(rows), max(rows)) for group, rows in sorted(rows_of_group.items())}


def _draw_stage(fig: Picture, trace: Trace, first: list[BoxCopy], top: float) -> None:
    """Where the boxes lie in shared memory."""
    start = min(copy.place for copy in first)
    total = sum(_bytes(trace, copy) for copy in first)
    ax = fig.add_axes_at(MARGIN, top, WIDTH - 2 * MARGIN - 0.3, BAR)
    ax.set(xlim=(0, total), ylim=(0, 1), yticks=[])
    words = f"The same boxes in shared memory: {total:,} bytes, one stage"
    note(ax, words, (0, 1), (0, 18), size=LARGE, weight="bold")
    for number, copy in enumerate(first, 1):
        look = {"facecolor": style.tint(ARRAYS[copy.array], STRONG), "edgecolor": style.INK}
        words = f"{copy.array}, box {number}"
        box(ax, copy.place - start, 0, _bytes(trace, copy), 1, words, **look)
    places = sorted({copy.place - start for copy in first} | {total})
    ax.set_xticks(places, [f"{place:,}" for place in places])
    ax.tick_params(length=2, pad=2)


# ---- the account of cycles -----------------------------------------------------------------------

FLOOR = "the floor: its MMAs at the highest rate"
CYCLES = {**OF_ALL_RUNGS, FLOOR: swatch(style.PURPLE, 0.8)}  # the columns of tables.account


@styled
def cycles(*names: str) -> Picture:
    """The account of cycles: what an SM takes for a wgmma, beside the floor of its instruction.

    names: of 15 to 18; 15 does as much by mma.sync. The dashed line is the lowest floor.
    """
    table = tables.account(*names)
    parts = [
        f"{row.Index} takes {row[1]:.1f} SM cycles, and the banks are busy in {row[2]:.1f} of "
        f"them; its floor is {row[3]:.1f} ({100 * row[3] / row[1]:.0f} %)"
        for row in table.itertuples()
    ]
    size = style.shape_label(*runs.LARGE)
    caption = (
        f"Per wgmma of {'×'.join(map(str, tables.WGMMA))} at {size}: {'. '.join(parts)}. An SM's "
        "cycles count while it has a block. Dashed: the floor of wgmma."
    )
    named = table.set_axis([*CYCLES], axis=1)
    fig, ax = bars(named, CYCLES, "wgmma", caption, runs.LARGE, digits=1)
    ax.axvline(table["floor"].min(), color=style.PURPLE, linestyle="--", linewidth=1.0)
    return fig
