"""The figure of this lesson: where the cycles of all SMs went."""

import pandas

from gemmlab.lessons.fp32_summit.measure import LARGE
from gemmlab.plots import style
from gemmlab.plots.charts import at_edge, bar, rows_of
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import MARGIN, SMALL, WIDTH

OF_ALL = {  # rows of tables.cycles that make up 100 %
    "multiply-adds": swatch(style.PURPLE, 0.6),
    "other instructions": swatch(style.BLUE),
    "nothing to start": swatch(style.FAINT, 0.3),
    "no work": swatch(style.ORANGE),
}
ENDS_BELOW = 4.0  # percent: a part that is too narrow for its number


@styled
def all_cycles(table: pandas.DataFrame) -> Picture:
    """Where the cycles of all SMs went, a bar for each rung. table: as tables.cycles gives it."""
    parts = [
        f"{name}: {style.listed([f'{what} {column[what]:.1f}' for what in OF_ALL])}"
        for name, column in table.items()
    ]
    caption = (
        f"At M=N=K={LARGE}, in percent of the cycles of all SMs. {'; '.join(parts)}. No work: by "
        "the schedule, with all stages equally long. The others: recorded counters."
    )
    title = "Where the cycles of all SMs went"
    pitch = 0.55
    fig = page(title, pitch * len(table.columns) + 0.55, caption, key=[*OF_ALL.items()])
    ax = rows_of(
        fig, list(table), fig.top + 0.05, pitch, right=WIDTH - MARGIN - 0.4, xlim=(0, 100),
        xlabel="% of all cycles",
    )  # fmt: skip
    for row, name in enumerate(table):
        start = 0.0
        for what, look in OF_ALL.items():
            share = table.loc[what, name]
            words = f"{share:.1f}" if share >= ENDS_BELOW else ""
            bar(ax, row, start, start + share, words, gid=f"{name} {what}", **look)
            start += share
        if (idle := table.loc["no work", name]) < ENDS_BELOW:
            at_edge(ax, row, f"{idle:.1f}", size=SMALL)
    return fig
