"""Which lane holds which element of the pieces that tensor cores multiply, and the account of an
SM's cycles for them."""

import math
from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas
from matplotlib.axes import Axes

from gemmlab import ladder
from gemmlab.analysis.counters import IN_L1
from gemmlab.ladder import SINGLE
from gemmlab.lessons.naive import figures as naive_figures
from gemmlab.lessons.wmma.fragments import PIECE, lanes_of
from gemmlab.plots import style
from gemmlab.plots.cells import box, draw_grid, name_above
from gemmlab.plots.charts import at_edge, bar, note, rows_of
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import ARRAYS, MARGIN, WIDTH
from gemmlab.records import roofs as roofs_recorded
from gemmlab.records import runs
from gemmlab.records.runs import Measured
from ptxsim.architectures import WARP

SIDE, GAP, TOP = 2.55, 0.4, 0.5  # inches: of a matrix, between two, above them
LANE = 0  # whose elements are dark
SHARES = (0.1, 0.3)  # of a matrix's colour, for lanes next to each other
CHOSEN = 0.8  # and for the lane that is looked at


@styled
def fragments(held: Mapping[str, np.ndarray]) -> Picture:
    """The lane that holds each element of A, B and C; those of lane 0 are dark.

    held: as fragments.by_wmma() gives, int (32, places) for "A", "B" and "C".
    """
    lanes = {name: lanes_of(np.asarray(held[name])) for name in "ABC"}
    parts = []
    for name, owner in lanes.items():
        rows, columns = np.nonzero(owner == LANE)
        parts.append(
            f"{len(rows)} of {name}, in {_some('row', rows)} and {_some('column', columns)}"
        )
    caption = (
        "A box is two neighbouring elements, with the number of the lane that holds them; shades "
        "only tell lanes apart. "
        f"Lane {LANE} holds {'; '.join(parts)}."
    )
    fig = page(f"Which lane holds what: dark is lane {LANE}", TOP + SIDE + 0.1, caption)
    left = (WIDTH - 3 * SIDE - 2 * GAP) / 2 + 0.1
    for at, (name, owner) in enumerate(lanes.items()):
        ax = fig.add_axes_at(left + at * (SIDE + GAP), fig.top + TOP, SIDE, SIDE, gid=f"map {name}")
        name_above(ax, f"{name}, {PIECE} × {PIECE}", 22)
        _draw(ax, name, owner)
    return fig


def _draw(ax: Axes, name: str, owner: np.ndarray) -> None:
    ax.set(xlim=(0, PIECE), ylim=(PIECE, 0))
    draw_grid(ax, range(PIECE), range(PIECE), owner.shape, SIDE / PIECE, SIDE / PIECE)
    across = bool((owner[:, 0] == owner[:, 1]).all())  # neighbours of a row, or of a column
    width, height = (2, 1) if across else (1, 2)
    for row, column in product(range(0, PIECE, height), range(0, PIECE, width)):
        holder = int(owner[row, column])
        share = CHOSEN if holder == LANE else SHARES[(holder % 4 + holder // 4) % 2]
        look = {"facecolor": style.tint(ARRAYS[name], share), "edgecolor": style.GRID}
        text = {"zorder": 2, "weight": "bold" if holder == LANE else "normal"}
        box(ax, column, row, width, height, str(holder), text, zorder=1, linewidth=0.5, **look)


def _some(noun: str, numbers: np.ndarray) -> str:
    different = [str(number) for number in np.unique(numbers)]
    return f"{noun}{'s' if len(different) > 1 else ''} {style.listed(different)}"


# ---- speeds --------------------------------------------------------------------------------------

BAR = 0.34  # inches, of a kernel in one precision
TYPES = {"float32": "FP32", "float16": "FP16"}
UNITS = {"float32": "FP32 units", "float16": "mma.sync"}


@styled
def speeds(table: pandas.DataFrame, mma_mhz: float) -> Picture:
    """What kernels in FP32 and in FP16 reach at LARGE, and what their units can.

    table: as kernel.benchmark() gives, of one or several kernels. mma_mhz: the clock of the SMs at
    which the ceiling of mma.sync is drawn, which was measured at a higher one.
    """
    rows = table[(table[["m", "n", "k"]] == [*runs.LARGE]).all(axis=1)]
    names = [f"{style.kernel_label(row.kernel)} in {TYPES[row.dtype]}" for row in rows.itertuples()]
    roofs = roofs_recorded.recorded_ceilings()
    ceilings = {dtype: roofs.arithmetic(dtype) / 1e12 for dtype in dict.fromkeys(rows["dtype"])}
    half = ladder.HALF.name
    measured, ceilings[half] = ceilings[half], roofs.flop_per_cycle(half) * mma_mhz / 1e6
    measured_mhz = mma_mhz * measured / ceilings[half]
    parts = [f"{name}: {rate / 1e3:.1f}" for name, rate in zip(names, rows["gflops"], strict=True)]
    caption = (
        f"TFLOP/s at {style.shape_label(*runs.LARGE)}: {'; '.join(parts)}. Dashed, with operands "
        f"in registers: {ceilings['float32']:.1f} with FP32 units; {measured:.1f} with mma.sync at "
        f"{measured_mhz:.0f} MHz, drawn scaled to the {mma_mhz:.0f} MHz of a matmul under load: "
        f"{ceilings[half]:.1f}."
    )
    height = 0.3 + BAR * len(rows) + 0.6
    fig = page("Speed in two precisions", height, caption, style.provenance(rows))
    ax = rows_of(
        fig, names, fig.top + 0.3, BAR, right=WIDTH - MARGIN - 0.4,
        xlim=(0, 1.02 * rows["gflops"].max() / 1e3), xlabel="TFLOP/s",
    )  # fmt: skip
    for at, row in enumerate(rows.itertuples()):
        value = row.gflops / 1e3
        bar(ax, at, 0, value, **swatch(style.kernel_style(row.kernel)["color"]))
        at_edge(ax, at, f"{value:.1f}")
    for dtype, ceiling in ceilings.items():
        ax.axvline(ceiling, color=style.PURPLE, linestyle="--", linewidth=1.0)
        clock = f" at {mma_mhz:.0f} MHz" if dtype == half else ""
        note(ax, f"{UNITS[dtype]}{clock}: {ceiling:.0f}", (ceiling, 0), (0, 4), ha="center")
    return fig


# ---- the account of cycles -----------------------------------------------------------------------

MMA = 16 * 8 * 16  # multiply-adds of one mma.sync of 16 bits, an instruction of a warp
ALONE = "the multiply-adds alone, if their unit had no pause: the floor"
LOOKS = {**naive_figures.OF_ALL_RUNGS, ALONE: swatch(style.PURPLE, 0.8)}


@styled
def cycles(*names: str) -> Picture:
    """The account of cycles for a warp MMA, as naive.figures.cycles has it for a warp FMA.

    names: rungs in 16 bits by mma.sync or in float32, at LARGE. Three bars each, for 16×8×16
    multiply-adds: the keys of LOOKS.
    """
    table = account(*names)
    parts = [
        f"{name} takes {total:.2f} SM cycles, the multiply-adds alone would take {alone:.2f}, and "
        f"the banks are busy in {banks:.2f}"
        for name, (total, banks, alone) in zip(names, table.to_numpy(), strict=True)
    ]
    singles = any(ladder.find(name).precision is SINGLE for name in names)
    unit = f"a warp MMA{f', or {MMA // WARP} warp FMAs' if singles else ''}"
    size = style.shape_label(*runs.LARGE)
    caption = f"For 16×8×16 multiply-adds, {unit}, at {size}: {'; '.join(parts)}."
    words = f"SM cycles for {unit}"
    return naive_figures.bars(table, LOOKS, "warp MMA", caption, runs.LARGE, words)[0]


def account(*names: str) -> pandas.DataFrame:
    """For 16×8×16 multiply-adds at LARGE, a row for each rung: the keys of LOOKS, in SM cycles.

    In float32 the floor is the FP32 units', else mma.sync's, as measured from registers.
    """
    sms, mmas = runs.current()["gpu"]["sm_count"], math.prod(runs.LARGE) / MMA
    rows = {}
    for rung in map(ladder.find, names):
        if rung.precision is SINGLE:
            (rows[rung.name],) = MMA / WARP * naive_figures.account(rung.name).to_numpy()
        else:
            _, counted = runs.counters_at(Measured(rung), *runs.LARGE)
            cycles, banks = (counted[IN_L1[of]] / mmas for of in ("SM cycles", "data wavefronts"))
            roofs = roofs_recorded.recorded_ceilings()
            per_cycle = roofs.flop_per_cycle(rung.precision.name, rung.by_wgmma) / sms
            rows[rung.name] = cycles, banks, 2 * MMA / per_cycle
    return pandas.DataFrame.from_dict(rows, orient="index", columns=[*LOOKS])
