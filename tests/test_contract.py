"""What a rung may be, tried in the simulator: several launches, tensor maps, batches, scales."""

import re
from dataclasses import replace

import numpy as np
import pytest
from whole_kernels import KERNELS

from gemmlab.kernel import verify
from gemmlab.kernel.arguments import ArgumentError
from gemmlab.kernel.kernel import Kernel, KernelMistake
from gemmlab.ladder import IllegalSetting, Launch, MapOf, Workspace
from gemmlab.ladder.launch import LEADING, POINTERS, STRIDES
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Parameter
from gemmlab.ladder.shapes import ceil_div, operations, ops
from ptxsim.architectures import SIMULATED_ARCH
from ptxsim.metrics import METRICS

TILE = 16
STORES = METRICS["global", "store"][0]


def tiles(problem, depth=1):
    return ceil_div(problem.n, TILE), ceil_div(problem.m, TILE), depth


def a_rung(name, plan, **more):
    return Rung(
        name=name, title=name, idea="a sketch", parameters=(), tile=lambda s: (TILE, TILE),
        plan=plan, constraints=(), model_bytes=lambda problem, s: 0, **more,
    )  # fmt: skip


def a_kernel(rung, text=None, **settings):
    path = KERNELS / f"{rung.name}.cu"
    if text is None:
        return Kernel(rung, settings, SIMULATED_ARCH, path)
    return Kernel(rung, settings, SIMULATED_ARCH, text(path.read_text("utf-8")))


def passes(kernel, *shapes):
    cases = [
        verify.check(kernel, *shape, *factors, seed=7)
        for shape in shapes
        for factors in ((1.0, 0.0), (0.5, 2.0))
    ]
    assert all(case.passed for case in cases), cases
    return True


# ---- several launches, and memory that they share ------------------------------------------------


def parts_and_sum(problem, settings, target):
    m, n = problem.m, problem.n
    parts = Workspace("parts", 4 * settings["PARTS"] * m * n)
    return [
        Launch("parts_of_k", tiles(problem, settings["PARTS"]), (TILE, TILE, 1),
               args=("A", "B", parts, "M", "N", "K")),
        Launch("add_parts", (ceil_div(m * n, 256), 1, 1), (256, 1, 1),
               args=(parts, "C", "M", "N", "alpha", "beta")),
    ]  # fmt: skip


SPLIT_K = replace(
    a_rung("split_k", parts_and_sum), parameters=(Parameter("PARTS", 4, (1, 2, 4), "parts of K"),)
)


@pytest.mark.parametrize("parts", [1, 4])
def test_two_launches_share_a_workspace(parts):
    kernel = a_kernel(SPLIT_K, PARTS=parts)
    assert passes(kernel, (17, 33, 0), (17, 19, 50)) and kernel.check().passed
    # A request for each warp: of each part 2×2 blocks, then four that add, of 8 warps each.
    assert kernel.trace(32, 32, 8).counters[STORES] == parts * 4 * 8 + 4 * 8


def test_a_workspace_that_begins_as_zeros_must_be_left_so():
    def plan(problem, settings, target):
        return [replace(launch, args=tuple(
            replace(arg, zeroed=True) if isinstance(arg, Workspace) else arg for arg in launch.args
        )) for launch in parts_and_sum(problem, settings, target)]  # fmt: skip

    report = a_kernel(replace(SPLIT_K, plan=plan), PARTS=4).check()
    assert not report.passed and "workspace not cleared in kernel 'add_parts'" in repr(report)
    assert "parts[0], which the next product must find as 0" in repr(report)


# ---- tensor maps and clusters --------------------------------------------------------------------


def mapped(cluster=(1, 1, 1)):
    box = (32, 32)

    def plan(problem, settings, target):
        grid = ceil_div(problem.n, 32), ceil_div(problem.m, 32), 1
        maps = MapOf("A", box, "128B"), MapOf("B", box, "128B"), MapOf("C", box)
        return [Launch("product", grid, (32, 32, 1), cluster=cluster, args=(*maps, "K"))]

    return replace(
        a_rung("tma", plan, needs_arch=lambda s: "sm_90a"),
        parameters=(Parameter("WIDTH", 128, (0, 128), "of the swizzle"),),
    )


def test_matrices_come_through_tensor_maps():
    kernel = a_kernel(mapped(), WIDTH=128)
    for shape in ((33, 36, 40), (64, 32, 8)):
        assert verify.check(kernel, *shape, 1.0, 0.0, seed=3).passed
    with pytest.raises(IllegalSetting, match="needs sm_90a, this is sm_100"):
        Kernel(mapped(), {"WIDTH": 128}, "sm_100", KERNELS / "tma.cu")


# ---- batches and transposed operands -------------------------------------------------------------


def many(problem, settings, target):
    args = ("A", "B", "C", "M", "N", "K", *STRIDES, "alpha", "beta")
    return [Launch("batched", tiles(problem, problem.batch), (TILE, TILE, 1), args=args)]


BATCHED = a_rung("batched", many, ops=lambda s: "NT", batch=3)


def test_a_batch_of_products_with_b_transposed():
    kernel = a_kernel(BATCHED)
    assert passes(kernel, (17, 19, 5), (3, 40, 33)) and kernel.check().passed
    A, B = (np.float32(np.random.default_rng(1).normal(size=s)) for s in ((4, 5, 7), (4, 6, 7)))
    assert np.allclose(kernel(A, B), A @ B.swapaxes(1, 2), atol=1e-5)
    with pytest.raises(ArgumentError, match="the batches differ"):
        kernel(A, B[:3])
    with pytest.raises(ArgumentError, match="batches of matrices"):
        kernel(A[0], B[0])
    with pytest.raises(ArgumentError, match="inner sizes differ"):
        kernel(A, np.ascontiguousarray(B.swapaxes(1, 2)))


# ---- leading dimensions, operations by settings, arrays of pointers ------------------------------


def general(problem, settings, target):
    blocks = min(problem.batch, 2)  # a block goes through several products
    sizes = ("M", "N", "K", *LEADING)
    if settings["POINTERS"]:
        entry, args = "pointers", (*POINTERS, *sizes, "batch", "alpha", "beta")
    else:
        entry, args = "strided", ("A", "B", "C", *sizes, *STRIDES, "batch", "alpha", "beta")
    return [Launch(entry, tiles(problem, blocks), (TILE, TILE, 1), args=args)]


GENERAL = replace(
    a_rung("general", general, ops=ops, batch=3),
    parameters=(*operations(), Parameter("POINTERS", 0, (0, 1), "arrays of addresses")),
)
EVERY_WAY = [(op_a, op_b, how) for op_a in (0, 1) for op_b in (0, 1) for how in (0, 1)]


def generally(text=None, op_a=0, op_b=0, pointers=0):
    return a_kernel(GENERAL, text, OP_A=op_a, OP_B=op_b, POINTERS=pointers)


def normal(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("op_a", "op_b", "pointers"), EVERY_WAY)
def test_operands_are_stored_as_the_settings_say_and_rows_may_be_apart(op_a, op_b, pointers):
    kernel = generally(None, op_a, op_b, pointers)
    assert kernel.problem(2, 3, 4).ops == "NT"[op_a] + "NT"[op_b]
    for gap, batch in ((0, 3), (5, 3), (4, 1), (3, 0)):
        case = verify.check(kernel, 17, 19, 6, 0.5, 2.0, seed=7, gap=gap, batch=batch)
        assert case.passed, case
    assert kernel.check().passed


def test_a_whole_verification_goes_through_gaps_and_batches(monkeypatch):
    monkeypatch.setattr(verify, "SMALLER", (33, 35, 37))
    report = generally().verify(seed=3)
    assert report.passed
    assert {case.batch for case in report.cases} == {0, 1, 3}
    assert {case.gap for case in report.cases} == {0, *verify.GAPS}
    assert {"batch", "between rows"} < set(report.frame().columns)
    assert "batch=0" in str(next(case for case in report.cases if not case.batch))


@pytest.mark.parametrize("pointers", [0, 1])
def test_views_with_gaps_are_taken_as_they_lie(pointers):
    kernel = generally(None, 0, 1, pointers)
    A, B, C = normal(4, 9, 40)[:, 1:6, 3:20], normal(4, 8, 17), normal(4, 6, 8)[:, :5]
    expected = 2 * (A @ B.swapaxes(1, 2)) - C
    assert np.allclose(kernel(A, B, C, alpha=2.0, beta=-1.0), expected, atol=1e-4)
    in_turn = normal(5, 4, 17).swapaxes(0, 1)  # the batch is between the rows
    assert np.allclose(kernel(in_turn, B), in_turn @ B.swapaxes(1, 2), atol=1e-4)
    row = A[:1]
    assert kernel(row, B[:1]).shape == (1, 5, 8)
    assert kernel(A[:0], B[:0]).shape == (0, 5, 8)


def overlapping(shape, strides):
    return np.lib.stride_tricks.as_strided(normal(999), shape, [4 * step for step in strides])


@pytest.mark.parametrize(
    ("A", "message"),
    [
        (overlapping((2, 5, 7), (40, 6, 1)), "A has rows of 7 elements that begin 6 apart"),
        (overlapping((2, 5, 7), (0, 7, 1)), "A has matrices of 35 elements that begin 0 apart"),
        (overlapping((2, 5, 7), (34, 7, 1)), "A has matrices of 35 elements that begin 34 apart"),
        (normal(2, 5, 7)[::-1], "A has matrices of 35 elements that begin -35 apart"),
        (normal(2, 5, 7)[:, ::-1], "A has rows of 7 elements that begin -7 apart"),
        (normal(2, 7, 5).swapaxes(1, 2), "the elements of a row do not follow one another"),
        (normal(2, 5, 14)[..., ::2], "the elements of a row do not follow one another"),
    ],
)
def test_what_overlaps_or_is_stored_otherwise_is_refused(A, message):
    with pytest.raises(ArgumentError, match=message):
        generally()(A, normal(2, 7, 3))


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("row * lda + k]", "row * K + k]", "is nan, .*never written, or made from"),
        ("k * ldb + col]", "k * N + col]", "is nan, .*never written, or made from"),
        ("C[row * ldc + col]", "C[row * N + col]", "between the rows of C"),
        ("z * stride_c", "z * M * N", "wrote between the rows of C"),
    ],
)
def test_a_dense_stride_is_no_leading_dimension(right, wrong, message):
    kernel = generally(lambda text: text.replace(right, wrong))
    case = verify.check(kernel, 17, 19, 6, 1.0, 0.0, seed=7, gap=5)
    assert not case.passed and re.search(message, case.message)


WIDE = """
extern "C" __global__ void strided(const float* A, const float* B, float* C, int M, int N, int K,
                                   int lda, int ldb, int ldc,
                                   long long stride_a, long long stride_b, long long stride_c,
                                   int batch, float alpha, float beta)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    A += blockIdx.z * stride_a;
    if (row >= M || col >= N || lda % 4 || stride_a % 4) return;
    const float4 v = reinterpret_cast<const float4*>(A)[row * lda / 4];
    C[blockIdx.z * stride_c + row * ldc + col] = v.x + v.y + v.z + v.w;
}
"""


def test_what_begins_off_16_bytes_is_where_it_is_for_wide_loads():
    """As on a GPU, where it would be a fault."""
    kernel = generally(lambda text: WIDE)
    whole, B = np.ones((2, 5, 12), np.float32), normal(2, 6, 3)
    assert (kernel(whole[..., 4:10], B) == 4).all()
    with pytest.raises(KernelMistake, match=r"misaligned read .* 16 bytes at A"):
        kernel(whole[..., 1:7], B)
    case = verify.check(kernel, 17, 20, 17, 1.0, 0.0, seed=1, gap=3)
    assert "misaligned" in case.message
    # A copy, such as one that is sent to a GPU, begins as a whole array does.
    assert (kernel(whole[..., 1:9].copy(), normal(2, 8, 3)) == 4).all()


@pytest.mark.parametrize(("op_a", "op_b", "pointers"), EVERY_WAY)
def test_a_sample_of_a_batch_is_compared_as_it_is_stored(op_a, op_b, pointers):
    how = {"op_a": op_a, "op_b": op_b, "pointers": pointers}
    for batch in (1, 5):
        verify.check_sample(generally(**how), generally(**how).problem(9, 5, 4, batch), rows=3)
    wrong = generally(lambda text: text.replace("z < batch", "z < batch - 1"), **how)
    with pytest.raises(verify.VerificationError, match=r"5 × 9×5×4.*C\[4, 0, 0\] is not finite"):
        verify.check_sample(wrong, wrong.problem(9, 5, 4, 5), rows=3)
    wrong = generally(lambda text: text.replace("sum = 0.0f", "sum = 1.0f"), **how)
    with pytest.raises(verify.VerificationError, match=r"C\[\d, \d, 0\] is .*expected"):
        verify.check_sample(wrong, wrong.problem(9, 5, 4, 5), rows=3)
