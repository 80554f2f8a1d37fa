"""Steps from 14 to 15 and their instructions, and both rungs in a burst and sustained."""

import math
from collections.abc import Sequence

import pandas

from gemmlab import ladder
from gemmlab.analysis.counters import bytes_moved
from gemmlab.lessons.mma_sync import measure
from gemmlab.records import runs
from gemmlab.records.roofs import LOADS, recorded_ceilings
from gemmlab.records.runs import Measured
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import MULTIPLY_ADD


def instructions_of_steps(titles: Sequence[str]) -> pandas.DataFrame:
    """Steps from 14 to 15 by title: cycles and L2 bytes as recorded, instructions as compiled.

    Instructions: of a warp in one trip through the main loop, without those that tensor cores
    execute.
    """
    recorded, by_title = measure.steps().set_index("step"), {s.title: s for s in measure.STEPS}
    table = recorded.loc[[*titles], ["1000 cycles", "L2 bytes per byte loaded"]]
    mixes = [loops.loop(by_title[title].kernel()).mix for title in titles]
    table["other instructions"] = [sum(mix.values()) - mix[MULTIPLY_ADD] for mix in mixes]
    return table


def tensor_paces(*names: str) -> pandas.DataFrame:
    """14 and 15 at LARGE in FP16, in a burst and sustained: a row for each rung and load.

    The SMs counted the clock. MMAs: at the ceiling of mma.sync. L2: of a counted launch.
    """
    steps, roofs = measure.steps().set_index("step"), recorded_ceilings()
    flop, per_cycle = 2 * math.prod(runs.LARGE), roofs.flop_per_cycle(ladder.HALF.name)
    rows = {}
    for name in names:
        row = steps.loc[measure.title_of(name)]
        _, counted = runs.counters_at(Measured(ladder.find(name)), *runs.LARGE)
        bytes_per_flop = bytes_moved(counted)["L2"] / flop
        for state in LOADS:
            per_second, clock_mhz = 1e12 * row[f"{state} TFLOP/s"], row[f"{state} MHz"]
            rows[name, state] = {
                "TFLOP/s": per_second / 1e12,
                "SM clock, MHz": clock_mhz,
                "MMAs, % of cycles": 100 * per_second / (1e6 * clock_mhz) / per_cycle,
                "L2, % of its ceiling": 100 * per_second * bytes_per_flop / roofs.read_rate("L2"),
            }
    return pandas.DataFrame(rows).T
