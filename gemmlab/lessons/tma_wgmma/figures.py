"""Figures of this lesson: boxes and what wgmma reads of them, cycles, accumulators, power."""

from collections.abc import Mapping
from math import prod

import numpy as np
import pandas
from matplotlib.axes import Axes

from gemmlab.kernel.trace import Trace
from gemmlab.lessons.naive.figures import bars
from gemmlab.lessons.tma_wgmma import tables
from gemmlab.plots import style
from gemmlab.plots.cells import box, draw_grid, number_above, product_axes, write
from gemmlab.plots.charts import note, rows_of, stripes
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import ARRAYS, LARGE, LINE, MARGIN, NORMAL, SMALL, WIDTH, plural
from gemmlab.records import runs
from ptxsim import BoxCopy, FactorRead
from ptxsim.architectures import WARP
from ptxsim.hopper import GROUP_WARPS, DescriptorFields

MOST = 0.0165  # inches for an element
BLOCK = (0, 0, 0)
LABELS, GAP, BAR = 0.4, 0.75, 0.36  # inches
PALE, STRONG = 0.16, 0.5  # of a matrix's colour
ROW_BYTES, CHUNK_BYTES, LINES = 128, 16, 64  # of shared memory, as it is drawn
PANEL_WIDTH, PANEL_HEIGHT = 3.1, 3.4  # inches
SHADES = 0.12, 0.85  # of a matrix's colour: what the first wgmma reads, and the last


@styled
def boxes(trace: Trace) -> Picture:
    """The boxes of A and B that block 0 loads for its first step, and who computes what of C.

    Boxes are numbered in the order of their requests. Below them is where they lie in shared
    memory. Raises ValueError for a kernel that loads no boxes.
    """
    first = _first_step(trace, "boxes")
    each = min(MOST, (WIDTH - 2 * MARGIN - LABELS - GAP) / (trace.k + trace.n))
    wide, tall, deep = trace.n * each, trace.m * each, trace.k * each
    key = [("boxes of the first step along K, in their order", swatch(style.FAINT, STRONG)),
           ("boxes of the steps that follow", swatch(style.FAINT, PALE))]  # fmt: skip
    height = 0.45 + deep + GAP + tall + 0.7 + BAR + 0.3
    title = "What one thread loads, and what each warpgroup multiplies"
    asks = sorted({WARP * box.warp + box.lane for box in first})
    who = " and ".join(f"thread {thread}" for thread in asks)
    of_each = {name: [box.box for box in first if box.array == name] for name in "AB"}
    sizes = [f"{len(b)} of {name} of {'×'.join(map(str, b[0]))}" for name, b in of_each.items()]
    groups = _groups(trace)
    caption = (
        f"Block 0 of {trace.kernel_name}. For each step along K {who} starts the loads of "
        f"{len(first)} {'box' if len(first) == 1 else 'boxes'}: {style.listed(sizes)} elements. "
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
            turn = -1 if trace.ops["AB".index(copy.array)] == "T" else 1
            (y, x), (tall, wide) = copy.corner[::turn], copy.box[::turn]
            words = str(first.index(copy) + 1) if copy in first else ""
            look = {"facecolor": style.tint(ARRAYS[copy.array], STRONG if words else PALE)}
            text = {"size": LARGE, "weight": "bold"}
            box(axes[copy.array], x, y, wide, tall, words, text, edgecolor=style.INK, **look)
    for group, (low, high) in _groups(trace).items():
        words = f"warpgroup {group}: {high + 1 - low} rows"
        look = swatch(ARRAYS["C"], PALE * (1 + group % 2), edgecolor=style.INK)
        box(axes["C"], 0, low, trace.n, high + 1 - low, words, {"size": NORMAL}, **look)
    _draw_stage(fig, trace, first, fig.top + height - BAR - 0.3)
    return fig


def _first_step(trace: Trace, who: str) -> list[BoxCopy]:
    """The boxes that are loaded for the first step along K, in their order."""
    loads = [box for box in trace.run.boxes(BLOCK) if box.operation == "load"]
    if not loads:
        raise ValueError(f"{who}: block {BLOCK} of {trace.kernel_name} loads no boxes.")
    along = {"A": 0 if trace.ops[0] == "T" else 1, "B": 0 if trace.ops[1] == "N" else 1}
    ks = [box.corner[along[box.array]] for box in loads]
    return [box for box, k in zip(loads, ks, strict=True) if k == ks[0]]


def _bytes(trace: Trace, box: BoxCopy) -> int:
    return prod(box.box) * trace.bytes_of(box.array)


def _groups(trace: Trace) -> dict[int, tuple[int, int]]:
    """{warpgroup: the first row of C that it stores, and the last}."""
    rows_of_group: dict[int, set[int]] = {}
    for access in trace.run.accesses(BLOCK):
        if (access.array, access.operation) == ("C", "store"):
            rows = access.addresses[access.active] // trace.c_bytes // trace.n
            rows_of_group.setdefault(access.warp // GROUP_WARPS, set()).update(rows.tolist())
    for copy in trace.run.boxes(BLOCK):
        if copy.operation == "store":
            rows = range(copy.corner[0], min(copy.corner[0] + copy.box[0], trace.m))
            rows_of_group.setdefault(copy.warp // GROUP_WARPS, set()).update(rows)
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


# ---- what wgmma reads ----------------------------------------------------------------------------


@styled
def factors(trace: Trace) -> Picture:
    """Which chunks of shared memory each wgmma of a step reads, of A and of B, by its descriptors.

    Of the first warpgroup of block 0. Raises what `boxes` raises, and ValueError for a kernel
    that multiplies nothing from shared memory.
    """
    first = _first_step(trace, "factors")
    end = min(copy.place for copy in first) + sum(_bytes(trace, copy) for copy in first)
    reads: dict[str, list[FactorRead]] = {"A": [], "B": []}
    for read in trace.run.factors(BLOCK, 0):
        known = {other.descriptor for other in reads[read.factor]}
        if read.places.max() < end and read.descriptor not in known:
            reads[read.factor].append(read)
    if not all(reads.values()):
        raise ValueError(f"factors: warpgroup 0 of block {BLOCK} multiplies nothing.")
    key = [("read by", None)] + [
        (f"wgmma {number}", {"facecolor": style.tint(style.BLACK, share)})
        for number, share in enumerate(np.linspace(*SHADES, len(reads["A"])), 1)
    ]
    title = "What each wgmma of a step reads from shared memory"
    parts = []
    for name, (read, *_) in reads.items():
        lines, units = read.places.shape
        parts.append(
            f"of {name} {lines} whole rows, one for each k"
            if read.transposed
            else f"of {name} {units} chunks of {CHUNK_BYTES} bytes in each of {lines} rows"
        )
    where = "There" if reads["A"][0].transposed else "In rows along K"
    caption = (
        f"What one wgmma reads: {style.listed(parts)}. The {len(reads['A'])} of a step read all. "
        f"{where} the swizzle moves the chunks of a row, and the hardware finds them from the "
        "descriptor."
    )
    fig = page(title, 0.45 + PANEL_HEIGHT + 0.75, caption, key=key)
    top = fig.top + 0.45
    for at, (name, of_matrix) in enumerate(reads.items()):
        left = MARGIN + 0.45 + at * (PANEL_WIDTH + 0.95)
        whose = "the rows of the warpgroup" if name == "A" else "the first 64 columns"
        fig.text_at(left, fig.top, f"{name}: {whose}", size=LARGE, weight="bold")
        ax = fig.add_axes_at(left, top, PANEL_WIDTH, PANEL_HEIGHT)
        _draw_reads(ax, name, of_matrix)
        lines = style.wrap(_described(of_matrix), PANEL_WIDTH + 0.4, SMALL)
        fig.text_at(left, top + PANEL_HEIGHT + 0.1, "\n".join(lines), size=SMALL, linespacing=LINE)
    return fig


def _draw_reads(ax: Axes, name: str, reads: list[FactorRead]) -> None:
    base = min(int(read.places.min()) for read in reads)
    across = ROW_BYTES // CHUNK_BYTES
    drawn = np.ones((LINES, across, 3))
    for share, read in zip(np.linspace(*SHADES, len(reads)), reads, strict=True):
        chunk = (read.places.ravel() - base) // CHUNK_BYTES
        chunk = chunk[chunk < LINES * across]
        drawn[chunk // across, chunk % across] = style.tint(ARRAYS[name], share)
    ax.imshow(drawn, extent=(0, across, LINES, 0), aspect="auto", interpolation="nearest")
    ax.vlines(range(1, across), 0, LINES, color=style.GRID, linewidth=0.5)
    ax.hlines(range(8, LINES, 8), 0, across, color=style.INK, linewidth=0.6)
    ax.set_yticks(range(0, LINES + 1, 8))
    ax.set_xticks(np.arange(across) + 0.5, [str(CHUNK_BYTES * at) for at in range(across)])
    number_above(ax)
    ax.set_ylabel("row of 128 bytes", size=SMALL)


def _described(reads: list[FactorRead]) -> str:
    fields = DescriptorFields.of(np.array([read.descriptor for read in reads]))
    begins = style.listed([str(at) for at in fields.start - fields.start[0]])
    words = (
        f"Descriptors: begin at bytes {begins} of the tile; a swizzle of {fields.width[0]} bytes; "
        f"{fields.stride[0]:,} bytes from 8 rows to the next 8"
    )
    if reads[0].transposed:
        words += f"; {fields.leading[0]:,} from 64 columns to the next 64"
    return f"{words}."


# ---- the account of cycles -----------------------------------------------------------------------

CYCLES = {  # by the columns of tables.account
    "SM cycles": ("SM cycles", swatch(style.FAINT, 0.3)),
    "banks": ("banks of L1 and shared memory busy", swatch(style.ORANGE)),
    "floor": ("the floor: its MMAs at the highest rate", swatch(style.PURPLE, 0.8)),
}


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
    table = table.rename(columns={column: words for column, (words, _) in CYCLES.items()})
    looks = dict(CYCLES.values())
    fig, ax = bars(table, looks, "wgmma", caption, runs.LARGE, digits=1)
    floor = table[CYCLES["floor"][0]].min()
    ax.axvline(floor, color=style.PURPLE, linestyle="--", linewidth=1.0)
    return fig


# ---- swizzles ------------------------------------------------------------------------------------

BANKS, BANK_BYTES, ROWS = 32, 4, 8
ACROSS = BANKS * BANK_BYTES // CHUNK_BYTES  # chunks side by side in all banks
CELL_WIDTH, CELL_HEIGHT, BETWEEN_BOXES = 0.46, 0.27, 0.8  # inches
LIGHT, DARK = 0.12, 0.6  # of a matrix's colour


@styled
def swizzles(boxes: Mapping[str, np.ndarray]) -> Picture:
    """In which banks of shared memory the chunks of a box lie, for each way to swizzle it.

    boxes: by the name of the swizzle, int (places,), the chunk of 16 bytes at each place, of a box
    of 8 rows whose chunks count along its rows: see tables.in_shared_memory. The first
    chunk of every row is dark.
    """
    taken = []
    for name, chunks in boxes.items():
        places = np.flatnonzero(chunks % (len(chunks) // ROWS) == 0) % ACROSS
        banks = len(np.unique(places)) * CHUNK_BYTES // BANK_BYTES
        taken.append(f"{banks} {'without' if name == 'none' else f'with {name[:-1]} bytes'}")
    caption = (
        f"A box of {ROWS} rows in shared memory: chunks of {CHUNK_BYTES} bytes, the row of the box "
        "and the chunk's place in it. The first chunk of each row is dark: what is read at a time "
        f"down a column of the box. These {ROWS} lie in so many of the {BANKS} banks: "
        f"{style.listed(taken)}."
    )
    columns = [list(boxes.items())[at::2] for at in (0, 1)]
    heights = [
        sum(len(chunks) // ACROSS * CELL_HEIGHT + BETWEEN_BOXES for _, chunks in column)
        for column in columns
    ]
    fig = page("", max(heights) + 0.23, caption)
    for left, column in zip((MARGIN + 0.1, MARGIN + 0.1 + WIDTH / 2), columns, strict=True):
        top = 0.35
        for name, chunks in column:
            down = len(chunks) // ACROSS
            words = "no swizzle" if name == "none" else f"swizzle of {name[:-1]} bytes"
            fig.text_at(left, top - 0.3, words, size=LARGE, weight="bold")
            fig.text_at(left, top - 0.08, "banks", size=SMALL, color=style.FAINT)
            size = (ACROSS * CELL_WIDTH, down * CELL_HEIGHT)
            ax = fig.add_axes_at(left, top + 0.25, *size)
            _draw_banks(ax, chunks.reshape(down, ACROSS), len(chunks) // ROWS)
            top += down * CELL_HEIGHT + BETWEEN_BOXES
    return fig


def _draw_banks(ax: Axes, chunks: np.ndarray, width: int) -> None:
    """Rows of 128 bytes; of each chunk the row of the box and its place there."""
    ax.set(xlim=(0, ACROSS), ylim=(len(chunks), 0))
    for (y, x), chunk in np.ndenumerate(chunks):
        row, place = divmod(int(chunk), width)
        colour = style.tint(ARRAYS["A"], LIGHT if place else DARK)
        box(ax, x, y, 1, 1, f"{row}·{place}", facecolor=colour, edgecolor=style.GRID)
    each = CHUNK_BYTES // BANK_BYTES
    names = [f"{at * each}–{at * each + each - 1}" for at in range(ACROSS)]
    ax.set_xticks(np.arange(ACROSS) + 0.5, names)
    ax.set_yticks([])
    number_above(ax)


# ---- sums of a warpgroup -------------------------------------------------------------------------

SIDE, BETWEEN, ZOOM = 3.9, 0.5, 16  # inches; rows and columns that are shown larger


@styled
def warpgroup_accumulators(held: np.ndarray, *, thread: int = 0) -> Picture:
    """Which thread of a warpgroup holds which sums of 64 rows of C; one thread's are dark.

    held: int (128, places), row * columns + column of each: see tables.accumulators.
    """
    threads, places = held.shape
    rows = 64
    columns = threads * places // rows
    owner = np.empty(rows * columns, int)
    owner[held] = np.arange(threads)[:, None]
    owner = owner.reshape(rows, columns)
    rows_held, columns_held = (np.unique(index) for index in np.nonzero(owner == thread))
    caption = (
        f"Who holds the {owner.size:,} accumulators of 64 rows, {places} a thread. Dark: thread "
        f"{thread}, lane {thread % WARP} of warp {thread // WARP}, which has {len(columns_held)} "
        f"columns of rows {style.listed(list(map(str, rows_held)))}."
    )
    fig = page("", SIDE + 0.88, caption)
    left, top = MARGIN + 0.3, 0.75
    for draw, words, owners, x in (
        (_draw_warps, f"C, {rows} × {columns}: a band for each warp", owner, left),
        (_draw_lanes, f"the first {ZOOM} × {ZOOM}: a number is a lane", owner[:ZOOM, :ZOOM],
         left + SIDE + BETWEEN),
    ):  # fmt: skip
        fig.text_at(x, top - 0.55, words, size=LARGE, weight="bold")
        ax = fig.add_axes_at(x, top, SIDE, SIDE)
        down, across = owners.shape
        ax.set(xlim=(0, across), ylim=(down, 0))
        draw_grid(ax, range(down), range(across), owners.shape, SIDE / across, SIDE / down)
        draw(ax, owners, thread)
    return fig


def _draw_warps(ax: Axes, owner: np.ndarray, thread: int) -> None:
    for warp in np.unique(owner // WARP):
        band = np.flatnonzero((owner // WARP == warp).all(axis=1))
        look = {"facecolor": style.tint(ARRAYS["C"], LIGHT * (1 + warp % 2)), "zorder": 0.7,
                "edgecolor": style.INK, "linewidth": 0.6}  # fmt: skip
        box(ax, 0, band[0], owner.shape[1], len(band), **look)
        middle = owner.shape[1] / 2
        write(ax, middle, band[0] + 4.5, f"warp {warp}", size=NORMAL, zorder=2)
    for row, column in np.argwhere(owner == thread):
        box(ax, column, row, 1, 1, facecolor=ARRAYS["C"], linewidth=0, zorder=1)


def _draw_lanes(ax: Axes, owner: np.ndarray, thread: int) -> None:
    """Two neighbours of a row belong to one lane, and are one cell."""
    for row, column in np.ndindex(len(owner), owner.shape[1] // 2):
        mine = int(owner[row, 2 * column])
        share = DARK if mine == thread else LIGHT * (1 + (mine % 4 + mine // 4) % 2)
        look = {"facecolor": style.tint(ARRAYS["C"], share), "edgecolor": style.GRID, "zorder": 1}
        box(ax, 2 * column, row, 2, 1, str(mine % WARP), {"zorder": 2}, linewidth=0.5, **look)


# ---- power ---------------------------------------------------------------------------------------

NAMES = {"float16": "FP16", "bfloat16": "BF16", "float8_e4m3": "FP8 E4M3"}
WORDS = {"random": "random numbers", "zeros": "zeros"}
LOADS = {"burst": "in a burst", "sustained": "sustained"}
PANELS = {  # column: words, the share of the page
    "tflops": ("TFLOP/s", 0.46),
    "sm_clock_mhz": ("SM clock, MHz", 0.28),
    "joules_per_tflop": ("joules a TFLOP", 0.26),
}
ROW, PANEL_GAP = 0.3, 0.22  # inches


@styled
def power(table: pandas.DataFrame) -> Picture:
    """Kernels beside cuBLAS under each load: their speed, the clock of the SMs, their energy.

    table: as persistent.measure.POWER has it. A row of the figure for each type, data and load.
    """
    looks = {}
    for name in sorted(set(table["kernel"]), key=lambda name: (name != "cublas", name)):
        look = style.kernel_style(name)
        size = 9.0 if look["marker"] == "*" else 6.0
        look = {"color": look["color"], "marker": look["marker"], "markersize": size}
        looks[name] = (style.kernel_label(name), look)
    rows = {
        f"{NAMES[dtype]}, {data}, {LOADS[load]}": chosen.set_index("kernel")
        for (dtype, data, load), chosen in table.groupby(["dtype", "data", "load"], sort=False)
    }
    first = table.iloc[0]
    cublas = table[(table.kernel == "cublas") & (table.dtype == first["dtype"])]["tflops"]
    last = max(set(table["kernel"]) - {"cublas"})
    speeds = table.pivot_table(index=["dtype", "data", "load"], columns="kernel", values="tflops")
    shares = 100 * speeds[last] / speeds["cublas"]
    caption = (
        f"Products of {first['m']}×{first['n']}×{first['k']}, launched after a rest and without "
        f"end. cuBLAS alone reaches {cublas.min():.0f} to {cublas.max():.0f} TFLOP/s in "
        f"{NAMES[first['dtype']]}, by its data and its load; of cuBLAS under the same load, {last} "
        f"reaches {shares.min():.1f} to {shares.max():.1f} %. The clock is what the SMs counted."
    )
    title, source = "What power does to a comparison", style.provenance(table)
    return _in_panels(title, rows, looks, caption, source)


@styled
def wgmma_ceilings(table: pandas.DataFrame) -> Picture:
    """Ways to start wgmma, nothing else beside it: their speed in a burst and sustained.

    table: as tables.wgmma_ceilings() gives.
    """
    look = {"color": style.PURPLE, "marker": "o"}
    looks = {
        "burst": ("in a burst, after a rest", {**look, "markerfacecolor": style.GROUND}),
        "sustained": ("sustained", look),
    }
    by = ["dtype", "a_from", "width", "data"]
    rows = {
        f"{NAMES[dtype]}, A from {place}, {width} columns, {data}": chosen.set_index("load")
        for (dtype, place, width, data), chosen in table.groupby(by, sort=False)
    }
    title = "The ceilings of wgmma: nothing but the instruction"
    first = table[["dtype", "a_from", "width"]].iloc[0]
    chosen = table[(table[first.index] == first).all(axis=1)].set_index(["data", "load"])["tflops"]
    speeds = ", ".join(
        f"{chosen[data, load]:.0f} {LOADS[load]} on {WORDS[data]}" for data, load in chosen.index
    )
    caption = (
        f"{NAMES[first['dtype']]} with A from {first['a_from']} and {first['width']} columns: "
        f"{speeds}, in TFLOP/s. Two warpgroups on each SM, their operands there from the start; an "
        "operation is a multiplication or an addition. The clock is what the SMs counted."
    )
    return _in_panels(title, rows, looks, caption, style.provenance(table))


def _in_panels(
    title: str, rows: dict[str, pandas.DataFrame], looks: dict, caption: str, source: str
) -> Picture:
    """A panel for each of PANELS; looks: of what indexes the tables, its words and its marker."""
    key = [(words, {"linestyle": "", **look}) for words, look in looks.values()]
    fig = page(title, ROW * len(rows) + 0.55, caption, source, key=key)
    left = MARGIN + style.widest(rows, SMALL) + 0.12
    room = WIDTH - MARGIN - 0.1 - left - PANEL_GAP * (len(PANELS) - 1)
    names = list(rows)
    for column, (words, share) in PANELS.items():
        right = left + room * share
        ax = rows_of(fig, names, fig.top, ROW, left=left, right=right, size=SMALL)
        stripes(ax, len(rows))
        for at, chosen in enumerate(rows.values()):
            for name, value in chosen[column].dropna().items():
                look = {"markersize": 6, "zorder": 3, **looks[name][1]}
                ax.plot(value, at + 0.5, **look)
        ax.margins(x=0.06)
        ax.locator_params(axis="x", nbins=6 if column == "tflops" else 4)
        ax.spines["left"].set_visible(False)
        ax.set_xlabel(words)
        names = [""] * len(rows)  # once, at the left
        left = right + PANEL_GAP
    return fig
