"""Figure of this lesson: what lies in which columns of tensor memory."""

from collections.abc import Mapping, Sequence

from gemmlab.plots import style
from gemmlab.plots.charts import bar, rows_of
from gemmlab.plots.page import Entry, Picture, page, styled, swatch
from gemmlab.plots.style import ARRAYS, MARGIN, WIDTH
from ptxsim import TensorUse

TALL = 0.9  # inches, of a row
SHARE = 0.45  # of a matrix's colour
COLUMNS = 512


@styled
def columns(runs: Mapping[str, Sequence[TensorUse]], stages: int) -> Picture:
    """The columns of tensor memory that products add up in, and those that scales are copied to.

    runs: by name, how one block of 27 with so many stages used tensor memory.
    """
    key: list[Entry] = [
        ("sums of a tile of C", swatch(ARRAYS["C"], SHARE)),
        ("scales of A, a stage's", swatch(ARRAYS["A"], SHARE)),
        ("scales of B", swatch(ARRAYS["B"], SHARE)),
    ]
    scales = {name: _columns(uses, "copy") for name, uses in runs.items()}
    counts = style.listed([f"{len(those)} in {name}" for name, those in scales.items()])
    sums = max(len(_columns(uses, "product")) for uses in runs.values())
    caption = (
        f"Columns of tensor memory that one block uses, traced from its run. Sums take {sums} "
        f"columns, half of them for even tiles and half for odd ones. Behind them each of "
        f"{stages} stages has columns for its scales: {counts}, of {COLUMNS} columns in all."
    )
    fig = page("What lies where in tensor memory", len(runs) * TALL + 0.6, caption, key=key)
    limits = {"xlim": (0, COLUMNS), "xticks": range(0, COLUMNS + 1, 64), "xlabel": "columns"}
    ax = rows_of(fig, list(runs), fig.top, TALL, right=WIDTH - MARGIN - 0.15, **limits)
    for row, (name, uses) in enumerate(runs.items()):
        adding = [use.columns for use in uses if use.operation == "product"]
        halves = sorted({(columns.start, len(columns)) for columns in adding})
        for half, (first, wide) in enumerate(halves):
            look = {"facecolor": style.tint(ARRAYS["C"], SHARE), "gid": f"{name} half {half}"}
            bar(ax, row, first, first + wide, f"half {half}", **look)
        each = len(scales[name]) // (2 * stages)
        for part in range(2 * stages):
            look = {"facecolor": style.tint(ARRAYS["AB"[part % 2]], SHARE)}
            first = scales[name][part * each]
            bar(ax, row, first, first + each, gid=f"{name} scales {part}", **look)
    return fig


def _columns(uses: Sequence[TensorUse], operation: str) -> list[int]:
    """All columns that uses of this operation have."""
    return sorted({c for use in uses if use.operation == operation for c in use.columns})
