"""An access of shared memory is found by its line."""

import pytest

import gemmlab
from gemmlab.analysis.accesses import shared_access
from gemmlab.kernel.trace import TraceError


@pytest.fixture(scope="module")
def trace():
    return gemmlab.load("08_warp_tiling").trace(128, 128, 8)


def test_it_is_the_first_of_its_line_and_warp(trace):
    found = shared_access(trace, "*(float4*)&b_row", warp=2)
    assert found.warp == 2 and found.operation == "load" and found.size == 16
    assert trace.text.splitlines()[found.line - 1].strip().startswith("*(float4*)&b_row")
    before = trace.run.accesses((0, 0, 0), 2)
    before = before[: next(at for at, one in enumerate(before) if one is found)]
    assert not [one for one in before if one.line == found.line and one.operation == "load"]


def test_a_line_without_such_an_access_is_told(trace):
    with pytest.raises(TraceError, match="no store of shared memory on a line that begins"):
        shared_access(trace, "*(float4*)&b_row", op="store")
