"""What is recorded of rung 19: bits and errors of an H200 beside the simulator's."""

import pytest

from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import written
from gemmlab.lessons.fp8 import errors, measure
from gemmlab.lessons.fp8.rung import RUNG as FP8
from gemmlab.lessons.fp8.rung import SCALES

FORMS = (measure.TENSORS, measure.BY_ROWS, measure.BY_BLOCKS, *measure.OTHERS[-2:])


@pytest.mark.parametrize("step", FORMS, ids=lambda step: step.title)
def test_the_simulator_has_the_bits_of_the_gpu(step):
    table = measure.BY_STEPS.read()
    rows = table[(table.step == step.title) & (table.settings == written(step.all_settings))]
    assert set(rows.sha256) == {measure.bits_of(step.kernel())}


def test_every_step_is_recorded_and_nothing_that_is_no_step():
    table = measure.BY_STEPS.read()
    recorded = set(zip(table.step, table.settings, table.m, table.n, table.k, strict=True))
    assert recorded == {
        (one.title, written(one.all_settings), *shape)
        for one in measure.STEPS
        for shape in one.shapes
    }
    assert list(dict.fromkeys(measure.steps(measure.BY_ROWS, measure.TENSORS)["step"])) == [
        "scales of rows", "scales of tensors",
    ]  # fmt: skip


@pytest.mark.parametrize("quantizer", measure.QUANTIZERS, ids=lambda one: written(one.macros))
def test_quantizers_have_the_bits_of_the_gpu(quantizer):
    table = measure.QUANTIZING.read()
    rows = table[table.settings == written(quantizer.macros)]
    assert len(rows) == len(measure.MATRICES)
    assert set(rows.sha256) == {measure.bits_of_quantized(quantizer)}


def test_errors_are_those_of_the_simulator():
    table = errors.recorded_errors().set_index(["data", "types", "scales", "promote", "k"])
    assert len(table) == len(errors.cases())
    for case in (
        errors.Case("even", 0, 0, 128, 256), errors.Case("uneven", 0, 2, 128, 256),
    ):  # fmt: skip
        kernel = Kernel(FP8, case.settings, None, FP8.path)
        place = case.data, errors.TYPES[case.dtype], SCALES[case.scales].name, case.promote, case.k
        row = table.loc[place]
        assert (row.sum_error, row.whole_error) == pytest.approx(errors.errors(case, kernel), 1e-5)


# ---- errors beside cuBLASLt's --------------------------------------------------------------------


def test_sums_are_as_wrong_as_those_of_cublaslt():
    """Every case is there; one sum of all products would be many times as wrong."""
    rows = errors.CUBLAS_ERRORS.read()
    ratio = rows["cublas_sum_error"] / rows["sum_error"]
    assert ratio.size == len(errors.CASES_OF_CUBLAS) and ratio.notna().all()
    assert (abs(ratio - 1) < 1e-4).all()
    table = errors.by_scales()
    assert table["cases"].sum() == ratio.size and (table["the same"] <= table["cases"]).all()
    apart = table[["ours larger by at most, %", "ours smaller by at most, %"]]
    same = table["the same"] == table["cases"]
    assert ((apart == 0).all(axis=1) == same).all() and (apart >= 0).all(axis=None)
