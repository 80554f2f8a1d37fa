"""Figures of lessons draw what their tables, readings and schedules say, and can be read."""

from functools import cache

import pandas
import pytest
from figures import test_it_can_be_read, words  # noqa: F401

from gemmlab import ladder
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder.probes import MMA_TYPES as TYPES
from gemmlab.lessons.fp32_summit import figures as fp32_summit_figures
from gemmlab.lessons.fused_epilogue import figures as fused_epilogue_figures
from gemmlab.lessons.mma_sync import figures as mma_sync_figures
from gemmlab.lessons.persistent import figures as persistent_figures
from gemmlab.lessons.persistent.measure import EVENTS, ROLES
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.persistent.schedule import schedule
from gemmlab.lessons.register_banks import figures as register_banks_figures
from gemmlab.lessons.wmma import fragments

# ---- types, and 8 bits ---------------------------------------------------------------------------


def errors_of_types():
    return pandas.DataFrame(
        {"dtype": element.name, "k": k, "error": 10.0 ** (at - 4) * k / 64}
        for at, element in enumerate(TYPES)
        for k in (64, 256)
    )


def test_another_layout_of_fragments_is_noticed(monkeypatch):
    by_wmma = fragments.by_wmma()
    moved = {**by_wmma, "B": by_wmma["B"][::-1]}
    monkeypatch.setattr(fragments, "by_wmma", lambda: moved)
    assert fragments.as_documented() == {"A": True, "B": False, "C": True}


# ---- schedules -----------------------------------------------------------------------------------


@cache
def orders():
    small = {"BM": 64, "BN": 64, "STAGES": 2, "CLUSTER": 1}
    kernels = {
        group: Kernel(
            PERSISTENT, ladder.settings_for(PERSISTENT, small | {"GROUP": group}), "sm_90a",
            PERSISTENT.path,
        )
        for group in (1, 4)
    }  # fmt: skip
    return {group: schedule(kernel, 520, 512, 64, sm_count=8) for group, kernel in kernels.items()}


@cache
def of_clusters():
    kernel = Kernel(PERSISTENT, PERSISTENT.defaults, "sm_90a", PERSISTENT.path)
    return schedule(kernel, 256, 512, 72, sm_count=2)


def tile_order():
    named = ((f"GROUP={group}", order) for group, order in orders().items())
    return persistent_figures.tile_order(*named)


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
        lambda: mma_sync_figures.error_over_k(errors_of_types()),
        tile_order,
        lambda: persistent_figures.multicast(of_clusters()),
        all_cycles,
        tile_changes,
        fused_epilogue_figures.passes,
        lambda: register_banks_figures.loads_ahead("09_double_buffering", "10_register_banks"),
    ),
    ids=(
        "error_over_k",
        "tile_order",
        "multicast",
        "all_cycles",
        "tile_changes",
        "passes",
        "loads_ahead",
    ),
)
def figure(request):
    """One of each kind, for what every figure must pass."""
    return request.param()
