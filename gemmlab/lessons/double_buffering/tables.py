"""Other forms of 09, which are files of their own."""

from __future__ import annotations

from gemmlab.folders import kernel_file
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import settings_for
from gemmlab.lessons.double_buffering.rung import RUNG as DOUBLE_BUFFERING


def addresses_kept() -> dict[str, Kernel]:
    """09_a_by_rows.cu with two stages, by name: A transposed in shared memory, or row by row."""
    usual = settings_for(DOUBLE_BUFFERING, {}) | {"STAGES": 2, "MIN_BLOCKS": 2}
    return {
        f"A {how}, addresses kept, STAGES=2": Kernel(
            DOUBLE_BUFFERING, usual | {"BY_ROWS": rows}, None, kernel_file("09_a_by_rows.cu")
        )
        for how, rows in (("transposed", 0), ("by rows", 1))
    }
