"""Accesses to shared memory, found by their line."""

import pytest

from gemmlab.analysis import accesses
from gemmlab.loading import load

STORE = "a[k + 0]"


@pytest.fixture(scope="module")
def trace():
    return load("06_vectorized_loads").trace(128, 128, 16)


def test_the_first_store_of_a_warp_to_the_transposed_tile(trace):
    """Four lanes share a row of A: they store 4 lines of 512 bytes apart, in one bank."""
    store = accesses.shared(trace, "store", STORE)
    first = [int(address) - int(store.addresses[0]) for address in store.addresses[:5]]
    assert first == [0, 2048, 4096, 6144, 4]
    assert accesses.wavefronts(trace, "store", STORE) == 4
    other = accesses.shared(trace, "store", STORE, warp=1)
    assert int(other.addresses[0]) - int(store.addresses[0]) == 8 * 4  # a warp brings 8 rows


def test_what_is_not_there_is_named(trace):
    with pytest.raises(ValueError, match="no load of shared memory on a line that begins with 'a"):
        accesses.shared(trace, "load", STORE)
    with pytest.raises(ValueError, match="'nothing'"):
        accesses.wavefronts(trace, "store", "nothing")
