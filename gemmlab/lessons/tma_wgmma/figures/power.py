"""What a limit of power leaves of a speed: in a burst and sustained, with clock and energy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled

NAMES = {"float16": "FP16", "bfloat16": "BF16", "float8_e4m3": "FP8 E4M3"}
WORDS = {"random": "random numbers", "zeros": "zeros"}
LOADS = {"burst": "in a burst", "sustained": "sustained"}
PANELS = (  # column, words, the share of the page
    ("tflops", "TFLOP/s", 0.46),
    ("sm_clock_mhz", "SM clock, MHz", 0.28),
    ("joules_per_tflop", "joules a TFLOP", 0.26),
)
ROW, HEAD, KEY, GAP = 0.3, 0.42, 0.27, 0.22  # inches
COLUMNS = ("data", "load", "tflops", "sm_clock_mhz", "joules_per_tflop", "gpu", "recorded")


@dataclass(frozen=True)
class _Look:
    words: str
    colour: str
    marker: str
    filled: bool = True
    size: float = 6.0

    def line(self, **where) -> dict:
        face = self.colour if self.filled else style.GROUND
        return {
            "color": self.colour, "marker": self.marker, "markersize": self.size,
            "markerfacecolor": face, "linestyle": "", **where,
        }  # fmt: skip


@styled
def power(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """Kernels beside cuBLAS under each load: their speed, the clock of the SMs, their energy.

    table: as records.experiments.power.EVIDENCE.read() gives. A row of the figure for each type,
    data and load. Raises TypeError and ValueError for anything else.
    """
    style.require_table(table, ("kernel", "dtype", *COLUMNS), "power")
    kernels = sorted(set(table["kernel"]), key=lambda name: (name != "cublas", name))
    looks = {}
    for name in kernels:
        own = style.kernel_style(name)
        size = 9.0 if own["marker"] == "*" else 6.0
        looks[name] = _Look(style.kernel_label(name), own["color"], own["marker"], size=size)
    rows = [
        (f"{NAMES[dtype]}, {data}, {LOADS[load]}", own.set_index("kernel"))
        for (dtype, data, load), own in table.groupby(["dtype", "data", "load"], sort=False)
    ]
    return _figure(
        "What power does to a comparison", rows, looks, caption or _of_kernels(table),
        style.provenance(table),
    )  # fmt: skip


@styled
def wgmma_ceilings(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """Ways to start wgmma, nothing else beside it: their speed in a burst and sustained.

    table: as records.experiments.wgmma_ceilings.EVIDENCE.read() gives. Raises TypeError and
    ValueError for anything else.
    """
    style.require_table(table, ("dtype", "a_from", "width", *COLUMNS), "wgmma_ceilings")
    looks = {
        "burst": _Look("in a burst, after a rest", style.PURPLE, "o", filled=False),
        "sustained": _Look("sustained", style.PURPLE, "o"),
    }
    rows = [
        (f"{NAMES[dtype]}, A from {place}, {width} columns, {data}", own.set_index("load"))
        for (dtype, place, width, data), own in table.groupby(
            ["dtype", "a_from", "width", "data"], sort=False
        )
    ]
    return _figure(
        "The ceilings of wgmma: nothing but the instruction", rows, looks,
        caption or _of_ceilings(table), style.provenance(table),
    )  # fmt: skip


Rows = Sequence[tuple[str, pandas.DataFrame]]


def _figure(title: str, rows: Rows, looks: dict[str, _Look], caption: str, footer: str) -> Picture:
    top, height = HEAD + KEY, ROW * len(rows)
    fig = style.page(top + height + 0.55, caption, footer)
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    _draw_key(fig, looks)
    left = MARGIN + max(style.text_width(words, SMALL) for words, _ in rows) + 0.12
    for at, (words, _) in enumerate(rows):
        middle = top + ROW * (at + 0.5)
        fig.text_at(left - 0.12, middle, words, size=SMALL, ha="right", va="center")
    room = WIDTH - MARGIN - 0.1 - left - GAP * (len(PANELS) - 1)
    for column, words, share in PANELS:
        ax = fig.add_axes_at(left, top, room * share, height, gid=column)
        _draw(ax, rows, looks, column)
        ax.set_xlabel(words)
        left += room * share + GAP
    return fig


def _draw(ax: Axes, rows: Rows, looks: dict[str, _Look], column: str) -> None:
    found = [own[column].dropna() for _, own in rows]
    numbers = [float(one) for own in found for one in own]
    low, high = min(numbers), max(numbers)
    room = 0.06 * (high - low) or 0.06 * high
    for at, own in enumerate(found):
        if at % 2 == 0:
            ax.axhspan(at - 0.5, at + 0.5, color=style.tint(style.FAINT, 0.06), linewidth=0)
        for name, value in own.items():
            ax.plot(value, at, **looks[name].line(gid=f"{name} {at}", zorder=3))
    ax.set(xlim=(low - room, high + room), ylim=(len(rows) - 0.5, -0.5), yticks=[])
    ax.locator_params(axis="x", nbins=6 if column == "tflops" else 4)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x")


def _draw_key(fig: Picture, looks: dict[str, _Look]) -> None:
    across, down = fig.get_size_inches()
    x = MARGIN
    for look in looks.values():
        place = [(x + 0.08) / across], [1 - (HEAD + 0.07) / down]
        fig.add_artist(Line2D(*place, **look.line()))
        fig.text_at(x + 0.2, HEAD, look.words, size=NORMAL)
        x += 0.5 + style.text_width(look.words, NORMAL)


# ---- captions ------------------------------------------------------------------------------------


def _of_kernels(table: pandas.DataFrame) -> str:
    """How far one kernel's own speeds lie apart, and the shares of the last rung."""
    first = table.iloc[0]
    own = table[(table.kernel == "cublas") & (table.dtype == first["dtype"])]
    low, high = own["tflops"].min(), own["tflops"].max()
    last = max(set(table["kernel"]) - {"cublas"})
    speeds = table.pivot_table(index=["dtype", "data", "load"], columns="kernel", values="tflops")
    shares = 100 * speeds[last] / speeds["cublas"]
    shape = f"{first['m']}×{first['n']}×{first['k']}"
    return (
        f"Products of {shape}, launched after a rest and without end. cuBLAS alone reaches "
        f"{low:.0f} to {high:.0f} TFLOP/s in {NAMES[first['dtype']]}, by its data and its load; of "
        f"cuBLAS under the same load, {last} reaches {shares.min():.1f} to {shares.max():.1f} %. "
        "The clock is what the SMs counted."
    )


def _of_ceilings(table: pandas.DataFrame) -> str:
    """What sustained work costs, and what zeros save."""
    first = table[["dtype", "a_from", "width"]].iloc[0]
    own = table[(table[first.index] == first).all(axis=1)].set_index(["data", "load"])["tflops"]
    told = ", ".join(
        f"{own[data, load]:.0f} {LOADS[load]} on {WORDS[data]}" for data, load in own.index
    )
    return (
        f"{NAMES[first['dtype']]} with A from {first['a_from']} and {first['width']} columns: "
        f"{told}, in TFLOP/s. Two warpgroups on each SM, their operands there from the start; an "
        "operation is a multiplication or an addition. The clock is what the SMs counted."
    )
