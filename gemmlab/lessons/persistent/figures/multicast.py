"""Who in a cluster asks for which box, and in whose shared memory it arrives."""

from __future__ import annotations

from matplotlib.patches import Rectangle

from gemmlab.lessons.persistent.schedule import Schedule
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import ARRAYS, LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled
from ptxsim import BoxCopy

SHARES = (0.55, 0.22)  # of a matrix's colour, for boxes that block 0, and block 1, asks for
C_SHARES = (0.3, 0.12)
SIDE, GAP, HEAD = 1.75, 0.08, 0.95  # inches: the larger side of C, to its factors, above the panels
COLUMN, BETWEEN = 2.75, 0.3  # of a block's shared memory
KIB = 1024


@styled
def multicast(one: Schedule, *, caption: str | None = None) -> Picture:
    """The first step along K of the first cluster: what its two blocks ask for, and what they get.

    one: analysis.traced.schedule.schedule(kernel, m, n, k, sm_count) of a kernel that takes B as it
    is, in clusters of two that share it. Raises ValueError for another.
    """
    shares_a = one.settings.get("SHARE_A", 0)
    if one.cluster != 2 or one.ops != "NN" or shares_a:
        raise ValueError(
            "multicast draws clusters of 2 that share B, with A and B as they are, not of "
            f"{one.cluster} with {one.ops}{' that share A' if shares_a else ''}."
        )
    asked = [_first_step(one, block) for block in range(one.cluster)]
    fig = style.page(HEAD + 0.45 + SIDE + 0.15, caption or _caption(one, asked))
    fig.text_at(MARGIN, 0.1, "One step of a cluster: who asks for which box, and who gets it",
                size=LARGE, weight="bold")  # fmt: skip
    _draw_key(fig)
    _draw_matrices(fig, one, asked)
    for block in range(one.cluster):
        left = WIDTH - MARGIN - (one.cluster - block) * COLUMN - (1 - block) * BETWEEN
        _draw_shared(fig, one, asked, block, left)
    return fig


def _first_step(one: Schedule, block: int) -> list[BoxCopy]:
    (turn,) = (turn for turn in one.turns if (turn.block, turn.round) == (block, 0))
    return [box for box in turn.loads if box.corner[1 if box.array == "A" else 0] == 0]


def _bytes(one: Schedule, box: BoxCopy) -> int:
    return box.box[0] * box.box[1] * one.element_bytes


def _gets(asked: list[list[BoxCopy]], block: int) -> list[tuple[int, BoxCopy]]:
    """(who asked for it, box), in the order of their places in the block's shared memory."""
    found = [
        (asker, box)
        for asker, boxes in enumerate(asked)
        for box in boxes
        if block in (box.ranks or (asker,))
    ]
    return sorted(found, key=lambda one: one[1].place)


def _draw_matrices(fig: Picture, one: Schedule, asked: list[list[BoxCopy]]) -> None:
    """C of the cluster, the rows of A beside it and the columns of B above, in one scale."""
    rows, columns = one.tile[0] * one.cluster, one.tile[1]
    scale = SIDE / max(rows, columns)
    deep = asked[0][0].box[1]
    left, top = MARGIN + 0.05, HEAD
    ax = fig.add_axes_at(
        left, top, (deep + columns) * scale + GAP, (deep + rows) * scale + GAP, gid="matrices"
    )
    room = GAP / scale
    ax.set(xlim=(0, deep + room + columns), ylim=(deep + room + rows, 0), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)

    def draw(corner, size, colour, share, words, gid):
        ax.add_patch(
            Rectangle(corner, *size, facecolor=style.tint(colour, share), edgecolor="white",
                      linewidth=1, gid=gid)
        )  # fmt: skip
        ax.text(corner[0] + size[0] / 2, corner[1] + size[1] / 2, words, size=SMALL, ha="center",
                va="center", linespacing=1.3)  # fmt: skip

    for block, boxes in enumerate(asked):
        top_of_c = deep + room + block * one.tile[0]
        draw((deep + room, top_of_c), (columns, one.tile[0]), ARRAYS["C"], C_SHARES[block],
             f"C of block {block}", f"C {block}")  # fmt: skip
        for box in boxes:
            down, across = box.corner
            corner = (0, deep + room + down) if box.array == "A" else (deep + room + across, 0)
            size = (box.box[1], box.box[0])
            words = box.array
            draw(corner, size, ARRAYS[box.array], SHARES[block], words,
                 f"{box.array} {box.corner} asked by {block}")  # fmt: skip


def _draw_shared(
    fig: Picture, one: Schedule, asked: list[list[BoxCopy]], block: int, left: float
) -> None:
    found = _gets(asked, block)
    whole = sum(_bytes(one, box) for _, box in found)
    fig.text_at(left, HEAD - 0.22, f"shared memory of block {block}", size=NORMAL, weight="bold")
    height = SIDE + 0.45
    ax = fig.add_axes_at(left, HEAD, COLUMN, height, gid=f"shared memory {block}")
    ax.set(xlim=(0, 1), ylim=(whole, 0), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    first = found[0][1].place
    for asker, box in found:
        axis = 0 if box.array == "A" else 1
        begin, end = box.corner[axis], box.corner[axis] + box.box[axis] - 1
        ax.add_patch(
            Rectangle((0, box.place - first), 1, _bytes(one, box), edgecolor="white", linewidth=1,
                      facecolor=style.tint(ARRAYS[box.array], SHARES[asker]),
                      gid=f"{box.array} {box.corner} asked by {asker} in {block}")
        )  # fmt: skip
        what = "rows" if box.array == "A" else "columns"
        words = (
            f"{box.array}, {what} {begin}–{end}: {_bytes(one, box) // KIB} KiB, asked by {asker}"
        )
        ax.text(0.5, box.place - first + _bytes(one, box) / 2, words, size=SMALL, ha="center",
                va="center")  # fmt: skip


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()
    x, y = MARGIN, 0.35
    for block, share in enumerate(SHARES):
        for array in "AB":
            fig.add_artist(
                Rectangle((x / across, 1 - (y + 0.14) / down), 0.16 / across, 0.14 / down,
                          facecolor=style.tint(ARRAYS[array], share))
            )  # fmt: skip
            x += 0.2
        words = f"asked for by block {block}"
        fig.text_at(x + 0.02, y, words, size=SMALL)
        x += style.text_width(words, SMALL) + 0.25


def _caption(one: Schedule, asked: list[list[BoxCopy]]) -> str:
    asks = sum(_bytes(one, box) for boxes in asked for box in boxes)
    gets = sum(_bytes(one, box) for block in range(len(asked)) for _, box in _gets(asked, block))
    shared = [box for boxes in asked for box in boxes if len(box.ranks) > 1]
    return (
        f"The boxes of the first step along K, as the copies tell. Of B each block asks for a part "
        f"and every part goes to both. The two ask for {asks // KIB} KiB and get {gets // KIB} "
        f"KiB; {len(shared)} boxes go to both."
    )
