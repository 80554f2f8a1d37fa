"""One kernel with its settings at a glance: what the sliders redraw."""

from __future__ import annotations

import io
from collections.abc import Iterable
from math import log
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
from gemmlab.records.roofs import Ceilings
from ptxsim import BoxCopy, WarpAccess
from ptxsim.metrics import BANK_BYTES, BANKS

TOP, SHORT, LONG = 0.95, 1.45, 2.95  # inches: the first panel, and the sides of the matrices
A_LEFT, C_LEFT, C_TOP = 0.5, 2.5, TOP + SHORT + 0.6
RIGHT = C_LEFT + LONG + 0.55  # the column of banks and roofline
RIGHT_WIDTH = WIDTH - MARGIN - RIGHT
BOTTOM = C_TOP + LONG
ROOF_LEFT, ROOF_TOP, ROOF_HEIGHT = RIGHT + 0.3, BOTTOM - 1.8, 1.55
ROOF_KEY = RIGHT + 0.3  # where the words of the roofline's key begin, beside their signs
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
    lines = [
        line
        for sentence in resources(facts)
        for line in style.wrap(sentence, WIDTH - 2 * MARGIN, SMALL)
    ]
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
    # One pair of axes, in inches: a pair for each panel takes three times as long to draw.
    height = BOTTOM + 0.1
    ax = fig.add_axes_at(0, 0, WIDTH, height, gid="panels")
    ax.set(xlim=(0, WIDTH), ylim=(height, 0))
    ax.set_axis_off()
    kernel = facts.kernel
    _words(ax, MARGIN, 0.12, kernel.name, size=style.LARGE, weight="bold")
    left = MARGIN + style.text_width(kernel.name, style.LARGE, "bold") + 0.2
    _words(ax, left, 0.13, _settings(facts, WIDTH - MARGIN - left), size=NORMAL)
    levels = touched(facts)
    for array, (x, y, width, tall) in {
        "A": (A_LEFT, C_TOP, SHORT, LONG),
        "B": (C_LEFT, TOP, LONG, SHORT),
        "C": (C_LEFT, C_TOP, LONG, LONG),
    }.items():
        _draw_matrix(ax, array, levels[array], facts, (x, y, width, tall))
    _draw_key(ax, facts)
    _draw_banks(ax, facts)
    _draw_roofline(ax, facts, ceilings)


def _settings(facts: Facts, room: float) -> str:
    """All settings if they fit into so many inches, else without what is computed as by default."""
    settings = facts.kernel.settings
    if style.text_width(listed(settings), NORMAL) <= room:
        return listed(settings)
    return listed({
        parameter.name: settings[parameter.name]
        for parameter in facts.kernel.rung.parameters
        if parameter.tuned or settings[parameter.name] != parameter.default
    })  # fmt: skip


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
    stored = {"A": problem.shape_of_a, "B": problem.shape_of_b, "C": problem.shape_of_c}
    level = {array: np.zeros(shape[-2:], np.uint8) for array, shape in stored.items()}
    boxes = trace.run.boxes(facts.block)
    for copy in boxes:
        np.maximum(part := level[copy.array][_inside(copy)], 1, out=part)
    first: dict[str, WarpAccess] = {}
    for access in trace.run.accesses(facts.block):
        if access.array not in level:
            continue
        flat = level[access.array].reshape(-1)
        np.maximum.at(flat, _elements(access, trace).ravel(), 1)
        if access.warp == 0:
            first.setdefault(access.array, access)
    if step := facts.kernel.rung.depth(facts.kernel.settings):
        of_a, of_b = (
            level[array] if ops == usual else level[array].T
            for array, ops, usual in zip("AB", problem.ops, "NN", strict=True)
        )
        begin = int(of_a.any(axis=0).argmax())  # where the block's part of K begins
        for part in (of_a[:, begin : begin + step], of_b[begin : begin + step]):
            part[part == 1] = 2
    for array in level:
        copies = [copy for copy in boxes if copy.array == array]
        for copy in copies[:1] if array != "C" else (c for c in copies if c.warp == 0):
            level[array][_inside(copy)] = 3
    for array, access in first.items():
        flat = level[array].reshape(-1)
        if array == "C":  # all that the warp computes
            stores = [a for a in trace.run.accesses(facts.block, warp=0) if a.array == "C"]
            flat[np.concatenate([_elements(store, trace).ravel() for store in stores])] = 3
            flat[np.concatenate([_elements(store, trace)[:1].ravel() for store in stores])] = 4
        else:
            flat[_elements(access, trace).ravel()] = 3
            flat[_elements(access, trace)[0]] = 4
    for array, ops in zip("AB", problem.ops, strict=True):
        if ops == "T":
            level[array] = level[array].T
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
        interpolation="nearest", zorder=1, gid=f"map {array}",
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
    for share in (0.0, 0.5, 1.0):
        _words(ax, x + share * width, y - 0.05, str(int(share * columns)), va="bottom", ha="center")
        _words(ax, x - 0.05, y + share * height, str(int(share * rows)), va="center", ha="right")
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
    names: list[tuple[str, float | None]] = [
        (f"block {facts.block[:2]}, {how_far}", SHARES["block"])
    ]
    if facts.kernel.rung.depth(facts.kernel.settings):
        names.append(("its first step along K", SHARES["step"]))
    boxes = facts.trace.run.boxes(facts.block)
    most = "a box; of C what warp 0 stores" if boxes else "warp 0: one load, all stores"
    names.append((most, SHARES["warp"]))
    if not any(copy.array == "C" for copy in boxes):
        names.append(("lane 0 of it", None))
    y = TOP + 0.02
    for words, share in names:
        colour = style.BLACK if share is None else style.tint(style.FAINT, share)
        _frame(ax, MARGIN, y, 0.14, 0.13, facecolor=colour, fill=True)
        _words(ax, MARGIN + 0.22, y, words)
        y += 0.22


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
        cells = np.zeros((max(1, group.wavefronts), BANKS), np.uint8)
        for place, stack in group.stacks.items():
            cells[: len(stack), place * width : (place + 1) * width] = WAITING
            cells[0, place * width : (place + 1) * width] = GOING
        rows.append(cells)
    return np.concatenate(rows)


# ---- roofline and resources ----------------------------------------------------------------------


def _draw_roofline(ax: Axes, facts: Facts, ceilings: Ceilings | None) -> None:
    """The speed over the intensity at the DRAM, under the DRAM's roof and that of arithmetic.

    What caches answer is no traffic of the DRAM, so the point stands at the DRAM bytes that were
    counted. The dashed line has what the block's loads move without caches, and bounds nothing
    with them.
    """
    heading = "Speed" if ceilings is None else "TFLOP/s over FLOP per byte of DRAM"
    _words(ax, RIGHT, ROOF_TOP - 0.72, heading, weight="bold")
    _words(ax, RIGHT, ROOF_TOP - 0.55, _rate_of(facts), gid="speed label")
    if ceilings is None:
        _words(ax, RIGHT, ROOF_TOP - 0.38, "The roofs of the GPU are not known.")
        return
    width, bottom = RIGHT + RIGHT_WIDTH - ROOF_LEFT, ROOF_TOP + ROOF_HEIGHT

    def x(intensity: float) -> float:
        return ROOF_LEFT + width * _along(intensity, *INTENSITIES)

    dtype, by_wgmma = facts.kernel.dtype, facts.kernel.rung.by_wgmma
    low, high = TENSOR_RATES if facts.kernel.precision.on_tensor_cores else RATES

    def y(rate: float) -> float:
        return bottom - ROOF_HEIGHT * _along(rate, low, high)

    right = RIGHT + RIGHT_WIDTH
    ax.plot(
        [ROOF_LEFT, ROOF_LEFT, right], [ROOF_TOP, bottom, bottom], color=style.FAINT, linewidth=1
    )
    for tick in (0.1, 1, 10, 100, 1000):
        _words(ax, x(tick), bottom + 0.04, f"{tick:g}", ha="center")
        if low <= tick <= high:
            _words(ax, ROOF_LEFT - 0.05, y(tick), f"{tick:g}", ha="right", va="center")
    slope = ceilings.bytes_per_second / 1e12
    known = ceilings.knows(dtype, by_wgmma)
    roof = ceilings.arithmetic(dtype, by_wgmma) / 1e12 if known else high
    first = max(INTENSITIES[0], low / slope)
    ax.plot(
        [x(first), x(roof / slope), right], [y(slope * first), y(roof), y(roof)],
        color=style.INK, linewidth=1.6,
    )  # fmt: skip
    asked = facts.intensity
    dashed: style.Look = {"color": style.FAINT, "linewidth": 1.2, "linestyle": (0, (3, 2))}
    most = max(low, min(roof, slope * asked))
    ax.plot([x(asked)] * 2, [bottom, y(most)], **dashed, gid="asked")
    sign, row = RIGHT + 0.13, ROOF_TOP - 0.38
    ax.plot([sign] * 2, [row - 0.01, row + 0.13], **dashed)
    without = f"without caches: {style.digits(asked)}, at most {style.rate(1000 * most)}"
    _words(ax, ROOF_KEY, row, without, gid="asked label")
    if facts.speed is None:
        return
    cublas = y(100 * facts.speed.gflops / facts.speed.pct_cublas / 1000)
    ax.plot([ROOF_LEFT, right], [cublas, cublas], color=style.BLACK, linewidth=0.9, linestyle=":")
    row += 0.17
    rate, counted = y(facts.speed.gflops / 1000), facts.speed.dram_intensity
    look = style.kernel_style(facts.kernel.name)
    if counted is None:
        words = "measured; DRAM bytes not counted"
        line: style.Look = {"color": look["color"], "linewidth": 1.6}
        ax.plot([sign - 0.1, sign + 0.1], [row + 0.06] * 2, **line)
        least = max(asked, facts.speed.gflops / 1000 / slope)  # no point lies above the roof
        ax.plot([x(least), right], [rate, rate], **line, gid="somewhere")
    else:
        words = f"measured: {style.digits(counted)} by counted DRAM bytes"
        point: style.Look = {"color": look["color"], "marker": look["marker"], "linestyle": "none"}
        ax.plot([sign], [row + 0.06], **point, markersize=6)
        ax.plot([x(counted)], [rate], **point, markersize=7, gid="point")
    _words(ax, ROOF_KEY, row, words, gid="point label")


def _along(value: float, low: float, high: float) -> float:
    """Where a value stands on a logarithmic axis: 0 at its low end, 1 at its high end."""
    return log(value / low) / log(high / low)


def _rate_of(facts: Facts) -> str:
    if facts.speed is None:
        return "The speed of this setting is not recorded."
    share = style.percent(facts.speed.pct_cublas)
    return f"{style.rate(facts.speed.gflops)}, {share} of cuBLAS"


def resources(facts: Facts) -> list[str]:
    """What a block takes of an SM, and where the speed comes from."""
    taken, fits = facts.taken, facts.fits
    spilled = taken.spill_store_bytes + taken.spill_load_bytes
    blocks = plural(fits.blocks_per_sm, "block")
    line = (
        f"{facts.threads:,} threads a block · {taken.registers} registers a thread, "
        f"{f'{spilled} bytes spilled' if spilled else 'none spilled'} · "
        f"{taken.shared_bytes:,} bytes of shared memory a block · on {facts.arch} {blocks} per SM, "
        f"{100 * fits.occupancy:.3g} % occupancy, limited by {fits.limited_by}"
    )
    sentences = [line]
    if facts.speed:
        sentences.append(
            f"{facts.speed.where}, {style.shape_label(*SPEED_AT)}; "
            "black line: its roofs, dotted: cuBLAS, dashed: without caches"
        )
    return sentences


def caption_of(facts: Facts, ceilings: Ceilings | None) -> str:
    """What to see in the picture."""
    rows, columns = facts.kernel.rung.tile(facts.kernel.settings)
    caption = (
        f"A block computes {rows} × {columns} elements of C, and does "
        f"{style.digits(facts.intensity)} FLOP per byte moved: for each byte of all sectors that "
        "its loads of A and B touch."
    )
    if (
        facts.speed
        and ceilings
        and facts.speed.gflops > facts.intensity * ceilings.bytes_per_second / 1e9
    ):
        caption += (
            " DRAM alone could not deliver these bytes at its speed: caches answer a part of its "
            "loads."
        )
    return caption
