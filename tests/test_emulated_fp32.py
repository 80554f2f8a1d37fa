"""23_emulated_fp32: the bits of its model, special values, planted mistakes, gl.matmul's `by`."""

from functools import lru_cache

import corpus
import numpy as np
import pytest

import gemmlab as gl
from gemmlab.kernel.arguments import ArgumentError
from gemmlab.kernel.in_simulator import findings_of
from gemmlab.kernel.operands import Operands, random_matrix
from gemmlab.kernel.verify import check
from gemmlab.ladder import Problem
from gemmlab.lessons.emulated_fp32 import model
from gemmlab.lessons.emulated_fp32.kernels import EMULATED
from gemmlab.products.choosing import choose
from ptxsim.arithmetic.multiply_add import fma

F4 = np.float32
LARGEST = np.finfo(F4).max
BF16X6, FP16X3, BF16X3, BF16X9 = range(len(model.WAYS))


def kernel_of(way=BF16X6, text=None, **settings):
    """A cluster of two blocks computes all tiles."""
    load = gl.load if text is None else (lambda name, **how: gl.from_source(text, name, **how))
    return load(EMULATED.name, WAY=way, **settings).scheduled_for(1)


def run(kernel, A, B, alpha=1.0, beta=0.0, C=None):
    """C, what `lost` is then, and findings; A and B as they are multiplied."""
    m, k, n = *A.shape, B.shape[1]
    stored = [(X.T if how == "T" else X).copy() for X, how in zip((A, B), kernel.ops, strict=True)]
    C, lost = np.full((m, n), np.nan, F4) if C is None else C.copy(), np.zeros(1, np.int32)
    problem = Problem(m, n, k, ops=kernel.ops)
    operands = Operands(problem, kernel.precision, *stored, C, lost=lost)
    findings = findings_of(kernel.simulate(operands, alpha, beta, check=True))
    return C, int(lost[0]), findings


def matrices(m, n, k, seed=23):
    return random_matrix(m, k, seed), random_matrix(k, n, seed + 1)


def same_bits(C, expected):
    return np.array_equal(C, expected, equal_nan=True)


# ---- the kernel's bits ---------------------------------------------------------------------------

CASES = (  # and after how many of K sums are promoted
    (BF16X6, (300, 140, 150), "NN", 64), (BF16X6, (5, 7, 129), "TT", 128),
    (BF16X6, (1, 130, 64), "NT", 64), (FP16X3, (129, 1, 65), "NN", 64),
    (FP16X3, (33, 70, 70), "TN", 128), (BF16X3, (1, 1, 1), "NN", 64),
    (BF16X3, (30, 40, 400), "NN", 1024), (BF16X9, (131, 33, 70), "NN", 64),
)  # fmt: skip


@pytest.mark.parametrize("way, shape, ops, promote", CASES, ids=str)
def test_the_kernel_has_the_bits_of_the_model(way, shape, ops, promote):
    stored = {f"OP_{which}": int(how == "T") for which, how in zip("AB", ops, strict=True)}
    A, B = matrices(*shape)
    C, lost, findings = run(kernel_of(way, PROMOTE=promote, **stored), A, B)
    assert findings == () and lost == 0 and same_bits(C, model.product(A, B, way, promote))


@pytest.mark.parametrize("n", [30, 31])
def test_alpha_and_beta(n):
    """Stored in pairs, and one by one where rows begin off 8 bytes."""
    A, B = matrices(70, n, 100)
    before, product = random_matrix(70, n, 9), model.product(A, B, BF16X6, 128)
    C, _, findings = run(kernel_of(), A, B, -1.5, 0.75, before)
    assert findings == () and same_bits(C, fma(0.75, before.astype(float), product * F4(-1.5)))


@pytest.mark.parametrize(
    "way, shape, gap",
    [(BF16X6, (129, 65, 33), 3), (FP16X3, (70, 66, 80), 4), (FP16X3, (5, 6, 0), 0)],
)
def test_matrices_may_have_gaps(way, shape, gap):
    case = check(kernel_of(way), *shape, 0.5, 2.0, seed=1, gap=gap)
    assert case.passed, case


# ---- special values ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [BF16X6, FP16X3])
def test_what_is_not_finite_is_as_in_float32_and_lost_is_set(way):
    A, B = matrices(6, 8, 70)
    A[2:5, 5], B[5, 1], B[5, 2], B[5, 3] = (np.inf, -np.inf, np.nan), 0, 1, -1
    C, lost, _ = run(kernel_of(way), A, B)
    with np.errstate(all="ignore"):
        expected = sum(A[:, k : k + 1] * B[k : k + 1] for k in range(70))
    finite = np.isfinite(expected)
    assert lost == 1 and same_bits(C[~finite], expected[~finite])
    assert (finite == ~np.isin(np.arange(6), (2, 3, 4))[:, None]).all()
    assert same_bits(C, model.product(A, B, way, 128))


@pytest.mark.parametrize("way", [BF16X6, FP16X3, BF16X9])
def test_the_largest_numbers_are_no_infinities(way):
    A = np.array([[LARGEST, 0], [-LARGEST, 0]], F4)
    B = np.array([[1, 0.5, 2.0**-20], [0, 0, 0]], F4)
    C, lost, _ = run(kernel_of(way), A, B)
    assert lost == 0 and (abs(C / (A.astype(float) @ B) - 1) <= 2.0**-21).all()
    if way in (BF16X6, BF16X9):
        assert same_bits(C, A @ B)


def test_lost_is_set_where_parts_overflow():
    """1.998 * 2**126 is 2**127 in bfloat16, and twice that is infinite."""
    A, B = np.array([[1.998 * 2.0**126]], F4), np.array([[2]], F4)
    C, lost, _ = run(kernel_of(), A, B)
    assert np.isinf(C[0, 0]) and np.isfinite((A @ B)[0, 0]) and lost == 1
    C, lost, _ = run(kernel_of(FP16X3), A, B)
    assert lost == 0 and C[0, 0] == pytest.approx(float((A @ B)[0, 0]), rel=1e-6)


@pytest.mark.parametrize("value, of_a", [(1e-45, True), (2.0**-103, False)])
def test_lost_is_set_where_a_number_is_too_small(value, of_a):
    for way in (BF16X6, FP16X3):
        A, B = matrices(6, 8, 70)
        (A if of_a else B)[3, 4] = value
        C, lost, _ = run(kernel_of(way), A, B)
        assert lost == 1 and same_bits(C, model.product(A, B, way, 128))
        assert model.lost(A, way, 70) == of_a and model.lost(B.T, way, 70) != of_a


def test_lost_says_what_the_range_of_a_row_costs():
    """Of FP16, what is smaller than float32 could keep beside the largest of its row."""
    for exponent, is_lost in ((-31, False), (-32, True)):
        A, B = np.ones((2, 64), F4), np.ones((64, 2), F4)
        A[1, 5] = 2.0**exponent
        _, lost, _ = run(kernel_of(FP16X3), A, B)
        assert (lost == 1) == is_lost == model.lost(A, FP16X3, 64)
    assert run(kernel_of(BF16X6), A, B)[1] == 0


def test_products_of_small_numbers_are_as_exact():
    """Some corrections are subnormal there."""
    for way in (BF16X6, FP16X3):
        A, B = matrices(4, 5, 70)
        A, B = A * F4(2.0**-72), B * F4(2.0**-50)
        C, lost, _ = run(kernel_of(way), A, B)
        assert lost == 0 and same_bits(C, model.product(A, B, way, 128))
        A, B = A.astype(float), B.astype(float)
        assert (abs(C - A @ B) <= 2.0**-21 * (abs(A) @ abs(B))).all()


# ---- planted mistakes ----------------------------------------------------------------------------

WAIT_FULL = "mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity"
FOUND_LARGEST = "atomicMax(&largest[in_block], bits);\n"
MISTAKES = {
    "no fence before wgmma": (BF16X6, "wgmma_fence();", ""),
    "the wrong parity": (BF16X6, f"{WAIT_FULL})", f"{WAIT_FULL} ^ 1)"),
    "no barrier after the mbarriers": (BF16X6, "cluster_sync_relaxed();", ""),
    "a stage released while it is multiplied": (BF16X6, "wgmma_wait<1>();             //", "//"),
    "sums promoted before they are there": (BF16X6, "wgmma_wait<1>();                 //", "//"),
    "chunks that are not swizzled": (BF16X6, "(chunk ^ row % 8) * 16", "chunk * 16"),
    "the largest corrections left out": (BF16X6, "order > 0; --order", "order > 1; --order"),
    "a largest that is not there yet": (
        FP16X3, f"{FOUND_LARGEST}        __syncthreads();", FOUND_LARGEST,
    ),
}  # fmt: skip
SHOWN_BY_C = "chunks that are not swizzled", "the largest corrections left out"


@lru_cache
def without_mistake(way):
    """Its text, A, B, and C, which is right."""
    text = corpus.self_contained(EMULATED.path.read_text(encoding="utf-8"))
    A, B = matrices(130, 20, 200)
    C, _, findings = run(kernel_of(way, text), A, B)
    assert findings == () and same_bits(C, model.product(A, B, way, 128))
    return text, A, B, C


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name):
    way, old, new = MISTAKES[name]
    text, A, B, right = without_mistake(way)
    assert text.count(old) == 1
    C, _, findings = run(kernel_of(way, text.replace(old, new)), A, B)
    assert not same_bits(C, right) if name in SHOWN_BY_C else findings


# ---- gl.matmul -----------------------------------------------------------------------------------


def test_gl_matmul_multiplies_by_tensor_cores_where_it_is_told():
    A, B = matrices(70, 30, 100)
    expected, lost = model.product(A, B, BF16X6, 128), np.zeros(1, np.int32)
    out = np.empty((70, 30), F4)
    assert gl.matmul(A.T.copy(), B, by="tensor cores", transpose_a=True, out=out, lost=lost) is out
    assert same_bits(out, expected) and lost[0] == 0
    both = gl.matmul(A, B, 2.0, 0.5, out, by="tensor cores")
    assert same_bits(both, fma(0.5, out.astype(float), F4(2) * expected))
    gl.matmul(A * F4(np.inf), B, by="tensor cores", lost=lost)
    assert lost[0] == 1 and not same_bits(gl.matmul(A, B), expected)


def test_choose_names_the_kernel():
    chosen = choose((512, 512, 512), by="tensor cores")
    assert chosen.rung == EMULATED.name and chosen.dtype == "float32"
    assert "six products of bfloat16" in chosen.why
    with pytest.raises(gl.IllegalSetting, match="for float32"):
        choose((512, 512, 512), "float16", by="tensor cores")


REFUSED = (
    ({"by": "magic"}, "by is 'magic'"),
    ({"by": "tensor cores", "bias": np.ones(5, F4)}, "without batches, bias"),
    ({"by": "tensor cores", "lost": np.zeros(1)}, "lost is float64"),
    ({"by": "tensor cores", "lost": np.zeros(2, np.int32)}, "lost is int32"),
    ({"lost": np.zeros(1, np.int32)}, "no use for `lost`"),
)


def test_what_is_not_taken_is_refused():
    A, B = matrices(3, 5, 4)
    for how, message in REFUSED:
        with pytest.raises(ArgumentError, match=message):
            gl.matmul(A, B, **how)
    for pair in ((A.astype(np.float16), B.astype(np.float16)), (A[None], B[None])):
        with pytest.raises(ArgumentError, match="is for float32"):
            gl.matmul(*pair, by="tensor cores")
