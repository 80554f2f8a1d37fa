"""Figures of this lesson: roles and their turns, waits, phases of a block, registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas
from matplotlib.axes import Axes

from gemmlab.lessons.tma_wgmma.tables import PHASES
from gemmlab.lessons.warp_specialized import turns as traced
from gemmlab.lessons.warp_specialized.tables import Share
from gemmlab.lessons.warp_specialized.turns import Turn, Turns
from gemmlab.plots import style
from gemmlab.plots.cells import box, plate, write
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.rows import bar, rows_of
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, TILE_COLOURS, WIDTH
from ptxsim.architectures import REGISTERS_PER_SM

# ---- turns ---------------------------------------------------------------------------------------

MOST = 110  # columns; more would be too narrow for a number
ROW, BAR = 0.32, 0.24  # inches
WAY, THERE, WAIT = "on its way", "there", "wait"
WAITED_FOR = {traced.AWAITS_EMPTY: "empty", traced.AWAITS_FULL: "full"}
KEY = {
    traced.COPIES: "starts the copies of a step", traced.STARTS: "starts its products",
    WAIT: "waits at an mbarrier", traced.ARRIVES: "arrives at empty",
    WAY: "of a stage: its tiles are on their way", THERE: "are there, and multiplied",
    traced.MEETS: "all threads meet", traced.SENDS: "C goes to global memory",
}  # fmt: skip
MARKS = {
    traced.ARRIVES: {"color": style.BLACK, "marker": "v", "markersize": 5, "linestyle": ""},
    traced.MEETS: {"color": style.BLACK, "marker": "|", "markersize": 11, "linestyle": ""},
}


@styled
def turns(*kernels: Turns, shown: int | None = None) -> Picture:
    """A panel for each kernel: a row for each role, and below one for each stage of its ring.

    kernels: as turns.of(trace) gives. Left to right is the order in which the
    simulator executed it, not time. A number is a step along K. shown: how many moments, the rest
    is pale; a line is there. Raises TypeError and ValueError for anything else, and for more steps
    than fit.
    """
    if not kernels:
        raise ValueError("turns takes what turns.of(trace) gives, one or more.")
    for kernel in kernels:
        if not isinstance(kernel, Turns):
            raise TypeError(f"turns takes what turns.of(trace) gives, not {kernel!r}.")
    panels = [_Turns.of(kernel) for kernel in kernels]
    most = max(len(panel.columns) for panel in panels)
    if most > MOST:
        raise ValueError(
            f"turns: {most} moments are too many to read, at most {MOST} fit; "
            "trace a product with a smaller K."
        )
    left = MARGIN + style.widest(name for panel in panels for name in panel.rows) + 0.12
    pitch = (WIDTH - MARGIN - left) / most
    key = [(words, MARKS.get(kind) or _look(kind, TILE_COLOURS[0])) for kind, words in KEY.items()]
    title = "Who does what, and who waits for whom: an order of execution"
    height = sum(ROW * len(panel.rows) + 0.45 for panel in panels)
    fig = page(title, height, _of_turns(panels), key=key)
    top = fig.top
    for panel in panels:
        fig.text_at(MARGIN, top, panel.name, size=NORMAL, weight="bold")
        ax = rows_of(
            fig, list(panel.rows), top + 0.22, ROW, left=left,
            right=left + pitch * len(panel.columns), gid=f"turns {panel.name}",
        )  # fmt: skip
        _draw(ax, panel)
        if shown is not None:  # pale what is still to come, and a line before it
            size = (len(panel.columns) - shown + 0.2, len(panel.rows))
            look = {"facecolor": style.GROUND, "edgecolor": "none", "alpha": 0.8, "zorder": 6}
            box(ax, shown, 0, *size, gid="to come", **look)
            ax.axvline(shown, color=style.BLACK, linewidth=1.2, zorder=7, gid="shown")
        top += ROW * len(panel.rows) + 0.45
    return fig


def moments(kernel: Turns) -> list[tuple[str, ...]]:
    """What begins, or is over, at each moment of the figure: words for each, in their order."""
    columns = _columns(kernel)
    words: list[list[str]] = [[] for _ in columns]
    for role, every in kernel.roles.items():
        for turn in every:
            if turn.kind in WAITED_FOR and turn.until > turn.begin:
                event = f"stage {turn.stage} is {WAITED_FOR[turn.kind]}"
                words[columns[turn.begin]].append(f"{role} waits until {event}")
                words[columns[turn.until]].append(f"{role} goes on: {event}")
            elif turn.kind in (traced.COPIES, traced.STARTS):
                where = "into" if turn.kind == traced.COPIES else "from"
                event = f"{turn.kind} of step {turn.step} {where} stage {turn.stage}"
                words[columns[turn.begin]].append(f"{role} {event}")
            elif turn.kind == traced.ARRIVES:
                event = f"has read stage {turn.stage} and arrives at its empty mbarrier"
                words[columns[turn.begin]].append(f"{role} {event}")
            elif turn.kind in (traced.MEETS, traced.SENDS):
                words[columns[turn.begin]].append(f"{role} {turn.kind}")
    return [tuple(moment) for moment in words]


def _columns(kernel: Turns) -> dict[int, int]:
    """{when: which column} of all that is drawn."""
    whens = set()
    for every in kernel.roles.values():
        for turn in every:
            if turn.kind in WAITED_FOR and turn.until > turn.begin:
                whens |= {turn.begin, turn.until}
            elif turn.kind not in (*WAITED_FOR, traced.AWAITS_PRODUCTS):
                whens.add(turn.begin)
    return {when: column for column, when in enumerate(sorted(whens))}


@dataclass(frozen=True)
class _Turns:
    """One kernel: its turns, the columns of its moments, and its rows from the top."""

    kernel: Turns
    columns: dict[int, int]
    rows: dict[str, int]

    @classmethod
    def of(cls, kernel: Turns) -> _Turns:
        roles = sorted(kernel.roles, key=lambda role: (role != "producer", role))
        names = [*roles, *(f"stage {stage}" for stage in range(kernel.stages))]
        return cls(kernel, _columns(kernel), {name: row for row, name in enumerate(names)})

    @property
    def name(self) -> str:
        stages = self.kernel.trace.settings["STAGES"]
        return f"{self.kernel.trace.kernel_name}, STAGES={stages}"

    def contents(self, step: int) -> tuple[int, int, int, int]:
        """Of a step: its stage, and the columns where it is copied, there, and given back."""
        (copied,) = self.kernel.of(traced.COPIES, step)
        ready = min(turn.until for turn in self.kernel.of(traced.AWAITS_FULL, step))
        started = min(turn.begin for turn in self.kernel.of(traced.STARTS, step))
        lag = self.kernel.stages > 1  # products under way while all meet
        back = self.kernel.of(traced.ARRIVES, step) or self.kernel.of(traced.MEETS, step + lag)
        over = max(turn.begin for turn in back or self.kernel.of(traced.SENDS, traced.OF_C))
        there = self.columns.get(ready, self.columns[started])
        return copied.stage, self.columns[copied.begin], there, self.columns[over]


def _draw(ax: Axes, panel: _Turns) -> None:
    last = len(panel.columns)
    for role, every in panel.kernel.roles.items():
        for turn in every:
            _draw_turn(ax, panel, panel.rows[role], turn)
    for step in range(panel.kernel.steps):
        stage, copied, there, over = panel.contents(step)
        row = panel.rows[f"stage {stage}"]
        _box(ax, row, copied + 1, there, step, WAY, f"{WAY} {step}")
        _box(ax, row, there, over, step, THERE, f"{THERE} {step}", str(step))
    ax.axhline(len(panel.kernel.roles), color=style.FAINT, linewidth=0.8)
    ax.set(xlim=(-0.2, last + 0.2), xticks=[])
    ax.spines[:].set_visible(False)


def _draw_turn(ax: Axes, panel: _Turns, row: int, turn: Turn) -> None:
    gid = f"{turn.kind} {turn.step}"
    if turn.kind in WAITED_FOR:
        if turn.until > turn.begin:
            low, high = panel.columns[turn.begin], panel.columns[turn.until]
            words = WAITED_FOR[turn.kind] if high - low > 3 else ""
            _box(ax, row, low, high, None, WAIT, gid, words)
        return
    if turn.kind == traced.AWAITS_PRODUCTS:
        return
    at = panel.columns[turn.begin]
    if turn.kind in (traced.COPIES, traced.STARTS):
        _box(ax, row, at, at + 1, turn.step, turn.kind, gid, str(turn.step))
    elif turn.kind == traced.ARRIVES:
        ax.plot(at + 0.5, row + 0.5, gid=gid, zorder=3, **MARKS[turn.kind])
    elif turn.kind == traced.MEETS:
        ax.plot([at + 0.5] * 2, [row, row + 1], color=style.BLACK, linewidth=1.6, gid=gid)
    else:
        _box(ax, row, at, len(panel.columns), None, traced.SENDS, gid)


def _look(kind: str, colour: str) -> dict:
    """`colour` is that of the step."""
    if kind in (traced.COPIES, WAY):
        return swatch(colour, 0.12, hatch="////")
    if kind == WAIT:
        return swatch(style.FAINT, 0.18)
    return swatch(style.ARRAYS["C"], 0.4) if kind == traced.SENDS else swatch(colour, 0.5)


def _box(
    ax: Axes, row: int, low: float, high: float, step: int | None, kind: str, gid: str,
    words: str = "",
) -> None:  # fmt: skip
    if high <= low:
        return
    colour = style.INK if step is None else TILE_COLOURS[step % len(TILE_COLOURS)]
    thin = BAR / ROW * (0.45 if kind == WAIT and not words else 1.0)
    text = {"zorder": 4, "bbox": plate(0.6) if kind == traced.COPIES else None}
    bar(ax, row, low, high, words, share=thin, text=text, gid=gid, **_look(kind, colour))


def _of_turns(panels: list[_Turns]) -> str:
    trace, block = panels[0].kernel.trace, panels[0].kernel.block
    return (
        f"Block {block} at {style.shape_label(trace.m, trace.n, trace.k)}, followed through its "
        "trace. A number is a step along K; its colour is that of the step in all rows. This is "
        "one order that the mbarriers allow, that of the simulator, and not times: what stands in "
        "one column happens side by side."
    )


# ---- waits ---------------------------------------------------------------------------------------

BETWEEN = {  # from one event to the next: what it is called, and its look
    ("waits", "goes_on"): ("asks for a stage, and waits", swatch(style.ORANGE, 0.6)),
    ("goes_on", "done"): ("products, or starts of copies", swatch(style.SKY, 0.6)),
    ("done", "met"): ("waits for the others, or tells them", swatch(style.PURPLE, 0.6)),
}
ROLE = 0.42  # inches, from one role to the next


@styled
def waits(marks: pandas.DataFrame, *, first: int = 20, steps: int = 6) -> Picture:
    """Bars from one clock reading to the next, a panel for each kernel, a row for each role.

    marks: columns kernel, role, step and the cycles waits, goes_on, done and met (or none), as
    clock_readings.marks gives. Shown is while the first role of each kernel
    goes through `steps` steps from `first` on. Raises ValueError where it does not.
    """
    panels: list[_Waits] = []
    for kernel, rows in marks.groupby("kernel", sort=True):
        roles = list(dict.fromkeys(rows["role"]))
        lead = rows[rows["role"] == roles[0]].set_index("step")["waits"]
        if not {first, first + steps} <= set(lead.index):
            raise ValueError(f"waits: {kernel} has no steps from {first} to {first + steps}.")
        panels.append(_Waits(str(kernel), rows, roles, lead[first], lead[first + steps]))
    longest = max(panel.end - panel.begin for panel in panels)
    left = MARGIN + style.widest(role for panel in panels for role in panel.roles) + 0.15
    height = sum(len(panel.roles) * ROLE + 0.85 for panel in panels)
    caption = _of_waits(panels, first, steps)
    fig = page("Who waits for whom", height, caption, key=list(BETWEEN.values()))
    top = fig.top
    for panel in panels:
        fig.text_at(MARGIN, top, panel.kernel, size=NORMAL, weight="bold")
        gid = f"waits {panel.kernel}"
        ax = rows_of(fig, panel.roles, top + 0.24, ROLE, left=left, gid=gid, xlim=(0, longest))
        ax.set_xlabel("cycles of the SM's clock")
        for at, role in enumerate(panel.roles):
            for mark in panel.rows[panel.rows["role"] == role].itertuples():
                for (start, stop), (_, look) in BETWEEN.items():
                    low = max(getattr(mark, start), panel.begin) - panel.begin
                    high = min(getattr(mark, stop), panel.end) - panel.begin
                    if high > low:  # not where there is no such mark
                        bar(ax, at, low, high, share=0.67, gid=f"{start} {mark.step}", **look)
        top += len(panel.roles) * ROLE + 0.85
    return fig


@dataclass(frozen=True)
class _Waits:
    """One kernel: its marks, its roles, and between which cycles it is drawn."""

    kernel: str
    rows: pandas.DataFrame
    roles: list[str]
    begin: int
    end: int


def _of_waits(panels: list[_Waits], first: int, steps: int) -> str:
    each = [f"{panel.kernel} {(panel.end - panel.begin) / steps:,.0f}" for panel in panels]
    return (
        f"One block from step {first} on, by readings of the SM's clock, which take time "
        f"themselves. Cycles for a step: {style.listed(each)}."
    )


# ---- the phases of a block -----------------------------------------------------------------------

COLUMNS = ("kernel", "block", "sm", "began", "first", "summed", "stored")
STEPS = ("first", "summed")
SHADES = ((style.ORANGE, 0.6), (style.SKY, 0.6), (style.PURPLE, 0.6), (style.FAINT, 0.0))
PHASE_LOOKS = {phase: swatch(*shade) for phase, shade in zip(PHASES, SHADES, strict=True)}


@styled
def block_phases(
    blocks: pandas.DataFrame, means: pandas.DataFrame, full_rate: float, *, sm: int = 0
) -> Picture:
    """Above, one SM through a product, block by block; below, the mean cycles of a block's phases.

    blocks: as clock_readings.blocks() gives; means: as
    tables.phases() does of them; full_rate: the cycles in which the tensor
    cores can do the products, marked below. Raises TypeError and ValueError for anything else, also
    for an SM that ran no block.
    """
    style.require_table(blocks, COLUMNS, "block_phases")
    of_sm = blocks[blocks["sm"] == sm]
    if of_sm.empty:
        raise ValueError(f"block_phases: no blocks of SM {sm} are there.")
    kernels = list(means.index)
    each = 0.24 + 0.4 * len(kernels)
    key = [(words, PHASE_LOOKS[phase]) for phase, words in PHASES.items()]
    title, height = "Where the time of a block goes", 2 * each + 1.05
    fig = page(title, height, _of_phases(means, full_rate), key=key)
    axes = []
    for words, top, gid, last in (
        (f"SM {sm}, all of its blocks", fig.top, "an SM", of_sm["stored"].max()),
        ("the mean block", fig.top + each + 0.5, "means", means["a block"].max()),
    ):
        fig.text_at(MARGIN, top, words, size=NORMAL, weight="bold")
        limits = {"xlim": (0, 1.02 * last), "right": WIDTH - MARGIN - 0.1}
        ax = rows_of(fig, kernels, top + 0.24, 0.4, gid=gid, **limits)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.append(ax)
    for row, name in enumerate(kernels):
        _draw_blocks(axes[0], row, of_sm[of_sm["kernel"] == name].sort_values("began"))
        _draw_means(axes[1], row, means.loc[name], full_rate)
    axes[1].set_xlabel(
        "cycles of the SM's clock; dashed: the steps at the full rate of the tensor cores"
    )
    return fig


def _phase(ax: Axes, row: int, low: float, high: float, phase: tuple[str, str], gid: str) -> None:
    look = {**PHASE_LOOKS[phase], "linewidth": 0.6, "zorder": 2}
    bar(ax, row, low, high, share=0.65, gid=gid, **look)


def _draw_blocks(ax: Axes, row: int, of_sm: pandas.DataFrame) -> None:
    began = [*list(of_sm["began"])[1:], None]
    for block, after in zip(of_sm.itertuples(), began, strict=True):
        for start, stop in PHASES:
            until = after if stop == "next" else getattr(block, stop)
            if until is not None:
                gid = f"{start} {block.block}"
                _phase(ax, row, getattr(block, start), until, (start, stop), gid)
        words = f"block {block.block}"
        write(ax, (block.first + block.summed) / 2, row + 0.5, words, zorder=3)


def _draw_means(ax: Axes, row: int, mean: pandas.Series, full_rate: float) -> None:
    at = 0.0
    for phase, name in PHASES.items():
        _phase(ax, row, at, at + mean[name], phase, f"mean {name}")
        if phase == STEPS:
            look = {"color": style.BLACK, "linestyle": "--", "linewidth": 1.2, "zorder": 4}
            ax.plot([at + full_rate] * 2, [row + 0.06, row + 0.94], gid="full rate", **look)
            write(ax, at + mean[name] / 2, row + 0.5, f"{mean[name]:,.0f}", zorder=3)
        at += mean[name]


def _of_phases(means: pandas.DataFrame, full_rate: float) -> str:
    parts = [
        f"{name} {row['a block']:,.0f} cycles, {row['a block'] - row['steps along K']:,.0f} of "
        "them outside of its steps"
        for name, row in means.iterrows()
    ]
    return (
        f"A block and the pause after it take {style.listed(parts)}. At full rate the tensor cores "
        f"do the products of a block in {full_rate:,.0f} cycles. Four readings of the clock in "
        "each block, by one thread of its first warpgroup."
    )


# ---- registers -----------------------------------------------------------------------------------

COLOURS = {"producer": style.ORANGE, "consumers": style.SKY}
WHEN = {"at_launch": "at the launch", "then": "after setmaxnreg"}


@styled
def register_budget(shares: Sequence[Share]) -> Picture:
    """A bar of all registers of an SM at the launch of a block, and one for what it has then.

    shares: as analysis.register_budget.of(kernel) gives. Raises TypeError for anything else.
    """
    if not shares or not all(isinstance(share, Share) for share in shares):
        raise TypeError(
            f"register_budget takes what analysis.register_budget.of(kernel) gives, not {shares!r}."
        )
    title = "Registers go from the warpgroup that copies to those that multiply"
    fig = page(title, 0.08 + 0.55 * len(WHEN) + 0.55, _of_registers(shares))
    ax = rows_of(
        fig, list(WHEN.values()), fig.top + 0.08, 0.55, right=WIDTH - MARGIN - 0.1,
        gid="registers", xlim=(0, 1.01 * REGISTERS_PER_SM),
        xlabel="registers of 32 bits; dashed: all that an SM has",
    )  # fmt: skip
    ax.grid(visible=False)
    ax.axvline(REGISTERS_PER_SM, color=style.BLACK, linestyle="--", linewidth=1.2)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    for row, when in enumerate(WHEN):
        at = 0
        for share in shares:
            each = getattr(share, when)
            wide = share.threads * each
            room = wide / REGISTERS_PER_SM * (WIDTH - 2)
            words = f"{share.role}: {share.threads} threads × {each}"
            if style.text_width(words, NORMAL) >= room:
                words = f"{share.threads} × {each}"
            size = NORMAL if style.text_width(words, NORMAL) < room - 0.1 else SMALL
            text = {"size": size, "gid": f"words {share.role} {when}"}
            look = swatch(COLOURS[share.role], 0.5, gid=f"{share.role} {when}")
            bar(ax, row, at, at + wide, words, share=0.73, text=text, **look)
            at += wide
    return fig


def _of_registers(shares: Sequence[Share]) -> str:
    took, then = (sum(share.threads * getattr(share, when) for share in shares) for when in WHEN)
    each = [f"{share.role} {share.then} in place of {share.at_launch}" for share in shares]
    return (
        f"A block begins with {took:,} registers, the same number for each thread, and has "
        f"{then:,} once they have moved. A thread has then: {style.listed(each)}."
    )
