"""The kernels of corpus.py in the simulator: right at awkward shapes, and as recorded on a GPU."""

import importlib.util
import json
from pathlib import Path

import corpus
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

HERE = Path(__file__).parent

spec = importlib.util.spec_from_file_location("record_corpus", HERE / "recorded/record_corpus.py")
record_corpus = importlib.util.module_from_spec(spec)
spec.loader.exec_module(record_corpus)

RECORD = json.loads((HERE / "recorded/corpus.json").read_text(encoding="utf-8"))
BIT_EQUAL = [one for one in record_corpus.recorded_kernels() if one.name in RECORD["kernels"]]
LARGE = 300  # a product with a larger M is simulated for one setting of each file only
ONE_OF_EACH_FILE = list({one.file: one for one in reversed(BIT_EQUAL)}.values())

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
    "shared_memory 8, padded", "thread_tile_1d 32x32x16", "vectorized_loads 32x32x8",
    "warp_tiling 64x64x8", "double_buffering 32x64x8",
]  # fmt: skip


@pytest.mark.parametrize("name", VARIED)
@settings(max_examples=10)
@given(SIDES, SIDES, st.integers(0, 70), FACTORS, FACTORS, st.integers(0, 2**32))
def test_a_product_is_right_at_any_small_shape(name, m, n, k, alpha, beta, seed):
    assert_right(corpus.product(name), m, n, k, alpha, beta, seed)


def test_the_record_has_kernels_of_every_kind():
    assert len(BIT_EQUAL) >= 18 and len(ONE_OF_EACH_FILE) >= 7


@pytest.mark.parametrize("entry", BIT_EQUAL, ids=lambda entry: entry.name)
def test_every_bit_is_that_of_the_gpu(entry):
    recorded = RECORD["kernels"][entry.name]
    assert recorded["code"] == record_corpus.key(entry), "recorded for another version"
    results = recorded["results"]
    assert {(r["m"], r["n"], r["k"]) for r in results} >= {(1001, 777, 513), (17, 33, 0)}
    for r in results:
        if r["m"] > LARGE and entry not in ONE_OF_EACH_FILE:
            continue
        C, run = entry.launch(r["m"], r["n"], r["k"], r["alpha"], r["beta"], r["seed"])
        assert run.findings == []
        assert record_corpus.digest(C) == r["sha256"], r


@every_other
def test_another_kernel_is_right(entry):
    for size in (1, 31, 100, 1000):
        got, expected, run = entry.launch(size)
        assert run.findings == []
        if isinstance(expected, tuple):
            assert (np.abs(got - expected[0]) <= expected[1]).all()
        else:
            assert np.array_equal(got, expected)


@pytest.mark.parametrize("entry", [*corpus.PRODUCTS, *corpus.OTHERS], ids=lambda entry: entry.name)
def test_checks_find_nothing_in_a_correct_kernel(entry):
    if isinstance(entry, corpus.Other):
        assert entry.launch(100, check=True)[-1].findings == []
        return
    for shape in ((17, 33, 21, 0.5, 2.0), (68, 36, 36, 1.0, 0.0)):
        m, n, k, *factors = (*entry.fitting(*shape[:3]), *shape[3:])
        assert entry.launch(m, n, k, *factors, check=True)[1].findings == []
