"""One block on its way along K: a frame of it, and a few frames side by side."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from gemmlab.analysis.block_replay import NOTHING
from gemmlab.analysis.k_steps import Frame, edges
from gemmlab.plots import cells, style
from gemmlab.plots.charts import inches_of
from gemmlab.plots.page import Entry, Picture, draw_key, page, styled
from gemmlab.plots.style import ARRAYS, MARGIN, NORMAL, SMALL, WIDTH, plural

LEFT = MARGIN + 0.42  # room for row numbers
HEAD = 0.92  # room for the title, a name and column numbers
GAP = 0.6  # inches, between the panels
ALONG, OF_C = (1.95, 1.3), (2.6, 1.95)  # inches: of K in A and in B; of C
RIGHT = LEFT + ALONG[0] + GAP + OF_C[0] + 0.3  # where the key begins
STRIP = 0.3  # inches, shared memory
SHOWN = 4  # frames of an overview, at most

# How much of an array's colour its elements have: lying in shared memory, read, and gone again.
THERE, READ, PAST = 0.4, 0.7, 0.12
LOADED, ARRIVING, WRITTEN = "////", "....", "xx"
OVER_ALL = {"zorder": 9, "bbox": cells.plate(1.5)}


@styled
def step(frames: Sequence[Frame], number: int, caption: str) -> Picture:
    """One frame of a block's way along K: what is loaded, lies in shared memory, and is done.

    frames: as gl.k_steps.of(trace) gives; number: which of them, from 0. A lies at
    the left, B above, C where they meet; below them is shared memory, word by word. Hatched is what
    is loaded, dark and framed what is read for products, pale what was there before. All frames of
    a block have the same size, if their captions have as many lines.
    """
    frame = frames[number]
    bottom = HEAD + ALONG[1] + GAP + OF_C[1]
    title = f"{frame.trace.kernel_name}, block {frame.block}. {_part(frame)}: "
    fig = page(title + style.listed(list(frame.actions)), bottom + 0.66, caption)
    axes = cells.product_axes(fig, LEFT, HEAD, ALONG, OF_C, (GAP, GAP))
    for name, ax in axes.items():
        _draw_matrix(ax, name, frames, frame)
        _label(ax, name, frame)
        rows, columns = _shape(frame, name)
        cells.name_above(ax, f"{name}, {rows} × {columns}", 18)
    draw_key(fig, _key(frames), HEAD - 0.1, RIGHT, RIGHT)
    in_use = frame.trace.element_bytes * len(frame.memory)
    ax = fig.add_axes_at(LEFT, bottom + 0.4, WIDTH - MARGIN - LEFT, STRIP)
    cells.name_above(ax, f"Shared memory, {in_use:,} bytes in use", 8)
    _draw_memory(ax, frame, words=True)
    return fig


@styled
def steps(frames: Sequence[Frame]) -> Picture:
    """A few frames of a block's way along K, side by side: the first two, a middle one, the last.

    frames: as gl.k_steps.of(trace) gives.
    """
    trace, block = frames[0].trace, frames[0].block
    numbers = sorted({0, min(1, len(frames) - 1), len(frames) // 2, len(frames) - 1})
    room = (WIDTH - 2 * MARGIN) / SHOWN
    along, across, gap = 0.55, 1.2, 0.12
    top, down, thin = 0.82, 0.95, 0.16
    bottom = top + along + gap + down
    shown = style.listed([str(number + 1) for number in numbers])
    both = sum({"load", "multiply"} <= set(frame.actions) for frame in frames) or "none"
    caption = (
        f"Block {block} of {trace.kernel_name} at "
        f"{style.shape_label(trace.m, trace.n, trace.k)} takes {plural(len(frames), 'frame')}, "
        f"{shown} are shown. What happens between two barriers is one frame; in {both} of them the "
        "block both loads and multiplies."
    )
    title = f"{trace.kernel_name}: block {block} on its way along K"
    fig = page(title, bottom + 0.48, caption)
    dots = "filled with dots: on its way; " * _arrives(frames)
    key = f"hatched: loaded; framed: read for products; crossed: written; {dots}dotted lines: all "
    fig.text_at(MARGIN, 0.32, f"{key}that the block needs", size=SMALL)
    for column, number in enumerate(numbers):
        frame, left = frames[number], MARGIN + column * room
        fig.text_at(left, top - 0.24, _part(frame), size=NORMAL, weight="bold")
        axes = cells.product_axes(fig, left + 0.1, top, (along, along), (across, down), (gap, gap))
        for name, ax in axes.items():
            _draw_matrix(ax, name, frames, frame)
            ax.set(xticks=[], yticks=[])
        fig.text_at(left + 0.1, top + along - 0.18, "A", size=SMALL, weight="bold")
        fig.text_at(left + along - 0.02, top, "B", size=SMALL, weight="bold")
        under = bottom + 0.1
        ax = fig.add_axes_at(left + 0.1, under, along + gap + across, thin)
        _draw_memory(ax, frame, words=False)
        ax.set(xticks=[])
        fig.text_at(left + 0.1, under + thin + 0.03, "shared memory", size=SMALL)
        under += thin + 0.24
        for line in (", ".join(frame.actions), *style.wrap(frame.progress, room - 0.15, SMALL)):
            fig.text_at(left + 0.1, under, line, size=SMALL)
            under += 0.16
    return fig


def _arrives(frames: Sequence[Frame]) -> bool:
    """Whether anything is on its way in one of the frames."""
    return any(cells.any() for frame in frames for cells in frame.arriving.values())


def _part(frame: Frame) -> str:
    return f"Frame {frame.number + 1} of {frame.frames}"


def _key(frames: Sequence[Frame]) -> list[Entry]:
    grey = style.FAINT
    hatched = {"edgecolor": grey, "fill": False}
    read = {"facecolor": style.tint(grey, READ), "edgecolor": "black", "linewidth": 1.8}
    key: list[Entry] = [("loaded from global memory now", {"hatch": LOADED, **hatched})]
    if _arrives(frames):
        key.append(("on its way, not there yet", {"hatch": ARRIVING, **hatched}))
    key.append(("in shared memory at the end;", {"facecolor": style.tint(grey, THERE)}))
    key.append(("the number is its buffer", {"facecolor": "none"}))
    key.append(("read for products now", read))
    key.append(("was here before", {"facecolor": style.tint(grey, PAST)}))
    needed = {"facecolor": "none", "linestyle": cells.CUT, "edgecolor": grey}
    key.append(("what the block needs in all", needed))
    return key


def _shape(frame: Frame, name: str) -> tuple[int, int]:
    trace = frame.trace
    return {"A": (trace.m, trace.k), "B": (trace.k, trace.n), "C": (trace.m, trace.n)}[name]


def _draw_matrix(ax: Axes, name: str, frames: Sequence[Frame], frame: Frame) -> None:
    rows, columns = _shape(frame, name)
    colour = ARRAYS[name]
    shares = np.zeros((rows, columns))
    if name == "C":
        shares[frame.mine] = 0.08 + 0.6 * frame.done[frame.mine] / max(1, frame.trace.k)
        outlines = [(frame.mine, {"edgecolor": colour, "linewidth": 1.2})]
        crossed = {"edgecolor": style.INK, "hatch": WRITTEN, "linewidth": 1.6}
        outlines.append((frame.written, crossed))
    else:
        before = np.any([each.loaded[name] for each in frames[: frame.number + 1]], axis=0)
        shares[before & ~frame.arriving[name]] = PAST
        shares[frame.kept[name] != NOTHING] = THERE
        shares[frame.read[name]] = READ
        needed = np.any([each.loaded[name] for each in frames], axis=0)
        dotted = {"edgecolor": colour, "hatch": ARRIVING, "linewidth": 1.0}
        hatched = {"edgecolor": colour, "hatch": LOADED, "linewidth": 1.0}
        outlines = [
            (needed, {"edgecolor": colour, "linewidth": 0.8, "linestyle": cells.CUT}),
            (frame.arriving[name] & ~frame.loaded[name], dotted),
            (frame.loaded[name], hatched),
            (frame.read[name], {"edgecolor": style.BLACK, "linewidth": 1.8}),
        ]
    tints = 1 - shares[..., None] * (1 - np.array(style.tint(colour, 1)))
    extent = (0, columns, rows, 0)
    ax.imshow(tints, extent=extent, aspect="auto", interpolation="nearest", zorder=0)
    for height, (mask, look) in enumerate(outlines):
        cells.fill(ax, mask, zorder=1 + height, facecolor="none", clip_on=False, **look)
    ax.spines[:].set(visible=True, color=style.INK, linewidth=1.0)


def _label(ax: Axes, name: str, frame: Frame) -> None:
    """Indices at the edges of what the block works on, and the numbers that a panel carries."""
    rows, columns = _shape(frame, name)
    if name == "C":
        down, across = (edges(np.any(frame.mine, axis=axis)) for axis in (1, 0))
        ((x, y, width, height),) = cells.rectangles(frame.mine)[:1]
        words = "written" if frame.written.any() else frame.progress.replace(" prod", "\nprod")
        cells.write(ax, x + width / 2, y + height / 2, words, va="center", **OVER_ALL)
    else:
        length = frame.trace.settings["BK"]
        ks = [0, *range(length, frame.trace.k, length)]
        ends = edges(np.any(frame.mine, axis=1 if name == "A" else 0))
        down, across = (ends, ks) if name == "A" else (ks, ends)
        for buffer in sorted(set(np.unique(frame.kept[name]).tolist()) - {NOTHING}):
            tiles = cells.rectangles(frame.kept[name] == buffer)
            x, y, wide, tall = max(tiles, key=lambda tile: tile[2] * tile[3])
            cells.write(ax, x + wide / 2, y + tall / 2, str(buffer), **OVER_ALL)
    inches = inches_of(ax)
    ax.set_xticks(_apart(across, columns, inches[0], 0.36))
    ax.set_yticks(_apart(down, rows, inches[1], 0.15))
    cells.number_above(ax, length=2, top=True)


def _apart(ticks: list[int], count: int, inches: float, least: float) -> list[int]:
    """The ticks, as many of them as have room."""
    kept: list[int] = []
    for tick in ticks:
        if not kept or (tick - kept[-1]) * inches / max(1, count) >= least:
            kept.append(tick)
    return kept


def _draw_memory(ax: Axes, frame: Frame, words: bool) -> None:
    """Shared memory from its first to its last word: whose tiles lie there, or sums."""
    inches, _ = inches_of(ax)
    size = len(frame.memory)
    ax.set(xlim=(0, size), ylim=(1, 0), yticks=[], facecolor="white")
    read, arriving, loaded, stored = (
        np.concatenate([masks["A"].ravel(), masks["B"].ravel()])
        for masks in (frame.read, frame.arriving, frame.loaded, frame.stored)
    )
    pieces = _pieces(frame)
    ticks = _apart([0, *(at for *_, at, _ in pieces)], size, inches, 0.5)
    if len(out := np.flatnonzero(frame.sums)):  # with the padding between them
        pieces.append(("C", "sums of C", out[0], out[-1] + 1))
    for name, label, at, end in pieces:
        share = THERE
        look: style.Look = {"edgecolor": ARRAYS[name], "linewidth": 1.0}
        if name != "C":
            inside = frame.memory[at:end]
            inside = inside[inside != NOTHING]
            if arriving[inside].all():
                share, look["hatch"] = PAST, ARRIVING
            elif (loaded | stored)[inside].all():
                look["hatch"] = LOADED
            if read[inside].any():
                share = READ
                look |= {"edgecolor": style.BLACK, "linewidth": 1.8}
        look |= {"facecolor": style.tint(ARRAYS[name], share), "clip_on": False, "zorder": 2}
        fits = words and style.text_width(label, SMALL) + 0.08 < (end - at) / size * inches
        label = label if fits else ""
        cells.box(ax, at, 0, end - at, 1, label, OVER_ALL, **look)
    ax.set_xticks(ticks, [f"{frame.trace.element_bytes * tick:,}" for tick in ticks])
    ax.tick_params(axis="x", length=2, pad=2)
    ax.spines[:].set(visible=True, color=style.INK, linewidth=1.0)


def _pieces(frame: Frame) -> list[tuple[str, str, int, int]]:
    """Tiles in shared memory, as (array, array and which k, first word, end)."""
    trace = frame.trace
    words = np.flatnonzero(frame.memory != NOTHING)
    elements = frame.memory[words]
    in_b = elements >= trace.m * trace.k
    ks = np.where(in_b, (elements - trace.m * trace.k) // max(1, trace.n), elements % trace.k)
    tiles = ks // trace.settings["BK"]
    pieces = []
    for is_b in (False, True):
        for tile in np.unique(tiles[in_b == is_b]):
            mine = (in_b == is_b) & (tiles == tile)
            label = f"{'AB'[is_b]}, k {ks[mine].min()} to {ks[mine].max()}"
            pieces.append(("AB"[is_b], label, int(words[mine].min()), int(words[mine].max()) + 1))
    return sorted(pieces, key=lambda piece: piece[2])
