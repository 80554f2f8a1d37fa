"""The byte addresses of one warp, lane by lane."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.kernel.trace import Access
from gemmlab.plots import style
from gemmlab.plots.matrix import SECTOR_BYTES, require_access
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import MARGIN, SMALL, WIDTH, plural, styled
from ptxsim.architectures import WARP

MOST_OUTLINED = 128  # sectors that a panel spans with room for an outline around each


@styled
def address_map(*accesses: Access, caption: str | None = None) -> Picture:
    """Byte address over lane, one panel for each access: a staircase, a flat or a steep line.

    Every band is a 32-byte sector that the access touches. All panels span equally many bytes,
    counted from the first sector touched. Takes what trace.warp_access(...) returns, one to four.

    Raises TypeError for anything else, ValueError for none or for more than four.
    """
    if not 1 <= len(accesses) <= 4:
        raise ValueError(f"address_map takes one to four accesses, not {len(accesses)}.")
    for access in accesses:
        require_access(access, "address_map")
    starts = [int(access.addresses.min()) // SECTOR_BYTES * SECTOR_BYTES for access in accesses]
    span = max(
        int(access.addresses.max()) + access.width - start
        for access, start in zip(accesses, starts, strict=True)
    )
    span = math.ceil(span / SECTOR_BYTES) * SECTOR_BYTES
    step = SECTOR_BYTES
    while span / step > 8:
        step *= 2

    head, height, left, gap = 0.75, 2.7, 0.75, 0.3
    width = (WIDTH - MARGIN - left - gap * (len(accesses) - 1)) / len(accesses)
    if caption is None:
        caption = _address_caption(accesses)
    fig = style.page(head + height + 0.65, caption)
    for at, (access, start) in enumerate(zip(accesses, starts, strict=True)):
        x = left + at * (width + gap)
        ax = fig.add_axes_at(x, head, width, height, gid=f"addresses {access.array}")
        _draw_addresses(ax, access, start, span)
        margin = span * 0.03
        ax.set(xlim=(-1, WARP), ylim=(-margin, span + margin), xlabel="lane")
        ax.set_xticks([0, 8, 16, 24, 31])
        ticks = range(0, span + 1, step)
        ax.set_yticks(ticks, [f"{tick:,}" for tick in ticks] if at == 0 else [""] * len(ticks))
        if at == 0:
            ax.set_ylabel("bytes from the first sector touched")
        title = f"{access.array}: {access.op}, {plural(access.sectors, 'sector')}"
        fig.text_at(x, 0.15, title, size=style.LARGE, weight="bold")
        fig.text_at(x, 0.4, f"0 is byte {start:,} of {access.array}", size=SMALL)
    return fig


def _draw_addresses(ax: Axes, access: Access, start: int, span: int) -> None:
    colour = style.ARRAYS[access.array]
    # Bands thinner than two dots have no outline: it would hide how thin they are.
    thin = span > MOST_OUTLINED * SECTOR_BYTES
    look = {"facecolor": style.tint(colour, 0.6 if thin else 0.22), "linewidth": 0 if thin else 0.6}
    width = access.shape[1]
    sectors = {
        (int(row) * width + int(column)) // access.sector_elements
        for words in access.elements
        for row, column in words
    }
    for sector in sorted(sectors):
        ax.add_patch(
            Rectangle(
                (-1, sector * SECTOR_BYTES - start), WARP + 1, SECTOR_BYTES,
                edgecolor=style.tint(colour, 0.6), gid=f"sector {sector}", snap=not thin, **look,
            )
        )  # fmt: skip
    marker = style.ARRAY_MARKERS[access.array]
    ax.plot(
        access.lanes, access.addresses - start, marker, color=colour, markersize=4, clip_on=False
    )


def _address_caption(accesses: Sequence[Access]) -> str:
    def course(addresses: numpy.ndarray) -> str:
        steps = set((addresses[1:] - addresses[:-1]).tolist())
        if steps <= {0}:
            return "stays at one address"
        if len(steps) == 1:
            step = steps.pop()
            return f"{'climbs' if step > 0 else 'falls'} {abs(step):,} bytes from lane to lane"
        return "jumps between lanes"

    parts = [
        f"the {access.op} of {access.array} {course(access.addresses)} "
        f"({plural(access.sectors, 'sector')})"
        for access in accesses
    ]
    return (
        f"Byte addresses of the lanes of one warp in one instruction: {style.listed(parts)}. "
        "Every band is a sector of 32 bytes that has to be moved."
    )
