"""The kernels of corpus.py in the simulator: right at awkward shapes, and as recorded on a GPU."""

import corpus
import pytest
import record_corpus
from sample_kernels import matches

RECORD = record_corpus.RECORD.current()
LARGE = 300  # with a larger M a rung is simulated with its default: test_against_hardware.py

# (m, n, k, alpha, beta), small: thin ones, an empty sum, a C that is not to be read, factors.
SHAPES = (
    (1, 1, 1, 1.0, 0.0), (7, 5, 3, 1.0, 0.0), (33, 17, 1, 1.0, 0.0), (17, 33, 0, 1.0, 0.0),
    (7, 5, 0, 1.0, 0.5), (1, 129, 65, 1.0, 0.0), (129, 1, 65, 0.5, 2.0), (61, 67, 71, -1.5, 0.0),
    (65, 64, 32, 0.0, 1.0), (36, 132, 20, 1.0, -0.25),
)  # fmt: skip

every_product = pytest.mark.parametrize("entry", corpus.PRODUCTS, ids=lambda entry: entry.name)
every_other = pytest.mark.parametrize("entry", corpus.OTHERS, ids=lambda entry: entry.name)


@every_product
def test_a_product_is_right_at_awkward_shapes(entry):
    for *shape, alpha, beta in SHAPES:
        m, n, k = entry.fitting(*shape)
        C, run = entry.launch(m, n, k, alpha, beta)
        assert run.findings == []
        assert entry.wrong_elements(C, entry.inputs(m, n, k, alpha, beta)) == 0


def test_the_rungs_with_tiles_are_there_and_none_as_results_already_records_it():
    rungs = [product for product in corpus.PRODUCTS if isinstance(product, corpus.RungProduct)]
    assert {rung.path.stem[:2] for rung in rungs} >= {"03", "04", "05", "06", "07", "08", "09"}
    assert not {rung.name for rung in rungs} & {corpus.rung(rung.path.stem).name for rung in rungs}


@pytest.mark.parametrize("name", RECORD)
def test_every_bit_is_that_of_the_gpu(name):
    entry, results = corpus.product(name), RECORD[name]["results"]
    assert {(r["m"], r["n"], r["k"]) for r in results} >= {(1001, 777, 513), (17, 33, 0)}
    for r in results:
        if r["m"] > LARGE:
            continue
        C, run = entry.launch(r["m"], r["n"], r["k"], r["alpha"], r["beta"], r["seed"])
        assert run.findings == []
        assert record_corpus.digest(C) == r["sha256"], r


@every_other
def test_another_kernel_is_right(entry):
    for size in (1, 31, 100, 1000):
        got, expected, run = entry.launch(size)
        assert run.findings == []
        assert matches(got, expected)
