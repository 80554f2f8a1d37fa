"""Figures of this lesson: the bits of parts, the nine products, error against speed and over K."""

import numpy as np
import pandas
from matplotlib.axes import Axes

from gemmlab.lessons.emulated_fp32 import model, tables
from gemmlab.lessons.emulated_fp32.errors import DEPTH, DEPTHS, PROMOTE, SGEMM, TF32, WAYS
from gemmlab.lessons.emulated_fp32.tables import SUMMIT
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box
from gemmlab.plots.charts import Curve, draw_curves, note, size_ticks
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import MARGIN, NORMAL, WIDTH
from gemmlab.records.runs import LARGE

BITS = 24  # of the fraction of a float32, with the 1 before it
CELL, ROW = 0.21, 0.465  # inches, of a bit
TOP, GRID_LEFT, GRID = 0.45, 6.95, 0.62  # inches: where bits and products begin, a product's side
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
PARTS = (style.ORANGE, style.SKY, style.PURPLE)
LOOKS = {
    SGEMM: {"color": style.BLACK, "marker": "*"},
    TF32: {"color": style.FAINT, "marker": "v"},
    "BF16×3": {"color": style.SKY, "marker": "s"},
    "FP16×3": {"color": style.ORANGE, "marker": "D"},
    "BF16×6": {"color": style.kernel_style("23_emulated_fp32")["color"], "marker": "o"},
    "BF16×9": {"color": style.KERNEL_COLOURS[5], "marker": "P"},
}
WORDS = {
    "normal": "normal", "uniform": "uniform from 0 to 1", "wide": "sizes far apart",
    "scaled": "rows badly scaled", "cancelling": "sums that cancel", "worst": "worst for the parts",
}  # fmt: skip
HEIGHT, LEFT, RIGHT, BETWEEN = 2.4, 0.75, 1.5, 0.75  # inches, of curves


@styled
def parts_of_bits(x: float) -> Picture:
    """The bits of a float32 and of its three parts in BF16, and the nine products of parts."""
    number = np.float32([[x]])
    parts = [float(part.item()) for part in model.split(number, WAYS.index("BF16×9"))[0]]
    last = int(np.frexp(x)[1]) - BITS  # the exponent of the last bit
    rows = [("float32", x, style.FAINT)]
    rows += [(f"part {i}", part, PARTS[i]) for i, part in enumerate(parts)]
    title = "Three numbers of 8 bits have the 24 bits of a float32"
    sums = " ".join(f"{'−' if part < 0 else '+'} {abs(part):.9g}" for part in parts)
    caption = (
        f"Left: {number.item():.9g} = {sums.removeprefix('+ ')}, split as the kernel does it. A "
        "part is the nearest number of 8 bits to what the parts before it left, so it may be "
        "negative. Right: how large each of the nine products of parts is at most, relative to "
        "the first."
    )
    fig = page(title, TOP + 3 * GRID + 0.2, caption)
    left, top = MARGIN + 0.75, fig.top + TOP
    wide, tall = BITS + 2, len(rows)
    ax = bare(fig.add_axes_at(left, top, wide * CELL, tall * ROW, gid="bits"), wide, tall)
    for row, (name, number_shown, colour) in enumerate(rows):
        fig.text_at(MARGIN, top + (row + 0.5) * ROW, name, size=NORMAL, va="center")
        sign = "−" if number_shown < 0 else "+"
        ax.text(0.4, row + 0.5, sign, ha="center", va="center", size=NORMAL)
        whole = round(abs(number_shown) / 2.0**last)
        first = whole.bit_length() - 1
        low = max(0, first - 7) if row else 0
        for bit in range(first, low - 1, -1):
            value = whole >> bit & 1
            look = {"facecolor": style.tint(colour, 0.6 if value else 0.12), "edgecolor": colour}
            box(ax, BITS - bit, row + 0.08, 0.9, 0.8, str(value), gid=f"{name} bit {bit}", **look)
    for x, words in ((MARGIN, "bits, the largest at the left"), (GRID_LEFT, "products")):
        fig.text_at(x, fig.top, words, size=NORMAL, weight="bold")
    _draw_products(fig.add_axes_at(GRID_LEFT, top, 3 * GRID, 3 * GRID, gid="products"))
    return fig


def _draw_products(ax: Axes) -> None:
    bare(ax, 3, 3)
    for i in range(3):
        ax.text(-0.1, i + 0.5, f"a{i}", ha="right", va="center", size=NORMAL)
        ax.text(i + 0.5, -0.08, f"b{i}", ha="center", va="bottom", size=NORMAL)
        for j in range(3):
            power = str(-8 * (i + j)).translate(RAISED)
            shade = style.tint(style.PURPLE, 0.8 / 2 ** (i + j))
            look = {"facecolor": shade, "edgecolor": style.GROUND, "gid": f"a{i} b{j}"}
            box(ax, j, i, 0.95, 0.95, f"2{power}" if i + j else "1", {"size": NORMAL}, **look)


@styled
def speed_against_error() -> Picture:
    """The largest error of each way as a multiple of SGEMM's, over its speed, as recorded.

    Without BF16×9, which a question is about. Raises NoRecord, StaleRecord.
    """
    speeds, errors = tables.speeds().query(f"m >= {LARGE[0]}"), tables.largest_errors()
    wrong, fast = errors.div(errors[SUMMIT], axis=0), speeds.groupby("step", sort=False)["times"]
    of = {way: (*fast.get_group(way).agg(["min", "max"]), *wrong[way].agg(["min", "max"]))
          for way in wrong if way != "BF16×9"}  # fmt: skip
    both = "{:.2f} to {:.2f} with {:.2f} to {:.2f} times its error"
    slowest, fastest = of["BF16×6"][:2]
    title = (
        f"BF16×6 is {slowest:.1f} to {fastest:.1f} times as fast as cuBLAS SGEMM, with less error "
        "than FP32's multiply-adds"
    )
    caption = (
        f"Times as fast as cuBLAS SGEMM: {SUMMIT}, by FP32's own units, {of[SUMMIT][0]:.2f} to "
        f"{of[SUMMIT][1]:.2f}; 23_emulated_fp32, by tensor cores, {both.format(*of['BF16×6'])} "
        f"(BF16×6), and {both.format(*of['FP16×3'])} (FP16×3). Marker: normal data; 4096³, in turn "
        "with cuBLAS. Lines: six kinds of data; 8192³ too, rested, sustained, each alone. "
        f"Error: the largest of an element of C at K = {DEPTH}, of |A| |B|, computed with the bits "
        "of an H200; SGEMM and 22 add one FMA after the other."
    )
    fig = page(title, 1.3 * HEIGHT + 0.75, caption, style.provenance(speeds))
    ax = fig.add_axes_at(LEFT, fig.top + 0.1, WIDTH - LEFT - MARGIN, 1.3 * HEIGHT, gid="ways")
    ax.axhline(1, color=style.FAINT, linewidth=1, linestyle="--")
    ax.plot(1, 1, **LOOKS[SGEMM], markersize=10)
    note(ax, "cuBLAS SGEMM", (1, 1), (0, -8), ha="center", va="top")
    for way, (slowest, fastest, least, most) in of.items():
        at, error = fast.get_group(way).iloc[0], wrong[way]["normal"]
        look = LOOKS.get(way) or style.kernel_style(way)
        ax.plot([at, at], [least, most], color=look["color"], gid=f"{way}: errors")
        ax.plot([slowest, fastest], [error, error], color=look["color"], gid=f"{way}: speeds")
        ax.plot(at, error, color=look["color"], marker=look["marker"], markersize=8)
        note(ax, way, (at, error), (8, 7), color=look["color"], weight="bold")
    ax.set(yscale="log", xlim=(0.5, 6), ylim=(0.05, 15), xlabel="times as fast as cuBLAS SGEMM")
    ax.set_ylabel("largest error / SGEMM's")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.grid(axis="y")
    return fig


@styled
def over_k(table: pandas.DataFrame) -> Picture:
    """Root mean squares of errors over K, normal and uniform data: with promotion, without, SGEMM.

    table: as errors.ERRORS has it.
    """
    at = table.set_index(["way", "promote", "data", "k"])["rms"].sort_index()
    longest = max(DEPTHS)
    never, promoted = (at["BF16×6", p, "uniform", longest] for p in (0, PROMOTE["BF16×6"]))
    caption = (
        "Root mean squares of the error of C, as shares of |A| |B|. Uniform data at K = "
        f"{longest}: BF16×6 in one sum is {never / promoted:.0f} times as wrong as promoted every "
        f"{PROMOTE['BF16×6']}, and {never / at[SGEMM, 0, 'uniform', longest]:.1f} times as wrong "
        "as SGEMM."
    )
    title = "What limits the accuracy is the sum, not the parts"
    fig = page(title, HEIGHT + 0.95, caption, style.provenance(table))
    wide = (WIDTH - 2 * (LEFT + RIGHT) - MARGIN) / 2
    for number, data in enumerate(("normal", "uniform")):
        x = LEFT + number * (wide + RIGHT + BETWEEN)
        ax = fig.add_axes_at(x, fig.top + 0.3, wide, HEIGHT, gid=data)
        chosen = [
            ("SGEMM", SGEMM, 0, {}), ("BF16×6, one sum", "BF16×6", 0, {"linestyle": "--"}),
            ("BF16×6, every 128", "BF16×6", 128, {}), ("FP16×3, every 64", "FP16×3", 64, {}),
        ]  # fmt: skip
        curves = [
            Curve(name, DEPTHS, [at[way, promote, data, k] for k in DEPTHS], LOOKS[way] | look)
            for name, way, promote, look in chosen
        ]
        draw_curves(ax, curves)
        ax.yaxis.set_major_formatter(_power)
        ax.set_title(WORDS[data], size=NORMAL, loc="left")
        ax.set(xlabel="K", ylabel="error / |A| |B|" if not number else "")
    return fig


@styled
def tried(table: pandas.DataFrame) -> Picture:
    """The errors that were tried over K, a ring around the last. table: a row for each product in
    their order, as errors.ERRORS has it, SGEMM of the same data among them."""
    last = table.iloc[-1]
    there = [way for way in LOOKS if way in set(table["way"])]
    key = [(way, LOOKS[way] | {"linestyle": ""}) for way in there]
    key.append(("never promoted", {"color": style.FAINT, "marker": "o", "linestyle": "", **HOLLOW}))
    alike = table[(table["data"] == last["data"]) & (table["k"] == last["k"])]
    sgemm = alike[alike["way"] == SGEMM]["rms"].iloc[0]
    how = f"promoted every {last['promote']}" if last["promote"] else "never promoted"
    caption = (
        f"The last: {last['way']}, {WORDS[last['data']]}, K = {last['k']}, {how}: "
        f"{last['rms']:.2g} in root mean squares, {last['rms'] / sgemm:.2g} times SGEMM's "
        f"{sgemm:.2g}. Its largest error: {last['largest']:.2g}."
    )
    fig = page("Errors that were tried, over K", HEIGHT + 0.75, caption, key=key)
    ax = fig.add_axes_at(LEFT, fig.top + 0.1, WIDTH - LEFT - MARGIN, HEIGHT, gid="tried")
    for row in table.itertuples():
        hollow = HOLLOW if row.way in WAYS and not row.promote else {}
        ax.plot(row.k, row.rms, **LOOKS[row.way], **hollow, markersize=7, linestyle="")
    ring = {"markersize": 15, "markerfacecolor": "none", "markeredgewidth": 1.4}
    ax.plot(last["k"], last["rms"], "o", color=style.INK, gid="last", **ring)
    limits = min(1e-9, table["rms"].min() / 2), max(1e-5, 2 * table["rms"].max())
    ax.set(xscale="log", yscale="log", xlim=(DEPTHS[0] / 1.4, DEPTH * 1.4), ylim=limits)
    ax.set(xlabel="K", ylabel="error / |A| |B|")
    size_ticks(ax, [k for k in DEPTHS if k <= DEPTH])
    ax.yaxis.set_major_formatter(_power)
    ax.grid(axis="y")
    return fig


HOLLOW = {"markerfacecolor": style.GROUND}


def _power(value: float, _=None) -> str:
    """A tick, such as 1e-7."""
    return f"{value:.0e}".replace("e-0", "e-")
