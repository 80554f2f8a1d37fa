"""The 32 banks of shared memory: which lanes of a warp meet in one, and who waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, number_banks, plate
from gemmlab.plots.maps import lanes_in_words
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH, plural
from ptxsim import WarpAccess
from ptxsim.architectures import WARP
from ptxsim.metrics import BANK_BYTES, BANKS, MATRIX_METRICS, METRICS, Counter, in_pairs

COUNTED = METRICS | MATRIX_METRICS
ROW = 0.215  # inches, of one wavefront
HEAD = 0.5  # of one access: its name, and the numbers of the banks
GROUP_GAP = 0.12  # of a row, between lanes that go apart
GAP = 0.16
LEFT = MARGIN + 0.95  # room for the lanes that go together
GOES = swatch(style.SKY, 0.65, edgecolor=style.BLUE)
WAITS = {
    "facecolor": style.tint(style.ORANGE, 0.45), "edgecolor": style.VERMILION, "hatch": "////",
}  # fmt: skip


@dataclass(frozen=True)
class Group:
    """Lanes whose words the banks deliver together, in one wavefront or in several.

    `stacks`: for each place that one lane's bytes take (a bank, or 2 or 4 banks), the lanes of
    each different address there. They wait for each other: the n-th goes with wavefront n.
    """

    lanes: list[int]
    stacks: dict[int, list[list[int]]]

    @property
    def wavefronts(self) -> int:
        return max(map(len, self.stacks.values()))


@dataclass(frozen=True)
class Banks:
    """One access of one warp to shared memory, as the simulator counts it."""

    access: WarpAccess
    groups: list[Group]
    wavefronts: int
    conflicts: int

    @classmethod
    def of(cls, access: WarpAccess) -> Banks:
        """Of a load or store of shared memory by at least one lane."""
        rows = access.addresses[None], access.active[None]
        counter = Counter()
        key = access.line, access.space, access.operation, access.array
        counter.add(key, *rows, access.size, np.ones(1, int))
        _, *metrics = COUNTED["shared", access.operation]
        units, conflicts = (counter.totals()[metric] for metric in metrics)
        groups = [_group(access, lanes) for lanes in _together(access)]
        return cls(access, groups, units, conflicts)

    @property
    def cost(self) -> str:
        return f"{plural(self.wavefronts, 'wavefront')}, {plural(self.conflicts, 'conflict')}"

    @property
    def height(self) -> float:
        """In rows."""
        return sum(group.wavefronts for group in self.groups) + GROUP_GAP * (len(self.groups) - 1)


def _together(access: WarpAccess) -> list[list[int]]:
    """The lanes of each part of the warp that goes by itself: quarters of it for 16 bytes."""
    parts = max(1, access.size // BANK_BYTES)
    groups = [*np.arange(WARP).reshape(parts, -1)]
    if parts > 1 and access.operation == "load":
        paired = in_pairs(access.addresses[None], access.active[None], parts // 2)[0]
        pairs = zip(paired, groups[::2], groups[1::2], strict=True)
        groups = []
        for goes_together, *pair in pairs:
            groups += [np.concatenate(pair)] if goes_together else pair
    return [group.tolist() for group in groups if access.active[group].any()]


def _group(access: WarpAccess, lanes: list[int]) -> Group:
    width = max(BANK_BYTES, access.size)
    places = BANKS * BANK_BYTES // width
    units: dict[int, list[int]] = defaultdict(list)
    for lane in lanes:
        if access.active[lane]:
            units[int(access.addresses[lane]) // width].append(lane)
    stacks: dict[int, list[list[int]]] = defaultdict(list)
    for unit, who in units.items():
        stacks[unit % places].append(who)
    return Group(lanes, stacks)


@styled
def bank_map(accesses: Mapping[str, WarpAccess]) -> Picture:
    """Which lanes of one warp touch which banks of shared memory, for each named access.

    The 32 banks lie along x. Lanes that the hardware serves together are one group of rows: the
    whole warp, or halves or quarters of it where a lane moves 8 or 16 bytes. What lies above each
    other in a bank are different words: each row is one wavefront. Each box carries the lanes that
    it serves, or how many where their numbers do not fit.

    accesses: loads or stores of shared memory, as trace.run.accesses(block, warp) has them.
    """
    banks = {name: Banks.of(access) for name, access in accesses.items()}
    key = [("no bank conflict", GOES)]
    groups = [group for access in banks.values() for group in access.groups]
    if any(len(stack) > 1 for group in groups for stack in group.stacks.values()):
        key.append(("a bank conflict: waits for the row above", WAITS))
    height = 0.3 + sum(HEAD + ROW * access.height + GAP for access in banks.values())
    title = "One access of one warp, over the banks"
    parts = [f"“{name}” takes {met.cost.replace(', ', ' and ')}" for name, met in banks.items()]
    how = ""
    for moves in sorted({met.access.size for met in banks.values()}, reverse=True):
        if moves > BANK_BYTES:
            lanes = WARP * BANK_BYTES // moves
            how += f" Where a lane moves {moves} bytes, {lanes} lanes go at a time."
    moved = (len(group.lanes) * met.access.size for met in banks.values() for group in met.groups)
    if max(moved) > BANKS * BANK_BYTES:
        how += " Twice as many go where each reads the same as the next, or the next but one."
    caption = (
        f"The 32 banks, and the lanes that meet in them: {style.listed(parts)}. Different words in "
        f"one bank lie above each other, and each row is one wavefront.{how}"
    )
    fig = page(title, height, caption, key=key)
    top = fig.top + 0.08
    for name, met in banks.items():
        access = met.access
        words = f"{access.operation} of {access.size} bytes a lane, line {access.line}: {met.cost}"
        fig.text_at(MARGIN, top, name, size=NORMAL, weight="bold")
        fig.text_at(WIDTH - MARGIN, top, words, size=NORMAL, ha="right")
        size = (WIDTH - MARGIN - LEFT, ROW * met.height)
        ax = fig.add_axes_at(LEFT, top + HEAD - 0.1, *size)
        _draw(ax, met)
        top += HEAD + size[1] + GAP
    words = "Each row is one wavefront; the numbers are lanes"
    if any(text.get_text().startswith("×") for ax in fig.axes for text in ax.texts):
        words += ", ×n is n lanes at one word"
    fig.text_at(MARGIN, top + 0.02, f"{words}.", size=SMALL)
    return fig


def _draw(ax: Axes, banks: Banks) -> None:
    across = max(1, banks.access.size // BANK_BYTES)  # banks that one lane's bytes take
    room = (WIDTH - MARGIN - LEFT) / BANKS * across - 0.06
    bare(ax, BANKS, banks.height)
    top, ticks, names = 0.0, [], []
    for group in banks.groups:
        bottom = top + group.wavefronts
        box(ax, 0, top, BANKS, group.wavefronts, facecolor="white", zorder=0)
        look: style.Look = {"zorder": 0.5, "clip_on": False}
        ax.hlines([top, bottom], 0, BANKS, color=style.FAINT, linewidth=0.8, **look)
        ax.vlines(range(BANKS + 1), top, bottom, color=style.GRID, linewidth=0.5, **look)
        for place, stack in group.stacks.items():
            for level, lanes in enumerate(stack):
                look = WAITS if level else GOES
                text = {"bbox": plate(0.5, 1) if level else None}
                words, x = _label(lanes, room), place * across + 0.06
                box(ax, x, top + level + 0.08, across - 0.12, 0.84, words, text, zorder=1, **look)
        ticks.append(top + group.wavefronts / 2)
        names.append(lanes_in_words(group.lanes))
        top = bottom + GROUP_GAP
    ax.set_yticks(ticks, names)
    number_banks(ax, BANKS)


def _label(lanes: list[int], room: float) -> str:
    """The lanes' numbers where they fit; else how many."""
    words = ", ".join(map(str, lanes))
    if len(lanes) > 2 and lanes == list(range(lanes[0], lanes[-1] + 1)):
        words = f"{lanes[0]}–{lanes[-1]}"
    return words if style.text_width(words, SMALL) <= room else f"×{len(lanes)}"
