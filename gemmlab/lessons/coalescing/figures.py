"""The traffic of every source line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.plots.cells import plate, require_trace
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.rows import note
from gemmlab.plots.style import MARGIN, NORMAL, WIDTH

BAR, PAD = 0.22, 0.16  # inches: of a bar, between groups of them
QUANTITIES = {
    "sectors_per_request": "sectors per request",
    "sectors": "sectors",
    "requests": "requests",
    "bytes_asked": "bytes asked for",
}
MARK = {
    "marker": "D", "markersize": 7, "markerfacecolor": "white", "color": "black", "linestyle": "",
}  # fmt: skip


@dataclass(frozen=True)
class _Bar:
    trace: int  # which of the traces
    access: str  # "A load"
    line: int
    value: float


@styled
def traffic(
    *traces: Trace,
    quantity: str = "sectors_per_request",
    predicted: Mapping[str, float] | None = None,
) -> Picture:
    """What loads and stores of global memory cost, one bar for each trace and source line.

    quantity: one of the columns of trace.lines in QUANTITIES. predicted: what the reader expected
    of the one trace, such as {"A load": 32, "C store": 32}; it is drawn beside the count.

    Raises TypeError and ValueError for anything else, naming it.
    """
    bars = _traffic_bars(traces, quantity)
    predicted = dict(predicted or {})
    _require_predictions(predicted, traces, bars)
    groups = list(dict.fromkeys(bar.access for bar in bars))
    height = len(bars) * BAR + (len(groups) + 1) * PAD
    left = MARGIN + style.widest(groups) + 0.15
    looks = _looks(traces)
    key = list(zip(_names(traces), looks, strict=True))
    if predicted:
        key.append(("predicted", MARK))
    caption = _traffic_caption(traces, bars, QUANTITIES[quantity], predicted)
    title = f"{QUANTITIES[quantity].capitalize()}, by source line"
    fig = page(title, height + 0.6, caption, key=key)
    ax = fig.add_axes_at(left, fig.top, WIDTH - MARGIN - left, height, gid="traffic")
    most = max([bar.value for bar in bars] + list(predicted.values()))
    y, middles = 0.0, []
    for group in groups:
        members = [bar for bar in bars if bar.access == group]
        y += PAD
        middles.append(y + len(members) * BAR / 2)
        for bar in members:
            _draw_bar(ax, bar, y + BAR / 2, looks[bar.trace], predicted.get(group))
            y += BAR
    # A third of the width is for the words at the end of the longest bar.
    ax.set(xlim=(0, most * 1.5 or 1), ylim=(height, 0), xlabel=QUANTITIES[quantity])
    ax.set_yticks(middles, groups)
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.grid(axis="x")
    return fig


def _names(traces: Sequence[Trace]) -> list[str]:
    """Kernel and shape of every trace, and its settings where that does not tell two apart."""
    names = [f"{t.kernel_name} at {style.shape_label(t.m, t.n, t.k)}" for t in traces]
    return [
        f"{name}, {', '.join(f'{key}={value}' for key, value in trace.settings.items())}"
        if names.count(name) > 1
        else name
        for name, trace in zip(names, traces, strict=True)
    ]


def _traffic_bars(traces: Sequence[Trace], quantity: str) -> list[_Bar]:
    """Bars by array, loads before stores, and within these by trace and line."""
    if not traces:
        raise ValueError("traffic takes one trace or more, as kernel.trace(m, n, k) gives.")
    if quantity not in QUANTITIES:
        raise ValueError(f"quantity is {quantity!r}; it must be one of {', '.join(QUANTITIES)}.")
    bars = []
    for at, trace in enumerate(traces):
        require_trace(trace, "traffic")
        columns = ("line", "space", "array", "op", quantity)
        lines = style.require_table(trace.lines, columns, "traffic")
        for row in lines[lines["space"] == "global"].to_dict("records"):
            access = f"{row['array']} {row['op']}"
            bars.append(_Bar(at, access, int(row["line"]), float(row[quantity])))
    if not bars:
        raise ValueError("traffic: nothing was loaded from global memory or stored there.")
    return sorted(bars, key=lambda bar: (bar.access, bar.trace, bar.line))


def _require_predictions(predicted: Mapping, traces: Sequence[Trace], bars: list[_Bar]) -> None:
    if predicted and len(traces) > 1:
        raise ValueError(f"predicted goes with one trace, not with {len(traces)}.")
    for key, value in predicted.items():
        matching = [bar for bar in bars if bar.access == key]
        if not matching:
            there = ", ".join(dict.fromkeys(bar.access for bar in bars))
            raise ValueError(f"predicted names {key!r}, not counted; counted are {there}.")
        if len(matching) > 1:
            raise ValueError(f"predicted names {key!r}, which stands in {len(matching)} lines.")
        if not (isinstance(value, Real) and math.isfinite(value) and value >= 0):
            raise ValueError(f"predicted says {value!r} for {key!r}; it must be 0 or more.")


def _looks(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """How the bars of every trace are filled: a kernel that comes again is paler."""
    looks = []
    for at, trace in enumerate(traces):
        look = style.kernel_style(trace.kernel_name)
        before = sum(other.kernel_name == trace.kernel_name for other in traces[:at])
        face = style.tint(look["color"], 0.5 / (1 + 3 * before))
        looks.append({"facecolor": face, "edgecolor": look["color"], "hatch": look["hatch"]})
    return looks


def _draw_bar(ax: Axes, bar: _Bar, y: float, look: Mapping, expected: float | None) -> None:
    ax.barh(y, bar.value, 0.84 * BAR, gid=f"bar {bar.access}", **look)
    words, end = f"{_amount(bar.value)}  (line {bar.line})", bar.value
    if expected is not None:
        words = f"{_amount(bar.value)} counted, {_amount(expected)} predicted  (line {bar.line})"
        end = max(end, expected)
        ax.plot(expected, y, **MARK, zorder=4, clip_on=False, gid=f"predicted {bar.access}")
    note(ax, words, (end, y), (8, 0), va="center", bbox=plate(0.5))


def _amount(value: float) -> str:
    """A count without decimals, a ratio with as many as it needs, at most two."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _traffic_caption(
    traces: Sequence[Trace], bars: Sequence[_Bar], what: str, predicted: Mapping
) -> str:
    if predicted:
        wrong = [
            f"{bar.access} ({_amount(predicted[bar.access])} predicted, "
            f"{_amount(bar.value)} counted)"
            for bar in bars
            if bar.access in predicted and predicted[bar.access] != bar.value
        ]
        right = f"right for {style.listed(list(predicted))}"
        verdict = f"off for {style.listed(wrong)}" if wrong else right
        return f"{what.capitalize()} of {traces[0].kernel_name}: the prediction is {verdict}."
    sentences = []
    for at, name in enumerate(_names(traces)):
        parts = [f"{bar.access} {_amount(bar.value)}" for bar in bars if bar.trace == at]
        sentences.append(f"{name}: {style.listed(parts)}.")
    return f"{what.capitalize()}, counted from the traced addresses. {' '.join(sentences)}"
