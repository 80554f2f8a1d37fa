"""Loads of 4 and of 16 bytes, and where four neighbours of A go in a transposed tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.kernel.trace import Access, Trace
from gemmlab.plots import style
from gemmlab.plots.matrix import SECTOR_BYTES, require_access, require_trace
from gemmlab.plots.memory.warps import lanes_in_words
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH, plural, styled
from ptxsim import WarpAccess
from ptxsim.architectures import WARP

LINE_BYTES = 128  # a line of the L1 cache; shared memory delivers as much in one wavefront
WORD = 4
BANKS = LINE_BYTES // WORD
MOST_LINES = 16
SHARED = "shared memory"


# ---- one load, 4 or 16 bytes wide ----------------------------------------------------------------


@styled
def access_widths(accesses: Mapping[str, Access], *, caption: str | None = None) -> Picture:
    """What one warp asks of global memory in one instruction, for each named access.

    Memory is drawn in lines of 128 bytes, those that the access touches, each of four sectors.
    Every box is what one lane asks for, with the lane's number.

    Raises TypeError for anything but accesses, as trace.warp_access(...) returns them, and
    ValueError for none of them, or for one whose lanes share elements or touch over 16 lines.
    """
    if not accesses:
        raise ValueError("access_widths takes one access or more, by name.")
    for access in accesses.values():
        require_access(access, "access_widths")
        if len(set(access.addresses.tolist())) < len(access.lanes):
            raise ValueError(
                f"access_widths: lanes share elements in this {access.op} of {access.array}; "
                "warp_map shows such accesses."
            )
        if len(_lines(access)) > MOST_LINES:
            raise ValueError(
                f"access_widths: the {access.op} of {access.array} touches {len(_lines(access))} "
                f"lines of {LINE_BYTES} bytes; at most {MOST_LINES} can be drawn."
            )
    left, right, row, head, gap = MARGIN + 0.85, MARGIN, 0.24, 0.62, 0.18
    height = sum(head + row * len(_lines(access)) + gap for access in accesses.values())
    fig = style.page(0.45 + height, caption or _widths_caption(accesses))
    fig.text_at(MARGIN, 0.12, "One instruction of one warp", size=style.LARGE, weight="bold")
    note = "each row a line of 128 bytes, in four sectors; each box what one lane asks for"
    fig.text_at(WIDTH - MARGIN, 0.14, note, size=SMALL, ha="right")
    top = 0.4
    for name, access in accesses.items():
        lines = _lines(access)
        fig.text_at(MARGIN, top + 0.08, f"{name}, line {access.line}", size=NORMAL, weight="bold")
        words = f"{access.op} of {access.array}, {access.width} bytes a lane: {_cost(access)}"
        fig.text_at(MARGIN, top + 0.28, words, size=NORMAL)
        size = (WIDTH - left - right, row * len(lines))
        ax = fig.add_axes_at(left, top + head - 0.1, *size, gid=f"lines {name}")
        _draw_lines(ax, access, lines)
        top += head + size[1] + gap
    return fig


def _lines(access: Access) -> list[int]:
    """The numbers of the lines of 128 bytes that an access touches. No lane straddles two."""
    return sorted({int(address) // LINE_BYTES for address in access.addresses})


def _cost(access: Access) -> str:
    return (
        f"{len(access.lanes) * access.width} bytes in {plural(access.requests, 'request')} "
        f"and {plural(access.sectors, 'sector')}"
    )


def _draw_lines(ax: Axes, access: Access, lines: list[int]) -> None:
    colour = style.ARRAYS[access.array]
    ax.set(xlim=(0, LINE_BYTES), ylim=(len(lines), 0))
    ax.spines[:].set_visible(False)
    ax.set_xticks([])
    ax.tick_params(length=0)
    names = []
    for at, line in enumerate(lines):
        row, column = divmod(line * LINE_BYTES // WORD, access.shape[1])
        names.append(f"{access.array}[{row}, {column}]")
        for sector in range(LINE_BYTES // SECTOR_BYTES):
            ax.add_patch(
                Rectangle(
                    (sector * SECTOR_BYTES, at), SECTOR_BYTES, 1, facecolor="white",
                    edgecolor=style.FAINT, linewidth=1.0, clip_on=False, gid="sector",
                )
            )  # fmt: skip
    ax.set_yticks([at + 0.5 for at in range(len(lines))], names)
    for lane, address in zip(access.lanes, access.addresses, strict=True):
        x, y = int(address) % LINE_BYTES, lines.index(int(address) // LINE_BYTES)
        ax.add_patch(
            Rectangle(
                (x + 0.15, y + 0.12), access.width - 0.3, 0.76, facecolor=colour, linewidth=0,
                gid=f"lane {lane}",
            )
        )  # fmt: skip
        ax.text(
            x + access.width / 2, y + 0.53, str(lane), size=SMALL, color="white", ha="center",
            va="center_baseline",
        )  # fmt: skip


def _widths_caption(accesses: Mapping[str, Access]) -> str:
    parts = [
        f"a {access.op} of {access.array} in {name} moves {_cost(access)}"
        for name, access in accesses.items()
    ]
    whole = all(
        access.sectors * SECTOR_BYTES == len(access.lanes) * access.width
        for access in accesses.values()
    )
    end = " Every byte of these sectors is used." if whole else ""
    return f"One instruction of one warp, traced: {style.listed(parts)}.{end}"


# ---- the transposed tile -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Staged:
    """One load of A by a warp, the four stores that keep it, and the first load of the tile."""

    load: Access
    stores: list[WarpAccess]
    read: WarpAccess

    @classmethod
    def of(cls, trace: Trace, block: tuple[int, int, int], warp: int) -> _Staged:
        load = trace.warp_access("A", block=block, warp=warp)
        shared = [a for a in trace.run.accesses(block, warp) if a.array == SHARED]
        stores = [a for a in shared if a.operation == "store" and a.size == WORD][:4]
        reads = [a for a in shared if a.operation == "load"]
        if load.width != 4 * WORD or len(stores) < 4 or not reads:
            raise ValueError(
                f"staging needs a kernel whose warps load 16 bytes of A and store them one by one; "
                f"{trace.kernel_name} at {style.shape_label(trace.m, trace.n, trace.k)} loads "
                f"{load.width} bytes."
            )
        return cls(load, stores, reads[0])

    @property
    def rows(self) -> list[int]:
        """The stretches of 128 bytes of shared memory that the four stores touch."""
        return sorted({byte // LINE_BYTES for byte in self.stored})

    @property
    def stored(self) -> set[int]:
        """The first bytes of the words that the four stores write."""
        return {int(a) for store in self.stores for a in store.addresses[store.active]}

    @property
    def wavefronts(self) -> int:
        """How many different words the busiest bank takes in the first store."""
        store = self.stores[0]
        words = {int(address) // WORD for address in store.addresses[store.active]}
        banks = [word % BANKS for word in words]
        return max(banks.count(bank) for bank in banks)

    @property
    def banks(self) -> int:
        """How many banks the first store falls into."""
        store = self.stores[0]
        return len({int(address) // WORD % BANKS for address in store.addresses[store.active]})

    def column(self, row: int) -> str:
        """Which column of A stands in a stretch: the n-th store keeps the n-th of four neighbours.

        Empty where elements of several columns stand there.
        """
        columns = {
            int(self.load.elements[at][number][1])
            for number, store in enumerate(self.stores)
            for at, lane in enumerate(self.load.lanes)
            if store.active[lane] and int(store.addresses[lane]) // LINE_BYTES == row
        }
        return f"A[:, {columns.pop()}], " if len(columns) == 1 else ""

    def readers(self) -> dict[int, list[int]]:
        """First byte of a piece of 16 bytes: the lanes that the tile's first load gives it to.

        Of pieces that these four stores fill; what other warps store is not drawn.
        """
        stored = self.stored
        lanes: dict[int, list[int]] = {}
        for lane in range(WARP):
            first = int(self.read.addresses[lane])
            if self.read.active[lane] and stored.issuperset(range(first, first + 4 * WORD, WORD)):
                lanes.setdefault(first, []).append(lane)
        return lanes


@styled
def staging(
    trace: Trace,
    *,
    block: tuple[int, int, int] = (0, 0, 0),
    warp: int = 0,
    caption: str | None = None,
) -> Picture:
    """Where four neighbours of a row of A go in shared memory, and what is read from there.

    Left: the elements of A that one warp brings with its first load, four for each lane. Right:
    shared memory in stretches of 128 bytes, a column for each bank, with the lanes that store
    there. Dark is what the first of the four stores writes. Outlined is what the warp's first load
    of the tile reads of it.

    Raises TypeError for anything but a trace, what Trace.warp_access raises for a block or warp
    that is not there, and ValueError for a kernel that does not load A 16 bytes at a time.
    """
    require_trace(trace, "staging")
    staged = _Staged.of(trace, tuple(block), warp)
    rows = staged.rows
    if len(rows) > MOST_LINES:
        raise ValueError(
            f"staging: the stores fall into {len(rows)} stretches of {LINE_BYTES} bytes; "
            f"at most {MOST_LINES} can be drawn."
        )
    head, cell, left = 0.95, 0.2, MARGIN + 0.3
    side = 1.75  # inches, of the piece of A
    x = left + side + 1.45  # room for the names of the rows
    height = cell * max(len(rows), _extent(staged.load)[0])
    fig = style.page(head + height + 0.3, caption or _staging_caption(trace, staged, block, warp))
    title = f"{trace.kernel_name}: block {tuple(block)}, warp {warp}"
    fig.text_at(MARGIN, 0.12, title, size=style.LARGE, weight="bold")
    fig.text_at(left, 0.45, "A: one load", size=NORMAL, weight="bold")
    words = "shared memory: four stores, over the 32 banks"
    fig.text_at(x, 0.45, words, size=NORMAL, weight="bold")
    _key(fig, outlined=bool(staged.readers()))
    piece = fig.add_axes_at(left, head, side, cell * _extent(staged.load)[0], gid="piece of A")
    _draw_piece(piece, staged.load)
    banks = fig.add_axes_at(x, head, WIDTH - MARGIN - x, cell * len(rows), gid="banks")
    _draw_banks(banks, staged, rows)
    return fig


def _key(fig: Picture, *, outlined: bool) -> None:
    across, down = fig.get_size_inches()
    right = WIDTH - MARGIN
    looks = [
        ("the other three", {"facecolor": style.tint(style.BLUE, 0.25), "linewidth": 0}),
        ("the first store", {"facecolor": style.BLUE, "linewidth": 0}),
    ]
    if outlined:
        frame = {"facecolor": "white", "edgecolor": style.VERMILION, "linewidth": 2}
        looks.insert(0, ("read first", frame))
    for words, look in looks:
        right -= style.text_width(words, SMALL) + 0.05
        fig.text_at(right, 0.15, words, size=SMALL)
        right -= 0.2
        corner = (right / across, 1 - 0.275 / down)
        fig.add_artist(Rectangle(corner, 0.14 / across, 0.12 / down, **look))
        right -= 0.15


def _extent(load: Access) -> tuple[int, int]:
    """Rows and columns from the first to the last element that a load touches."""
    low, high = load.elements.min(axis=(0, 1)), load.elements.max(axis=(0, 1))
    return int(high[0] - low[0] + 1), int(high[1] - low[1] + 1)


def _draw_piece(ax: Axes, load: Access) -> None:
    """Each lane's four neighbours: the first dark, and the lane's number on the others."""
    top, left = (int(index) for index in load.elements.min(axis=(0, 1)))
    rows, columns = _extent(load)
    ax.set(xlim=(0, columns), ylim=(rows, 0))
    ax.spines[:].set_visible(False)
    for lane, words in zip(load.lanes, load.elements, strict=True):
        for at, (row, column) in enumerate(words):
            _cell(ax, int(column) - left, int(row) - top, first=at == 0)
        row, column = int(words[0][0]) - top, int(words[0][1]) - left
        ax.add_patch(Rectangle((column, row), 4, 1, fill=False, edgecolor=style.INK, linewidth=0.9))
        ax.text(column + 2.5, row + 0.55, str(lane), size=SMALL, ha="center", va="center_baseline")
    ax.set_yticks([at + 0.5 for at in range(rows)], [str(top + at) for at in range(rows)])
    marks = range(0, columns, 4)
    ax.set_xticks([at + 0.5 for at in marks], [str(left + at) for at in marks])
    ax.tick_params(length=0, pad=2, top=False, labeltop=True, bottom=False, labelbottom=False)


def _draw_banks(ax: Axes, staged: _Staged, rows: list[int]) -> None:
    ax.set(xlim=(0, BANKS), ylim=(len(rows), 0))
    ax.spines[:].set_visible(False)
    ax.add_patch(Rectangle((0, 0), BANKS, len(rows), facecolor="white", zorder=0))
    ax.hlines(range(len(rows) + 1), 0, BANKS, color=style.GRID, linewidth=0.5, zorder=0.5)
    ax.vlines(range(BANKS + 1), 0, len(rows), color=style.GRID, linewidth=0.5, zorder=0.5)
    for number, store in enumerate(staged.stores):
        for lane in range(WARP):
            if not store.active[lane]:
                continue
            line, byte = divmod(int(store.addresses[lane]), LINE_BYTES)
            x, y = byte // WORD, rows.index(line)
            _cell(ax, x, y, first=number == 0, gid=f"store {number} lane {lane}")
            ax.text(
                x + 0.5, y + 0.55, str(lane), size=SMALL, ha="center", va="center_baseline",
                color="white" if number == 0 else style.INK,
            )  # fmt: skip
    _draw_readers(ax, staged, rows)
    ax.set_yticks(
        [at + 0.5 for at in range(len(rows))],
        [f"{staged.column(line)}byte {line * LINE_BYTES:,}" for line in rows],
    )
    marks = [*range(0, BANKS, 4), BANKS - 1]
    ax.set_xticks([bank + 0.5 for bank in marks], [str(bank) for bank in marks])
    ax.tick_params(length=0, pad=2, top=False, labeltop=True, bottom=False, labelbottom=False)


def _draw_readers(ax: Axes, staged: _Staged, rows: list[int]) -> None:
    """Frames around what is read first, and the lanes that read it, right of what is stored."""
    readers = staged.readers()
    for address in readers:
        line, byte = divmod(address, LINE_BYTES)
        ax.add_patch(
            Rectangle((byte // WORD, rows.index(line)), 4, 1, fill=False, linewidth=2, zorder=4,
                      edgecolor=style.VERMILION, clip_on=False, gid=f"read {address}")
        )  # fmt: skip
    if not readers:
        return
    words = f"read by {' and by '.join(map(lanes_in_words, readers.values()))}"
    line = min(readers) // LINE_BYTES
    end = 1 + max(byte for byte in staged.stored if byte // LINE_BYTES == line) % LINE_BYTES // WORD
    if style.text_width(words, SMALL) < (BANKS - end - 1) * 0.16:
        y = rows.index(line) + 0.55
        ax.text(end + 0.5, y, words, size=SMALL, va="center_baseline")


def _cell(ax: Axes, x: int, y: int, *, first: bool, gid: str | None = None) -> None:
    colour = style.BLUE if first else style.tint(style.BLUE, 0.25)
    ax.add_patch(
        Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="white", linewidth=0.5, gid=gid)
    )


def _staging_caption(trace: Trace, staged: _Staged, block: tuple, warp: int) -> str:
    read = "".join(
        f" The 16 bytes outlined are what {lanes_in_words(lanes)} ask for in the warp's first load "
        "of the tile."
        for lanes in staged.readers().values()
    )
    return (
        f"Warp {warp} of block {tuple(block)} of {trace.kernel_name} at its first load of A. "
        "Numbers are lanes. Each lane brings four neighbours of a row and stores them one by one. "
        f"Each row of shared memory is {BANKS} words, one in each bank. The first of the four "
        f"stores, dark, falls into {plural(staged.banks, 'bank')} of {BANKS} and takes "
        f"{plural(staged.wavefronts, 'wavefront')}.{read}"
    )
