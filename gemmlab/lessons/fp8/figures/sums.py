"""Two sets of sums in turn: which the tensor cores add to, and which goes to the totals."""

from __future__ import annotations

from matplotlib.patches import Rectangle

from gemmlab.lessons.warp_specialized import turns as traced
from gemmlab.lessons.warp_specialized.turns import Turn, Turns
from gemmlab.plots import style
from gemmlab.plots.memory.timeline import TILE_COLOURS
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled

ROLE = "warpgroup 0"
LANES = ("one", "two", "totals")
ROW, BAR, TOP = 0.42, 0.3, 0.8  # inches
SETS = 2


@styled
def sums_in_turn(found: Turns, *, caption: str | None = None) -> Picture:
    """A row for each of the two sets of sums and one for the totals of warpgroup 0, step by step.

    found: as analysis.traced.turns.of(trace) gives, of rung 19 with promotion. Left to right is the
    order in which they were executed, not time. Raises TypeError, and ValueError for a kernel that
    has one set of sums.
    """
    if not isinstance(found, Turns):
        raise TypeError(f"sums_in_turn takes what analysis.traced.turns.of gives, not {found!r}.")
    if not found.trace.settings.get("PROMOTE"):
        raise ValueError(f"sums_in_turn: {found.trace.kernel_name} has no two sets of sums here.")
    events = _events(found.roles[ROLE])
    started = {number: at for at, (kind, number) in enumerate(events) if kind == traced.STARTS}
    added = {number: at for at, (kind, number) in enumerate(events) if kind == traced.ARRIVES}
    fig = style.page(TOP + ROW * len(LANES) + 0.15, caption or _caption(found, len(started)))
    title = "While the tensor cores fill one set of sums, the other is added to the totals"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    _draw_key(fig, found)
    names = ("sums: one", "sums: two", "totals, float32")
    left = MARGIN + max(style.text_width(name, NORMAL) for name in names) + 0.12
    ax = fig.add_axes_at(left, TOP, WIDTH - MARGIN - left, ROW * len(LANES), gid="sums in turn")
    for step, at in started.items():
        colour = TILE_COLOURS[step % len(TILE_COLOURS)]
        _box(ax, step % SETS, at, added[step], colour, 0.5, str(step), f"products {step}")
        _box(ax, SETS, added[step], added[step] + 1, colour, 0.9, f"+{step}", f"added {step}")
    ax.set(xlim=(-0.1, len(events) + 0.1), ylim=(len(LANES), 0), xticks=[])
    ax.set_yticks([row + 0.5 for row in range(len(LANES))], names)
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    return fig


def _events(mine: tuple[Turn, ...]) -> list[tuple[str, int]]:
    """In order: the products of a set are started, its stages given back and its sums added.

    Each wait for products is for those of the next set, after which all of its stages go back.
    """
    found: list[tuple[str, int]] = []
    waited = 0
    for turn in mine:
        if turn.kind == traced.STARTS:
            found.append((traced.STARTS, turn.step))
        elif turn.kind == traced.AWAITS_PRODUCTS:
            waited += 1
        elif turn.kind == traced.ARRIVES and (last := (traced.ARRIVES, waited - 1)) not in found:
            found.append(last)
    return found


def _box(ax, row: int, low: float, high: float, colour: str, share: float, words: str, gid: str):
    ax.add_patch(
        Rectangle((low, row + (1 - BAR / ROW) / 2), high - low, BAR / ROW, linewidth=0.8,
                  facecolor=style.tint(colour, share), edgecolor=style.FAINT, gid=gid)
    )  # fmt: skip
    dark = share > 0.5 and colour in TILE_COLOURS[3:]
    ax.text((low + high) / 2, row + 0.5, words, ha="center", va="center_baseline", size=SMALL,
            color="white" if dark else style.INK)  # fmt: skip


def _draw_key(fig: Picture, found: Turns) -> None:
    across, down = fig.get_size_inches()
    x = MARGIN
    for share, words in (
        (0.5, f"wgmma adds products, {found.trace.settings['PROMOTE']} along K"),
        (0.9, "they are added to the totals, and the set is free"),
    ):
        fig.add_artist(
            Rectangle((x / across, 1 - 0.57 / down), 0.2 / across, 0.14 / down, linewidth=0.8,
                      facecolor=style.tint(TILE_COLOURS[0], share), edgecolor=style.FAINT)
        )  # fmt: skip
        fig.text_at(x + 0.28, 0.43, words, size=SMALL)
        x += 0.28 + style.text_width(words, SMALL) + 0.3


def _caption(found: Turns, count: int) -> str:
    trace = found.trace
    shape = style.shape_label(trace.m, trace.n, trace.k)
    return (
        f"{ROLE.capitalize()} of block {found.block} at {shape}, followed through its trace: "
        f"{style.plural(count, 'set')} of products. Each is added to the totals while the next is "
        "multiplied; only the last has none beside it. An order, not times."
    )
