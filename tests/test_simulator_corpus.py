"""The kernels of corpus.py in the simulator: right at awkward shapes, and as recorded on a GPU."""

import corpus
import pytest
import record_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
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


def assert_right(entry, m, n, k, alpha, beta, seed=1):
    m, n, k = entry.fitting(m, n, k)
    C, run = entry.launch(m, n, k, alpha, beta, seed)
    assert run.findings == []
    assert entry.wrong_elements(C, entry.inputs(m, n, k, alpha, beta, seed)) == 0


@every_product
def test_a_product_is_right_at_awkward_shapes(entry):
    for shape in SHAPES:
        assert_right(entry, *shape)


SIDES, FACTORS = st.integers(1, 70), st.sampled_from([0.0, 1.0, -1.5, 0.25])
VARIED = [
    corpus.rung("03_shared_memory", TILE=8, BK=32, PAD=1),
    corpus.rung("04_thread_tile_1d", BM=32, BN=32, BK=16, TM=4),
    corpus.rung("06_vectorized_loads", **corpus.SQUARE),
    corpus.rung("08_warp_tiling", **corpus.SMALL_WARPS),
    corpus.rung("09_double_buffering", **corpus.SMALL_WARPS),
]


@pytest.mark.parametrize("entry", VARIED, ids=lambda entry: entry.name)
@settings(max_examples=10)
@given(SIDES, SIDES, st.integers(0, 70), FACTORS, FACTORS, st.integers(0, 2**32))
def test_a_product_is_right_at_any_small_shape(entry, m, n, k, alpha, beta, seed):
    assert_right(entry, m, n, k, alpha, beta, seed)


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


@pytest.mark.parametrize("entry", [*corpus.PRODUCTS, *corpus.OTHERS], ids=lambda entry: entry.name)
def test_checks_find_nothing_in_a_correct_kernel(entry):
    if isinstance(entry, corpus.Other):
        assert entry.launch(100, check=True)[-1].findings == []
        return
    for shape in ((17, 33, 21, 0.5, 2.0), (68, 36, 36, 1.0, 0.0)):
        m, n, k, *factors = (*entry.fitting(*shape[:3]), *shape[3:])
        assert entry.launch(m, n, k, *factors, check=True)[1].findings == []
