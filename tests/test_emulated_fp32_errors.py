"""How wrong products of float32 from parts of 16 bits are: below the bound, and beside SGEMM."""

import numpy as np
import pytest
from figures import test_it_can_be_read  # noqa: F401
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmlab.kernel.bounds import error_bound
from gemmlab.kernel.operands import random_matrix
from gemmlab.lessons.emulated_fp32 import errors, figures, model, tables
from gemmlab.lessons.emulated_fp32.errors import DATA, SGEMM, WAYS, Case
from gemmlab.lessons.emulated_fp32.lab import ErrorSliders
from gemmlab.lessons.emulated_fp32.splits import SPLITS, precision_of
from gemmlab.records.registry import StaleRecord
from ptxsim.arithmetic.multiply_add import fma

f4, f8 = np.float32, np.float64
every_way = pytest.mark.parametrize("way", WAYS)
few = settings(max_examples=25, deadline=None)


@pytest.fixture(scope="module")
def record():
    return errors.ERRORS.read().set_index(["way", "promote", "data", "k"])


def values_of(x, way):
    """The parts of float32 `x` (rows, K), float64, as much as each has of it."""
    parts, exponents = model.split(x, WAYS.index(way))
    step = model.WAYS[WAYS.index(way)].step
    return [part.astype(f8) * step**i * 2.0 ** exponents[:, None] for i, part in enumerate(parts)]


def share_of_bound(A, B, way, promote, C=None):
    C = model.product(A, B, WAYS.index(way), promote) if C is None else C
    A, B = A.astype(f8), B.astype(f8)
    bound = error_bound(A, B, None, 1.0, 0.0, precision_of(WAYS.index(way), promote))
    return (abs(C - A @ B) / bound).max()


# ---- the split -----------------------------------------------------------------------------------


@every_way
@few
@given(seed=st.integers(0, 1 << 30), power=st.integers(-100, 126))
def test_parts_leave_as_much_as_they_claim(way, seed, power):
    """Of numbers that have one exponent, but for the last bits of FP16's small ones."""
    split, x = SPLITS[way], np.ldexp(1 + abs(random_matrix(4, 64, seed)), power).astype(f4)
    first, *others = parts = values_of(x, way)
    assert (abs(others[0]) <= split.v * x).all()
    assert (abs(x - sum(parts)) <= split.rest * x).all()
    assert (abs(x - first) <= split.v * x).all()
    if len(parts) == 3:
        assert (x == sum(parts)).all(), "three parts of BF16 have all bits"


# ---- the bound -----------------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize("data", DATA)
def test_errors_are_below_the_bound_on_all_data(way, data):
    for promote in (64, 0):
        assert share_of_bound(*errors.matrices(data, 320), way, promote) <= 1


@every_way
@few
@given(
    seed=st.integers(0, 1 << 30), k=st.integers(1, 200), promote=st.sampled_from([64, 128, 0]),
    spread=st.integers(0, 40), power=st.integers(-60, 60),
)  # fmt: skip
def test_errors_are_below_the_bound_whatever_the_exponents(way, seed, k, promote, spread, power):
    A, B = (
        np.ldexp(x, np.rint(spread * random_matrix(*x.shape, seed + 9)).astype(int) + to).astype(f4)
        for x, to in ((random_matrix(5, k, seed), power), (random_matrix(k, 6, seed + 1), -power))
    )
    assert share_of_bound(A, B, way, promote) <= 1


@every_way
def test_the_bound_notices_a_product_that_is_left_out(way):
    """At small K, of all that are larger than what the sums lose."""
    number = WAYS.index(way)
    A, B = random_matrix(64, 64, 1), random_matrix(64, 64, 2)
    C = model.product(A, B, number, 128).astype(f8)
    of_a, of_b = values_of(A, way), values_of(B.T.copy(), way)
    noticed = [
        share_of_bound(A, B, way, 128, C - of_a[i] @ of_b[j].T) > 1
        for i, j in model.WAYS[number].corrections
        if i + j <= 2
    ]
    assert noticed and all(noticed)


# ---- beside SGEMM --------------------------------------------------------------------------------


def test_one_fma_follows_the_other():
    A, B = random_matrix(3, 50, 1), random_matrix(50, 4, 2)
    total = f4(0)
    for a, b in zip(A[2].astype(f8), B[:, 1].astype(f8), strict=True):
        total = fma(a, b, total)
    assert errors.by_fma(A, B)[2, 1] == total


def test_six_products_are_no_more_wrong_than_sgemm(record):
    at = record[["largest", "rms"]].xs(4096, level="k").sort_index()
    for way in ("BF16×6", "FP16×3"):
        assert (at.loc[way, errors.PROMOTE[way]] <= at.loc[SGEMM, 0]).all(axis=None)


@pytest.mark.parametrize("data", [data for data in DATA if data != "worst"])
def test_promotion_matters_and_nine_products_do_not(record, data):
    by_promotion = [record.loc["BF16×6", promote, data, 4096]["rms"] for promote in (128, 0)]
    assert by_promotion[1] > 10 * by_promotion[0]
    nine = record.loc["BF16×9", 128, data, 4096]["rms"]
    assert nine == pytest.approx(by_promotion[0], rel=0.1)


def test_the_record_has_all_cases_and_says_who_made_it(record):
    assert len(record) == len(errors.cases()) and set(record["gpu"]) == {"simulator of nvidia-h200"}
    for case in (Case("BF16×6", 128, "normal", 256), Case("TF32", 0, "uniform", 64)):
        row = record.loc[case.way, case.promote, case.data, case.k]
        assert (row["largest"], row["rms"]) == pytest.approx(errors.errors(case), rel=1e-5)


def test_the_record_is_refused_where_the_bits_changed(monkeypatch):
    product = model.product
    monkeypatch.setattr(model, "product", lambda *given: product(*given) * f4(1 + 2.0**-23))
    errors._bits.cache_clear()
    try:
        with pytest.raises(StaleRecord, match="record emulated_errors"):
            errors.ERRORS.read()
    finally:
        errors._bits.cache_clear()


# ---- what the notebook shows ---------------------------------------------------------------------


def test_the_account_adds_up_to_the_error(record):
    account = tables.account("BF16×6", 128, "uniform", k=1024)
    assert account["error"] == pytest.approx(record.loc["BF16×6", 128, "uniform", 1024]["rms"], 1e-5)  # fmt: skip # noqa: E501
    assert account["parts"] == 0 < account["products left out"] < account["all else"]
    assert account["all else"] < account["sums of the largest parts"] < account["error"] * 1.1


def _drawn():
    table = errors.ERRORS.read()
    some = table[(table["data"] == "uniform") & table["way"].isin(["SGEMM", "BF16×6"])]
    return {
        "bits": figures.parts_of_bits(np.pi), "negative": figures.parts_of_bits(-1e-20),
        "speed": figures.speed_against_error(), "K": figures.over_k(table),
        "tried": figures.tried(some),
    }  # fmt: skip


@pytest.fixture(params=["bits", "negative", "speed", "K", "tried"])
def figure(request):
    return _drawn()[request.param]


def test_each_slider_multiplies_and_draws():
    sliders = ErrorSliders()
    before = sliders.picture.value
    sliders.sliders["k"].value = 64
    assert sliders.picture.value != before and "K = 64" in sliders.caption.value
