"""What the type of the elements does to the error of a product, over K."""

import pandas

from gemmlab.plots import style
from gemmlab.plots.charts import Curve, draw_curves, room_for
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import MARGIN, WIDTH

LOOKS = {  # colour, marker; none is a matrix's
    "float16": (style.PURPLE, "o"), "bfloat16": (style.ORANGE, "D"), "tf32": (style.BLACK, "s"),
    "int8": (style.SKY, "^"), "float8_e4m3": (style.FAINT, "v"), "float8_e5m2": (style.FAINT, "P"),
}  # fmt: skip


@styled
def error_over_k(table: pandas.DataFrame) -> Picture:
    """The mean error of elements of C against float64, a curve for each type, on logarithms.

    table: as tables.over_k() gives.
    """
    last = table[table["k"] == table["k"].max()].sort_values("error")
    caption = (
        "Operands from -1 to 1, rounded to each type, multiplied and added up, against float64 of "
        f"the numbers before rounding. At K = {last['k'].iloc[0]} {last['dtype'].iloc[0]} is the "
        f"nearest and {last['dtype'].iloc[-1]} the farthest."
    )
    fig = page("Error of a product, by type", 0.1 + 3.4 + 0.65, caption)
    given = []
    for dtype, (colour, marker) in LOOKS.items():
        chosen = table[table["dtype"] == dtype].sort_values("k")
        look = {"color": colour, "marker": marker}
        if len(chosen):
            given.append(Curve(dtype, list(chosen["k"]), list(chosen["error"]), look))
    width = WIDTH - 0.85 - MARGIN - room_for(LOOKS)
    ax = fig.add_axes_at(0.85, fig.top + 0.1, width, 3.4)
    draw_curves(ax, given)
    ax.set(xlabel="K", ylabel="mean error of an element of C")
    return fig
