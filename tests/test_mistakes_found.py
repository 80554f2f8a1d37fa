"""Lines changed in a kernel, and what verification and the checks say of it."""

import pytest

from gemmlab.lessons.warp_specialized import tables as mistakes

SMALL = {"BN": 64, "STAGES": 2}


def test_checks_find_a_missing_fence_and_a_changed_comment_changes_nothing():
    changes = {
        "no fence": ("wgmma_fence();", ""),
        "a comment": ("// a consumer", "// one that multiplies"),
    }
    table = mistakes.with_changes("17_warp_specialized", changes, **SMALL)
    assert list(table.index) == list(changes)
    assert table.loc["no fence", "check() finds"] == "missing wgmma.fence"
    assert table.loc["a comment", "check() finds"] == "nothing"
    for count in table["right"]:
        right, _, every = count.partition(" of ")
        assert right == every


def test_a_line_that_is_not_there_once_is_refused():
    with pytest.raises(ValueError, match="stands 0 times"):
        mistakes.with_changes("17_warp_specialized", {"none": ("no such line", "")}, **SMALL)
