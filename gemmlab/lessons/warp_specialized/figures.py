"""Figures of this lesson: roles and their turns, waits, phases of a block, registers."""

from collections.abc import Sequence

import pandas
from matplotlib.axes import Axes

from gemmlab.lessons.tma_wgmma.tables import PHASES
from gemmlab.lessons.warp_specialized import turns as traced
from gemmlab.lessons.warp_specialized.tables import Share
from gemmlab.lessons.warp_specialized.turns import Turns
from gemmlab.plots import style
from gemmlab.plots.cells import box, plate, write
from gemmlab.plots.charts import bar, rows_of
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, TILE_COLOURS, WIDTH
from ptxsim.architectures import REGISTERS_PER_SM

# ---- turns ---------------------------------------------------------------------------------------

MOST = 110  # columns; more would be too narrow for a number
ROW, BAR = 0.32, 0.24  # inches
WAY, THERE, WAIT = "on its way", "there", "wait"
WAITED_FOR = {traced.AWAITS_EMPTY: "empty", traced.AWAITS_FULL: "full"}
KEY = {
    traced.COPIES: "starts the loads of a step; a stage: they are under way",
    traced.STARTS: "starts the wgmma of a step; a stage: its data is there",
    WAIT: "waits: the producer at empty, a consumer at full",
    traced.ARRIVES: "arrives at empty, for the step before",
    traced.SYNCS: "barrier of all threads", traced.STORES_C: "stores C",
}  # fmt: skip
MARKS = {
    traced.ARRIVES: {"color": style.BLACK, "marker": "v", "markersize": 5, "linestyle": ""},
    traced.SYNCS: {"color": style.BLACK, "marker": "|", "markersize": 11, "linestyle": ""},
}


@styled
def turns(*kernels: Turns, shown: int | None = None) -> Picture:
    """A panel for each kernel: a row for each role, and below one for each stage of its ring.

    kernels: as turns.of(trace) gives. Left to right is the order in which the
    simulator executed it, not time. A number is a step along K. shown: how many moments, the rest
    is pale; a line is there. Raises ValueError for more steps than fit.
    """
    columns = [_columns(kernel) for kernel in kernels]
    most = max(map(len, columns))
    if most > MOST:
        raise ValueError(
            f"turns: {most} moments are too many to read, at most {MOST} fit; "
            "trace a product with a smaller K."
        )
    rows = []
    for kernel in kernels:
        roles = sorted(kernel.roles, key=lambda role: (role != "producer", role))
        rows.append([*roles, *(f"stage {stage}" for stage in range(kernel.stages))])
    left = MARGIN + style.widest(name for names in rows for name in names) + 0.12
    pitch = (WIDTH - MARGIN - left) / most
    kinds = {turn.kind for kernel in kernels for every in kernel.roles.values() for turn in every}
    key = [
        (words, MARKS.get(kind) or _of_key(kind))
        for kind, words in KEY.items()
        if kind in kinds | {WAIT}
    ]
    title = "Who does what, and who waits for whom: an order of execution"
    trace = kernels[0].trace
    caption = (
        f"Block {kernels[0].block} at {style.shape_label(trace.m, trace.n, trace.k)}, followed "
        "through its trace. A number is a step along K, with one colour in all rows. This is one "
        "order that the mbarriers allow, that of the simulator, and not times: here both "
        "warpgroups keep in step, which nothing demands."
    )
    height = sum(ROW * len(names) + 0.45 for names in rows)
    fig = page(title, height, caption, key=key)
    top = fig.top
    for kernel, at, names in zip(kernels, columns, rows, strict=True):
        name = f"{kernel.trace.kernel_name}, STAGES={kernel.trace.settings['STAGES']}"
        fig.text_at(MARGIN, top, name, size=NORMAL, weight="bold")
        right = left + pitch * len(at)
        ax = rows_of(fig, names, top + 0.22, ROW, left=left, right=right)
        _draw(ax, kernel, at, names)
        if shown is not None:  # pale what is still to come, and a line before it
            look = {"facecolor": style.GROUND, "edgecolor": "none", "alpha": 0.8, "zorder": 6}
            box(ax, shown, 0, len(at) - shown + 0.2, len(names), **look)
            ax.axvline(shown, color=style.BLACK, linewidth=1.2, zorder=7)
        top += ROW * len(names) + 0.45
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
            elif turn.kind in (traced.SYNCS, traced.STORES_C):
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


def _contents(kernel: Turns, columns: dict[int, int], step: int) -> tuple[int, int, int, int]:
    """Of a step: its stage, and the columns where it is copied, there, and given back."""
    (copied,) = kernel.of(traced.COPIES, step)
    ready = min(turn.until for turn in kernel.of(traced.AWAITS_FULL, step))
    started = min(turn.begin for turn in kernel.of(traced.STARTS, step))
    lag = kernel.stages > 1  # products under way while all meet
    back = kernel.of(traced.ARRIVES, step) or kernel.of(traced.SYNCS, step + lag)
    over = max(turn.begin for turn in back or kernel.of(traced.STORES_C, traced.OF_C))
    there = columns.get(ready, columns[started])
    return copied.stage, columns[copied.begin], there, columns[over]


def _draw(ax: Axes, kernel: Turns, columns: dict[int, int], names: list[str]) -> None:
    for role, every in kernel.roles.items():
        row = names.index(role)
        for turn in every:
            if turn.kind == traced.AWAITS_PRODUCTS:
                continue
            if turn.kind in WAITED_FOR:
                if turn.until > turn.begin:
                    low, high = columns[turn.begin], columns[turn.until]
                    words = WAITED_FOR[turn.kind] if high - low > 3 else ""
                    _box(ax, row, low, high, None, WAIT, words)
                continue
            at = columns[turn.begin]
            if turn.kind == traced.ARRIVES:
                ax.plot(at + 0.5, row + 0.5, zorder=3, **MARKS[turn.kind])
            elif turn.kind == traced.SYNCS:
                ax.plot([at + 0.5] * 2, [row, row + 1], color=style.BLACK, linewidth=1.6)
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
    """A swatch, or one in each colour of the steps."""
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


# ---- waits ---------------------------------------------------------------------------------------

BETWEEN = {  # from one event to the next: what it is called, and its look
    ("waits", "goes_on"): ("waits for a stage, at an mbarrier", swatch(style.ORANGE, 0.6)),
    ("goes_on", "done"): ("wgmma, or starts loads", swatch(style.SKY, 0.6)),
    ("done", "met"): ("barrier of all threads", swatch(style.PURPLE, 0.6)),
}
ROLE = 0.42  # inches, from one role to the next


@styled
def waits(marks: pandas.DataFrame, *, first: int, steps: int) -> Picture:
    """Bars from one clock reading to the next, a panel for each kernel, a row for each role.

    marks: columns kernel, role, step and the cycles waits, goes_on, done and met (or none), as
    clock_readings.marks gives. Shown is while the first role of each kernel
    goes through `steps` steps from `first` on.
    """
    spans = {}
    for kernel, rows in marks.groupby("kernel", sort=True):
        lead = rows[rows["role"] == rows["role"].iloc[0]].set_index("step")["waits"]
        spans[kernel] = lead[first], lead[first + steps]
    longest = max(end - begin for begin, end in spans.values())
    each = [f"{kernel} {(end - begin) / steps:,.0f}" for kernel, (begin, end) in spans.items()]
    caption = (
        f"One block from step {first} on, by readings of the SM's clock, which take time "
        f"themselves. Cycles for a step: {style.listed(each)}."
    )
    left = MARGIN + style.widest(set(marks["role"])) + 0.15
    height = marks.groupby("kernel")["role"].nunique().sum() * ROLE + 0.85 * len(spans)
    fig = page("Who waits for whom", height, caption, key=list(BETWEEN.values()))
    top = fig.top
    for kernel, (begin, end) in spans.items():
        fig.text_at(MARGIN, top, kernel, size=NORMAL, weight="bold")
        rows = marks[marks["kernel"] == kernel]
        roles = list(dict.fromkeys(rows["role"]))
        ax = rows_of(fig, roles, top + 0.24, ROLE, left=left, xlim=(0, longest))
        ax.set_xlabel("cycles of the SM's clock")
        for mark in rows.itertuples():
            for (start, stop), (_, look) in BETWEEN.items():
                low, high = max(getattr(mark, start), begin), min(getattr(mark, stop), end)
                if high > low:  # not where there is no such mark
                    at = roles.index(mark.role)
                    bar(ax, at, low - begin, high - begin, share=0.67, **look)
        top += len(roles) * ROLE + 0.85
    return fig


# ---- the phases of a block -----------------------------------------------------------------------

STEPS = ("first", "summed")
SHADES = ((style.ORANGE, 0.6), (style.SKY, 0.6), (style.PURPLE, 0.6), (style.FAINT, 0.0))
PHASE_LOOKS = {phase: swatch(*shade) for phase, shade in zip(PHASES, SHADES, strict=True)}


@styled
def block_phases(blocks: pandas.DataFrame, means: pandas.DataFrame, full_rate: float) -> Picture:
    """Above, SM 0 through a product, block by block; below, the mean cycles of a block's phases.

    blocks: as clock_readings.blocks() gives; means: as tables.phases() does of them; full_rate: the
    cycles in which the tensor cores can do the products, marked below.
    """
    of_sm = blocks[blocks["sm"] == 0]
    kernels = list(means.index)
    each = 0.24 + 0.4 * len(kernels)
    key = [(words, PHASE_LOOKS[phase]) for phase, words in PHASES.items()]
    title, height = "Where the time of a block goes", 2 * each + 1.05
    parts = [
        f"{row['a block']:,.0f} cycles in {name}, {row['a block'] - row['mainloop']:,.0f} of "
        "them outside of the mainloop"
        for name, row in means.iterrows()
    ]
    caption = (
        f"A block and the pause after it take {style.listed(parts)}. At full rate the tensor cores "
        f"take {full_rate:,.0f} cycles for the wgmma of a block. Four readings of the clock in "
        "each block, by one thread of its first warpgroup."
    )
    fig = page(title, height, caption, key=key)
    axes = []
    for words, top, last in (
        ("SM 0, all of its blocks", fig.top, of_sm["stored"].max()),
        ("the mean block", fig.top + each + 0.5, means["a block"].max()),
    ):
        fig.text_at(MARGIN, top, words, size=NORMAL, weight="bold")
        right = WIDTH - MARGIN - 0.1
        ax = rows_of(fig, kernels, top + 0.24, 0.4, right=right, xlim=(0, 1.02 * last))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        axes.append(ax)
    for row, name in enumerate(kernels):
        _draw_blocks(axes[0], row, of_sm[of_sm["kernel"] == name].sort_values("began"))
        _draw_means(axes[1], row, means.loc[name], full_rate)
    axes[1].set_xlabel(
        "cycles of the SM's clock; dashed: the mainloop at the full rate of the tensor cores"
    )
    return fig


def _phase(ax: Axes, row: int, low: float, high: float, phase: tuple[str, str]) -> None:
    look = {**PHASE_LOOKS[phase], "linewidth": 0.6, "zorder": 2}
    bar(ax, row, low, high, share=0.65, **look)


def _draw_blocks(ax: Axes, row: int, of_sm: pandas.DataFrame) -> None:
    for block in of_sm.assign(next=of_sm["began"].shift(-1)).itertuples():
        for start, stop in PHASES:
            low, high = getattr(block, start), getattr(block, stop)
            if low < high:  # not after the last block
                _phase(ax, row, low, high, (start, stop))
        words = f"block {block.block}"
        write(ax, (block.first + block.summed) / 2, row + 0.5, words, zorder=3)


def _draw_means(ax: Axes, row: int, mean: pandas.Series, full_rate: float) -> None:
    at = 0.0
    for phase, name in PHASES.items():
        _phase(ax, row, at, at + mean[name], phase)
        if phase == STEPS:
            look = {"color": style.BLACK, "linestyle": "--", "linewidth": 1.2, "zorder": 4}
            ax.plot([at + full_rate] * 2, [row + 0.06, row + 0.94], **look)
            write(ax, at + mean[name] / 2, row + 0.5, f"{mean[name]:,.0f}", zorder=3)
        at += mean[name]


# ---- registers -----------------------------------------------------------------------------------

COLOURS = {"producer": style.ORANGE, "consumers": style.SKY}
WHEN = {"at_launch": "at the launch", "then": "after setmaxnreg"}


@styled
def register_budget(shares: Sequence[Share]) -> Picture:
    """A bar of all registers of an SM at the launch of a block, and one for what it has then.

    shares: as tables.register_budget(kernel) gives.
    """
    took, then = (sum(share.threads * getattr(share, when) for share in shares) for when in WHEN)
    each = [f"{share.role} {share.then} instead of {share.at_launch}" for share in shares]
    caption = (
        f"A block begins with {took:,} registers, the same number for each thread, and has "
        f"{then:,} once they have moved. A thread has then: {style.listed(each)}."
    )
    title = "Registers move from the warpgroup that loads to those that multiply"
    fig = page(title, 0.08 + 0.55 * len(WHEN) + 0.55, caption)
    ax = rows_of(
        fig, list(WHEN.values()), fig.top + 0.08, 0.55,
        right=WIDTH - MARGIN - 0.1, xlim=(0, 1.01 * REGISTERS_PER_SM),
        xlabel="registers of 32 bits; dashed: all that an SM has",
    )  # fmt: skip
    ax.grid(visible=False)
    ax.axvline(REGISTERS_PER_SM, color=style.BLACK, linestyle="--", linewidth=1.2)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    for row, when in enumerate(WHEN):
        at = 0
        for share in shares:
            wide = share.threads * getattr(share, when)
            room = wide / REGISTERS_PER_SM * (WIDTH - 2)
            words = f"{share.role}: {share.threads} threads × {getattr(share, when)}"
            if style.text_width(words, NORMAL) >= room:
                words = f"{share.threads} × {getattr(share, when)}"
            size = NORMAL if style.text_width(words, NORMAL) < room - 0.1 else SMALL
            look = swatch(COLOURS[share.role], 0.5)
            bar(ax, row, at, at + wide, words, share=0.73, text={"size": size}, **look)
            at += wide
    return fig
