"""By what factor a rung is faster than another, as recorded: over shapes, and at equal settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gemmlab import ladder
from gemmlab.ladder import SIMULATED, Problem
from gemmlab.records import runs, tuning

if TYPE_CHECKING:
    import pandas

SHAPE = ("m", "n", "k")


def over_shapes(table: pandas.DataFrame, name: str, before: str) -> pandas.DataFrame:
    """Rung `name` over rung `before`, a row for each shape (M×N×K) that both have in `table`.

    table: as benchmark() gives, of both, one under the other. Columns: blocks, those of rung `name`
    with its default settings; blocks for each SM of the recorded GPU; times as fast.
    """
    import pandas

    rung = ladder.find(name)
    sms = runs.current()["gpu"]["sm_count"]
    times = [table[table["kernel"] == one].set_index([*SHAPE])["time_ms"] for one in (before, name)]
    factor = (times[0] / times[1]).dropna()
    launches = [
        rung.launches(Problem(*shape), rung.defaults, SIMULATED)[0] for shape in factor.index
    ]
    blocks = [math.prod(launch.grid) for launch in launches]
    return pandas.DataFrame(
        {
            "blocks": blocks,
            "blocks for each SM": [round(some / sms, 2) for some in blocks],
            "times as fast": factor.round(3).tolist(),
        },
        index=pandas.Index([f"{m}×{n}×{k}" for m, n, k in factor.index], name="M×N×K"),
    )


def at_equal_settings(
    name: str, before: str, by: Sequence[str], fixed: Mapping[str, int]
) -> pandas.DataFrame:
    """The recorded sweeps of two rungs, joined where they have the same settings.

    A row for each shape and each value of the parameters `by`, with the rate of the fastest of all
    others in TFLOP/s, a column for each rung, and the factor between them. fixed: parameters held
    at a value; one that a rung does not have is left out for it. Raises LadderError and NoRecord.
    """
    import pandas

    best = {}
    for one in (before, name):
        sweep = tuning.recorded(one)
        for parameter, value in fixed.items():
            if parameter in sweep:
                sweep = sweep[sweep[parameter] == value]
        best[one] = sweep.groupby([*SHAPE, *by])["gflops"].max() / 1e3
    both = pandas.DataFrame(best).dropna()
    both = both.assign(**{"times as fast": both[name] / both[before]}).round(2).reset_index()
    both.insert(0, "M×N×K", [f"{m}×{n}×{k}" for m, n, k in both[[*SHAPE]].to_numpy()])
    return both.drop(columns=[*SHAPE])
