"""gl.matmul beside cuBLAS at shapes that were drawn after the choice was made: judged.csv."""

from __future__ import annotations

import numpy as np
import pandas
from matplotlib.ticker import NullFormatter

from gemmlab.plots import style
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import MARGIN, WIDTH
from gemmlab.records import registry
from gemmlab.records.registry import NoRecord

FILE = "judged.csv"
AXES = {"xscale": "log", "yscale": "log", "xlim": (1.5, 4e4), "ylim": (0.25, 16)}


def recorded() -> pandas.DataFrame:
    """A row for each shape and type, with `share`: cuBLAS's time over ours. Raises NoRecord."""
    for folder in registry.folders():
        if (path := folder / FILE).is_file():
            table = pandas.read_csv(path)
            return table.assign(share=table["cublas_us"] / table["us"])
    raise NoRecord("no choice was judged yet: python benchmarks/judged.py does it on a GPU.")


def by_family(table: pandas.DataFrame) -> pandas.DataFrame:
    """For each type, and each family of shapes in it: how many, the geometric mean of the shares,
    the least, and how many are below 0.9."""
    rows = {}
    for dtype, of_type in table.groupby("dtype"):
        for family, part in (("all", of_type), *of_type.groupby("family")):
            share = part["share"]
            rows[dtype, family] = {
                "shapes": len(part), "mean": round(float(np.exp(np.log(share).mean())), 3),
                "least": round(share.min(), 2), "below 0.9": int((share < 0.9).sum()),
            }  # fmt: skip
    return pandas.DataFrame(rows).T.astype({"shapes": int, "below 0.9": int})


@styled
def shares(table: pandas.DataFrame) -> Picture:
    """A panel for each type: a dot for each shape, its share over what it takes of cuBLAS."""
    types = list(table["dtype"].unique())
    caption = (
        f"cuBLAS's time over gl.matmul's at {len(table) // len(types)} shapes that were drawn at "
        "random after the choice was fixed, against cuBLAS's time. Above the dashed line gl.matmul "
        "is faster."
    )
    fig = page("Shapes that nobody tuned", 3.1, caption, style.provenance(table))
    wide = (WIDTH - 2 * MARGIN - 0.5) / len(types)
    for at, dtype in enumerate(types):
        part = table[table["dtype"] == dtype]
        left = MARGIN + 0.5 + at * wide
        ax = fig.add_axes_at(left, fig.top + 0.3, wide - 0.15, 2.2, gid=f"judged {dtype}")
        ax.plot(part["cublas_us"], part["share"], ".", color=style.BLUE, markersize=4, alpha=0.6)
        ax.axhline(1, color=style.BLACK, linewidth=0.8, linestyle="--")
        ax.set(**AXES, xlabel="time of cuBLAS, µs", title=dtype)
        style.plain_log_ticks(ax.yaxis)
        ax.set_xticks([10**power for power in range(1, 5)], ["10", "100", "1000", "10000"])
        ax.xaxis.set_minor_formatter(NullFormatter())
        if at:
            ax.tick_params(labelleft=False)
        else:
            ax.set_ylabel("cuBLAS's time over gl.matmul's")
    return fig
