"""Figures of this lesson: errors of 8-bit floats, their scales, their speed."""

import pandas
from matplotlib.axes import Axes

from gemmlab.lessons.fp8 import tables
from gemmlab.lessons.fp8.errors import FEW
from gemmlab.lessons.fp8.tables import Reach, Region
from gemmlab.lessons.naive.figures import bars
from gemmlab.lessons.warp_specialized import turns as traced
from gemmlab.lessons.warp_specialized.turns import Turns
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, plate, product_axes, write
from gemmlab.plots.charts import bar, note, rows_of, size_ticks
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import ARRAYS, MARGIN, NORMAL, TILE_COLOURS, WIDTH
from gemmlab.records.runs import LARGE

WORDS = {"tensors": "per-tensor", "rows": "per-row", "blocks": "block"}  # of scales
MARKERS = {"tensors": "s", "rows": "D", "blocks": "o"}

# ---- errors --------------------------------------------------------------------------------------

PROMOTIONS = {128: style.PURPLE, 256: style.SKY, 512: style.ORANGE, 0: style.BLACK}
LEFT, TOP, HEIGHT = 0.8, 0.33, 2.8  # inches
PANELS = (
    ("sum_error", "The sums alone", (5e-7, 1e-4)), ("whole_error", "Quantizing too", (1e-4, 5e-2)),
)  # fmt: skip
HOLLOW = {"markerfacecolor": style.GROUND}  # where the data are uneven


@styled
def fp8_errors_tried(table: pandas.DataFrame) -> Picture:
    """The errors of products that were tried, over K; a ring around the last of them.

    table: a row for each, in their order, with the columns data, types, scales, promote, k,
    sum_error, whole_error. A colour for each promotion interval, a marker for each kind of scales.
    """
    key = [
        (_every(promote), {"color": colour, "linewidth": 2.5})
        for promote, colour in PROMOTIONS.items()
    ]
    sign = {"color": style.FAINT, "linestyle": ""}
    key += [(WORDS[kind], {"marker": marker, **sign}) for kind, marker in MARKERS.items()]
    key.append(("uneven data", {"marker": "p", **sign, **HOLLOW}))
    title = "What was tried so far: errors over K"
    last = table.iloc[-1]
    how = f"promoted {_every(last['promote'])}{' products' if last['promote'] else ''}"
    caption = (
        f"The last: {last['types']}, {WORDS[last['scales']]} scales, {last['data']} data, {how}, "
        f"K = {last['k']}. Beside float64, as shares of |A| |B|: the sums are off by "
        f"{last['sum_error']:.2g}, all of it, quantizing included, by {last['whole_error']:.2g} "
        "(root mean squares)."
    )
    fig = page(title, TOP + HEIGHT + 0.65, caption, key=key)
    wide = (WIDTH - 2 * LEFT - 0.4 - MARGIN) / 2
    for at, (error, words, (low, high)) in enumerate(PANELS):
        x = LEFT + at * (wide + 0.9)
        ax = fig.add_axes_at(x, fig.top + TOP, wide, HEIGHT, gid=error)
        low, high = min(low, 0.8 * table[error].min()), max(high, 1.25 * table[error].max())
        for row in table.itertuples():
            look = {"color": PROMOTIONS[row.promote], "marker": MARKERS[row.scales]}
            hollow = HOLLOW if row.data == "uneven" else {}
            ax.plot(row.k, getattr(row, error), **look, **hollow)
        look = {"markersize": 14, "markerfacecolor": "none", "markeredgewidth": 1.4}
        ax.plot(last["k"], last[error], "o", color=style.INK, gid="last", **look)
        ax.set(xscale="log", yscale="log", xlabel="K", ylabel="error / |A| |B|")
        ax.set(xlim=(0.8 * FEW[0], 1.25 * FEW[-1]), ylim=(low, high))
        size_ticks(ax, FEW)
        powers = [power for power in range(-8, 0) if low <= 10.0**power <= high]
        ax.set_yticks([10.0**power for power in powers], [f"1e{power}" for power in powers])
        ax.minorticks_off()
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
        key.append((f"shares a scale of {name}", [strong, second]))
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
    for at, ((top, bottom), (left, right)) in enumerate(regions):
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

    kernel: as turns.of(trace) gives, of rung 19, in which each stage is promoted. Left to right is
    the order in which they were executed, not time.
    """
    kinds = (traced.STARTS, traced.ARRIVES)  # a stage is given back when its products are added
    events = [(turn.kind, turn.step) for turn in kernel.roles[ROLE] if turn.kind in kinds]
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
        f"{style.plural(count, 'interval')}, coloured in turn. A sum is added to the totals while "
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


@styled
def gain(table: pandas.DataFrame) -> Picture:
    """TFLOP/s of 18 in BF16, of cuBLASLt and of 19 with per-tensor scales, bars for each shape.

    table: as tables.speeds gives.
    """
    ours, bf16 = (table[table["scales"] == scales] for scales in ("tensors", tables.BF16))
    shapes = [f"{m}×{n}×{k}" for m, n, k in zip(ours["m"], ours["n"], ours["k"], strict=True)]
    factors = (ours["tflops"].to_numpy() / bf16["tflops"].to_numpy()).tolist()
    every = {  # name -> speeds, colour
        "18_persistent in BF16": (bf16["tflops"], style.kernel_style("18_persistent")["color"]),
        "cuBLASLt in FP8": (ours["cublas_tflops"], style.FAINT),
        "19_fp8, per-tensor scales": (ours["tflops"], style.kernel_style("19_fp8")["color"]),
    }
    caption = (
        f"19_fp8 is {min(factors):.2f} to {max(factors):.2f} times as fast as 18_persistent in "
        f"BF16, {factors[0]:.2f} times at {shapes[0]}, and there it reaches "
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
    ax.set_xticks(range(len(shapes)), shapes)
    ax.tick_params(axis="x", length=0)
    return fig
