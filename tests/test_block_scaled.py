"""27, MXFP8 and NVFP4 with their scales in tensor memory: formats, layouts, results, mistakes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gemmlab as gl
from gemmlab.kernel import verify
from gemmlab.kernel.in_simulator import findings_of
from gemmlab.ladder import Problem, legal_settings
from gemmlab.lessons.blackwell import tables
from gemmlab.lessons.block_scaled import formats
from gemmlab.lessons.block_scaled.formats import FORMATS, MXFP8, NVFP4, PRECISIONS, quantized
from gemmlab.lessons.block_scaled.kernels import BLOCK_SCALED, COLUMNS
from gemmlab.records import recorder

NAME = BLOCK_SCALED.name
every_format = pytest.mark.parametrize("to", FORMATS, ids=lambda to: to.name)


def kernel_of(to, sm_count=1, **how):
    return gl.load(NAME, FORMAT=to.number, **how).scheduled_for(sm_count)


# ---- formats -------------------------------------------------------------------------------------


def test_the_nearest_number_of_four_bits_ties_to_even():
    values = np.linspace(-6, 6, 961)
    numbers = formats._from_e2m1(formats._to_e2m1(values))
    every = np.array([*formats.E2M1, *-formats.E2M1])
    assert (abs(values - numbers) == abs(values[:, None] - every).min(axis=1)).all()
    ties = {0.25: 0.0, 0.75: 1.0, 1.25: 1.0, 1.75: 2.0, 2.5: 2.0, 3.5: 4.0, 5.0: 4.0}
    for value, even in ties.items():
        assert formats._from_e2m1(formats._to_e2m1(np.array([value, -value]))).tolist() == [
            even, -even,
        ]  # fmt: skip


@every_format
@settings(max_examples=10, deadline=None)
@given(st.integers(1, 140), st.integers(1, 6), st.integers(-20, 20), st.integers(0, 99))
def test_quantizing_loses_no_more_than_half_a_unit(to, rows, blocks, power, seed):
    values = np.random.default_rng(seed).standard_normal((rows, 32 * blocks)) * 2.0**power
    scaled = quantized(values, to)
    largest = abs(values).reshape(rows, -1, to.block).max(axis=-1, keepdims=True)
    error = abs(scaled.numbers() - values).reshape(rows, -1, to.block)
    if to is MXFP8:  # its largest number is 448, and a power of two is at most 512 of them
        assert (error <= largest / 8).all()
    else:  # where scales are normal numbers of E4M3
        fits = largest > abs(values).max() * 2.0**-6 * 6 / (448 * 6)
        assert (error <= largest * (1 / 6 + 1 / 12))[np.broadcast_to(fits, error.shape)].all()
    assert (formats.from_atoms(scaled.in_atoms(), rows)[:, : scaled.scales.shape[1]] == (
        scaled.scales
    )).all()  # fmt: skip


def test_an_atom_has_16_bytes_for_each_of_32_lanes():
    """Scale `step` of row r is byte step of the word of lane r % 32, column r // 32."""
    scales = np.arange(128 * 4, dtype=np.uint16).reshape(128, 4)
    scaled = formats.Scaled(MXFP8, np.zeros((128, 128), np.uint8), scales.astype(np.uint8))
    atom = scaled.in_atoms().reshape(32, 4, 4)
    for row, step in ((0, 0), (31, 3), (32, 1), (127, 2)):
        assert atom[row % 32, row // 32, step] == scales[row, step] % 256


# ---- products ------------------------------------------------------------------------------------


@every_format
def test_it_is_right_at_the_shapes_of_the_gate_and_checks_find_nothing(to):
    assert kernel_of(to).verify(seed=1).require().passed
    assert kernel_of(to, STAGES=2).check().passed


@every_format
@settings(max_examples=6, deadline=None)
@given(st.integers(1, 270), st.integers(1, 33), st.integers(1, 20), st.integers(0, 99))
def test_random_shapes(to, m, n, k, seed):
    kernel = kernel_of(to, STAGES=2)
    assert verify.check(kernel, m, 8 * n, 16 * k, 1.0, 0.0, seed=seed).passed


@every_format
def test_quantized_matrices_are_multiplied_as_their_numbers(to):
    random = np.random.default_rng(5)
    A, B = (quantized(random.standard_normal((rows, 320)), to) for rows in (200, 136))
    scales, factor = (A.in_atoms(), B.in_atoms()), A.factor * B.factor
    got = kernel_of(to, 2)(A.bytes, B.bytes, alpha=factor, scales=scales)
    exact = A.numbers() @ B.numbers().T
    assert abs(got - exact).max() <= 2.0**-10 * abs(exact).max()
    with pytest.raises(gl.ArgumentError, match=r"scale_a is \(\d+, 256\); these matrices need"):
        kernel_of(to)(A.bytes, B.bytes, scales=(B.in_atoms()[:1], B.in_atoms()))


def test_it_is_among_what_is_recorded():
    names = {piece.name for piece in recorder.evidence()}
    assert {NAME, "26_blackwell"} <= names


@every_format
def test_scales_of_some_rows_are_those_of_the_rows(to):
    problem, kind = Problem(300, 8, 48, ops="NT"), PRECISIONS[to.number].scales
    scales = kind.of_random(np.random.default_rng(2).uniform(-1, 1, kind.shape_of_a(problem)))
    rows = np.array([0, 7, 129, 299, *range(130, 290)])
    some = kind.of_rows(scales, rows, problem)
    got, every = (kind.spread(x, 1, n, 48) for x, n in ((some, len(rows)), (scales, 300)))
    np.testing.assert_array_equal(got, every[rows])


def test_settings_fit_tensor_memory():
    for chosen in legal_settings(BLOCK_SCALED):
        columns = 256 + 2 * chosen["STAGES"] * 4 * FORMATS[chosen["FORMAT"]].atoms
        assert columns <= COLUMNS


# ---- mistakes ------------------------------------------------------------------------------------

MISTAKES = {  # what stands in the kernel or a header, and what instead
    "the scales of the first step for all": ("(unsigned)step << 4 |", "0u << 4 |", MXFP8),
    "the columns of the first step for all": ("ATOMS == 1 ? 0 : step * ATOM_COLUMNS", "0", NVFP4),
    "scales of A for B": ("scales_b = scales + SCALE_COLUMNS", "scales_b = scales", MXFP8),
    "no wait for a full stage": (
        "mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);", "", NVFP4
    ),
    "scales where sums are": ("const int scales = SCALES_FROM +", "const int scales = BN +", MXFP8),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name, monkeypatch):
    old, new, to = MISTAKES[name]
    kernel = tables.changed(kernel_of(to, STAGES=2), old, new).scheduled_for(1)
    problem = Problem(264, 136, 400, 1, "NT")
    operands = kernel.operands(problem, seed=3, written=False)
    findings = findings_of(kernel.simulate(operands, 1.0, 0.0, check=True))
    A, B, C = operands.numbers()
    bound = gl.error_bound(A, B, None, 1.0, 0.0, kernel.precision)
    assert findings or not (abs(C - A @ B) <= bound).all()
