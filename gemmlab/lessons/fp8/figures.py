"""Figures of this lesson: numbers and errors of 8-bit floats, their scales, their speed."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes

from gemmlab.lessons.fp8 import tables
from gemmlab.lessons.fp8.tables import Reach, Region
from gemmlab.lessons.naive.figures import bars
from gemmlab.lessons.warp_specialized import turns as traced
from gemmlab.lessons.warp_specialized.turns import Turn, Turns
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, plate, product_axes, write
from gemmlab.plots.charts import Curve, bar, draw_curves, note, room_for, rows_of, size_ticks
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import ARRAYS, MARGIN, NORMAL, TILE_COLOURS, WIDTH
from gemmlab.records.runs import LARGE

KINDS = {  # of scales -> colour, marker
    "tensors": (style.BLACK, "s"), "rows": (style.ORANGE, "D"), "blocks": (style.PURPLE, "o"),
}  # fmt: skip
WORDS = {"tensors": "per-tensor", "rows": "per-row", "blocks": "block"}

# ---- numbers -------------------------------------------------------------------------------------

ELEMENTS = {"float8_e4m3": ("E4M3", style.PURPLE), "float8_e5m2": ("E5M2", style.ORANGE)}
SHOWN = (0.0, 8.0)  # of the numbers
PERCENT = (5, 10, 20, 50, 100)


@styled
def fp8_values(numbers: Mapping[str, np.ndarray], rounding: pandas.DataFrame) -> Picture:
    """The numbers of E4M3 and of E5M2 from 0 to 8, and the largest error of rounding to them.

    numbers: {name of the element type: its finite numbers above 0}, as tables.numbers
    gives; rounding: as its function of that name.
    """
    title = "E4M3 has twice as many numbers in an octave, E5M2 reaches further both ways"
    flat = rounding.groupby("element")["error"].min()
    parts = [
        f"{words} is off by at most {100 * flat[name]:.1f} % up to its end, "
        f"{numbers[name][-1]:,.0f}"
        for name, (words, _) in ELEMENTS.items()
    ]
    caption = (
        f"{'; '.join(parts)}. Towards 0 the distance from one number to the next stays the same, "
        "so errors grow up to 100 %, where a value becomes 0. "
        "Values converted by the compiled quantizer."
    )
    fig = page(title, 0.33 + 2.5 + 0.75, caption)
    top = fig.top + 0.33
    names = [words for words, _ in ELEMENTS.values()]
    ax = rows_of(fig, names, top, 1.25, left=0.65, right=3.85, gid="numbers")
    _draw_numbers(ax, numbers)
    ax = fig.add_axes_at(5.0, top, WIDTH - 5.0 - MARGIN - 0.1, 2.5, gid="rounding")
    _draw_rounding(ax, rounding)
    return fig


def _draw_numbers(ax: Axes, numbers: Mapping[str, np.ndarray]) -> None:
    for row, (name, (words, colour)) in enumerate(ELEMENTS.items()):
        chosen = numbers[name][numbers[name] <= SHOWN[1]]
        ax.vlines(chosen, row + 0.22, row + 0.78, color=colour, linewidth=1.0, gid=words)
        octave = int(((numbers[name] >= 1) & (numbers[name] < 2)).sum())
        note(ax, f"{octave} from 1 to 2", (1.5, row + 0.1), (0, 0), ha="center")
    ax.set(xlim=(-0.1, SHOWN[1] + 0.1), xlabel="number", xticks=[0, 1, 2, 4, 8])
    ax.grid(visible=False)
    ax.spines["left"].set_visible(False)
    ax.set_title("The numbers from 0 to 8", size=NORMAL, loc="left")


def _draw_rounding(ax: Axes, rounding: pandas.DataFrame) -> None:
    for name, (words, colour) in ELEMENTS.items():
        rows = rounding[rounding["element"] == name].sort_values("from")
        edges = np.append(rows["from"], 2 * rows["from"].iloc[-1])
        ax.stairs(100 * rows["error"], edges, color=colour, linewidth=1.8, gid=words)
        flat = 100 * rows["error"].min()
        note(ax, f"{words}: {flat:.1f} %", (1, flat), (0, 5), ha="center", color=style.INK)
    exponents = np.log2(rounding["from"]).astype(int)
    ticks = range(4 * math.floor(exponents.min() / 4), exponents.max() + 2, 4)
    ax.set(xscale="log", yscale="log", ylim=(4, 125), xlabel="value that is converted")
    ax.set_xticks([2.0**exponent for exponent in ticks], map(_power, ticks))
    ax.set_yticks(PERCENT, [f"{percent} %" for percent in PERCENT])
    ax.minorticks_off()
    ax.grid(axis="y")
    ax.set_title("Rounding: the largest error in each octave", size=NORMAL, loc="left")


def _power(exponent: int) -> str:
    digits = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"2{digits}" if exponent else "1"


# ---- errors --------------------------------------------------------------------------------------

PROMOTIONS = {  # promote -> colour, marker
    128: (style.PURPLE, "o"), 256: (style.SKY, "^"), 512: (style.ORANGE, "D"),
    0: (style.BLACK, "s"),
}  # fmt: skip
LEFT, TOP, HEIGHT = 0.8, 0.33, 2.8  # inches
PANELS = (
    ("sum_error", "The sums alone", (5e-7, 1e-4)), ("whole_error", "Quantizing too", (1e-4, 5e-2)),
)  # fmt: skip
DEPTHS = [2**n for n in range(7, 13)]  # of K, as far as it is shown
HOLLOW = {"markerfacecolor": style.GROUND}  # where the data are uneven


@styled
def sum_errors(table: pandas.DataFrame, *, types: str = "E4M3") -> Picture:
    """Errors of the sums alone over K, as shares of |A| @ |B|, root mean squares.

    A curve for each number of products that one sum of the tensor cores takes; even data,
    per-tensor scales. table: as errors.ERRORS has it; types: one of its column of that name.
    """
    rows = table[(table["types"] == types) & (table["data"] == "even")]
    rows = rows[rows["scales"] == "tensors"]
    last = rows[rows["k"] == rows["k"].max()].set_index("promote")["sum_error"]
    caption = (
        f"Promoted: added to a total in float32. At K = {rows['k'].max()} one sum of all products "
        f"is {last[0] / last[128]:.0f} times as wrong as sums of 128 that are promoted."
    )
    looks = {promote: (_every(promote), *look) for promote, look in PROMOTIONS.items()}
    title = f"Errors of the sums alone, {types}: the sooner promoted, the smaller"
    return _errors(title, caption, rows, "promote", "sum_error", looks)


@styled
def scale_errors(table: pandas.DataFrame, *, types: str = "E4M3") -> Picture:
    """Errors of products over K, quantizing included, as shares of |A| @ |B|, root mean squares.

    A curve for each kind of scales, on uneven data; sums of 128 products. table, types: as for
    sum_errors.
    """
    rows = table[(table["types"] == types) & (table["data"] == "uneven")]
    rows = rows[rows["promote"] == 128]
    last = rows[rows["k"] == rows["k"].max()].set_index("scales")["whole_error"]
    caption = (
        "Rows, and blocks of 128 along K, differ in size. At K = "
        f"{rows['k'].max()} per-tensor scales make {last['tensors'] / last['rows']:.1f} times the "
        f"error of per-row scales, and these {last['rows'] / last['blocks']:.2f} times that of "
        "block scales."
    )
    looks = {kind: (WORDS[kind], *look) for kind, look in KINDS.items()}
    title = f"Errors of the whole product on uneven data, {types}"
    return _errors(title, caption, rows, "scales", "whole_error", looks)


def _errors(
    title: str, caption: str, rows: pandas.DataFrame, by: str, error: str,
    looks: Mapping[Any, tuple[str, str, str]],
) -> Picture:  # fmt: skip
    """Curves of the column `error` over K, one for each value of `by`.

    looks: of each value the name, colour and marker.
    """
    fig = page(title, 0.1 + HEIGHT + 0.6, caption, style.provenance(rows))
    given = []
    for value, (name, colour, marker) in looks.items():
        chosen = rows[rows[by] == value].sort_values("k")
        look = {"color": colour, "marker": marker, "gid": str(value)}
        if len(chosen):
            given.append(Curve(name, list(chosen["k"]), list(chosen[error]), look))
    names = (curve.name for curve in given)
    ax = fig.add_axes_at(
        LEFT, fig.top + 0.1, WIDTH - LEFT - MARGIN - room_for(names), HEIGHT, gid=error
    )
    draw_curves(ax, given)
    ax.set(xlabel="K", ylabel="error / |A| |B|")
    _error_ticks(ax, (1, 2, 5))
    return fig


def _error_ticks(ax: Axes, digits: tuple[int, ...]) -> None:
    """Ticks at these digits of each power of ten that is in view."""
    low, high = ax.get_ylim()
    ticks = [d * 10.0**n for n in range(-8, 0) for d in digits if low <= d * 10.0**n <= high]
    ax.set_yticks(ticks, [f"{tick:.0e}".replace("e-0", "e-") for tick in ticks])
    ax.minorticks_off()


@styled
def fp8_errors_tried(table: pandas.DataFrame) -> Picture:
    """The errors of products that were tried, over K; a ring around the last of them.

    table: a row for each, in their order, with the columns data, types, scales, promote, k,
    sum_error, whole_error. A colour for each promotion interval, a marker for each kind of scales;
    lines join those that differ in K alone.
    """
    key = [
        (_every(promote), {"color": colour, "linewidth": 2.5})
        for promote, (colour, _) in PROMOTIONS.items()
    ]
    sign = {"color": style.FAINT, "linestyle": ""}
    key += [(WORDS[kind], {"marker": marker, **sign}) for kind, (_, marker) in KINDS.items()]
    key.append(("uneven data", {"marker": "p", **sign, **HOLLOW}))
    title = "What was tried so far: errors over K"
    row = table.iloc[-1]
    how = f"promoted {_every(row['promote'])}{' products' if row['promote'] else ''}"
    caption = (
        f"The last: {row['types']}, {WORDS[row['scales']]} scales, {row['data']} data, {how}, "
        f"K = {row['k']}. Beside float64, as shares of |A| |B|: the sums are off by "
        f"{row['sum_error']:.2g}, all of it, quantizing included, by {row['whole_error']:.2g} "
        "(root mean squares)."
    )
    fig = page(title, TOP + HEIGHT + 0.65, caption, key=key)
    wide = (WIDTH - 2 * LEFT - 0.4 - MARGIN) / 2
    last = table.iloc[-1]
    for at, (error, words, (low, high)) in enumerate(PANELS):
        x = LEFT + at * (wide + 0.9)
        ax = fig.add_axes_at(x, fig.top + TOP, wide, HEIGHT, gid=error)
        low, high = min(low, 0.8 * table[error].min()), max(high, 1.25 * table[error].max())
        for (data, _, scales, promote), rows in table.groupby(
            ["data", "types", "scales", "promote"]
        ):
            alike = rows.drop_duplicates("k").sort_values("k")
            look = HOLLOW if data == "uneven" else {}
            look = {"color": PROMOTIONS[promote][0], "marker": KINDS[scales][1], **look}
            ax.plot(alike["k"], alike[error], **look)
        look = {"markersize": 14, "markerfacecolor": "none", "markeredgewidth": 1.4}
        ax.plot(last["k"], last[error], "o", color=style.INK, gid="last", **look)
        ax.set(xscale="log", yscale="log", xlabel="K", ylabel="error / |A| |B|")
        ax.set(xlim=(0.8 * DEPTHS[0], 1.25 * DEPTHS[-1]), ylim=(low, high))
        size_ticks(ax, DEPTHS)
        _error_ticks(ax, (1,))
        ax.set_title(words, size=NORMAL, loc="left")
        ax.grid(axis="y")
    return fig


def _every(promote: int) -> str:
    return f"every {promote}" if promote else "never"


# ---- scales --------------------------------------------------------------------------------------

TALL_B, WIDE_A, REACH_GAP, PANEL_GAP, TALL_C = 1.15, 1.05, 0.12, 0.3, 1.05  # inches
PALE, STRONG, SECOND = 0.1, 0.75, 0.4  # of a matrix's colour
SHARE = {
    "tensors": "all of a matrix", "rows": "a row of A or column of B",
    "blocks": "1×128 of A or 128×128 of B",
}  # fmt: skip


@styled
def scale_reach(*reaches: Reach) -> Picture:
    """A panel for each kind of scales: what of A and B they reach that go into one element of C.

    reaches: as tables.reach gives. Regions that lie behind one another along K have
    scales of their own, drawn in turn dark and lighter. Rows and columns are not to one scale.
    """
    key = [("the element of C", {"facecolor": ARRAYS["C"]})]
    for name in "AB":
        strong, second = ({"facecolor": style.tint(ARRAYS[name], s)} for s in (STRONG, SECOND))
        shades = [strong, second] if any(each.scales.depth for each in reaches) else [strong]
        key.append((f"shares a scale of {name}", shades))
    title = "What shares a scale with the operands of one element of C"
    height = 0.28 + TALL_B + REACH_GAP + TALL_C + 0.2
    first = reaches[0]
    counts = [
        f"{len(each.a)} of A and {len(each.b)} of B with {WORDS[each.scales.name]} scales"
        for each in reaches
    ]
    caption = (
        f"C[{first.row}, {first.column}] of a product of {first.problem.m}×{first.problem.n}×"
        f"{first.problem.k} (M×N×K), and what shares the scales that go into it: "
        f"{style.listed(counts)}, as the kernel reads them. M, N and K are stretched to fit."
        + (" Each box along K has a scale of its own." if first.scales.depth else "")
    )
    fig = page(title, height, caption, key=key)
    each = (WIDTH - 2 * MARGIN - PANEL_GAP * (len(reaches) - 1)) / len(reaches)
    wide, top = each - WIDE_A - REACH_GAP, fig.top + 0.28
    for at, reach in enumerate(reaches):
        left = MARGIN + at * (each + PANEL_GAP)
        kind = reach.scales.name
        words = f"{WORDS[kind]}: {SHARE[kind]}"
        fig.text_at(left, fig.top, words, size=NORMAL, weight="bold")
        m, n, k = reach.problem.shape
        gaps = (REACH_GAP, REACH_GAP)
        axes = product_axes(fig, left, top, (WIDE_A, TALL_B), (wide, TALL_C), gaps, kind)
        _draw_reach(axes["A"], "A", m, k, reach.a)
        _draw_reach(axes["B"], "B", k, n, reach.b)
        _draw_reach(axes["C"], "C", m, n, ())
        # one element, too small to see
        axes["C"].plot(reach.column, reach.row, "s", color=ARRAYS["C"], markersize=6, gid="C 0")
    return fig


def _draw_reach(ax: Axes, name: str, rows: int, columns: int, regions: tuple[Region, ...]) -> None:
    bare(ax, columns, rows).set_facecolor(style.tint(ARRAYS[name], PALE))
    ax.spines[:].set(visible=True, color=style.FAINT, linewidth=0.6)
    for at, region in enumerate(regions):
        (top, bottom), (left, right) = region.rows, region.columns
        look = {"facecolor": style.tint(ARRAYS[name], (STRONG, SECOND)[at % 2])}
        place = left, top, right - left, bottom - top
        edge = "white" if len(regions) > 1 else "none"
        box(ax, *place, edgecolor=edge, gid=f"{name} {at}", **look)
    look = {"transform": ax.transAxes, "ha": "right", "va": "top", "bbox": plate(1.5, 0.75)}
    write(ax, 0.97, 0.95, f"{name} {rows}×{columns}", **look)


# ---- two sets of sums ----------------------------------------------------------------------------

ROLE = "warpgroup 0"
LANES = ("partial[0]", "partial[1]", "totals, float32")
SETS = 2
MULTIPLIED, ADDED = 0.5, 0.9  # of a step's colour


@styled
def accumulators_in_turn(kernel: Turns) -> Picture:
    """A row for each of the two sets of sums and one for the totals of warpgroup 0, step by step.

    kernel: as turns.of(trace) gives, of rung 19 with promotion. Left to right is
    the order in which they were executed, not time.
    """
    events = _events(kernel.roles[ROLE])
    started = {number: at for at, (kind, number) in enumerate(events) if kind == traced.STARTS}
    added = {number: at for at, (kind, number) in enumerate(events) if kind == traced.ARRIVES}
    words = (f"from start to wait, {kernel.trace.settings['PROMOTE']} along K",
             "promoted: added to the totals, and the set is free")  # fmt: skip
    key = [
        (text, {"facecolor": style.tint(TILE_COLOURS[0], share), "edgecolor": style.FAINT})
        for text, share in zip(words, (MULTIPLIED, ADDED), strict=True)
    ]
    title = "While the tensor cores fill one set of accumulators, the other is promoted"
    count = len(started)
    trace = kernel.trace
    shape = style.shape_label(trace.m, trace.n, trace.k)
    caption = (
        f"{ROLE.capitalize()} of block {kernel.block} at {shape}, followed through its trace: "
        f"{style.plural(count, 'interval')}, a colour for each. A sum is added to the totals while "
        "the next interval has been started; only the last has none beside it. An order, not times."
    )
    fig = page(title, 0.42 * len(LANES) + 0.2, caption, key=key)
    ax = rows_of(fig, LANES, fig.top + 0.05, 0.42, gid="sums in turn", xticks=[])
    for step, at in started.items():
        colour = TILE_COLOURS[step % len(TILE_COLOURS)]
        for row, low, high, share, words, gid in (
            (step % SETS, at, added[step], MULTIPLIED, str(step), f"products {step}"),
            (SETS, added[step], added[step] + 1, ADDED, f"+{step}", f"added {step}"),
        ):
            dark = share == ADDED and colour in TILE_COLOURS[3:]
            text = {"color": "white" if dark else style.INK}
            look = {"facecolor": style.tint(colour, share), "edgecolor": style.FAINT, "gid": gid}
            bar(ax, row, low, high, words, text=text, **look)
    ax.set_xlim(-0.1, len(events) + 0.1)
    ax.spines[:].set_visible(False)
    return fig


def _events(mine: tuple[Turn, ...]) -> list[tuple[str, int]]:
    """In order: the products of a set are started, its stages given back and its sums added.

    Each wait for products is for those of the next set, after which all of its stages go back.
    """
    events: list[tuple[str, int]] = []
    waited = 0
    for turn in mine:
        if turn.kind == traced.STARTS:
            events.append((traced.STARTS, turn.step))
        elif turn.kind == traced.AWAITS_PRODUCTS:
            waited += 1
        elif turn.kind == traced.ARRIVES and (last := (traced.ARRIVES, waited - 1)) not in events:
            events.append(last)
    return events


# ---- cycles --------------------------------------------------------------------------------------

CYCLE_LOOKS = {
    tables.SM_CYCLES: swatch(style.FAINT, 0.3),
    tables.AT_FULL_RATE: swatch(style.PURPLE, 0.8),
    tables.PROMOTING: swatch(style.SKY),
}


@styled
def tensor_cycles(*names: str) -> Picture:
    """The account of cycles of kernels by wgmma, as tables.account gives it: bars for each rung."""
    table = tables.account(*names)
    parts = [
        f"{name} takes {row[tables.SM_CYCLES]:,.0f} cycles of an SM; at full rate the tensor cores "
        f"need {row[tables.AT_FULL_RATE]:,.0f} of them"
        + (f", and promotion {row[tables.PROMOTING]:,.0f}" if row[tables.PROMOTING] else "")
        for name, row in table.items()
    ]
    caption = f"At {style.shape_label(*LARGE)}: {'. '.join(parts)}."
    fig, ax = bars(table.T, CYCLE_LOOKS, "launch", caption, LARGE, digits=0)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    return fig


# ---- speeds --------------------------------------------------------------------------------------

BF16 = "BF16"  # in `scales`, of rung 18
OF_BF16 = style.kernel_style("18_persistent")["color"]
BAR = 0.2  # of the room of a shape


@styled
def gain(table: pandas.DataFrame) -> Picture:
    """TFLOP/s of 18 in BF16, of cuBLASLt and of 19 with per-tensor scales, bars for each shape.

    table: as tables.speeds gives.
    """
    ours, bf16 = (table[table["scales"] == scales] for scales in ("tensors", BF16))
    shapes = [*zip(ours["m"], ours["n"], ours["k"], strict=True)]
    factors = (ours["tflops"].to_numpy() / bf16["tflops"].to_numpy()).tolist()
    every = {  # name -> speeds, colour
        "18_persistent in BF16": (bf16["tflops"], OF_BF16),
        "cuBLASLt in FP8": (ours["cublas_tflops"], style.FAINT),
        "19_fp8, per-tensor scales": (ours["tflops"], style.kernel_style("19_fp8")["color"]),
    }
    caption = (
        f"19_fp8 is {min(factors):.2f} to {max(factors):.2f} times as fast as 18_persistent in "
        f"BF16, {factors[0]:.2f} times at {_shape(ours.iloc[0])}, and there it reaches "
        f"{ours['pct_cublas'].iloc[0]:.1f} % of the fastest of cuBLASLt's proposals."
    )
    key = [(name, swatch(colour, 0.35)) for name, (_, colour) in every.items()]
    title = "Half the bits, not quite twice the speed"
    fig = page(title, 0.1 + 2.5 + 0.5, caption, style.provenance(table), key=key)
    ax = fig.add_axes_at(0.75, fig.top + 0.1, WIDTH - 0.75 - MARGIN, 2.5, gid="speeds")
    for at, (speeds, colour) in enumerate(every.values()):
        x = [place + (at - 1) * 0.26 for place in range(len(shapes))]
        ax.bar(x, speeds, 0.24, **swatch(colour, 0.35))
        for place, speed in zip(x, speeds, strict=True):
            note(ax, f"{speed:,.0f}", (place, speed), (0, 3), ha="center")
    ax.set(ylim=(0, 1.1 * table["tflops"].max()), ylabel="TFLOP/s")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.grid(axis="y")
    ax.set_xticks(range(len(shapes)), ["×".join(map(str, shape)) for shape in shapes])
    ax.tick_params(axis="x", length=0)
    return fig


@styled
def fp8_speeds(table: pandas.DataFrame) -> Picture:
    """Two panels over shapes: the share of cuBLASLt, and TFLOP/s beside those of BF16.

    table: as tables.speeds gives. A marker is a median, its line the middle half of all pairs.
    """
    shapes = list(dict.fromkeys(zip(table["m"], table["n"], table["k"], strict=True)))
    by_shape = table.set_index(["m", "n", "k"])
    rows = {scales: by_shape[by_shape["scales"] == scales].loc[shapes] for scales in (BF16, *KINDS)}
    key = [("Scales:", None)]
    for kind, (colour, marker) in KINDS.items():
        sign = {"color": colour, "marker": marker, "linestyle": ""}
        key.append((WORDS[kind], [swatch(colour, 0.35), sign]))
    key.append(("18_persistent in BF16, without scales", swatch(OF_BF16, 0.35)))
    title = "Beside cuBLASLt with the same kind of scales, and beside 16 bits"
    kinds = table[table["scales"] != BF16]
    best = kinds.loc[kinds["pct_cublas"].idxmax()]
    least = kinds.loc[kinds["pct_cublas"].idxmin()]
    bf16 = table[table["scales"] == BF16].set_index(["m", "n", "k"])["tflops"]
    gains = [row.tflops / bf16[row.m, row.n, row.k] for row in kinds.itertuples()]
    caption = (
        f"From {least['pct_cublas']:.1f} % of cuBLASLt, with {WORDS[least['scales']]} scales at "
        f"{_shape(least)}, to {best['pct_cublas']:.1f} %, with {WORDS[best['scales']]} scales at "
        f"{_shape(best)}; {min(gains):.2f} to {max(gains):.2f} times as fast as 18_persistent in "
        "BF16. Lines at markers: quartiles."
    )
    source = style.provenance(table)
    fig = page(title, 0.25 + 2.9 + 0.55, caption, source, key=key)
    top, places = fig.top + 0.25, range(len(shapes))
    ax = fig.add_axes_at(0.6, top, 3.6, 2.9, gid="shares")
    for at, (kind, (colour, marker)) in enumerate(KINDS.items()):
        chosen, x = rows[kind], [place + (at - 1) * BAR for place in places]
        ax.vlines(x, chosen["pct_cublas_q1"], chosen["pct_cublas_q3"], color=colour, linewidth=2.2)
        ax.plot(x, chosen["pct_cublas"], marker, color=colour, markersize=7, gid=kind)
        for place, row in zip(x, chosen.itertuples(), strict=True):
            above = row.pct_cublas >= 100  # away from the line at 100
            at_end = (place, row.pct_cublas_q3 if above else row.pct_cublas_q1)
            note(ax, f"{row.pct_cublas:.1f}", at_end, (0, 7 if above else -14), ha="center")
    ax.axhline(100, color=style.BLACK, linewidth=1.2, linestyle="--", gid="cuBLASLt")
    low, high = table["pct_cublas_q1"].min(), table["pct_cublas_q3"].max()
    ax.set_ylim(min(low, 100) - 2.5, max(high, 100) + 2.5)
    ax.set_title("% of cuBLASLt (dashed)", size=NORMAL, loc="left")
    ax.grid(axis="y")
    _shapes_below(ax, shapes)
    ax = fig.add_axes_at(4.95, top, WIDTH - 4.95 - 0.15, 2.9, gid="speeds")
    for at, (kind, chosen) in enumerate(rows.items()):
        colour = OF_BF16 if kind == BF16 else KINDS[kind][0]
        x = [place + (at - 1.5) * BAR for place in places]
        ax.bar(x, chosen["tflops"], 0.9 * BAR, gid=f"speed {kind}", **swatch(colour, 0.35))
        for place, speed in zip(x, chosen["tflops"], strict=True):
            look = {"ha": "center", "va": "top", "rotation": 90}
            note(ax, f"{speed:,.0f}", (place, speed), (0, -5), **look)
    ax.set_ylim(0, 1.05 * table["tflops"].max())
    ax.set_title("TFLOP/s", size=NORMAL, loc="left")
    _shapes_below(ax, shapes)
    return fig


def _shapes_below(ax: Axes, shapes: list) -> None:
    ax.set_xticks(range(len(shapes)), [f"{m}×{n}\n×{k}" for m, n, k in shapes])
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.55, len(shapes) - 0.45)


def _shape(row: pandas.Series) -> str:
    return "×".join(str(row[size]) for size in ("m", "n", "k"))
