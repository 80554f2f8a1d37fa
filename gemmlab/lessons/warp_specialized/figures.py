"""The figure of this lesson: roles and their turns."""

from collections.abc import Iterator

from matplotlib.axes import Axes

from gemmlab.lessons.warp_specialized import turns as traced
from gemmlab.lessons.warp_specialized.turns import Turn, Turns
from gemmlab.plots import style
from gemmlab.plots.cells import box, plate
from gemmlab.plots.charts import bar, rows_of
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import MARGIN, NORMAL, TILE_COLOURS

ROW, BAR = 0.32, 0.24  # inches
WAY, THERE, WAIT = "on its way", "there", "wait"
WAITED_FOR = {traced.AWAITS_EMPTY: "empty", traced.AWAITS_FULL: "full"}
KEY = {
    traced.COPIES: "starts the loads of a step; a stage: they are under way",
    traced.STARTS: "starts the wgmma of a step; a stage: its data is there",
    WAIT: "waits: the producer at empty, a consumer at full",
    traced.ARRIVES: "arrives at empty, for the step before",
    traced.STORES_C: "stores C",
}
MARK = {"color": style.BLACK, "marker": "v", "markersize": 5, "linestyle": ""}  # of an arrival


@styled
def turns(kernel: Turns, *, shown: int | None = None) -> Picture:
    """A row for each role, and below one for each stage of its ring.

    kernel: as turns.of(trace) gives. Left to right is the order in which the simulator executed it,
    not time. A number is a step along K. shown: how many moments, the rest is pale; a line is
    there.
    """
    columns = _columns(kernel)
    roles = sorted(kernel.roles, key=lambda role: (role != "producer", role))
    names = [*roles, *(f"stage {stage}" for stage in range(kernel.stages))]
    key = [(words, _of_key(kind)) for kind, words in KEY.items()]
    title, trace = "Who does what, and who waits for whom: an order of execution", kernel.trace
    caption = (
        f"Block {kernel.block} at {style.shape_label(trace.m, trace.n, trace.k)}, followed "
        "through its trace. A number is a step along K, with one colour in all rows. This is one "
        "order that the mbarriers allow, that of the simulator, and not times: here both "
        "warpgroups keep in step, which nothing demands."
    )
    fig = page(title, ROW * len(names) + 0.45, caption, key=key)
    name = f"{trace.kernel_name}, STAGES={trace.settings['STAGES']}"
    fig.text_at(MARGIN, fig.top, name, size=NORMAL, weight="bold")
    ax = rows_of(fig, names, fig.top + 0.22, ROW)
    _draw(ax, kernel, columns, names)
    if shown is not None:  # pale what is still to come, and a line before it
        look = {"facecolor": style.GROUND, "edgecolor": "none", "alpha": 0.8, "zorder": 6}
        box(ax, shown, 0, len(columns) - shown + 0.2, len(names), **look)
        ax.axvline(shown, color=style.BLACK, linewidth=1.2, zorder=7)
    return fig


def moments(kernel: Turns) -> list[tuple[str, ...]]:
    """What begins, or is over, at each moment of the figure: words for each, in their order."""
    columns = _columns(kernel)
    words: list[list[str]] = [[] for _ in columns]
    for role, turn in _drawn(kernel):
        at = words[columns[turn.begin]]
        if turn.kind in WAITED_FOR:
            event = f"stage {turn.stage} is {WAITED_FOR[turn.kind]}"
            at.append(f"{role} waits until {event}")
            words[columns[turn.until]].append(f"{role} goes on: {event}")
        elif turn.kind == traced.ARRIVES:
            at.append(f"{role} has read stage {turn.stage} and arrives at its empty mbarrier")
        elif turn.kind == traced.STORES_C:
            at.append(f"{role} {turn.kind}")
        else:
            where = "into" if turn.kind == traced.COPIES else "from"
            at.append(f"{role} {turn.kind} of step {turn.step} {where} stage {turn.stage}")
    return [tuple(moment) for moment in words]


def _drawn(kernel: Turns) -> Iterator[tuple[str, Turn]]:
    """The turns of each role, but for waits that were none."""
    for role, every in kernel.roles.items():
        for turn in every:
            if turn.kind not in WAITED_FOR or turn.until > turn.begin:
                yield role, turn


def _columns(kernel: Turns) -> dict[int, int]:
    """{when: which column} of all that is drawn."""
    whens = {turn.begin for _, turn in _drawn(kernel)}
    whens |= {turn.until for _, turn in _drawn(kernel) if turn.kind in WAITED_FOR}
    return {when: column for column, when in enumerate(sorted(whens))}


def _contents(kernel: Turns, columns: dict[int, int], step: int) -> tuple[int, int, int, int]:
    """Of a step: its stage, and the columns where it is copied, there, and given back."""
    (copied,) = kernel.of(traced.COPIES, step)
    ready = min(turn.until for turn in kernel.of(traced.AWAITS_FULL, step))
    started = min(turn.begin for turn in kernel.of(traced.STARTS, step))
    back = kernel.of(traced.ARRIVES, step) or kernel.of(traced.STORES_C, traced.OF_C)
    over = max(turn.begin for turn in back)
    there = columns.get(ready, columns[started])
    return copied.stage, columns[copied.begin], there, columns[over]


def _draw(ax: Axes, kernel: Turns, columns: dict[int, int], names: list[str]) -> None:
    for role, turn in _drawn(kernel):
        row, at = names.index(role), columns[turn.begin]
        if turn.kind in WAITED_FOR:
            high = columns[turn.until]
            words = WAITED_FOR[turn.kind] if high - at > 3 else ""
            _box(ax, row, at, high, None, WAIT, words)
        elif turn.kind == traced.ARRIVES:
            ax.plot(at + 0.5, row + 0.5, zorder=3, **MARK)
        elif turn.kind == traced.STORES_C:
            _box(ax, row, at, len(columns), None, turn.kind)
        else:
            _box(ax, row, at, at + 1, turn.step, turn.kind, str(turn.step))
    for step in range(kernel.steps):
        stage, copied, there, over = _contents(kernel, columns, step)
        row = names.index(f"stage {stage}")
        _box(ax, row, copied + 1, there, step, WAY)
        _box(ax, row, there, over, step, THERE, str(step))
    ax.axhline(len(kernel.roles), color=style.FAINT, linewidth=0.8)
    ax.set(xlim=(-0.2, len(columns) + 0.2), xticks=[])
    ax.spines[:].set_visible(False)


def _look(kind: str, colour: str) -> dict:
    """`colour` is that of the step."""
    if kind in (traced.COPIES, WAY):
        return swatch(colour, 0.12, hatch="////")
    if kind == WAIT:
        return swatch(style.FAINT, 0.0)
    return swatch(style.ARRAYS["C"], 0.4) if kind == traced.STORES_C else swatch(colour, 0.5)


def _of_key(kind: str) -> dict | list[dict]:
    """A marker, a swatch, or one in each colour of the steps."""
    if kind == traced.ARRIVES:
        return MARK
    if kind in (traced.COPIES, traced.STARTS):
        return [_look(kind, colour) for colour in TILE_COLOURS]
    return _look(kind, style.INK)


def _box(
    ax: Axes, row: int, low: float, high: float, step: int | None, kind: str, words: str = ""
) -> None:
    if high <= low:
        return
    colour = style.INK if step is None else style.tile_colour(step)
    thin = BAR / ROW * (0.45 if kind == WAIT and not words else 1.0)
    text = {"zorder": 4, "bbox": plate(0.6) if kind == traced.COPIES else None}
    bar(ax, row, low, high, words, share=thin, text=text, **_look(kind, colour))
