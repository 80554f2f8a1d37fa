"""Shares of cuBLAS: of all rungs beside what others report, step by step, and shape by shape."""

from statistics import geometric_mean
from typing import Any

import pandas

from gemmlab.plots import style
from gemmlab.plots.charts import at_edge, bar, lanes_of, line_of_cublas, note, rows_of
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.speeds import at_shape, measured
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, percent

BAR, LANE, GAP = 0.2, 0.14, 0.1  # inches: a bar, a row of markers above it, between rungs
SIZE = 6.5  # of a marker, in points
LOOKS = (  # of sources: none has the colour of a matrix or a rung, two of one colour differ in form
    ("D", style.ORANGE), ("o", style.SKY), ("s", style.PURPLE), ("^", style.FAINT),
    ("v", style.BLACK), ("P", style.SKY), ("X", style.PURPLE),
)  # fmt: skip
ROW, HEAD = 0.2, 0.3  # inches: a shape, the name of a group
COLUMN_GAP = 0.3


@styled
def shares(
    table: pandas.DataFrame, sources: pandas.DataFrame, shape: tuple[int, int, int]
) -> Picture:
    """The share of cuBLAS that every rung reaches at one shape (M, N, K), beside its sources.

    table: as for gflops. sources: rung, source and pct_cublas, as published.shares() gives; those
    of rungs that the table does not have are left out. Bars are ours, markers are the sources'.
    """
    rows = measured(table, "shares")
    chosen = at_shape(rows, shape).set_index("kernel")
    rungs = [name for name in style.ladder_order(rows["kernel"]) if name != "cublas"]
    there = [name for name in rungs if name in chosen.index]
    names = list(dict.fromkeys(sources["source"]))
    sources = sources[sources["rung"].isin(rungs)]
    looks: dict[str, style.Look] = {
        name: {"color": colour, "marker": marker, "markersize": SIZE, "linestyle": "",
               "markerfacecolor": style.tint(colour, 0.35)}
        for name, (marker, colour) in zip(names, LOOKS, strict=False)
        if name in set(sources["source"])
    }  # fmt: skip
    left = MARGIN + style.widest(rungs) + 0.12
    right = MARGIN + style.widest(map(percent, chosen["pct_cublas"][there]), NORMAL, "bold") + 0.1
    most = 1.02 * max(100.0, chosen["pct_cublas"][there].max(), sources["pct_cublas"].max())
    apart = (SIZE / 72 + 0.02) * most / (WIDTH - left - right)  # in percent
    height = GAP
    lanes: dict[int, int] = {}  # of the sources
    bars = {}  # where each rung's bar begins, below the markers of its sources
    for name in rungs:
        reported = sources[sources["rung"] == name]["pct_cublas"].sort_values()
        of_rung = lanes_of({at: (share, share + apart) for at, share in reported.items()})
        lanes |= of_rung
        bars[name] = height + (1 + max(of_rung.values(), default=-1)) * LANE
        height = bars[name] + BAR + GAP
    ours = f"Bars: this ladder on {chosen['gpu'].iloc[0]}, {style.shape_label(*shape)}."
    key = [(ours + (" Markers:" if looks else ""), None), *looks.items()]
    caption = _caption(chosen, rungs, there, sources, shape)
    footer = style.provenance(chosen)
    fig = page("Share of cuBLAS, rung by rung", 0.24 + height + 0.55, caption, footer, key=key)
    size = (WIDTH - left - right, height)
    ax = fig.add_axes_at(left, fig.top + 0.24, *size)
    ax.set(xlim=(0, most), ylim=(height, 0), xlabel="share of cuBLAS, %")
    for row in sources.itertuples():
        y = bars[row.rung] - (lanes[row.Index] + 0.5) * LANE
        ax.plot(row.pct_cublas, y, zorder=3, **looks[row.source])
    for name in rungs:
        middle = bars[name] + BAR / 2
        if name not in chosen.index:
            note(ax, "not measured", (0, middle), (6, 0), va="center", color=style.FAINT)
            continue
        share, colour = chosen["pct_cublas"][name], style.kernel_style(name)["color"]
        ax.barh(middle, share, BAR, **swatch(colour))
        at_edge(ax, middle - 0.5, percent(share), weight="bold")
    line_of_cublas(ax)
    note(ax, "cuBLAS", (100, 0), (0, 4), size=NORMAL, ha="center")
    ax.set_yticks([bars[name] + BAR / 2 for name in rungs], rungs)
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    ax.grid(axis="x")
    return fig


def _caption(
    chosen: pandas.DataFrame, rungs: list[str], there: list[str],
    sources: pandas.DataFrame, shape: tuple[int, int, int],
) -> str:  # fmt: skip
    best = chosen["pct_cublas"][there].idxmax()
    where, share = style.shape_label(*shape), percent(chosen["pct_cublas"][best])
    words = f"Share of cuBLAS: of the rungs shown, {best} is the fastest at {where} with {share}."
    if len(there) == 1:
        words = f"Share of cuBLAS: {best} reaches {share} at {where}."
    if len(sources):
        words += (
            " Markers are what published ladders report for the same step, each against cuBLAS "
            "on its own GPU and at its own shape, M×N×K, so they compare steps, not kernels."
        )
    if missing := [name for name in rungs if name not in there]:
        words += f" Not measured at this shape: {style.listed(missing)}."
    if bare := [name for name in rungs if name not in set(sources["rung"])]:
        words += f" No source for {style.listed(bare)}."
    return words


# ---- step by step --------------------------------------------------------------------------------

RATE, SHARE = "TFLOP/s", "% of cuBLAS"
QUARTILES = ["from", "to"]  # of the share
HEADS = {RATE: 0.65, "points": 0.6}  # of the numbers, and their widths in inches
WORDS, STEP_GAP = 3.6, 0.14  # inches: what a step is called, the room between rows
ROOM = 0.06  # of the axis left free at either end, as a share of what is drawn
FASTER, SLOWER = "faster than the step before", "slower"
NOT_TAKEN = "one thing changed at the end, not kept"
STEP_LOOKS = {  # what came of a step
    FASTER: swatch(style.SKY),
    SLOWER: swatch(style.ORANGE),
    NOT_TAKEN: swatch(style.FAINT, hatch="///"),
}
LINE_OF_CUBLAS: style.Look = {"color": style.BLACK, "linewidth": 1.2, "linestyle": "--"}
LINE_OF_QUARTILES: style.Look = {"color": style.BLACK, "linewidth": 1.1}


@styled
def path(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """What each step changed, in points of cuBLAS's speed; below its name the prediction.

    table: as gl.path() gives. A bar goes from the share of cuBLAS of the step that was kept before
    to its own; where the table has columns from and to, a line over its end goes from one to the
    other. Hatched bars are roads not taken: each changes one thing in the last step kept, so their
    bars begin there. The dashed line is cuBLAS. caption: instead of the sentence about all steps.
    """
    rows = [
        (row, style.wrap(row["step"], WORDS, NORMAL), style.wrap(row["predicted"], WORDS, SMALL))
        for row in _with_differences(table).to_dict("records")
    ]
    heights = [
        max(BAR, (len(name) * NORMAL + len(guess) * SMALL) * LINE / 72) + STEP_GAP
        for _, name, guess in rows
    ]
    quartiles = QUARTILES if set(QUARTILES) <= set(table) else []
    came = {row["came"] for row, *_ in rows}
    key = [(name, look) for name, look in STEP_LOOKS.items() if name in came]
    key.append(("cuBLAS", LINE_OF_CUBLAS))
    if quartiles:
        key.append(("quartiles", LINE_OF_QUARTILES))
    height = sum(heights)
    one_step = len(table) > 1 and table["taken"].sum() == 1  # the others each change it
    title = "One change at a time" if one_step else "What each step brings"
    title = f"{title}, in points of cuBLAS's speed"
    caption = caption or _path_caption(table, one_step)
    fig = page(title, 0.25 + height + 0.55, caption, style.provenance(table), key=key)
    left, top, right = MARGIN + WORDS + 0.15, fig.top + 0.25, MARGIN + sum(HEADS.values())
    ax = fig.add_axes_at(left, top, WIDTH - left - right, height, ylim=(height, 0))
    ends = table[[SHARE, *quartiles]]
    low, high = min(ends.min(axis=None), 100.0), max(ends.max(axis=None), 100.0)
    spare = ROOM * (high - low or 1.0)
    ax.set(xlim=(low - spare, high + spare), xlabel=SHARE, yticks=[])
    ax.axvline(100, **LINE_OF_CUBLAS)
    ax.grid(axis="x")
    edges = WIDTH - MARGIN - HEADS["points"], WIDTH - MARGIN  # of the numbers, on the right
    for head, x in zip(HEADS, edges, strict=True):
        fig.text_at(x, fig.top, head, size=SMALL, ha="right")
    y = 0.0
    end = None  # of the step kept before: its share, how far down it is
    for (row, name, guess), tall in zip(rows, heights, strict=True):
        middle, change = y + tall / 2, row["change"]
        if pandas.isna(change):
            at = [middle - BAR / 2, middle + BAR / 2]
            ax.plot([row[SHARE]] * 2, at, color=style.BLACK, linewidth=1.6)
        else:
            ax.barh(middle, change, BAR, left=row["before"], zorder=2, **STEP_LOOKS[row["came"]])
        if quartiles:
            ax.plot([row[name] for name in quartiles], [middle] * 2, zorder=3, **LINE_OF_QUARTILES)
        if end and end[0] == row["before"]:
            look: style.Look = {"color": style.FAINT, "linewidth": 0.7, "linestyle": ":"}
            ax.plot([end[0]] * 2, [end[1], middle], zorder=1, **look)
        if row["taken"]:
            end = row[SHARE], middle
        numbers = style.digits(row[RATE]), "" if pandas.isna(change) else _signed(change)
        for value, x in zip(numbers, edges, strict=True):
            fig.text_at(x, top + middle, value, size=NORMAL, ha="right", va="center")
        start = top + y + STEP_GAP / 2
        fig.text_at(MARGIN, start, "\n".join(name), size=NORMAL, linespacing=LINE)
        below, look = start + len(name) * NORMAL * LINE / 72, {"color": style.FAINT}
        fig.text_at(MARGIN, below, "\n".join(guess), size=SMALL, linespacing=LINE, **look)
        y += tall
    return fig


def _with_differences(table: pandas.DataFrame) -> pandas.DataFrame:
    """The rows, with `before`: the share to compare it with, `change` from it, and what `came`.

    Of the first step they are not known.
    """
    taken = table["taken"].astype(bool)
    kept = table[SHARE].where(taken).ffill()  # the share of the last step kept so far
    before = kept.shift().where(taken, kept.iloc[-1])
    change = table[SHARE] - before
    came = change.map(lambda points: SLOWER if points < 0 else FASTER).where(taken, NOT_TAKEN)
    return table.assign(before=before, change=change, came=came.where(change.notna()))


def _signed(change: float) -> str:
    return f"{change:+.1f}".replace("-", "−") if round(change, 1) else "0.0"


def _path_caption(table: pandas.DataFrame, one_step: bool) -> str:
    taken = table[table["taken"].astype(bool)]
    first, last, lost = taken.iloc[0], taken.iloc[-1], len(table) - len(taken)
    if one_step:
        points = table.loc[~table["taken"].astype(bool), SHARE] - first[SHARE]
        return (
            f"{style.plural(lost, 'change')}, each alone: from {_signed(points.min())} to "
            f"{_signed(points.max())} points of cuBLAS's speed, measured beside it, where "
            f"{style.rate(1e3 * first[RATE])} are {first[SHARE]:.1f} %."
        )
    words = (
        f"{style.plural(len(taken) - 1, 'step')} change the speed by "
        f"{_signed(last[SHARE] - first[SHARE])} points of cuBLAS's, each measured beside it; "
        f"together {style.rate(1e3 * first[RATE])} become {style.rate(1e3 * last[RATE])}"
    )
    return words + (f"; and {style.plural(lost, 'road')} not taken." if lost else ".")


# ---- over shapes of all kinds --------------------------------------------------------------------


def _swatch_of(kernel: str) -> dict[str, Any]:
    look = style.kernel_style(kernel)
    return swatch(look["color"], hatch=look["hatch"])


@styled
def shape_shares(table: pandas.DataFrame) -> Picture:
    """The share of cuBLAS at every shape, on a linear scale, in groups; bars have rungs' colours.

    table: a row for each shape, as gl.chosen_shares() gives; its groups stand in their order
    there.
    """
    groups = [(name, list(rows.itertuples())) for name, rows in table.groupby("group", sort=False)]
    heights = [HEAD + ROW * len(rows) for _, rows in groups]
    cuts = range(1, max(2, len(groups)))
    cut = min(cuts, key=lambda at: max(sum(heights[:at]), sum(heights[at:])))
    height = max(sum(heights[:cut]), sum(heights[cut:]))
    means = [
        f"{group} {percent(geometric_mean(rows['pct_cublas']))}"
        for group, rows in table.groupby("group", sort=False)
    ]
    least = next(table.sort_values("pct_cublas").itertuples())
    types = style.listed(list(dict.fromkeys(table["dtype"])))
    caption = (
        f"The speed of what gl.matmul picks in {types} at each shape, M×N×K, as a share of "
        f"cuBLAS's; geometric means: {style.listed(means)}. The least is "
        f"{percent(least.pct_cublas)}, at {_label(least)} with {least.kernel}."
    )
    footer = style.provenance(table)
    key = [(name, _swatch_of(name)) for name in style.ladder_order(table["kernel"])]
    fig = page("Share of cuBLAS, shape by shape", height + 0.55, caption, footer, key=key)
    left = style.widest(map(_label, table.itertuples()), SMALL) + 0.1
    right = style.text_width(percent(table["pct_cublas"].max()), SMALL, "bold") + 0.1
    columns = [groups[:cut], groups[cut:]] if groups[cut:] else [groups]
    wide = (WIDTH - 2 * MARGIN - COLUMN_GAP * (len(columns) - 1)) / len(columns)
    most = max(100.0, table["pct_cublas"].max()) * 1.03
    for at, column in enumerate(columns):
        x, y = MARGIN + at * (wide + COLUMN_GAP), fig.top
        for group, chosen in column:
            fig.text_at(x, y + 0.08, group, size=NORMAL, weight="bold")
            ax = rows_of(
                fig, [_label(row) for row in chosen], y + HEAD, ROW, left=x + left,
                right=x + wide - right, size=SMALL, xlim=(0, most),
            )  # fmt: skip
            line_of_cublas(ax)
            for place, row in enumerate(chosen):
                bar(ax, place, 0, row.pct_cublas, **_swatch_of(row.kernel))
                weight = "bold" if row.pct_cublas >= 100 else "normal"
                at_edge(ax, place, percent(row.pct_cublas), size=SMALL, weight=weight)
            ax.tick_params(axis="x", length=0, labelbottom=False)
            y += HEAD + ROW * len(chosen)
        ax.set_xlabel("share of cuBLAS, %; dashed: cuBLAS")
        ax.tick_params(axis="x", length=3.5, labelbottom=True)
    return fig


def _label(row: pandas.Series) -> str:
    sizes = f"{row.m}³" if row.m == row.n == row.k else f"{row.m}×{row.n}×{row.k}"
    return sizes if row.batch == 1 else f"{row.batch:,} × {sizes}"
