"""The traffic of every source line."""

import pandas
from matplotlib.ticker import MaxNLocator

from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.plots.cells import plate
from gemmlab.plots.charts import note
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import MARGIN, NORMAL, WIDTH

BAR, PAD = 0.22, 0.16  # inches: of a bar, between groups of them


@styled
def traffic(*traces: Trace) -> Picture:
    """Sectors per request of loads and stores of global memory: a bar for each trace and line.

    traces: of different kernels.
    """
    lines = pandas.concat([trace.lines.assign(trace=at) for at, trace in enumerate(traces)])
    lines = lines[lines["space"] == "global"]
    lines = lines.assign(access=lines["array"] + " " + lines["op"])
    groups = sorted(set(lines["access"]))
    names = [f"{t.kernel_name} at {style.shape_label(t.m, t.n, t.k)}" for t in traces]
    kernels = [style.kernel_style(trace.kernel_name) for trace in traces]
    looks = [swatch(kernel["color"], hatch=kernel["hatch"]) for kernel in kernels]
    height = len(lines) * BAR + (len(groups) + 1) * PAD
    left = MARGIN + style.widest(groups) + 0.15
    key = list(zip(names, looks, strict=True))
    caption = "Sectors per request, counted from the traced addresses."
    for at, name in enumerate(names):
        rows = lines[lines["trace"] == at].sort_values(["access", "line"])
        parts = [f"{row.access} {_amount(row.sectors_per_request)}" for row in rows.itertuples()]
        caption += f" {name}: {style.listed(parts)}."
    fig = page("Sectors per request, by source line", height + 0.6, caption, key=key)
    ax = fig.add_axes_at(left, fig.top, WIDTH - MARGIN - left, height)
    y, middles = 0.0, []
    for group in groups:
        members = lines[lines["access"] == group].sort_values(["trace", "line"])
        y += PAD
        middles.append(y + len(members) * BAR / 2)
        for row in members.itertuples():
            value = row.sectors_per_request
            ax.barh(y + BAR / 2, value, 0.85 * BAR, **looks[row.trace])
            words = f"{_amount(value)}  (line {row.line})"
            note(ax, words, (value, y + BAR / 2), (6, 0), va="center", bbox=plate(1))
            y += BAR
    # A third of the width is for the words at the end of the longest bar.
    most = lines["sectors_per_request"].max()
    ax.set(xlim=(0, most * 1.5), ylim=(height, 0), xlabel="sectors per request")
    ax.set_yticks(middles, groups)
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    ax.grid(axis="x")
    return fig


def _amount(value: float) -> str:
    """A count without decimals, a ratio with as many as it needs, at most two."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")
