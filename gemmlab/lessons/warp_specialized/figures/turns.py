"""Producer and consumers at work: what each role does, which stage holds what, and who waits."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from gemmlab.lessons.warp_specialized import turns as traced
from gemmlab.lessons.warp_specialized.turns import Turn, Turns
from gemmlab.plots import style
from gemmlab.plots.memory.timeline import TILE_COLOURS
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled

MOST = 110  # columns; more would be too narrow for a number
ROW, BAR = 0.32, 0.24  # inches
HEAD, KEY_ROW = 0.42, 0.22
WAY, THERE, WAIT = "on its way", "there", "wait"
HATCH = "////"
WAITS = {traced.AWAITS_EMPTY: "empty", traced.AWAITS_FULL: "full"}
KEY = (  # in rows: kind, words
    ((traced.COPIES, "starts the copies of a step"), (traced.STARTS, "starts its products"),
     (WAIT, "waits at an mbarrier"), (traced.ARRIVES, "arrives at empty")),
    ((WAY, "of a stage: its tiles are on their way"), (THERE, "are there, and multiplied"),
     (traced.MEETS, "all threads meet"), (traced.SENDS, "C goes to global memory")),
)  # fmt: skip


@styled
def turns(*found: Turns, shown: int | None = None, caption: str | None = None) -> Picture:
    """A panel for each kernel: a row for each role, and below one for each stage of its ring.

    found: as analysis.traced.turns.of(trace) gives. Left to right is the order in which the
    simulator executed it, not time. A number is a step along K. shown: how many moments, the rest
    is pale; a line is there. Raises TypeError and ValueError for anything else, and for more steps
    than fit.
    """
    if not found:
        raise ValueError("turns takes what analysis.traced.turns.of(trace) gives, one or more.")
    for one in found:
        if not isinstance(one, Turns):
            raise TypeError(f"turns takes what analysis.traced.turns.of(trace) gives, not {one!r}.")
    panels = [_Panel.of(one) for one in found]
    for one in panels:
        if len(one.columns) > MOST:
            raise ValueError(
                f"turns: {len(one.columns)} moments are too many to read, at most {MOST} fit; "
                "trace a product with a smaller K."
            )
    names = [name for one in panels for name in one.rows]
    left = MARGIN + max(style.text_width(name, NORMAL) for name in names) + 0.12
    pitch = (WIDTH - MARGIN - left) / max(len(one.columns) for one in panels)
    top = HEAD + KEY_ROW * len(KEY) + 0.12
    height = sum(one.height + 0.45 for one in panels)
    fig = style.page(top + height, caption or _caption(panels))
    title = "Who does what, and who waits for whom: an order of execution"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    _draw_key(fig)
    for one in panels:
        fig.text_at(MARGIN, top, one.name, size=NORMAL, weight="bold")
        wide = pitch * len(one.columns)
        ax = fig.add_axes_at(left, top + 0.22, wide, one.height, gid=f"turns {one.name}")
        _draw(ax, one)
        if shown is not None:
            _draw_shown(ax, one, shown)
        top += one.height + 0.45
    return fig


def moments(found: Turns) -> list[tuple[str, ...]]:
    """What begins, or is over, at each moment of the figure: words for each, in their order."""
    columns = _columns(found)
    told: list[list[str]] = [[] for _ in columns]
    for role, every in found.roles.items():
        for turn in every:
            if turn.kind in WAITS and turn.until > turn.begin:
                what = f"stage {turn.stage} is {WAITS[turn.kind]}"
                told[columns[turn.begin]].append(f"{role} waits until {what}")
                told[columns[turn.until]].append(f"{role} goes on: {what}")
            elif turn.kind in (traced.COPIES, traced.STARTS):
                where = "into" if turn.kind == traced.COPIES else "from"
                what = f"{turn.kind} of step {turn.step} {where} stage {turn.stage}"
                told[columns[turn.begin]].append(f"{role} {what}")
            elif turn.kind == traced.ARRIVES:
                what = f"has read stage {turn.stage} and arrives at its empty mbarrier"
                told[columns[turn.begin]].append(f"{role} {what}")
            elif turn.kind in (traced.MEETS, traced.SENDS):
                told[columns[turn.begin]].append(f"{role} {turn.kind}")
    return [tuple(words) for words in told]


def _columns(found: Turns) -> dict[int, int]:
    """{when: which column} of all that is drawn."""
    whens = set()
    for every in found.roles.values():
        for turn in every:
            if turn.kind in WAITS and turn.until > turn.begin:
                whens |= {turn.begin, turn.until}
            elif turn.kind not in (*WAITS, traced.AWAITS_PRODUCTS):
                whens.add(turn.begin)
    return {when: column for column, when in enumerate(sorted(whens))}


@dataclass(frozen=True)
class _Panel:
    """One kernel: its turns, the columns of its moments, and its rows from the top."""

    found: Turns
    columns: dict[int, int]
    rows: dict[str, int]

    @classmethod
    def of(cls, found: Turns) -> _Panel:
        roles = sorted(found.roles, key=lambda role: (role != "producer", role))
        names = [*roles, *(f"stage {stage}" for stage in range(found.stages))]
        return cls(found, _columns(found), {name: row for row, name in enumerate(names)})

    @property
    def name(self) -> str:
        stages = self.found.trace.settings["STAGES"]
        return f"{self.found.trace.kernel_name}, STAGES={stages}"

    @property
    def height(self) -> float:
        return ROW * len(self.rows)

    def contents(self, step: int) -> tuple[int, int, int, int]:
        """Of a step: its stage, and the columns where it is copied, there, and given back."""
        (copied,) = self.found.of(traced.COPIES, step)
        ready = min(turn.until for turn in self.found.of(traced.AWAITS_FULL, step))
        started = min(turn.begin for turn in self.found.of(traced.STARTS, step))
        lag = self.found.stages > 1  # products under way while all meet
        back = self.found.of(traced.ARRIVES, step) or self.found.of(traced.MEETS, step + lag)
        over = max(turn.begin for turn in back or self.found.of(traced.SENDS, traced.OF_C))
        there = self.columns.get(ready, self.columns[started])
        return copied.stage, self.columns[copied.begin], there, self.columns[over]


def _draw(ax: Axes, panel: _Panel) -> None:
    last = len(panel.columns)
    for role, every in panel.found.roles.items():
        for turn in every:
            _draw_turn(ax, panel, panel.rows[role], turn)
    for step in range(panel.found.steps):
        stage, copied, there, over = panel.contents(step)
        row = panel.rows[f"stage {stage}"]
        _box(ax, row, copied + 1, there, step, WAY, f"{WAY} {step}")
        _box(ax, row, there, over, step, THERE, f"{THERE} {step}", str(step))
    ax.axhline(len(panel.found.roles), color=style.FAINT, linewidth=0.8)
    ax.set(xlim=(-0.2, last + 0.2), ylim=(len(panel.rows), 0), xticks=[])
    ax.set_yticks([row + 0.5 for row in panel.rows.values()], list(panel.rows))
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)


def _draw_turn(ax: Axes, panel: _Panel, row: int, turn: Turn) -> None:
    gid = f"{turn.kind} {turn.step}"
    if turn.kind in WAITS:
        if turn.until > turn.begin:
            low, high = panel.columns[turn.begin], panel.columns[turn.until]
            _box(ax, row, low, high, None, WAIT, gid, WAITS[turn.kind] if high - low > 3 else "")
        return
    if turn.kind == traced.AWAITS_PRODUCTS:
        return
    at = panel.columns[turn.begin]
    if turn.kind in (traced.COPIES, traced.STARTS):
        _box(ax, row, at, at + 1, turn.step, turn.kind, gid, str(turn.step))
    elif turn.kind == traced.ARRIVES:
        ax.plot(at + 0.5, row + 0.5, "v", color=style.BLACK, markersize=5, gid=gid, zorder=3)
    elif turn.kind == traced.MEETS:
        ax.plot([at + 0.5] * 2, [row, row + 1], color=style.BLACK, linewidth=1.6, gid=gid)
    else:
        _box(ax, row, at, len(panel.columns), None, traced.SENDS, gid)


def _look(kind: str, colour: str) -> dict:
    """`colour` is that of the step."""
    if kind in (traced.COPIES, WAY):
        return {"facecolor": style.tint(colour, 0.12), "edgecolor": colour, "hatch": HATCH}
    if kind == WAIT:
        return {"facecolor": style.tint(style.FAINT, 0.18), "edgecolor": style.FAINT}
    if kind == traced.SENDS:
        return {"facecolor": style.tint(style.ARRAYS["C"], 0.4), "edgecolor": style.ARRAYS["C"]}
    return {"facecolor": style.tint(colour, 0.5), "edgecolor": colour}


def _box(
    ax: Axes, row: int, low: float, high: float, step: int | None, kind: str, gid: str,
    words: str = "",
) -> None:  # fmt: skip
    if high <= low:
        return
    colour = style.INK if step is None else TILE_COLOURS[step % len(TILE_COLOURS)]
    thin = BAR / ROW * (0.45 if kind == WAIT and not words else 1.0)
    ax.add_patch(
        Rectangle((low, row + (1 - thin) / 2), high - low, thin, linewidth=0.8, gid=gid,
                  **_look(kind, colour))
    )  # fmt: skip
    if words:
        plate = {"facecolor": style.GROUND, "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
        ax.text(
            (low + high) / 2, row + 0.5, words, size=SMALL, ha="center", va="center_baseline",
            bbox=plate if kind == traced.COPIES else None, zorder=4,
        )  # fmt: skip


def _draw_shown(ax: Axes, panel: _Panel, shown: int) -> None:
    """Pale what is still to come, and a line before it."""
    ax.add_patch(
        Rectangle((shown, 0), len(panel.columns) - shown + 0.2, len(panel.rows), zorder=6,
                  facecolor=style.GROUND, edgecolor="none", alpha=0.8, gid="to come")
    )  # fmt: skip
    ax.axvline(shown, color=style.BLACK, linewidth=1.2, zorder=7, gid="shown")


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()
    columns = (0, 2.5, 4.5, 6.4)
    for row, entries in enumerate(KEY):
        y = HEAD + KEY_ROW * row
        level = 1 - (y + 0.07) / down
        for (kind, words), offset in zip(entries, columns, strict=True):
            x = MARGIN + offset
            if kind == traced.ARRIVES:
                fig.add_artist(
                    Line2D([(x + 0.1) / across], [level], marker="v", markersize=5,
                           color=style.BLACK, linestyle="")
                )  # fmt: skip
            elif kind == traced.MEETS:
                fig.add_artist(
                    Line2D([(x + 0.1) / across] * 2, [level - 0.08 / down, level + 0.08 / down],
                           color=style.BLACK, linewidth=1.6)
                )  # fmt: skip
            else:
                look = _look(kind, TILE_COLOURS[0])
                fig.add_artist(
                    Rectangle((x / across, 1 - (y + 0.14) / down), 0.2 / across, 0.14 / down,
                              linewidth=0.8, **look)
                )  # fmt: skip
            fig.text_at(x + 0.28, y, words, size=SMALL)


def _caption(panels: list[_Panel]) -> str:
    trace, block = panels[0].found.trace, panels[0].found.block
    return (
        f"Block {block} at {style.shape_label(trace.m, trace.n, trace.k)}, followed through its "
        "trace. A number is a step along K; its colour is that of the step in all rows. This is "
        "one order that the mbarriers allow, that of the simulator, and not times: what stands in "
        "one column happens side by side."
    )
