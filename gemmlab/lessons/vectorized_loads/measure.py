"""What is measured for this lesson: the path from 05 to 06."""

from __future__ import annotations

from gemmlab import ladder
from gemmlab.lessons.vectorized_loads.rung import RUNG
from gemmlab.records.ablations import AblationStep, path_to

BEFORE = ladder.find("05_thread_tile_2d")


def _part(title: str, predicted: str, taken: bool, **settings: int) -> AblationStep:
    """05 with the tile of 06, and some of what else changed."""
    tile = {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8}
    return AblationStep(
        title=title, predicted=predicted, rung=BEFORE, settings=tile | settings, taken=taken,
        file="06_parts.cu" if settings else "",
    )  # fmt: skip


STEPS = (
    AblationStep(title="05 as it is", rung=BEFORE),
    _part("the tile of 06: 128×128, 8×8 sums a thread",
          "fewer loads for each FMA, but registers for one block only: slower", True),
    _part("two blocks asked for", "the compiler spills, but a second block hides that", True,
          BLOCKS=2),
    _part("A and B loaded 16 bytes at a time",
          "a fourth of the loads and their addresses, and nothing spills", True,
          BLOCKS=2, WIDE=1),
    _part("C stored 16 bytes at a time", "once for each element of C: nothing to see", True,
          BLOCKS=2, WIDE=1, WIDE_C=1),
    AblationStep(
        title="A's tile transposed: 06 as it is", rung=RUNG,
        predicted="as many loads from shared memory, and conflicts of the stores: slower",
    ),
    _part("06 with C stored 4 bytes at a time", "nothing to see", False, WIDE=1, TRANSPOSED=1),
    _part("06 with A and B loaded 4 bytes at a time",
          "two blocks fit, but the 16 lanes of a row of A store into one bank", False,
          TRANSPOSED=1, WIDE_C=1),
    _part("the transposition alone, all else 4 bytes at a time", "as the one before", False,
          TRANSPOSED=1),
    _part("06 with registers that do nothing, so that one block fits",
          "nobody hides its waiting: slower", False, WIDE=1, TRANSPOSED=1, WIDE_C=1, IDLE=48),
    _part("06 with neighbouring lanes on neighbouring rows of A",
          "stores without conflicts, but each load of A falls into 32 sectors", False,
          WIDE=1, TRANSPOSED=1, WIDE_C=1, ROWS_FIRST=1),
)  # fmt: skip
EVIDENCE = (path_to(RUNG, STEPS),)
