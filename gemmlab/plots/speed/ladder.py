"""The ladder so far: all its rungs over sizes, and beside what others report of the same steps."""

from __future__ import annotations

from collections.abc import Sequence

import pandas
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.speed.speed import at_shape, gflops, measured
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH, percent, rate, styled

SOURCES = ("rung", "source", "pct_cublas")
BAR, LANE, GAP = 0.2, 0.14, 0.1  # inches: a bar, a row of markers above it, between rungs
SIZE = 6.5  # of a marker, in points
KEY_COLUMNS = 2
LOOKS = (  # of sources: none has the colour of a matrix or a rung, two of one colour differ in form
    ("D", style.ORANGE), ("o", style.SKY), ("s", style.PURPLE), ("^", style.FAINT),
    ("v", style.BLACK), ("P", style.SKY), ("X", style.PURPLE),
)  # fmt: skip


def climb(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """Speed over the size of square products, on a linear scale: how far apart the rungs are.

    table: as for gflops. Raises TypeError and ValueError for anything else, also where it has no
    square product.
    """
    rows = measured(table, "climb")
    rows = rows[(rows["m"] == rows["n"]) & (rows["n"] == rows["k"])]
    if rows.empty:
        raise ValueError("climb: the table has no square product.")
    return gflops(rows, scale="linear", caption=caption or _climb_caption(rows))


def _climb_caption(rows: pandas.DataFrame) -> str:
    """Who is fastest at the largest size that all have, and who has no number where."""
    names = style.ladder_order(rows["kernel"])
    sizes = {name: set(rows[rows["kernel"] == name]["m"]) for name in names}
    every = set().union(*sizes.values())
    words = "Square products of all rungs so far, on a linear scale."
    if common := set.intersection(*sizes.values()):
        size = max(common)
        at = rows[rows["m"] == size].set_index("kernel")["gflops"]
        parts = [f"{style.kernel_label(name)} {rate(at[name])}" for name in names]
        words += f" At M=N=K={size}: {style.listed(parts)}."
    for name in names:
        if missing := sorted(every - sizes[name]):
            words += f" {name} has no record at {style.listed([str(size) for size in missing])}."
    return words


@styled
def shares(
    table: pandas.DataFrame,
    sources: pandas.DataFrame,
    shape: tuple[int, int, int] = (4096, 4096, 4096),
    *,
    caption: str | None = None,
) -> Picture:
    """The share of cuBLAS that every rung reaches at one shape (M, N, K), beside its sources.

    table: as for gflops. sources: rung, source and pct_cublas, as published.shares() gives; those
    of rungs that the table does not have are left out. Bars are ours, markers are the sources'.

    Raises TypeError and ValueError for anything else, also where no kernel was measured at the
    shape, and for more sources than there are markers.
    """
    rows = measured(table, "shares")
    style.require_table(sources, SOURCES, "shares")
    own = at_shape(rows, shape).set_index("kernel")
    rungs = [name for name in style.ladder_order(rows["kernel"]) if name != "cublas"]
    there = [name for name in rungs if name in own.index]
    if not there:
        raise ValueError(f"shares: no kernel was measured at {style.shape_label(*shape)}.")
    names = list(dict.fromkeys(sources["source"]))
    if len(names) > len(LOOKS):
        raise ValueError(f"shares has markers for {len(LOOKS)} sources, not for {len(names)}.")
    sources = sources[sources["rung"].isin(rungs)]
    shown = set(sources["source"])
    looks = {name: look for name, look in zip(names, LOOKS, strict=False) if name in shown}
    keys = -(-len(looks) // KEY_COLUMNS)
    left = MARGIN + max(style.text_width(name, NORMAL) for name in rungs) + 0.12
    labels = [percent(share) for share in own["pct_cublas"][there]]
    right = MARGIN + max(style.text_width(label, NORMAL, "bold") for label in labels) + 0.1
    width = WIDTH - left - right
    most = max(100.0, own["pct_cublas"][there].max(), sources["pct_cublas"].max())
    inch = width / (most * 1.02)  # of one percent
    lanes = {name: _lanes(sources[sources["rung"] == name], inch) for name in rungs}
    tops, height = {}, GAP
    for name in rungs:
        tops[name] = height
        height += (1 + max(lanes[name], default=-1)) * LANE + BAR + GAP
    head = 0.42 + (keys + 1) * 0.22 + 0.24
    if caption is None:
        caption = _caption(own, rungs, there, sources, shape)
    fig = style.page(head + height + 0.55, caption, style.provenance(own))
    fig.text_at(MARGIN, 0.12, "Share of cuBLAS, rung by rung", size=style.LARGE, weight="bold")
    _draw_key(fig, looks, shape, own["gpu"].iloc[0])
    ax = fig.add_axes_at(left, head, width, height, gid="shares")
    for name in rungs:
        given = sources[sources["rung"] == name]
        _draw_sources(ax, given, lanes[name], tops[name], looks)
        y = tops[name] + (1 + max(lanes[name], default=-1)) * LANE
        _draw_own(ax, name, own["pct_cublas"].get(name), y)
    ax.axvline(100, color=style.BLACK, linestyle="--", linewidth=1.4, zorder=1.5)
    ax.annotate(
        "cuBLAS", (100, 0), (0, 4), textcoords="offset points", size=NORMAL, ha="center"
    )  # fmt: skip
    ax.set(xlim=(0, most * 1.02), ylim=(height, 0), xlabel="share of cuBLAS, %")
    ends = [tops[name] + (1 + max(lanes[name], default=-1)) * LANE + BAR for name in rungs]
    ax.set_yticks([end - BAR / 2 for end in ends], rungs)
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    ax.grid(axis="x")
    return fig


def _lanes(given: pandas.DataFrame, inch: float) -> list[int]:
    """A lane for each source of one rung, 0 the lowest, so that no marker lies on another."""
    ends: list[float] = []  # where the last marker of each lane ends
    wide = SIZE / 72 + 0.02
    places = [float(share) * inch for share in given["pct_cublas"]]
    found = {}
    for at in sorted(range(len(places)), key=lambda at: places[at]):
        free = (lane for lane, end in enumerate(ends) if places[at] - wide / 2 >= end)
        lane = next(free, len(ends))
        if lane == len(ends):
            ends.append(0.0)
        ends[lane] = places[at] + wide / 2
        found[at] = lane
    return [found[at] for at in range(len(places))]


def _draw_sources(
    ax: Axes, given: pandas.DataFrame, lanes: Sequence[int], top: float, looks: dict
) -> None:
    deepest = max(lanes, default=-1)
    for row, lane in zip(given.itertuples(), lanes, strict=True):
        marker, colour = looks[row.source]
        ax.plot(
            row.pct_cublas, top + (deepest - lane + 0.5) * LANE, marker, markersize=SIZE,
            markerfacecolor=style.tint(colour, 0.35), markeredgecolor=colour, zorder=3,
            gid=f"source {row.rung} {row.source}",
        )  # fmt: skip


def _draw_own(ax: Axes, name: str, share: float | None, top: float) -> None:
    """The rung's bar, and its number at the right edge, in line for all rungs."""
    words, weight, colour = "not measured", "normal", style.kernel_style(name)["color"]
    if share is not None:
        ax.barh(
            top + BAR / 2, share, BAR, facecolor=style.tint(colour, 0.45), edgecolor=colour,
            gid=f"bar {name}",
        )  # fmt: skip
        words, weight = percent(share), "bold"
    at_edge = share is not None
    ax.annotate(
        words, (1 if at_edge else 0, top + BAR / 2), (6, 0),
        xycoords=("axes fraction", "data"), textcoords="offset points", va="center",
        size=NORMAL if at_edge else SMALL, weight=weight,
        color=style.INK if at_edge else style.FAINT,
    )  # fmt: skip


def _draw_key(fig: Picture, looks: dict, shape: Sequence[int], gpu: str) -> None:
    across, down = fig.get_size_inches()
    ours = f"Bars: this ladder on {gpu}, {style.shape_label(*shape)}."
    fig.text_at(MARGIN, 0.42, ours + (" Markers:" if looks else ""), size=NORMAL)
    pitch = (WIDTH - 2 * MARGIN) / KEY_COLUMNS
    for at, (name, (marker, colour)) in enumerate(looks.items()):
        x = MARGIN + at % KEY_COLUMNS * pitch
        y = 0.64 + at // KEY_COLUMNS * 0.22
        mark = Line2D(
            [(x + 0.08) / across], [1 - (y + 0.07) / down], marker=marker, markersize=SIZE,
            markerfacecolor=style.tint(colour, 0.35), markeredgecolor=colour, linestyle="",
        )  # fmt: skip
        fig.add_artist(mark)
        fig.text_at(x + 0.22, y, name, size=NORMAL)


def _caption(own, rungs, there, sources, shape) -> str:
    best = max(there, key=lambda name: own["pct_cublas"][name])
    where, share = style.shape_label(*shape), percent(own["pct_cublas"][best])
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
