"""INT8, TF32 and FP8 with scales of blocks on Hopper, and gl.matmul of these types."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import gemmlab as gl
from gemmlab.cuda.options import options_for
from gemmlab.folders import kernel_file
from gemmlab.kernel import in_simulator
from gemmlab.kernel.arguments import ArgumentError
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import IllegalSetting, Problem, find
from gemmlab.ladder.launch import Target
from gemmlab.lessons.fp8.types import BITS_SEED, BITS_SHAPE, EVIDENCE
from gemmlab.records.runs import result_digest

FEW_SMS = Target("sm_90a", 4)  # so that a block has several tiles
CONFLICTS = [f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("ld", "st")]
FP8 = "float8_e4m3fn"
INT8 = {"DTYPE": 3, "OP_B": 1}
SMALL = {"BM": 64, "BN": 64, "STAGES": 8, "CLUSTER": 1}
FLAT = {"BM": 64, "BN": 128, "STAGES": 8, "CLUSTER": 2}
UPRIGHT = {"BM": 128, "BN": 64, "STAGES": 8, "CLUSTER": 1}


def simulated(name, settings, problem, seed=1, path=None, folder="", factors=(1.0, 0.0)):
    """C, the operands, and what the simulator found, with its checks and counters."""
    rung = find(name)
    settings = gl.load(name, **settings).settings
    problem = replace(problem, ops=rung.ops(settings))
    operands = Operands.from_seed(problem, rung.precision_of(settings), seed)
    options = (*((f"-I{folder}",) if folder else ()), *options_for(settings))
    C = operands.C.copy()
    (run,) = in_simulator.run(
        path or rung.path, rung.launches(problem, settings, FEW_SMS),
        replace(operands, C=C).values(*factors), arch="sm_90a", options=options, check=True,
        count=True, limit_s=None,
    )  # fmt: skip
    return C, operands, run


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        (SMALL, (100, 80, 1040)), (FLAT, (150, 136, 144)),
        ({"BM": 128, "BN": 192, "STAGES": 4, "CLUSTER": 2}, (140, 200, 48)),
    ],
)  # fmt: skip
def test_int8_is_exact_and_without_bank_conflicts(settings, shape):
    C, operands, run = simulated("18_int8_tf32", INT8 | settings, Problem(*shape))
    A, B, _ = operands.numbers()
    assert (C == A @ B).all()
    assert not run.findings
    assert not any(run.counters.get(name) for name in CONFLICTS)


def rounded(X):
    """To TF32: the nearest, halves to even, as tensor maps do it."""
    bits = X.view(np.uint32)
    bits = bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.mark.parametrize(
    ("stored_along_k", "settings", "shape", "factors"),
    [
        (0, SMALL, (100, 68, 300), (1.0, 0.0)), (1, SMALL, (100, 68, 300), (0.5, 2.0)),
        (1, FLAT, (140, 132, 36), (1.0, -1.0)), (0, UPRIGHT, (132, 68, 68), (0.5, 2.0)),
    ],
)  # fmt: skip
def test_tf32_is_rounded_and_its_sums_are_in_float32(stored_along_k, settings, shape, factors):
    settings = settings | {"DTYPE": 2, "OP_B": stored_along_k}
    C, operands, run = simulated("18_int8_tf32", settings, Problem(*shape), factors=factors)
    A, B, before = replace(operands, A=rounded(operands.A), B=rounded(operands.B)).numbers()
    exact = factors[0] * A @ B + factors[1] * before
    size = abs(factors[0]) * abs(A) @ abs(B) + abs(factors[1] * before)
    assert (abs(C - exact) <= (shape[2] / 8 + 3) * 2.0**-22 * size).all()
    assert not run.findings
    assert not any(run.counters.get(name) for name in CONFLICTS)


BLOCKS = (
    ({"BM": 192, "BN": 128, "STAGES": 4, "CLUSTER": 2, "SHARE": 0}, (200, 72, 272)),
    ({"BM": 64, "BN": 128, "STAGES": 8, "CLUSTER": 2, "SHARE": 1, "OUT32": 1}, (70, 132, 144)),
    ({"BM": 64, "BN": 64, "STAGES": 12, "CLUSTER": 1, "SHARE": 0}, (70, 72, 1040)),
)
SPLIT = {"BM": 64, "BN": 64, "STAGES": 8, "CLUSTER": 2, "SHARE": 2}


@pytest.mark.parametrize(("settings", "shape"), BLOCKS)
def test_scales_of_blocks_give_the_bits_of_19(settings, shape):
    problem, factors = Problem(*shape), (0.5, 2.0)
    C, given, run = simulated("19_blocks", settings, problem, factors=factors)
    by_19 = gl.load("19_fp8", SCALES=2, BM=64, BN=64, OUT32=settings.get("OUT32", 0))
    scales = np.ascontiguousarray(given.scale_a.T), given.scale_b
    expected = by_19(given.A, given.B, given.C, *factors, scales=scales)
    assert C.tobytes() == expected.tobytes()
    assert not run.findings
    if not settings.get("OUT32"):  # of which two rows lie in the same banks
        assert not any(run.counters.get(name) for name in CONFLICTS)


@pytest.mark.parametrize("shape", [(70, 72, 784), (64, 72, 80)], ids=str)
def test_k_that_a_cluster_splits_is_added_up(shape):
    C, operands, run = simulated("19_blocks", SPLIT | {"OUT32": 1}, Problem(*shape))
    A, B, _ = operands.numbers()
    assert (abs(C - A @ B) <= 2.0**-9 * abs(A) @ abs(B)).all()
    assert not run.findings


MISTAKES = {  # header, text, instead of it
    "no fence before the store by TMA": (
        "18_int8_tf32", "types_epilogue.cuh", "    fence_async_proxy(); ", "    // "),
    "a stage is released while it is multiplied": (
        "18_int8_tf32", "types_along_k.cuh", "        wgmma_wait<1>(); ", "        // "),
    "results are read before the products have ended": (
        "18_int8_tf32", "types_along_k.cuh", "    wgmma_wait<0>();\n", "    wgmma_wait<1>();\n"),
    "a buffer of C is stored by TMA before all have stored to it": (
        "19_blocks", "blocks_epilogue.cuh",
        "        __syncwarp();                                      // all threads", "//"),
    "a buffer of C is filled before TMA has read it": (
        "19_blocks", "blocks_epilogue.cuh", "tma_store_wait_read<STORE_BUFFERS - 1>();", ";"),
    "a stage is full before its scales have landed": (
        "19_blocks", "blocks_scales.cuh", "cp_async_arrive(full", "mbarrier_arrive(full"),
    "scales are copied before the stage is empty": (
        "19_blocks", "blocks_scales.cuh",
        "        mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);\n", ""),
    "no barrier of the cluster": (
        "19_blocks", "../19_blocks.cu",
        "        cluster_arrive();\n        cluster_wait();\n        float", "        float"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_what_is_left_out_is_found(what, tmp_path):
    name, header, text, instead = MISTAKES[what]
    path = kernel_file(f"{name}.cu")
    for beside in (path, *path.with_suffix("").glob("*.cuh")):
        (tmp_path / beside.name).write_text(beside.read_text("utf-8"), "utf-8")
    changed = tmp_path / header.removeprefix("../")
    source = changed.read_text("utf-8")
    assert source.count(text) == 1
    changed.write_text(source.replace(text, instead), "utf-8")
    settings, shape = INT8 | SMALL, (70, 80, 1296)
    if name == "19_blocks":
        settings, shape = {"BM": 128, "BN": 128, "STAGES": 6, "CLUSTER": 1}, (70, 72, 1040)
    if "cluster" in what:
        settings = SPLIT
    C, operands, run = simulated(
        name, settings, Problem(*shape), path=tmp_path / path.name, folder=str(tmp_path)
    )
    A, B, _ = operands.numbers()
    wrong = abs(operands.precision.c.decode(C) - A @ B) > 2.0**-6 * (abs(A) @ abs(B))
    assert run.findings or wrong.any()


def test_shapes_off_16_bytes_are_refused_by_the_kernels_and_settings_in_a_sentence():
    kernel = gl.load("18_int8_tf32", **INT8, **SMALL)
    with pytest.raises(IllegalSetting, match="N that is a multiple of 4 and a K from 16 on"):
        kernel(np.zeros((4, 8), np.int8), np.zeros((6, 8), np.int8))
    with pytest.raises(ArgumentError, match="takes no C, alpha or beta"):
        kernel(np.zeros((4, 16), np.int8), np.zeros((4, 16), np.int8), alpha=2.0)
    with pytest.raises(IllegalSetting, match="takes B stored along K"):
        gl.load("18_int8_tf32", DTYPE=3, OP_B=0, **SMALL)


# ---- gl.matmul -----------------------------------------------------------------------------------

random = np.random.default_rng(3)


def turned(X):
    """The same matrix, stored by columns."""
    return np.ascontiguousarray(X.T).T


@pytest.mark.parametrize(("m", "n", "k"), [(33, 17, 5), (70, 40, 100), (9, 8, 0)])
def test_matmul_of_int8_is_exact_for_any_shape_and_strides(m, n, k):
    A, B = (random.integers(-128, 128, size).astype(np.int8) for size in ((m, k), (k, n)))
    want = A.astype(int) @ B.astype(int)
    out = np.zeros((m, n), np.int32)
    assert gl.matmul(A, turned(B), out=out) is out
    assert (out == want).all()
    result = gl.matmul(turned(A), B.T, transpose_b=True)
    assert result.dtype == np.int32
    assert (result == want).all()


def test_a_single_row_of_any_stride_has_tensor_maps():
    A, B = (random.integers(-9, 9, size).astype(np.int8) for size in ((64, 1), (64, 64)))
    want = A.T.astype(int) @ B
    assert (gl.matmul(A, B, transpose_a=True) == want).all()
    assert (gl.matmul(A.T, B) == want).all()


def test_matmul_of_tf32_takes_factors_and_c():
    sizes = (33, 50), (50, 18), (33, 18)
    A, B, C = (random.uniform(-1, 1, size).astype(np.float32) for size in sizes)
    result = gl.matmul(A, B, 0.5, 2.0, C, dtype="tf32")
    exact = 0.5 * rounded(A).astype(float) @ rounded(B) + 2.0 * C
    assert (abs(result - exact) <= 2.0**-18 * (abs(A) @ abs(B) + 2)).all()


def scales_of(kind, m, n, k):
    """Scales, and what they multiply A and B with."""
    some = lambda *shape: random.uniform(0.5, 2, shape).astype(np.float32)  # noqa: E731
    if kind == "numbers":
        return (0.5, np.float32(3)), 0.5, 3.0
    if kind == "tensors":
        return (np.float32([0.5]), np.array(3, np.float32)), 0.5, 3.0
    if kind == "rows":
        of_a, of_b = some(m), some(n)
        return (of_a, of_b), of_a[:, None], of_b
    of_a, of_b = some(m, -(-k // 128)), some(-(-k // 128), -(-n // 128))
    wide_b = of_b.repeat(128, 0)[:k].repeat(128, 1)[:, :n]
    return (of_a, of_b), of_a.repeat(128, 1)[:, :k], wide_b


@pytest.mark.parametrize("kind", ["numbers", "tensors", "rows", "blocks"])
def test_matmul_of_fp8_takes_each_kind_of_scales(kind):
    m, n, k = 20, 150, 200
    A, B = (random.uniform(-1, 1, size) for size in ((m, k), (k, n)))
    A, B = (X.astype(ml_dtypes.float8_e4m3fn) for X in (A, B))
    scales, of_a, of_b = scales_of(kind, m, n, k)
    scaled_a, scaled_b = A.astype(float) * of_a, B.astype(float) * of_b
    exact, size = scaled_a @ scaled_b, abs(scaled_a) @ abs(scaled_b)
    result = gl.matmul(A, B, scales=scales)
    assert result.dtype == ml_dtypes.bfloat16
    assert (abs(result.astype(float) - exact) <= 2.0**-9 * size + 2.0**-8 * abs(exact)).all()
    C = random.uniform(-1, 1, (m, n)).astype(np.float32)
    bits = A.view(np.uint8), turned(B).view(np.uint8)
    result = gl.matmul(*bits, 2.0, -1.0, C, dtype=FP8, scales=scales)
    assert result.dtype == np.float32
    assert (abs(result - (2 * exact - C)) <= 2.0**-8 * size + 1e-6).all()


def test_scales_of_blocks_of_a_quantized_matrix_fit():
    A, B = (random.uniform(-1, 1, size).astype(np.float32) for size in ((40, 256), (64, 256)))
    (Q_a, of_a), (Q_b, of_b) = gl.quantize(A, "blocks", "A"), gl.quantize(B, "blocks", "B")
    result = gl.matmul(Q_a, Q_b.T, dtype=FP8, scales=(of_a, of_b.T))
    by_19 = gl.load("19_fp8", SCALES=2, BM=64, BN=64)(Q_a, Q_b, scales=(of_a, of_b))
    assert (abs(bfloat16(result) - bfloat16(by_19)) <= 0.05).all()


def bfloat16(bits):
    return bits.view(ml_dtypes.bfloat16).astype(float)


BYTES, WHOLE, FLOATS = (np.zeros((4, 4), dtype) for dtype in (np.uint8, np.int8, np.float32))


@pytest.mark.parametrize(
    ("arguments", "how", "words"),
    [
        ((WHOLE, WHOLE, 2.0), {}, "int8 takes no alpha and beta"),
        ((WHOLE, WHOLE), {"scales": (1, 1)}, "and no other type takes scales: A is int8"),
        ((WHOLE[None], WHOLE[None]), {}, "int8 takes no batches"),
        (
            (FLOATS, FLOATS),
            {"dtype": "tf32", "activation": "ReLU"},
            "tf32 takes no batches, bias and activation",
        ),
        ((BYTES, BYTES), {"dtype": FP8}, "float8_e4m3fn needs scales"),
        ((BYTES, BYTES), {"dtype": FP8, "scales": 2.0}, "pass a tuple, A's scale and B's"),
        (
            (BYTES, BYTES),
            {"dtype": FP8, "scales": (1, WHOLE)},
            "scales of B are numpy.ndarray of int8: pass numbers or float32",
        ),
        ((BYTES, BYTES), {"dtype": FP8, "scales": (np.ones(3, "f4"), 1)}, r"\(4, 1\) and"),
        ((BYTES, BYTES), {}, "gl.matmul takes"),
    ],
)
def test_what_matmul_does_not_take_is_said(arguments, how, words):
    with pytest.raises(ArgumentError, match=words):
        gl.matmul(*arguments, **how)


def test_choose_says_which_kernel_and_what_is_copied():
    assert gl.choose((4096, 4096, 2048), "int8").settings["BN"] == 256
    assert gl.choose((64, 4096, 7168), FP8, scales="blocks").settings["SHARE"] == 2
    assert gl.choose((128, 7168, 2048), FP8, scales="blocks").rung == "19_blocks"
    assert gl.choose((128, 7168, 2048), FP8, scales="rows").settings["SCALES"] == 1
    assert gl.choose((128, 128, 128), FP8, to="float32").settings["OUT32"] == 1
    chosen = gl.choose((33, 30, 50), "tf32")
    assert chosen.padded.shape == (33, 32, 52)
    assert "the only kernel for this type" in repr(chosen)
    assert gl.choose(Problem(64, 64, 64, ops="TN"), "tf32").turned == "A"
    with pytest.raises(IllegalSetting, match="int8 takes no batches"):
        gl.choose((64, 64, 64, 2), "int8")
    with pytest.raises(IllegalSetting, match="FP8 alone scales of rows"):
        gl.choose((64, 64, 64), FP8, scales="columns")


def test_steps_of_the_record_are_settings_that_the_kernels_take():
    for table in EVIDENCE:
        for step in table.steps:
            for shape in step.shapes:
                problem = Problem(*shape, ops=step.rung.ops(step.all_settings))
                assert step.rung.broken(step.all_settings) is None
                assert step.rung.launches(problem, step.all_settings, FEW_SMS)


@pytest.mark.parametrize("table", EVIDENCE, ids=lambda table: table.name)
def test_the_bits_of_a_product_are_those_of_the_recorded_gpu(table):
    recorded = table.read()
    for title, rows in recorded.groupby("step"):
        step = next(step for step in table.steps if step.title == title)
        digest = result_digest(step.kernel(), *BITS_SHAPE, 1.0, 0.0, BITS_SEED)
        assert set(rows["sha256"]) == {digest}, title
