"""The path from 08 to 09, in steps.csv, roads not taken, and forms of 09 that are files."""

from gemmlab.folders import kernel_file
from gemmlab.kernel.kernel import Kernel
from gemmlab.lessons.double_buffering.rung import RUNG
from gemmlab.records.ablations import SQUARES, path_to, steps_beside

# At 512 each block of 128×128 has an SM for itself.
EVIDENCE = (path_to(RUNG, steps_beside(__file__, shapes=(*SQUARES, (512, 512, 512)))),)


def addresses_kept() -> dict[str, Kernel]:
    """09_a_by_rows.cu with two stages, by name: A transposed in shared memory, or row by row."""
    settings, path = RUNG.defaults | {"STAGES": 2, "MIN_BLOCKS": 2}, kernel_file("09_a_by_rows.cu")
    return {
        f"A {how}, addresses kept, STAGES=2": Kernel(RUNG, settings | {"BY_ROWS": rows}, None, path)
        for how, rows in (("transposed", 0), ("by rows", 1))
    }
