"""How a warp's loads are spread over sectors, lines and banks, by hand and by trace."""

import pytest

import gemmlab
from gemmlab.lessons.naive import measure as requests
from gemmlab.lessons.vectorized_loads.tables import shared_access, wavefronts
from gemmlab.loading import load


def test_a_column_of_rows_lies_in_one_bank_or_in_all_of_them():
    table = requests.by_k(load("01_naive"), (64, 48, 33))
    assert list(table.loc["words in the fullest bank"]) == [32, 16, 1]
    assert (table.loc["sectors"] == 32).all()


def test_a_kernel_that_loads_several_k_at_once_is_refused():
    with pytest.raises(LookupError, match="loads of A"):
        requests.by_k(load("06_vectorized_loads"), (64,))


def test_wavefronts_of_an_access_are_counted():
    """By hand: four lanes of 06 share a row of A, and store 4 lines of 512 bytes apart."""
    trace = gemmlab.load("06_vectorized_loads").trace(128, 128, 16)
    store = shared_access(trace, "a[k + 0]", op="store")
    first = [int(address) - int(store.addresses[0]) for address in store.addresses[:5]]
    assert first == [0, 2048, 4096, 6144, 4]
    assert wavefronts(trace, "a[k + 0]", op="store") == 4
    with pytest.raises(LookupError, match="no load of shared memory"):
        wavefronts(trace, "a[k + 0]")
