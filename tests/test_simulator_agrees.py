"""Six ways to run a rung leave the same bits, and find nothing: see ptxsim/tests/test_agrees.py."""

import corpus
import mistakes
import pytest
from test_agrees import assert_agree, of_product

RUNGS = [entry for entry in corpus.PRODUCTS if isinstance(entry, corpus.RungProduct)]
CASES = {name: sample.run for name, sample in mistakes.OWN.items()} | {
    entry.name: of_product(entry) for entry in RUNGS
}


@pytest.mark.parametrize("name", CASES)
def test_every_way_to_run_a_kernel_leaves_the_same_bits_and_finds_nothing(name, monkeypatch):
    assert_agree(CASES[name], monkeypatch)
