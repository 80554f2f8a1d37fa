"""Variants of a kernel, of edited text or with other settings, counted and compiled."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from gemmlab import ladder
from gemmlab.analysis import counters
from gemmlab.cuda.architectures import WARP
from gemmlab.kernel.kernel import Kernel, assembled
from gemmlab.records import ablations, tuning
from gemmlab.records.registry import NoRecord, StaleRecord

if TYPE_CHECKING:
    import pandas

TAKEN = ("registers per thread", "spilled bytes", "blocks per SM")
COUNTED = {name: counters.PER_WARP_FMA[name] for name in ("global loads", "global sectors")} | {
    re.sub("(loads|stores)", r"shared \1", what): metric for what, metric in counters.SHARED.items()
}
DIGITS = 3  # after the point, of counts per warp FMA
SPEED = f"TFLOP/s at {'×'.join(map(str, tuning.SHAPES[0]))}"
NOT_RECORDED = "not recorded"


def parts(name: str) -> dict[str, Kernel]:
    """What was changed -> the kernel, for each step of the path to rung `name`.

    Raises LadderError for a rung to which no path is kept.
    """
    return {step.title: step.kernel() for step in ablations.path_of(name).steps}


def edited(name: str, changes: Mapping[str, str], **settings: int) -> Kernel:
    """The rung `name` with pieces of its text replaced: `changes`, from the old to the new.

    Raises ValueError for a piece that the text does not have, and else what from_source raises.
    """
    text = ladder.find(name).path.read_text(encoding="utf-8")
    for old, new in changes.items():
        if old not in text:
            raise ValueError(f"{name}.cu has no {old!r}; changes are from what stands there.")
        text = text.replace(old, new)
    return assembled(text, name, **settings)


def side_by_side(
    kernels: Mapping[str, Kernel], m: int, n: int, k: int, *, path: str = ""
) -> pandas.DataFrame:
    """What kernels take of an SM, and what they ask of memory, a column for each under its name.

    First registers, spilled bytes and blocks, from the compiler. Then counts of a product of this
    shape (M, N, K), simulated, per warp FMA. Last the speed in TFLOP/s, whatever the shape
    here: from the sweep of settings, or from the path to the rung `path`, where all were measured
    one after the other. "not recorded" of a kernel that is not there. Raises LadderError.
    """
    import pandas

    rate = partial(ablations.rate_of, path) if path else _rate_in_sweep
    return pandas.DataFrame({name: _of(one, (m, n, k), rate) for name, one in kernels.items()})


def _rate_in_sweep(kernel: Kernel) -> float:
    return tuning.of(kernel)["gflops"] / 1e3


def _of(
    kernel: Kernel, shape: tuple[int, int, int], rate: Callable[[Kernel], float]
) -> pandas.Series:
    import pandas

    (taken,) = kernel.resources().to_dict("records")
    counted, warp_fmas = counters.simulated(kernel, *shape), math.prod(shape) / WARP
    rows: dict[str, object] = {name: taken[name] for name in TAKEN}
    rows |= {
        f"{name} {counters.UNIT}": round(counted[metric] / warp_fmas, DIGITS)
        for name, metric in COUNTED.items()
    }
    try:
        speed: object = round(rate(kernel), 1)
    except (NoRecord, StaleRecord):
        speed = NOT_RECORDED
    return pandas.Series(rows | {SPEED: speed}, dtype=object)
