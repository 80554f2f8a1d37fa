"""Who waits for whom: what the roles of a block do, step by step, by the SM's clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH, styled

if TYPE_CHECKING:
    import pandas

ROW, BAR = 0.42, 0.28  # inches: from one role to the next, and of that its bars
KINDS = {  # from one event to the next: what it is called, and its colour
    ("waits", "goes_on"): ("asks for a stage, and waits", style.ORANGE),
    ("goes_on", "done"): ("products, or starts of copies", style.SKY),
    ("done", "met"): ("waits for the others, or tells them", style.PURPLE),
}


@styled
def waits(
    marks: pandas.DataFrame, *, first: int = 20, steps: int = 6, caption: str | None = None
) -> Picture:
    """Bars from one clock reading to the next, a panel for each kernel, a row for each role.

    marks: columns kernel, role, step and the cycles waits, goes_on, done and met (or none), as
    records.experiments.hopper_timeline.marks gives. Shown is while the first role of each kernel
    goes through `steps` steps from `first` on. Raises ValueError where it does not.
    """
    panels: list[_Panel] = []
    for kernel, rows in marks.groupby("kernel", sort=True):
        roles = list(dict.fromkeys(rows["role"]))
        lead = rows[rows["role"] == roles[0]].set_index("step")["waits"]
        if not {first, first + steps} <= set(lead.index):
            raise ValueError(f"waits: {kernel} has no steps from {first} to {first + steps}.")
        panels.append(_Panel(str(kernel), rows, roles, lead[first], lead[first + steps]))
    longest = max(one.end - one.begin for one in panels)
    words = [role for one in panels for role in one.roles]
    left = MARGIN + max(style.text_width(role, NORMAL) for role in words) + 0.15
    top, height = 0.72, 0.72 + sum(one.height for one in panels)
    fig = style.page(height, caption or _caption(panels, first, steps))
    _draw_key(fig)
    for one in panels:
        fig.text_at(MARGIN, top, one.kernel, size=NORMAL, weight="bold")
        wide, high = WIDTH - MARGIN - left, len(one.roles) * ROW
        ax = fig.add_axes_at(left, top + 0.24, wide, high, gid=f"waits {one.kernel}")
        _draw(ax, one, longest)
        top += one.height
    return fig


@dataclass(frozen=True)
class _Panel:
    """One kernel: its marks, its roles, and between which cycles it is drawn."""

    kernel: str
    rows: pandas.DataFrame
    roles: list[str]
    begin: int
    end: int

    @property
    def height(self) -> float:
        return len(self.roles) * ROW + 0.85


def _draw(ax: Axes, panel: _Panel, longest: int) -> None:
    ax.set(xlim=(0, longest), ylim=(len(panel.roles), 0))
    for at, role in enumerate(panel.roles):
        for mark in panel.rows[panel.rows["role"] == role].itertuples():
            for (start, stop), (_, colour) in KINDS.items():
                low, high = getattr(mark, start), getattr(mark, stop)
                if high != high:  # no such mark
                    continue
                low, high = max(low, panel.begin), min(high, panel.end)
                if high > low:
                    ax.add_patch(
                        Rectangle((low - panel.begin, at + (1 - BAR / ROW) / 2), high - low,
                                  BAR / ROW, facecolor=style.tint(colour, 0.6), edgecolor=colour,
                                  linewidth=0.6, gid=f"{start} {mark.step}")
                    )  # fmt: skip
    ax.set_yticks([at + 0.5 for at in range(len(panel.roles))], panel.roles)
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    ax.set_xlabel("cycles of the SM's clock")
    ax.grid(axis="x")


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()
    fig.text_at(MARGIN, 0.1, "Who waits for whom", size=style.LARGE, weight="bold")
    x, y = MARGIN, 0.4
    for words, colour in KINDS.values():
        fig.add_artist(
            Rectangle(((x + 0.02) / across, 1 - (y + 0.16) / down), 0.18 / across, 0.18 / down,
                      edgecolor=colour, facecolor=style.tint(colour, 0.6), linewidth=0.8)
        )  # fmt: skip
        fig.text_at(x + 0.28, y, words, size=SMALL)
        x += 0.28 + style.text_width(words, SMALL) + 0.3


def _caption(panels: list[_Panel], first: int, steps: int) -> str:
    each = [f"{one.kernel} {(one.end - one.begin) / steps:,.0f}" for one in panels]
    return (
        f"One block from step {first} on, by readings of the SM's clock, which take time "
        f"themselves. Cycles for a step: {style.listed(each)}."
    )
