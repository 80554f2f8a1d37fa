"""The simulator against the GPU: results bit for bit, counters one by one, at recorded shapes."""

import math

import pytest

from gemmlab import records
from gemmlab.kernel import load
from gemmlab.ladder import RUNGS

LARGEST = 1100  # a product with a larger M is not simulated whole

every_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)


@every_rung
def test_every_recorded_result_is_the_same_bit_for_bit(rung):
    kernel = load(rung.name)
    results = records.entry(kernel)["results"]
    assert {(r["m"], r["n"], r["k"]) for r in results} >= {(1001, 777, 513), (5, 7, 0), (1, 1, 1)}
    for result in results:
        asked = {name: value for name, value in result.items() if name != "sha256"}
        assert records.result_digest(kernel, **asked) == result["sha256"], asked


@every_rung
def test_every_recorded_counter_is_the_same(rung):
    kernel = load(rung.name)
    small = [c for c in records.entry(kernel)["counters"] if c["m"] <= LARGEST]
    assert len(small) >= 2
    for counted in small:
        simulated = kernel.trace(counted["m"], counted["n"], counted["k"]).counters
        shared = simulated.keys() & counted["metrics"].keys()
        assert len(shared) >= 5
        assert {name: simulated[name] for name in shared} == {
            name: counted["metrics"][name] for name in shared
        }


@every_rung
def test_one_block_of_a_large_product_stands_for_all(rung):
    """4096 is a multiple of every tile here, so all blocks do alike: one, times their number."""
    kernel = load(rung.name)
    _, counted = records.counters_at(kernel, 4096, 4096, 4096)
    assert all(4096 % side == 0 for side in rung.tile(kernel.settings))
    trace = kernel.trace(4096, 4096, 4096, blocks=[(0, 0, 0)])
    blocks = math.prod(trace.grid)
    shared = trace.counters.keys() & counted.keys()
    assert len(shared) >= 5
    assert {name: blocks * trace.counters[name] for name in shared} == {
        name: counted[name] for name in shared
    }
