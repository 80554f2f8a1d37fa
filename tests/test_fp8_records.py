"""What is recorded of rung 19: bits and errors of an H200 beside the simulator's."""

import numpy as np
import pytest

from gemmlab.kernel.arguments import ArgumentError
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import random_values
from gemmlab.ladder import written
from gemmlab.ladder.precision import E4M3
from gemmlab.lessons.fp8 import errors, measure
from gemmlab.lessons.fp8.quantize import ELEMENTS, quantize
from gemmlab.lessons.fp8.rung import RUNG as FP8
from gemmlab.lessons.fp8.rung import SCALES

FORMS = (measure.TENSORS, measure.BY_ROWS, measure.BY_BLOCKS, *measure.OTHERS[-2:])


@pytest.mark.parametrize("step", FORMS, ids=lambda step: step.title)
def test_the_simulator_has_the_bits_of_the_gpu(step):
    table = measure.BY_STEPS.read()
    rows = table[(table.step == step.title) & (table.settings == written(step.all_settings))]
    assert set(rows.sha256) == {measure.bits_of(step.kernel())}


@pytest.mark.parametrize(
    "quantizer", measure.QUANTIZERS, ids=lambda quantizer: written(quantizer.macros)
)
def test_quantizers_have_the_bits_of_the_gpu(quantizer):
    table = measure.QUANTIZING.read()
    rows = table[table.settings == written(quantizer.macros)]
    assert len(rows) == len(measure.MATRICES)
    assert set(rows.sha256) == {measure.bits_of_quantized(quantizer)}


def test_errors_are_those_of_the_simulator():
    table = errors.ERRORS.read().set_index(["data", "types", "scales", "k"])
    for case in (
        errors.Case("even", 0, 0, 128, 256), errors.Case("uneven", 0, 2, 128, 256),
    ):  # fmt: skip
        kernel = Kernel(FP8, case.settings, None, FP8.path)
        row = table.loc[case.data, errors.TYPES[case.dtype], SCALES[case.scales].name, case.k]
        assert (row.sum_error, row.whole_error) == pytest.approx(errors.errors(case, kernel), 1e-5)


def test_sums_have_the_errors_of_cublaslt():
    """Every case is there; one sum of all products would be many times as wrong."""
    rows = errors.ERRORS.read()
    ratio = rows["cublas_sum_error"] / rows["sum_error"]
    assert ratio.size == len(errors.CASES) and ratio.notna().all()
    assert (abs(ratio - 1) < 1e-4).all()


BLOCK = 128
LARGEST = {"float8_e4m3": 448.0, "float8_e5m2": 57344.0}
f4 = np.float32


def matrix(rows, cols, seed=1):
    """float32 whose rows differ by powers of ten."""
    values = random_values(rows * cols, seed).reshape(rows, cols)
    return values * f4(10.0) ** (np.arange(rows) % 7 - 3).astype(f4)[:, None]


def by_definition(X, scales, which, element):
    """Q and scales by NumPy alone: the largest of those that share a scale becomes the largest."""
    rows, cols = X.shape
    down, along = {
        "tensors": (rows, cols), "rows": (1, cols), "blocks": (1 if which == "A" else BLOCK, BLOCK),
    }[scales]  # fmt: skip
    padded = np.zeros((-(-rows // down) * down, -(-cols // along) * along), f4)
    padded[:rows, :cols] = X
    parts = padded.reshape(len(padded) // down, down, -1, along)
    largest = np.nanmax(abs(parts), axis=(1, 3)).clip(max=np.finfo(f4).max)
    most = f4(LARGEST[element])
    scale, inverse = (np.ones_like(largest) for _ in range(2))
    usable = largest >= most * np.finfo(f4).tiny
    scale[usable], inverse[usable] = largest[usable] / most, most / largest[usable]
    wide = (parts * inverse[:, None, :, None]).reshape(padded.shape)[:rows, :cols]
    of = ELEMENTS[element]
    Q = of.encode(np.nan_to_num(wide.clip(-most, most)), of.storage)
    shape = {"tensors": (1,), "rows": (rows,), "blocks": scale.shape}[scales]
    return np.where(np.isnan(wide), 0x7F, Q), scale.reshape(shape)


@pytest.mark.parametrize("scales", ("tensors", "rows", "blocks"))
@pytest.mark.parametrize("which", "AB")
@pytest.mark.parametrize("transpose", (False, True))
def test_every_bit_is_that_of_the_definition(scales, which, transpose):
    for shape, element in (((136, 264), "float8_e4m3"), ((130, 77), "float8_e5m2")):
        X = matrix(*shape)
        given = np.ascontiguousarray(X.T) if transpose else X
        Q, scale = quantize(given, scales, which, transpose=transpose, element=element)
        expected_Q, expected_scale = by_definition(X, scales, which, element)
        assert (scale == expected_scale).all() and scale.shape == expected_scale.shape
        assert (expected_Q == Q).all()


def test_zeros_nan_infinity_and_what_is_too_small():
    X = np.zeros((4, 128), f4)
    X[1, 5], X[1, 6] = np.nan, 3.0
    X[2, 7], X[2, 8] = -np.inf, 1.0
    X[3, 9] = 1e-36
    Q, scale = quantize(X, "rows")
    numbers = E4M3.decode(Q)
    assert scale[0] == 1 and not Q[0].any()
    assert np.isnan(numbers[1, 5]) and numbers[1, 6] == 448 and scale[1] == f4(3 / 448)
    assert numbers[2, 7] == -448 and np.isfinite(scale[2]) and numbers[2, 8] == 0
    assert scale[3] == 1 and not Q[3].any()
    assert np.isfinite(scale).all() and (scale > 0).all()


@pytest.mark.parametrize(
    "X, how, message",
    (
        (np.zeros((2, 2)), {}, "2 axes of float64: quantize takes a matrix of float32"),
        (np.zeros(4, f4), {}, "1 axes of float32"),
        ([1.0], {}, "X is builtins.list"),
        (np.zeros((4, 6), f4)[:, ::2], {}, "not row-major without gaps"),
        (np.zeros((2, 2), f4), {"scales": "columns"}, "scales is 'columns', it must be one of"),
        (np.zeros((2, 2), f4), {"which": "C"}, "which is 'C', it must be one of A, B"),
        (np.zeros((2, 2), f4), {"element": "int8"}, "element is 'int8'"),
    ),
)
def test_invalid_quantizer_arguments_are_refused(X, how, message):
    with pytest.raises(ArgumentError, match=message):
        quantize(X, **how)
