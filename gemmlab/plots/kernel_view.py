"""One kernel with its settings at a glance: what the sliders redraw."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from math import log

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

from gemmlab.analysis.facts import SHARED, Facts
from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.plots.memory.banks import COUNTED, Banks
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, plural, styled
from gemmlab.records.roofs import Ceilings
from gemmlab.simulator import WarpAccess
from gemmlab.simulator.counters import BANK_BYTES, BANKS, wavefronts

TOP, SHORT, LONG = 0.95, 1.45, 2.95  # inches: the first panel, and the sides of the matrices
A_LEFT, C_LEFT, C_TOP = 0.5, 2.5, TOP + SHORT + 0.6
RIGHT = C_LEFT + LONG + 0.55  # the column of banks and roofline
RIGHT_WIDTH = WIDTH - MARGIN - RIGHT
BOTTOM = C_TOP + LONG
ROOF_LEFT, ROOF_TOP, ROOF_HEIGHT = RIGHT + 0.3, BOTTOM - 2.0, 1.75
INTENSITIES = 0.04, 300.0  # FLOP per byte: what the axis spans
RATES = {"float32": (0.1, 150.0), "float16": (1.0, 1500.0)}  # TFLOP/s
BANK_ROW, BANKS_HEIGHT, MOST_PATTERNS = 0.1, 1.6, 4  # inches: of a wavefront, of all of them
# How much of a matrix's colour: what the block touches, its first step along K, one warp at once.
SHARES = {"block": 0.16, "step": 0.42, "warp": 1.0}
GOING, WAITING = 1, 2
GOES, WAITS = style.tint(style.SKY, 0.75), style.tint(style.ORANGE, 0.9)
MOST_LINES = 0.04  # inches; lower rows have no lines between them


@styled
def kernel_view(facts: Facts, ceilings: Ceilings, *, caption: str | None = None) -> Picture:
    """What one block and one warp touch of A, B and C, the banks, the resources, the roofline.

    facts: as gemmlab.analysis.facts.of(kernel) gives; ceilings: as gl.ceilings() gives.
    """
    lines = [
        line
        for sentence in resources(facts)
        for line in style.wrap(sentence, WIDTH - 2 * MARGIN, SMALL)
    ]
    fig = style.page(
        BOTTOM + 0.25 + len(lines) * SMALL * LINE / 72, caption or caption_of(facts, ceilings)
    )
    _draw(fig, facts, ceilings)
    fig.text_at(MARGIN, BOTTOM + 0.12, "\n".join(lines), size=SMALL, linespacing=LINE)
    return fig


def panels(facts: Facts, ceilings: Ceilings, dpi: int) -> bytes:
    """The same without resources and caption, as a PNG file made in the least time."""
    drawn = io.BytesIO()
    with matplotlib.style.context(["default", style.RC]):
        fig = Picture(WIDTH, BOTTOM + 0.1, caption_of(facts, ceilings))
        _draw(fig, facts, ceilings)
        fig.savefig(drawn, format="png", dpi=dpi, pil_kwargs={"compress_level": 1})
    return drawn.getvalue()


def _draw(fig: Picture, facts: Facts, ceilings: Ceilings) -> None:
    # One pair of axes, in inches: a pair for each panel takes three times as long to draw.
    height = BOTTOM + 0.1
    ax = fig.add_axes_at(0, 0, WIDTH, height, gid="panels")
    ax.set(xlim=(0, WIDTH), ylim=(height, 0))
    ax.set_axis_off()
    kernel = facts.kernel
    _words(ax, MARGIN, 0.12, kernel.name, size=style.LARGE, weight="bold")
    left = MARGIN + style.text_width(kernel.name, style.LARGE, "bold") + 0.2
    _words(ax, left, 0.13, facts.settings, size=NORMAL)
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


def _words(ax: Axes, x: float, y: float, words: str, **look) -> None:
    """Text whose upper left corner is at (x, y)."""
    ax.text(x, y, words, **{"size": SMALL, "va": "top", **look})


def _frame(ax: Axes, x: float, y: float, width: float, height: float, **look) -> None:
    look = {"fill": False, "edgecolor": style.FAINT, "linewidth": 0.8, "zorder": 3, **look}
    ax.add_patch(Rectangle((x, y), width, height, **look))


# ---- the matrices --------------------------------------------------------------------------------


def touched(facts: Facts) -> dict[str, np.ndarray]:
    """For each matrix what is drawn of each element: its place in `colours`, 0 for untouched."""
    trace = facts.trace
    shapes = {"A": (trace.m, trace.k), "B": (trace.k, trace.n), "C": (trace.m, trace.n)}
    level = {array: np.zeros(shape, np.uint8) for array, shape in shapes.items()}
    first: dict[str, WarpAccess] = {}
    step = facts.kernel.settings.get("BK", 0)
    for access in trace.run.accesses():
        if access.array not in shapes:
            continue
        flat = level[access.array].reshape(-1)
        np.maximum.at(flat, _elements(access, trace).ravel(), 1)
        if access.warp == 0:
            first.setdefault(access.array, access)
    if step:
        for part in (level["A"][:, :step], level["B"][:step]):
            part[part == 1] = 2
    for array, access in first.items():
        flat = level[array].reshape(-1)
        if array == "C":  # all that the warp computes
            stores = [a for a in trace.run.accesses(warp=0) if a.array == "C"]
            flat[np.concatenate([_elements(one, trace).ravel() for one in stores])] = 3
            flat[np.concatenate([_elements(one, trace)[:1].ravel() for one in stores])] = 4
        else:
            flat[_elements(access, trace).ravel()] = 3
            flat[_elements(access, trace)[0]] = 4
    return level


def _elements(access: WarpAccess, trace: Trace) -> np.ndarray:
    """int (lanes, each): the numbers of the elements that the active lanes touch."""
    first = access.addresses[access.active] // trace.element_bytes
    return first[:, None] + np.arange(max(1, access.size // trace.element_bytes))


def colours(array: str) -> np.ndarray:
    """float (5, 3): RGB of untouched, of each of SHARES, and of lane 0."""
    own = style.ARRAYS[array]
    tints = [style.tint(own, share) for share in SHARES.values()]
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
    look = {"color": style.GRID, "linewidth": 0.6, "zorder": 2}
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
    heading = (
        f"{array}: a {operation} takes {sectors:.3g} {'sector' if sectors == 1 else 'sectors'}"
    )
    _words(ax, x, y - 0.4, heading, weight="bold")


def _draw_key(ax: Axes, facts: Facts) -> None:
    names = [("block (0, 0), all along K", SHARES["block"])]
    if "BK" in facts.kernel.settings:
        names.append(("its first step along K", SHARES["step"]))
    names += [("warp 0: one load, all stores", SHARES["warp"]), ("lane 0 of it", None)]
    y = TOP + 0.02
    for words, share in names:
        colour = style.BLACK if share is None else style.tint(style.FAINT, share)
        _frame(ax, MARGIN, y, 0.14, 0.13, facecolor=colour, fill=True)
        _words(ax, MARGIN + 0.22, y, words)
        y += 0.22


# ---- the banks -----------------------------------------------------------------------------------


def _draw_banks(ax: Axes, facts: Facts) -> None:
    _words(ax, RIGHT, TOP - 0.4, "32 banks of shared memory, warp 0", weight="bold")
    seen = _patterns(facts.trace.run.accesses(warp=0))
    if not seen:
        _words(ax, RIGHT, TOP - 0.16, "This kernel uses no shared memory.")
        return
    shown = seen[:MOST_PATTERNS]
    row = min(BANK_ROW, BANKS_HEIGHT / sum(len(pattern.cells) for pattern in shown))
    y = TOP - 0.16
    for pattern in shown:
        _words(ax, RIGHT, y, pattern.name)
        y += SMALL * LINE / 72 + 0.01
        _draw_cells(ax, pattern.cells, y, row)
        y += row * len(pattern.cells) + 0.07
    words = "A row is a wavefront. Orange (×) waits."
    if len(seen) > len(shown):
        words += f" {len(seen) - len(shown)} more."
    _words(ax, RIGHT, y, words)


def _draw_cells(ax: Axes, cells: np.ndarray, top: float, row: float) -> None:
    pitch = RIGHT_WIDTH / BANKS
    ax.pcolormesh(
        RIGHT + pitch * np.arange(BANKS + 1), top + row * np.arange(len(cells) + 1), cells,
        cmap=ListedColormap(["white", GOES, WAITS]), vmin=0, vmax=WAITING, linewidth=0.5,
        edgecolors=style.GRID if row > MOST_LINES else "none",
    )  # fmt: skip
    _frame(ax, RIGHT, top, RIGHT_WIDTH, row * len(cells))
    y, x = np.nonzero(cells == WAITING)
    ax.plot(
        RIGHT + pitch * (x + 0.5), top + row * (y + 0.5), "x", color=style.BLACK,
        markersize=0.4 * 72 * row, markeredgewidth=0.7,
    )  # fmt: skip


@dataclass(frozen=True)
class _Pattern:
    """How accesses of some lines meet the banks: `cells` from _bank_cells."""

    banks: Banks
    cells: np.ndarray
    lines: list[int]

    @property
    def name(self) -> str:
        access = self.banks.access
        lines = f"line {self.lines[0]}"
        if len(self.lines) > 1:
            lines = f"lines {self.lines[0]} … {self.lines[-1]}"
        cost = plural(self.banks.wavefronts, "wavefront")
        return f"{access.operation} of {access.size} bytes, {lines}: {cost}"


def _patterns(accesses: Iterable[WarpAccess]) -> list[_Pattern]:
    """What differs in loads and stores of shared memory, the costliest first.

    Of every line, operation and width the access that takes most wavefronts.
    """
    found: dict[tuple, list[WarpAccess]] = {}
    for access in accesses:
        if access.space == SHARED and (SHARED, access.operation) in COUNTED:
            found.setdefault((access.line, access.operation, access.size), []).append(access)
    patterns: dict[tuple, _Pattern] = {}
    for (line, operation, size), those in found.items():
        addresses = np.stack([one.addresses for one in those])
        active = np.stack([one.active for one in those])
        passes = wavefronts(addresses, active, size, 1).sum(axis=1)
        banks = Banks.of(those[int(passes.argmax())])
        cells = _bank_cells(banks)
        key = operation, size, cells.shape, cells.tobytes()
        patterns.setdefault(key, _Pattern(banks, cells, [])).lines.append(line)
    return sorted(patterns.values(), key=lambda one: -one.banks.wavefronts)


def _bank_cells(banks: Banks) -> np.ndarray:
    """(wavefronts, 32): 0 for nobody, GOING with its group's first wavefront, or WAITING."""
    width = max(1, banks.access.size // BANK_BYTES)
    rows = []
    for group in banks.groups:
        cells = np.zeros((max(1, group.wavefronts), BANKS), np.uint8)
        for place, stack in group.stacks.items():
            for at in range(min(len(stack), len(cells))):
                cells[at, place * width : (place + 1) * width] = WAITING if at else GOING
        rows.append(cells)
    return np.concatenate(rows)


# ---- roofline and resources ----------------------------------------------------------------------


def _draw_roofline(ax: Axes, facts: Facts, ceilings: Ceilings) -> None:
    width, bottom = RIGHT + RIGHT_WIDTH - ROOF_LEFT, ROOF_TOP + ROOF_HEIGHT

    def x(intensity: float) -> float:
        return ROOF_LEFT + width * _along(intensity, *INTENSITIES)

    dtype = facts.kernel.dtype
    low, high = RATES[dtype]

    def y(rate: float) -> float:
        return bottom - ROOF_HEIGHT * _along(rate, low, high)

    _words(ax, RIGHT, ROOF_TOP - 0.36, "TFLOP/s over FLOP per byte loaded", weight="bold")
    _words(ax, RIGHT, ROOF_TOP - 0.2, _point(facts), gid="point label")
    right = RIGHT + RIGHT_WIDTH
    ax.plot(
        [ROOF_LEFT, ROOF_LEFT, right], [ROOF_TOP, bottom, bottom], color=style.FAINT, linewidth=1
    )
    for tick in (0.1, 1, 10, 100):
        _words(ax, x(tick), bottom + 0.04, f"{tick:g}", ha="center")
        rate = tick * low / 0.1
        _words(ax, ROOF_LEFT - 0.05, y(rate), f"{rate:g}", ha="right", va="center")
    slope = ceilings.bytes_per_second / 1e12
    roof = ceilings.arithmetic(dtype) / 1e12 if ceilings.knows(dtype) else high
    first = max(INTENSITIES[0], low / slope)
    ax.plot(
        [x(first), x(roof / slope), right], [y(slope * first), y(roof), y(roof)],
        color=style.INK, linewidth=1.6,
    )  # fmt: skip
    at = x(facts.intensity)
    ax.plot([at, at], [ROOF_TOP, bottom], color=style.FAINT, linewidth=1, linestyle=(0, (3, 2)))
    if facts.speed:
        cublas = y(100 * facts.speed.gflops / facts.speed.pct_cublas / 1000)
        ax.plot(
            [ROOF_LEFT, right], [cublas, cublas], color=style.BLACK, linewidth=0.9, linestyle=":"
        )
        look = style.kernel_style(facts.kernel.name)
        ax.plot(
            [at], [y(facts.speed.gflops / 1000)], color=look["color"], marker=look["marker"],
            markersize=7, gid="point",
        )  # fmt: skip


def _along(value: float, low: float, high: float) -> float:
    """Where a value stands on a logarithmic axis: 0 at its low end, 1 at its high end."""
    return log(value / low) / log(high / low)


def _point(facts: Facts) -> str:
    x = style.digits(facts.intensity)
    if facts.speed is None:
        return f"at {x}: this setting is not recorded"
    share = style.percent(facts.speed.pct_cublas)
    return f"at {x}: {style.rate(facts.speed.gflops)}, {share} of cuBLAS"


def resources(facts: Facts) -> list[str]:
    """What a block takes of an SM, and where the speed comes from."""
    taken, fits = facts.taken, facts.fits
    spilled = taken.spill_store_bytes + taken.spill_load_bytes
    blocks = plural(fits.blocks_per_sm, "block")
    line = (
        f"{facts.threads:,} threads a block · {taken.registers} registers a thread, "
        f"{f'{spilled} bytes spilled' if spilled else 'none spilled'} · "
        f"{taken.shared_bytes:,} bytes of shared memory a block · on {facts.arch} {blocks} per SM, "
        f"{fits.occupancy:.0%} occupancy, limited by {fits.limited_by}"
    )
    sentences = [line]
    if facts.speed:
        sentences.append(
            f"{facts.speed.where}, {style.shape_label(*facts.speed.shape)}; "
            "black line: its roofs, dotted: cuBLAS, dashed: this intensity"
        )
    return sentences


def caption_of(facts: Facts, ceilings: Ceilings) -> str:
    """What to see in the picture."""
    rows, columns = facts.kernel.rung.tile(facts.kernel.settings)
    caption = (
        f"A block computes {rows} × {columns} elements of C, and does "
        f"{style.digits(facts.intensity)} floating-point operations for each byte of A and B that "
        "it loads."
    )
    if facts.speed and facts.speed.gflops > facts.intensity * ceilings.bytes_per_second / 1e9:
        caption += " The point lies above the slope of the copy: caches answer most of its loads."
    return caption
