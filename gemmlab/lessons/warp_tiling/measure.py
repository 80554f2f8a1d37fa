"""What is measured for this lesson: the path from 07 to 08."""

from __future__ import annotations

from gemmlab import ladder
from gemmlab.lessons.warp_tiling.rung import RUNG
from gemmlab.records.ablations import AblationStep, path_to

BEFORE = ladder.find("07_bank_conflicts")


def _lanes(title: str, predicted: str, taken: bool = True, **settings: int) -> AblationStep:
    """08 whose lanes stand elsewhere in the warp's tile."""
    return AblationStep(
        title=title, predicted=predicted, rung=RUNG, settings=settings, taken=taken,
        file="08_lanes.cu",
    )  # fmt: skip


STEPS = (
    AblationStep(title="07 as it is", rung=BEFORE),
    AblationStep(title="a step of 8 instead of 16", predicted="twice as many barriers: slower",
                 rung=BEFORE, settings={"BK": 8}),
    _lanes("tiles by way of registers, A's padded",
           "a wait before the barrier instead of after it, and addresses that are sums",
           LANES_ACROSS=16, SQUARES=0, WM=16, WN=128),
    _lanes("a warp tile of 32×64, lanes row by row", "as many wavefronts: nothing to see",
           SQUARES=0, WM=32),
    AblationStep(title="lanes in squares", predicted="a third fewer wavefronts of loads: faster",
                 rung=RUNG, settings={"WM": 32}),
    AblationStep(title="16×8 sums a thread: 08 as it is", rung=RUNG,
                 predicted="a fourth fewer wavefronts of loads, and half the warps"),
    _lanes("08 with its lanes row by row", "a third more wavefronts of loads: slower", False,
           SQUARES=0),
    AblationStep(title="08 with a step of 16", predicted="half as many barriers: faster",
                 rung=RUNG, settings={"BK": 16}, taken=False),
)  # fmt: skip
EVIDENCE = (path_to(RUNG, STEPS),)
