"""Figures of lessons draw what their tables, readings and schedules say, and can be read."""

from functools import cache

import pandas
import pytest
from figures import test_it_can_be_read, words  # noqa: F401

from gemmlab.lessons.fp32_summit import figures as fp32_summit_figures
from gemmlab.lessons.fused_epilogue import figures as fused_epilogue_figures
from gemmlab.lessons.persistent import figures as persistent_figures
from gemmlab.lessons.persistent.measure import EVENTS, ROLES
from gemmlab.lessons.register_banks import figures as register_banks_figures

# ---- schedules -----------------------------------------------------------------------------------


@cache
def all_cycles():
    table = pandas.DataFrame({"10_register_banks": [80, 8, 7, 5], "22_fp32_summit": [86, 6, 7, 1]})
    return fp32_summit_figures.all_cycles(table.set_axis([*fp32_summit_figures.OF_ALL]))


# ---- clocks and power ----------------------------------------------------------------------------

ALONE, TOGETHER = "no clusters, C stored at once", "clusters of 2, C stored during the next tile"
TILE, STORE, GAP = 30000, 900, {"17_warp_specialized": 3100, "18_persistent": 1200}


def tile_changes():
    rows = []
    for (kernel, gap), how in zip(
        [*GAP.items(), list(GAP.items())[1]], ("", ALONE, TOGETHER), strict=True
    ):
        for turn in (1, 2, 3):
            start = 500 + (turn - 1) * (TILE + gap)
            for role, late in zip(ROLES, (0, 100, -2000), strict=True):
                begins, ends = start + max(late, -400), start + TILE + late
                rows.append({
                    "kernel": kernel, "how": how, "role": role, "turn": turn,
                    **dict.fromkeys(EVENTS), "starts": begins, "ends": ends,
                })  # fmt: skip
                if role != ROLES[-1]:
                    rows[-1] |= {"sends": ends, "sent": ends + STORE}
                    rows[-1] |= {"gone": ends + 2 * STORE} if not how else {}
    return persistent_figures.tile_changes(pandas.DataFrame(rows))


def test_cycles_without_products_are_those_between_readings_of_the_clock():
    shown = words(tile_changes())
    assert "17_warp_specialized: 3,000 cycles without wgmma" in shown
    assert f"18_persistent, {TOGETHER}: 1,100 cycles without wgmma" in shown


# ---- every figure --------------------------------------------------------------------------------


@pytest.fixture(
    params=(
        all_cycles,
        tile_changes,
        fused_epilogue_figures.passes,
        lambda: register_banks_figures.loads_ahead("09_double_buffering", "10_register_banks"),
    ),
    ids=(
        "all_cycles",
        "tile_changes",
        "passes",
        "loads_ahead",
    ),
)
def figure(request):
    """One of each kind, for what every figure must pass."""
    return request.param()
