"""One kernel with its settings at a glance: what the sliders redraw."""

import io
import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from gemmlab.analysis.facts import SHARED, SPEED_AT, Facts
from gemmlab.kernel.trace import Trace
from gemmlab.ladder import listed
from gemmlab.plots import style
from gemmlab.plots.banks import COUNTED, Banks
from gemmlab.plots.cells import box
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, plural
from gemmlab.records.registry import NoRecord
from gemmlab.records.roofs import Ceilings
from ptxsim import BoxCopy, WarpAccess
from ptxsim.metrics import BANK_BYTES, BANKS

TOP, SHORT, LONG = 0.95, 1.45, 2.95  # inches: the first panel, and the sides of the matrices
A_LEFT, C_LEFT, C_TOP = 0.5, 2.5, TOP + SHORT + 0.6
RIGHT = C_LEFT + LONG + 0.55  # the column of banks and roofline
RIGHT_WIDTH = WIDTH - MARGIN - RIGHT
BOTTOM = C_TOP + LONG
ROOF_LEFT, ROOF_TOP, ROOF_HEIGHT = RIGHT + 0.3, BOTTOM - 1.8, 1.55
INTENSITIES = 0.04, 3000.0  # FLOP per byte: what the axis spans
RATES, TENSOR_RATES = (0.1, 150.0), (1.0, 1500.0)  # TFLOP/s, in FP32 and on tensor cores
BANK_ROW, BANKS_HEIGHT, MOST_PATTERNS = 0.1, 1.45, 4  # inches: of a wavefront, of all of them
# How much of a matrix's colour: what the block touches, its first step along K, one warp at once.
SHARES = {"block": 0.16, "step": 0.42, "warp": 1.0}
GOING, WAITING = 1, 2
GOES, WAITS = style.tint(style.SKY, 0.75), style.tint(style.ORANGE, 0.9)
MOST_LINES = 0.04  # inches; lower rows have no lines between them


@styled
def kernel_view(facts: Facts, ceilings: Ceilings | None) -> Picture:
    """What one block and one warp touch of A, B and C, the banks, the resources, the roofline.

    facts: as gemmlab.analysis.facts.of(kernel) gives; ceilings: as gl.ceilings() gives, or None
    where they are not known: then there is no roofline.
    """
    room = WIDTH - 2 * MARGIN
    lines = [line for words in resources(facts) for line in style.wrap(words, room, SMALL)]
    height = BOTTOM + 0.13 + len(lines) * SMALL * LINE / 72
    fig = page("", height, caption_of(facts, ceilings))
    _draw(fig, facts, ceilings)
    fig.text_at(MARGIN, BOTTOM + 0.12, "\n".join(lines), size=SMALL, linespacing=LINE)
    return fig


def panels(facts: Facts, ceilings: Ceilings | None, dpi: int) -> bytes:
    """The same without resources and caption, as a PNG file made in the least time."""
    drawn = io.BytesIO()
    with matplotlib.style.context(["default", style.RC]):
        fig = Picture(WIDTH, BOTTOM + 0.1, caption_of(facts, ceilings))
        _draw(fig, facts, ceilings)
        fig.savefig(drawn, format="png", dpi=dpi, pil_kwargs={"compress_level": 1})
    return drawn.getvalue()


def _draw(fig: Picture, facts: Facts, ceilings: Ceilings | None) -> None:
    # One pair of axes for most of it, in inches: a pair for each panel takes long to draw.
    height = BOTTOM + 0.1
    ax = fig.add_axes_at(0, 0, WIDTH, height, xlim=(0, WIDTH), ylim=(height, 0))
    ax.set_axis_off()
    kernel = facts.kernel
    _words(ax, MARGIN, 0.12, kernel.name, size=style.LARGE, weight="bold")
    left = MARGIN + style.text_width(kernel.name, style.LARGE, "bold") + 0.2
    settings = style.wrap(listed(facts.kernel.settings), WIDTH - MARGIN - left, NORMAL)
    _words(ax, left, 0.13, "\n".join(settings), size=NORMAL)
    levels = touched(facts)
    _draw_matrix(ax, "A", levels["A"], facts, (A_LEFT, C_TOP, SHORT, LONG))
    _draw_matrix(ax, "B", levels["B"], facts, (C_LEFT, TOP, LONG, SHORT))
    _draw_matrix(ax, "C", levels["C"], facts, (C_LEFT, C_TOP, LONG, LONG))
    _draw_key(ax, facts)
    _draw_banks(ax, facts)
    _draw_roofline(fig, ax, facts, ceilings)


def _words(ax: Axes, x: float, y: float, words: str, **look: Any) -> None:
    """Text whose upper left corner is at (x, y)."""
    ax.text(x, y, words, **{"size": SMALL, "va": "top", **look})


def _frame(ax: Axes, x: float, y: float, width: float, height: float, **look: Any) -> None:
    look = {"fill": False, "edgecolor": style.FAINT, "linewidth": 0.8, "zorder": 3, **look}
    box(ax, x, y, width, height, **look)


# ---- the matrices --------------------------------------------------------------------------------


def touched(facts: Facts) -> dict[str, np.ndarray]:
    """For each matrix what is drawn of each element: its place in `colours`, 0 for untouched."""
    trace, problem = facts.trace, facts.trace.problem
    shapes = {"A": problem.shape_of_a, "B": problem.shape_of_b, "C": problem.shape_of_c}
    stored = {array: np.zeros(shape[-2:], np.uint8) for array, shape in shapes.items()}
    level = {
        array: cells.T if op == "T" else cells
        for (array, cells), op in zip(stored.items(), problem.ops + "N", strict=True)
    }
    boxes = [copy for copy in trace.run.boxes(facts.block) if copy.array in stored]
    for copy in boxes:
        stored[copy.array][_inside(copy)] = 1
    accesses = [access for access in trace.run.accesses(facts.block) if access.array in stored]
    for access in accesses:
        stored[access.array].flat[_elements(access, trace)] = 1
    if step := facts.kernel.rung.depth(facts.kernel.settings):
        begin = int(level["A"].any(axis=0).argmax())  # where the block's part of K begins
        for part in (level["A"][:, begin : begin + step], level["B"][begin : begin + step]):
            part[part == 1] = 2
    for array, cells in stored.items():
        copies = [copy for copy in boxes if copy.array == array]
        of_warp = [access for access in accesses if access.array == array and access.warp == 0]
        if array == "C":  # all that the warp computes
            copies = [copy for copy in copies if copy.warp == 0]
        else:
            copies, of_warp = copies[:1], of_warp[:1]
        for copy in copies:
            cells[_inside(copy)] = 3
        elements = [_elements(access, trace) for access in of_warp]
        for each in elements:
            cells.flat[each] = 3
        for each in elements:
            cells.flat[each[0]] = 4
    return level


def _inside(copy: BoxCopy) -> tuple[slice, ...]:
    """The rows and columns of a box, of the matrix as it is stored; slices end with the matrix."""
    return tuple(slice(at, at + n) for at, n in zip(copy.corner[-2:], copy.box[-2:], strict=True))


def _elements(access: WarpAccess, trace: Trace) -> np.ndarray:
    """int (lanes, each): the numbers of the elements that the active lanes touch."""
    size = trace.bytes_of(access.array)
    first = access.addresses[access.active] // size
    return first[:, None] + np.arange(max(1, access.size // size))


def colours(array: str) -> np.ndarray:
    """float (5, 3): RGB of untouched, of each of SHARES, and of lane 0."""
    tints = [style.tint(style.ARRAYS[array], share) for share in SHARES.values()]
    return np.array([(1, 1, 1), *tints, (0, 0, 0)])


def _draw_matrix(ax: Axes, array: str, level: np.ndarray, facts: Facts, place: tuple) -> None:
    """`place`: x, y, width and height in inches."""
    x, y, width, height = place
    rows, columns = level.shape
    ax.imshow(
        colours(array)[level], extent=(x, x + width, y + height, y), aspect="auto",
        interpolation="nearest", zorder=1,
    )  # fmt: skip
    tile = facts.kernel.rung.tile(facts.kernel.settings)
    look: style.Look = {"color": style.GRID, "linewidth": 0.6, "zorder": 2}
    if array != "B":  # where the blocks' tiles meet
        at = y + height / rows * np.arange(tile[0], rows, tile[0])
        ax.hlines(at, x, x + width, **look)
    if array != "A":
        at = x + width / columns * np.arange(tile[1], columns, tile[1])
        ax.vlines(at, y, y + height, **look)
    _frame(ax, x - 0.02, y - 0.02, width + 0.04, height + 0.04)  # the first row stays visible
    for part in (0.0, 0.5, 1.0):
        _words(ax, x + part * width, y - 0.05, f"{int(part * columns)}", va="bottom", ha="center")
        _words(ax, x - 0.05, y + part * height, f"{int(part * rows)}", va="center", ha="right")
    operation = "store" if array == "C" else "load"
    sectors = facts.units_per_request("global", operation, array)
    boxes = any(copy.array == array for copy in facts.trace.run.boxes(facts.block))
    heading = (
        f"{array}: a {'box' if boxes else operation} takes {sectors:{'.0f' if boxes else '.3g'}} "
        f"{'sector' if sectors == 1 else 'sectors'}"
    )
    _words(ax, x, y - 0.4, heading, weight="bold")


def _draw_key(ax: Axes, facts: Facts) -> None:
    how_far = "its part of K" if any(facts.block) else "all along K"
    names = {f"block {facts.block[:2]}, {how_far}": style.tint(style.FAINT, SHARES["block"])}
    if facts.kernel.rung.depth(facts.kernel.settings):
        names["its first step along K"] = style.tint(style.FAINT, SHARES["step"])
    boxes = facts.trace.run.boxes(facts.block)
    most = "a box; of C what warp 0 stores" if boxes else "warp 0: one load, all stores"
    names[most] = style.tint(style.FAINT, SHARES["warp"])
    if not any(copy.array == "C" for copy in boxes):
        names["lane 0 of it"] = style.tint(style.BLACK, 1)
    for at, (words, colour) in enumerate(names.items()):
        y = TOP + 0.02 + 0.22 * at
        _frame(ax, MARGIN, y, 0.14, 0.13, facecolor=colour, fill=True)
        _words(ax, MARGIN + 0.22, y, words)


# ---- the banks -----------------------------------------------------------------------------------


def _draw_banks(ax: Axes, facts: Facts) -> None:
    _words(ax, RIGHT, TOP - 0.4, "32 banks of shared memory, warp 0", weight="bold")
    patterns = _patterns(facts.trace.run.accesses(facts.block, warp=0))
    if not patterns:
        words = "This kernel uses no shared memory."
        if facts.units_per_request(SHARED, "load"):
            words = "Only tensor cores read it, without conflicts."
        _words(ax, RIGHT, TOP - 0.16, words)
        return
    shown = patterns[:MOST_PATTERNS]
    row = min(BANK_ROW, BANKS_HEIGHT / sum(len(cells) for _, cells, _ in shown))
    names = [_pattern_name(banks, lines) for banks, _, lines in shown]
    y = TOP - 0.16
    for (banks, cells, lines), name in zip(shown, names, strict=True):
        if names.count(name) > 1:
            addresses = len(np.unique(banks.access.addresses[banks.access.active]))
            name = _pattern_name(banks, lines, f"{addresses} × ")
        _words(ax, RIGHT, y, name)
        _words(ax, RIGHT + RIGHT_WIDTH, y, plural(banks.wavefronts, "wavefront"), ha="right")
        y += SMALL * LINE / 72 + 0.01
        _draw_cells(ax, cells, y, row)
        y += row * len(cells) + 0.07
    words = "A row is a wavefront. Orange (×) waits."
    if len(patterns) > len(shown):
        words += f" {len(patterns) - len(shown)} more."
    _words(ax, RIGHT, y, words)


def _pattern_name(banks: Banks, lines: list[int], times: str = "") -> str:
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} … {lines[-1]}"
    return f"{where}: {banks.access.operation}, {times}{banks.access.size} bytes"


def _draw_cells(ax: Axes, cells: np.ndarray, top: float, row: float) -> None:
    pitch = RIGHT_WIDTH / BANKS
    ax.pcolormesh(
        RIGHT + pitch * np.arange(BANKS + 1), top + row * np.arange(len(cells) + 1), cells,
        cmap=ListedColormap([(1.0, 1.0, 1.0), GOES, WAITS]), vmin=0, vmax=WAITING, linewidth=0.5,
        edgecolors=style.GRID if row > MOST_LINES else "none",
    )  # fmt: skip
    _frame(ax, RIGHT, top, RIGHT_WIDTH, row * len(cells))
    y, x = np.nonzero(cells == WAITING)
    ax.plot(
        RIGHT + pitch * (x + 0.5), top + row * (y + 0.5), "x", color=style.BLACK,
        markersize=0.4 * 72 * row, markeredgewidth=0.7,
    )  # fmt: skip


def _patterns(accesses: Iterable[WarpAccess]) -> list[tuple[Banks, np.ndarray, list[int]]]:
    """What differs in loads and stores of shared memory, the costliest first, and in which lines.

    Of every line, operation and width, and of each way in which lanes share addresses, the access
    that takes most wavefronts: what one line loads of A and of B, in a function that is inlined
    there, differs in who reads the same. Accesses that are equally far apart meet the banks alike.
    """
    by_line: dict[tuple, dict[bytes, WarpAccess]] = {}
    for access in accesses:
        if (access.space, access.operation) in COUNTED and access.space == SHARED:
            active = access.active
            far = np.where(active, access.addresses - access.addresses[active].min(), -1)
            _, first, of_lane = np.unique(far, return_index=True, return_inverse=True)
            shared = np.where(active, first[of_lane], -1)
            key = access.line, access.operation, access.size, shared.tobytes()
            by_line.setdefault(key, {}).setdefault(far.tobytes(), access)
    patterns: dict[tuple, tuple[Banks, np.ndarray, list[int]]] = {}
    for (line, operation, size, _), those in by_line.items():
        banks = max(map(Banks.of, those.values()), key=lambda met: met.wavefronts)
        cells = _bank_cells(banks)
        alike = operation, size, cells.shape, cells.tobytes()
        _, _, lines = patterns.setdefault(alike, (banks, cells, []))
        if line not in lines:
            lines.append(line)
    return sorted(patterns.values(), key=lambda pattern: -pattern[0].wavefronts)


def _bank_cells(banks: Banks) -> np.ndarray:
    """(wavefronts, 32): 0 for nobody, GOING with its group's first wavefront, or WAITING."""
    width = max(1, banks.access.size // BANK_BYTES)
    rows = []
    for group in banks.groups:
        cells = np.zeros((group.wavefronts, BANKS), np.uint8)
        for place, stack in group.stacks.items():
            cells[: len(stack), place * width : (place + 1) * width] = WAITING
            cells[0, place * width : (place + 1) * width] = GOING
        rows.append(cells)
    return np.concatenate(rows)


# ---- roofline and resources ----------------------------------------------------------------------


def _draw_roofline(fig: Picture, panels: Axes, facts: Facts, ceilings: Ceilings | None) -> None:
    """The speed over the intensity at the DRAM, under the DRAM's roof and that of arithmetic.

    What caches answer is no traffic of the DRAM, so the point stands at the DRAM bytes that were
    counted. The dashed line has what the block's loads move without caches, and bounds nothing
    with them.
    """
    heading = "Speed" if ceilings is None else "TFLOP/s over FLOP per byte of DRAM"
    speed = "The speed of this setting is not recorded."
    if facts.speed is not None:
        share = style.percent(facts.speed.pct_cublas)
        speed = f"{style.rate(facts.speed.gflops)}, {share} of cuBLAS"
    _words(panels, RIGHT, ROOF_TOP - 0.72, heading, weight="bold")
    _words(panels, RIGHT, ROOF_TOP - 0.55, speed)
    if ceilings is None:
        _words(panels, RIGHT, ROOF_TOP - 0.38, "The roofs of the GPU are not known.")
        return
    size = (RIGHT + RIGHT_WIDTH - ROOF_LEFT, ROOF_HEIGHT)
    ax = fig.add_axes_at(ROOF_LEFT, ROOF_TOP, *size)
    low, high = TENSOR_RATES if facts.kernel.precision.on_tensor_cores else RATES
    ax.set(xscale="log", yscale="log", xlim=INTENSITIES, ylim=(low, high))
    for axis in (ax.xaxis, ax.yaxis):
        style.plain_log_ticks(axis)
    ax.tick_params(length=0, pad=3)
    slope = ceilings.bytes_per_second / 1e12
    roof = high
    with suppress(NoRecord):
        roof = ceilings.arithmetic(facts.kernel.dtype, facts.kernel.rung.by_wgmma) / 1e12
    corners = [low / slope, roof / slope, INTENSITIES[1]]
    ax.plot(corners, [low, roof, roof], color=style.INK, linewidth=1.6)
    asked = facts.intensity
    dashed: style.Look = {"color": style.FAINT, "linewidth": 1.2, "linestyle": (0, (3, 2))}
    most = max(low, min(roof, slope * asked))
    ax.plot([asked] * 2, [low, most], **dashed)
    sign, row = RIGHT + 0.13, ROOF_TOP - 0.38
    panels.plot([sign] * 2, [row - 0.01, row + 0.13], **dashed)
    without = f"without caches: {style.digits(asked)}, at most {style.rate(1000 * most)}"
    _words(panels, ROOF_LEFT, row, without)
    if facts.speed is None:
        return
    rate, counted = facts.speed.gflops / 1000, facts.speed.dram_intensity
    cublas = 100 * rate / facts.speed.pct_cublas
    ax.axhline(cublas, color=style.BLACK, linewidth=0.9, linestyle=":")
    row += 0.17
    look = style.kernel_style(facts.kernel.name)
    if counted is None:
        words = "measured; DRAM bytes not counted"
        line: style.Look = {"color": look["color"], "linewidth": 1.6}
        panels.plot([sign - 0.1, sign + 0.1], [row + 0.06] * 2, **line)
        least = max(asked, rate / slope)  # no point lies above the roof
        ax.plot([least, INTENSITIES[1]], [rate, rate], **line)
    else:
        words = f"measured: {style.digits(counted)} by counted DRAM bytes"
        point: style.Look = {"color": look["color"], "marker": look["marker"], "linestyle": "none"}
        panels.plot([sign], [row + 0.06], **point, markersize=6)
        ax.plot([counted], [rate], **point, markersize=7)
    _words(panels, ROOF_LEFT, row, words)


def resources(facts: Facts) -> list[str]:
    """What a block takes of an SM, and where the speed comes from."""
    taken, fits = facts.taken, facts.fits
    spilled = taken.spilled_bytes
    blocks = plural(fits.blocks_per_sm, "block")
    line = (
        f"{facts.threads:,} threads a block · {taken.registers} registers a thread, "
        f"{f'{spilled} bytes spilled' if spilled else 'none spilled'} · "
        f"{taken.shared_bytes:,} bytes of shared memory a block · on {facts.arch} {blocks} per SM, "
        f"{100 * fits.occupancy:.3g} % occupancy, limited by {fits.limited_by}"
    )
    if not facts.speed:
        return [line]
    shape = style.shape_label(*SPEED_AT)
    lines = "black line: its roofs, dotted: cuBLAS, dashed: without caches"
    return [line, f"{facts.speed.where}, {shape}; {lines}"]


def caption_of(facts: Facts, ceilings: Ceilings | None) -> str:
    """What to see in the picture."""
    rows, columns = facts.kernel.rung.tile(facts.kernel.settings)
    caption = (
        f"A block computes {rows} × {columns} elements of C, and does "
        f"{style.digits(facts.intensity)} FLOP per byte moved: for each byte of all sectors that "
        "its loads of A and B touch."
    )
    by_dram = facts.intensity * ceilings.bytes_per_second / 1e9 if ceilings else math.inf
    if facts.speed and facts.speed.gflops > by_dram:
        caption += (
            " DRAM alone could not deliver these bytes at its speed: caches answer a part of its "
            "loads."
        )
    return caption
