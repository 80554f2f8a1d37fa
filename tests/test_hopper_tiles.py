"""Clock readings of an SM between two tiles: how they are taken, kept and drawn."""

import numpy as np
import pandas
import pytest

from gemmlab.kernel.compiler import compile_kernel
from gemmlab.lessons.persistent import measure
from gemmlab.lessons.persistent.measure import MARKED, MOST, ROLES, SM

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
