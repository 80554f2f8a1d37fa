"""What is measured for this lesson: the path from 08 to 09, and roads that were not taken."""

from __future__ import annotations

from gemmlab import ladder
from gemmlab.ladder import Rung
from gemmlab.lessons.double_buffering.rung import RUNG
from gemmlab.records.ablations import SQUARES, AblationStep, path_to

BEFORE = ladder.find("08_warp_tiling")
SHAPES = (*SQUARES, (512, 512, 512))
"""(M, N, K). At 512 each block of 128×128 has an SM for itself."""
SQUARE = {"WM": 64, "WN": 64}


def _step(
    title: str, predicted: str, rung: Rung = RUNG, taken: bool = True, **settings: int
) -> AblationStep:
    return AblationStep(
        title=title, predicted=predicted, rung=rung, settings=settings, shapes=SHAPES, taken=taken
    )


def copies(title: str, predicted: str, **settings: int) -> AblationStep:
    """09 whose asynchronous copies are written otherwise, or whose tile of A lies by rows."""
    return AblationStep(
        title=title, predicted=predicted, rung=RUNG, shapes=SHAPES, taken=False,
        settings={"BY_ROWS": 1, "MIN_BLOCKS": 2} | settings, file="09_a_by_rows.cu",
    )  # fmt: skip


STEPS = (
    _step("08 as it is", "", BEFORE),
    _step("a warp tile of 32×64", "more reads of shared memory for each FMA: slower", BEFORE,
          WM=32),
    _step("the next tiles loaded while these are multiplied: 09 as it is",
          "most where an SM has one block"),
    *(
        _step(f"{stages} stages of copies: 09 with STAGES={stages}",
              "A in copies of 4 bytes: more instructions, so slower", taken=False, STAGES=stages)
        for stages in (2, 3, 4)
    ),
    *(
        copies(f"{stages} stages of 4-byte copies, their addresses kept, two blocks",
               "fewer instructions than it was, and a second block", BY_ROWS=0, STAGES=stages)
        for stages in (2, 3, 4)
    ),
    copies("A by rows: through registers, one block", "stores of 16 bytes for both tiles",
           STAGES=1, MIN_BLOCKS=1),
    *(
        copies(f"A by rows: {stages} stages of 16-byte copies, two blocks",
               "three instructions bring a step's tiles: faster than 4-byte copies", STAGES=stages)
        for stages in (2, 3, 4)
    ),
    copies("A by rows: 2 stages of 16-byte copies, one block",
           "all the registers that it wants, but nobody to hide its waiting", STAGES=2,
           MIN_BLOCKS=1),
    _step("09 with the warp tile of 08, 64×64", "as fast, with 235 registers", taken=False,
          **SQUARE),
    copies("64×64: 2 stages of 4-byte copies, their addresses kept",
           "fewer loads for each FMA, and no tiles in registers", BY_ROWS=0, STAGES=2, **SQUARE),
    copies("64×64: A by rows, 2 stages of 16-byte copies", "the same with copies of 16 bytes",
           STAGES=2, **SQUARE),
)  # fmt: skip
EVIDENCE = (path_to(RUNG, STEPS),)
