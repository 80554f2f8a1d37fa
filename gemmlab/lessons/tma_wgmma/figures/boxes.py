"""Boxes that one thread asks for, where they lie in shared memory, and what wgmma reads of them."""

from __future__ import annotations

from math import prod

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.plots.matrix import require_trace
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import ARRAYS, LARGE, LINE, MARGIN, NORMAL, SMALL, WIDTH, plural, styled
from ptxsim import BoxCopy, FactorRead
from ptxsim.architectures import WARP
from ptxsim.hopper import GROUP_WARPS, DescriptorFields

MOST = 0.0165  # inches for an element
LABELS, GAP, TOP, BAR = 0.4, 0.75, 0.95, 0.36  # inches
PALE, STRONG = 0.16, 0.5  # of a matrix's colour
ROW_BYTES, CHUNK_BYTES, ROWS = 128, 16, 64  # of shared memory, as it is drawn
PANEL_WIDTH, PANEL_HEIGHT = 3.1, 3.4  # inches


@styled
def boxes(trace: Trace, *, block=(0, 0, 0), caption: str | None = None) -> Picture:
    """What a block has brought as boxes of A and B for its first step, and who computes what of C.

    Boxes are numbered in the order in which they were asked for. Below them is where they lie in
    shared memory. Raises TypeError for anything but a trace, LaunchError for a block that is not
    there, and ValueError for a kernel that brings no boxes.
    """
    require_trace(trace, "boxes")
    first = _first_step(trace, block, "boxes")
    shapes = {"A": (trace.m, trace.k), "B": (trace.k, trace.n), "C": (trace.m, trace.n)}
    each = min(MOST, (WIDTH - 2 * MARGIN - LABELS - GAP) / (trace.k + trace.n))
    wide, tall, deep = trace.n * each, trace.m * each, trace.k * each
    a_left, c_left = MARGIN + LABELS, MARGIN + LABELS + deep + GAP
    c_top = TOP + deep + GAP
    bar_top = c_top + tall + 0.7
    fig = style.page(bar_top + BAR + 0.3, caption or _of_boxes(trace, block, first))
    fig.text_at(MARGIN, 0.12, "Who brings what, and who multiplies what", size=LARGE, weight="bold")
    places = {
        "A": (a_left, c_top, deep, tall), "B": (c_left, TOP, wide, deep),
        "C": (c_left, c_top, wide, tall),
    }  # fmt: skip
    for name, (left, top, width, height) in places.items():
        ax = fig.add_axes_at(left, top, width, height, gid=f"boxes {name}")
        rows, columns = shapes[name]
        ax.set(xlim=(0, columns), ylim=(rows, 0))
        ax.set_xticks([0, columns // 2, columns])
        ax.set_yticks([0, rows // 2, rows])
        ax.tick_params(length=0, pad=2, top=False, labeltop=True, bottom=False, labelbottom=False)
        fig.text_at(left, top - 0.42, name, size=LARGE, weight="bold")
        if name == "C":
            _draw_groups(ax, trace, block)
        else:
            _draw_boxes(ax, trace, block, name, first)
    _draw_key(fig, deep)
    _draw_stage(fig, trace, first, bar_top)
    return fig


def _first_step(trace: Trace, block, who: str) -> list[BoxCopy]:
    """The boxes that are brought for the first step along K, in their order."""
    loads = [box for box in trace.run.boxes(block) if box.operation == "load"]
    if not loads:
        raise ValueError(f"{who}: block {tuple(block)} of {trace.kernel_name} brings no boxes.")
    return [box for box in loads if _along_k(trace, box) == _along_k(trace, loads[0])]


def _along_k(trace: Trace, box: BoxCopy) -> int:
    is_stored_by_k = {"A": trace.ops[0] == "T", "B": trace.ops[1] == "N"}[box.array]
    return box.corner[0 if is_stored_by_k else 1]


def _bytes(trace: Trace, box: BoxCopy) -> int:
    return prod(box.box) * trace.bytes_of(box.array)


def _draw_boxes(ax: Axes, trace: Trace, block, name: str, first: list[BoxCopy]) -> None:
    turned = trace.ops["AB".index(name)] == "T"
    for box in trace.run.boxes(block):
        if box.array != name or box.operation != "load":
            continue
        (y, x), (tall, wide) = box.corner, box.box
        if turned:
            x, y, wide, tall = y, x, tall, wide
        number = first.index(box) + 1 if box in first else 0
        ax.add_patch(
            Rectangle((x, y), wide, tall, linewidth=0.8, edgecolor=style.INK,
                      facecolor=style.tint(ARRAYS[name], STRONG if number else PALE))
        )  # fmt: skip
        if number:
            ax.text(x + wide / 2, y + tall / 2, str(number), size=LARGE, weight="bold",
                    ha="center", va="center_baseline")  # fmt: skip


def _groups(trace: Trace, block) -> dict[int, tuple[int, int]]:
    """{warpgroup: the first row of C that it stores, and the last}."""
    found: dict[int, set[int]] = {}
    for access in trace.run.accesses(block):
        if (access.array, access.operation) == ("C", "store"):
            rows = access.addresses[access.active] // trace.c_bytes // trace.n
            found.setdefault(access.warp // GROUP_WARPS, set()).update(rows.tolist())
    for box in trace.run.boxes(block):
        if box.operation == "store":
            rows = range(box.corner[0], min(box.corner[0] + box.box[0], trace.m))
            found.setdefault(box.warp // GROUP_WARPS, set()).update(rows)
    return {group: (min(rows), max(rows)) for group, rows in sorted(found.items())}


def _draw_groups(ax: Axes, trace: Trace, block) -> None:
    for group, (low, high) in _groups(trace, block).items():
        ax.add_patch(
            Rectangle((0, low), trace.n, high + 1 - low, linewidth=0.8, edgecolor=style.INK,
                      facecolor=style.tint(ARRAYS["C"], PALE * (1 + group % 2)))
        )  # fmt: skip
        words = f"warpgroup {group}: {high + 1 - low} rows"
        ax.text(trace.n / 2, (low + high + 1) / 2, words, ha="center", va="center_baseline",
                size=NORMAL)  # fmt: skip


def _draw_key(fig: Picture, width: float) -> None:
    y = TOP
    for words, share in (
        ("boxes of the first step, in the order of asking", STRONG),
        ("boxes of the steps that follow", PALE),
    ):
        swatch = fig.add_axes_at(MARGIN, y, 0.16, 0.15)
        swatch.set(facecolor=style.tint(style.FAINT, share), xticks=[], yticks=[])
        lines = style.wrap(words, LABELS + width - 0.1, SMALL)
        fig.text_at(MARGIN + 0.25, y, "\n".join(lines), size=SMALL, linespacing=LINE)
        y += len(lines) * SMALL * LINE / 72 + 0.1


def _draw_stage(fig: Picture, trace: Trace, first: list[BoxCopy], top: float) -> None:
    start = min(box.place for box in first)
    total = sum(_bytes(trace, box) for box in first)
    fig.text_at(
        MARGIN, top - 0.42, f"where they lie in shared memory: {total:,} bytes", size=LARGE,
        weight="bold",
    )  # fmt: skip
    ax = fig.add_axes_at(MARGIN, top, WIDTH - 2 * MARGIN - 0.3, BAR, gid="boxes stage")
    ax.set(xlim=(0, total), ylim=(0, 1), yticks=[])
    for number, box in enumerate(first, 1):
        ax.add_patch(
            Rectangle((box.place - start, 0), _bytes(trace, box), 1, linewidth=0.8,
                      edgecolor=style.INK, facecolor=style.tint(ARRAYS[box.array], STRONG))
        )  # fmt: skip
        ax.text(box.place - start + _bytes(trace, box) / 2, 0.5, f"{box.array}, box {number}",
                ha="center", va="center_baseline", size=SMALL)  # fmt: skip
    at = sorted({box.place - start for box in first} | {total})
    ax.set_xticks(at, [f"{one:,}" for one in at])
    ax.tick_params(length=2, pad=2)


def _of_boxes(trace: Trace, block, first: list[BoxCopy]) -> str:
    asks = sorted({WARP * box.warp + box.lane for box in first})
    who = " and ".join(f"thread {one}" for one in asks)
    sizes = style.listed(
        [
            f"{sum(box.array == name for box in first)} of {name} of "
            f"{'×'.join(map(str, next(box.box for box in first if box.array == name)))}"
            for name in "AB"
        ]
    )
    groups = _groups(trace, block)
    return (
        f"Block {block[0]} of {trace.kernel_name}. For each step along K {who} asks for "
        f"{len(first)} {'box' if len(first) == 1 else 'boxes'}: {sizes} elements. Each of "
        f"{plural(len(groups), 'warpgroup')} multiplies its own rows of A with all of B."
    )


# ---- what wgmma reads ----------------------------------------------------------------------------


@styled
def factors(
    trace: Trace, *, block=(0, 0, 0), group: int = 0, caption: str | None = None
) -> Picture:
    """Which chunks of shared memory each wgmma of a step reads, of A and of B, by its descriptors.

    group: the warpgroup. Raises what `boxes` raises, and ValueError for a warpgroup that multiplies
    nothing from shared memory.
    """
    require_trace(trace, "factors")
    first = _first_step(trace, block, "factors")
    end = min(box.place for box in first) + sum(_bytes(trace, box) for box in first)
    reads: dict[str, list[FactorRead]] = {"A": [], "B": []}
    for one in trace.run.factors(block, group):
        known = {other.descriptor for other in reads[one.factor]}
        if one.places.max() < end and one.descriptor not in known:
            reads[one.factor].append(one)
    if not all(reads.values()):
        raise ValueError(f"factors: warpgroup {group} of block {tuple(block)} multiplies nothing.")
    fig = style.page(TOP + PANEL_HEIGHT + 0.75, caption or _of_factors(reads))
    title = "What each wgmma of a step reads of shared memory"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    for at, (name, some) in enumerate(reads.items()):
        left = MARGIN + 0.45 + at * (PANEL_WIDTH + 0.75)
        whose = "the rows of the warpgroup" if name == "A" else "the first 64 columns"
        fig.text_at(left, TOP - 0.45, f"{name}: {whose}", size=LARGE, weight="bold")
        ax = fig.add_axes_at(left, TOP, PANEL_WIDTH, PANEL_HEIGHT, gid=f"factors {name}")
        _draw_reads(ax, name, some)
        lines = style.wrap(_described(some), PANEL_WIDTH + 0.4, SMALL)
        fig.text_at(left, TOP + PANEL_HEIGHT + 0.1, "\n".join(lines), size=SMALL, linespacing=LINE)
    x = MARGIN + 0.45 + 2 * (PANEL_WIDTH + 0.75) - 0.2
    fig.text_at(x, TOP - 0.05, "read by", size=SMALL)
    for number, share in enumerate(_shares(len(reads["A"]))):
        y = TOP + 0.18 + 0.24 * number
        swatch = fig.add_axes_at(x, y, 0.18, 0.17)
        swatch.set(facecolor=style.tint(style.BLACK, share), xticks=[], yticks=[])
        fig.text_at(x + 0.26, y + 0.01, f"wgmma {number + 1}", size=SMALL)
    return fig


def _shares(count: int) -> np.ndarray:
    return np.linspace(0.12, 0.85, count)


def _draw_reads(ax: Axes, name: str, reads: list[FactorRead]) -> None:
    base = min(int(one.places.min()) for one in reads)
    across = ROW_BYTES // CHUNK_BYTES
    drawn = np.ones((ROWS, across, 3))
    for share, one in zip(_shares(len(reads)), reads, strict=True):
        chunk = (one.places.ravel() - base) // CHUNK_BYTES
        chunk = chunk[chunk < ROWS * across]
        drawn[chunk // across, chunk % across] = style.tint(ARRAYS[name], share)
    ax.imshow(drawn, extent=(0, across, ROWS, 0), aspect="auto", interpolation="nearest")
    ax.vlines(range(1, across), 0, ROWS, color=style.GRID, linewidth=0.5)
    ax.hlines(range(8, ROWS, 8), 0, across, color=style.INK, linewidth=0.6)
    ax.set_yticks(range(0, ROWS + 1, 8))
    ax.set_xticks(np.arange(across) + 0.5, [str(CHUNK_BYTES * at) for at in range(across)])
    ax.tick_params(length=0, pad=2, top=False, labeltop=True, bottom=False, labelbottom=False)
    ax.set_ylabel("row of 128 bytes", size=SMALL)


def _described(reads: list[FactorRead]) -> str:
    found = DescriptorFields.of(np.array([one.descriptor for one in reads]))
    begins = style.listed([str(at) for at in found.start - found.start[0]])
    words = (
        f"Descriptors: begin at bytes {begins} of it; a swizzle of {found.width[0]} bytes; "
        f"{found.stride[0]:,} bytes from 8 rows to the next 8"
    )
    if reads[0].transposed:
        words += f"; {found.leading[0]:,} from 64 columns to the next 64"
    return f"{words}."


def _of_factors(reads: dict[str, list[FactorRead]]) -> str:
    parts = []
    for name, some in reads.items():
        lines, units = some[0].places.shape
        whole = some[0].transposed
        parts.append(
            f"of {name} {lines} whole rows, one for each k"
            if whole
            else f"of {name} {units} chunks of {CHUNK_BYTES} bytes in each of {lines} rows"
        )
    return (
        f"What one wgmma reads: {style.listed(parts)}. The {len(reads['A'])} of a step read all. "
        f"{'In rows along K' if not reads['A'][0].transposed else 'There'} the swizzle moves the "
        "chunks of a row, and the hardware finds them from the descriptor."
    )
