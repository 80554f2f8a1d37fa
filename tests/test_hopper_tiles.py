"""Clock readings of an SM between two tiles: how they are taken, kept and drawn."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
from figures import axes, test_it_can_be_read, the_one, words  # noqa: F401

from gemmlab.kernel.compiler import compile_kernel
from gemmlab.lessons.persistent import figures, measure
from gemmlab.lessons.persistent.measure import EVENTS, MARKED, MOST, ROLES, SM
from gemmlab.lessons.tma_wgmma.rung import RUNG as TMA_WGMMA

ALONE, TOGETHER = "no clusters, sums sent at once", "clusters of 2, sums sent later"
TILE, STORE, GAP = 30000, 900, {"17_warp_specialized": 3100, "18_persistent": 1200}


@pytest.mark.parametrize("marked", MARKED, ids=lambda one: str(one.settings) + one.rung.name)
def test_a_kernel_with_marks_compiles_and_spills_nothing(marked):
    found = compile_kernel(
        marked.source, marked.rung.path.name, arch="sm_90a", macros=marked.all_settings
    )
    taken = found.entries[marked.rung.entry(marked.all_settings)]
    assert taken.spill_store_bytes == taken.spill_load_bytes == 0
    assert found.ptx.count("%smid") == 2 and found.ptx.count("%clock64") >= 5


def test_a_line_that_is_not_there_cannot_be_marked():
    with pytest.raises((ValueError, KeyError)):
        _ = replace(MARKED[0], rung=TMA_WGMMA).source


def test_only_tiles_of_the_first_ones_sm_are_kept_in_the_order_of_their_clocks():
    marks = np.zeros((MOST, len(ROLES), SM + 1), np.int64)
    for tile, sm, start in ((0, 7, 5000), (1, 3, 5000), (9, 7, 9000), (4, 7, 7000)):
        marks[tile, :, 1], marks[tile, :, SM] = start, sm
        marks[tile, 0, 0] = start - 100
    rows = pandas.DataFrame(measure.on_one_sm(marks))
    assert list(rows["role"]) == 3 * list(ROLES)
    assert list(rows.loc[rows["role"] == ROLES[0], "starts"]) == [101, 2101, 4101]
    assert rows["begins"].notna().sum() == 3 and rows["begins"].min() == 1
    assert rows[["ends", "sent", "gone"]].isna().all(axis=None)


def readings():
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
    return pandas.DataFrame(rows)


@pytest.fixture(scope="module")
def figure():
    return figures.tile_changes(readings())


def test_bars_lie_where_the_clock_was_read(figure):
    ax = axes(figure, f"changes 18_persistent, {ALONE}")
    store = the_one(ax, "warpgroup 1 sends 2")
    assert (store.get_x(), store.get_width()) == (0, STORE)  # the last one to end is at 0
    following = the_one(ax, "warpgroup 0 starts 3")
    assert following.get_x() == GAP["18_persistent"] - 100
    assert not ax.findobj(lambda one: one.get_gid() == "warpgroup 0 sent 2")
    assert axes(figure, "changes 17_warp_specialized").findobj(
        lambda one: one.get_gid() == "warpgroup 0 sent 2"
    )


def test_cycles_without_products_are_told(figure):
    assert "17_warp_specialized: 3,000 cycles without products" in words(figure)
    assert f"18_persistent, {TOGETHER}: 1,100 cycles without products" in words(figure)
