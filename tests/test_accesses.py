"""An access of shared memory is found by its line."""

import pytest

import gemmlab
from gemmlab.kernel.trace import TraceError
from gemmlab.lessons.vectorized_loads.tables import shared_access, wavefronts


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


def test_wavefronts_of_an_access_are_counted():
    """By hand: four lanes of 06 share a row of A, and store 4 lines of 512 bytes apart."""
    trace = gemmlab.load("06_vectorized_loads").trace(128, 128, 16)
    store = shared_access(trace, "a[k + 0]", op="store")
    first = [int(address) - int(store.addresses[0]) for address in store.addresses[:5]]
    assert first == [0, 2048, 4096, 6144, 4]
    assert wavefronts(trace, "a[k + 0]", op="store") == 4
    with pytest.raises(TraceError, match="no load of shared memory"):
        wavefronts(trace, "a[k + 0]")
