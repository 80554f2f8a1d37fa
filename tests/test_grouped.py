"""Grouped products: one launch for products of any heights, gl.grouped_matmul, and its record."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pytest

import gemmlab as gl
from gemmlab import ladder
from gemmlab.cuda.cublas import BRAIN, Cublas
from gemmlab.cuda.device import gpu, why_no_gpu
from gemmlab.folders import kernel_file
from gemmlab.kernel.in_simulator import findings_of
from gemmlab.kernel.operands import Operands, random_values, unwritten
from gemmlab.ladder import SIMULATED
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons.grouped import figures, measure, tables
from gemmlab.lessons.grouped.kernels import GROUPED, GROUPED_FP8, most_products
from gemmlab.lessons.grouped.product import FLAT, FLAT_FP8, LARGE, LARGE_FP8, SMALL, suited
from gemmlab.records import registry

SMALL_TILE = {"BM": 64, "BN": 128, "STAGES": 3}
WIDE_TILE = {"BM": 128, "BN": 256, "STAGES": 2}


def kernel_of(blocks=3, text=None, rung=GROUPED, **settings):
    settings = (SMALL_TILE if rung is GROUPED else FLAT_FP8) | settings
    if text is None:
        return gl.load(rung.name, **settings).scheduled_for(blocks)
    return gl.from_source(text, rung.name, **settings).scheduled_for(blocks)


def with_scales(operands):
    """Blocks' scales from 0.5 to 2.5, where the operands take some."""
    if (kind := operands.precision.scales) is None:
        return operands
    (_, n, k), count = operands.problem.shape, operands.problem.batch
    along_k = ceil_div(k, kind.depth)
    shapes = (along_k, len(operands.A)), (count, ceil_div(n, kind.columns), along_k)
    scale_a, scale_b = (
        random_values(int(np.prod(shape)), seed).reshape(shape) + np.float32(1.5)
        for seed, shape in enumerate(shapes, 2)
    )
    return replace(operands, scale_a=scale_a, scale_b=scale_b)


def run(kernel, heights, n, k, capacity=0, spare=0):
    """The operands, findings, and (first row, height) of each product. What no product needs of A,
    B and scales is NaN, what stood in C before are guard cells."""
    a, c = kernel.precision.a, kernel.precision.c
    used = np.minimum(heights, capacity) if capacity else heights
    room = [capacity] * len(heights) if capacity else [*heights]
    operands = with_scales(tables.grouped_operands(kernel, [*room, spare], n, k))
    starts = np.cumsum([0, *room])[: len(heights)]
    belongs = np.zeros(len(operands.A), bool)
    for start, height in zip(starts, used, strict=True):
        belongs[start : start + height] = True
    A, B = operands.A, operands.B[: len(heights)].copy()
    nan, empty = unwritten((1,), a)[0], np.array(used) == 0
    A[~belongs], B[empty] = nan, nan
    C = unwritten((len(A), n), c)
    rows = np.array(heights if capacity else [*starts, sum(heights)], np.int32)
    height = capacity or max(1, *heights)
    problem = ladder.Problem(height, n, k, len(heights), kernel.ops)
    given = replace(operands, problem=problem, A=A, B=B, C=C, rows=rows)
    if given.scale_a is not None:
        given.scale_a[:, ~belongs] = np.nan
        given = replace(given, scale_b=given.scale_b[: len(heights)].copy())
        given.scale_b[empty] = np.nan
    findings = findings_of(kernel.simulate(given, 1.0, 0.0, check=True))
    assert (C.view(c.bits)[~belongs] == c.guard).all()
    places = list(zip(starts, used, strict=True))
    return given, findings, places


def alone(given, places):
    """The operands of each product by itself that has rows."""
    for product, (start, height) in enumerate(places):
        if height:
            here, (_, n, k) = slice(start, start + height), given.problem.shape
            scales = ()
            if given.scales is not None:
                scales = np.ascontiguousarray(given.scale_a[:, here]), given.scale_b[product]
            of_one = given.A[here], given.B[product], given.C[here]
            problem = ladder.Problem(height, n, k, 1, given.problem.ops)
            yield Operands(problem, given.precision, *of_one, None, *scales)


def all_right(given, places):
    for single in alone(given, places):
        A, B, C = single.numbers()
        least = (0.0, 0.0) if single.scales is None else single.least()
        bound = gl.error_bound(A, B, None, 1.0, 0.0, single.precision, least=least)
        if not (abs(C - A @ B) <= bound).all():
            return False
    return True


@pytest.mark.parametrize(
    ("heights", "n", "k", "how"),
    [
        ([70, 3, 64, 1], 136, 72, {}),
        ([0, 70, 0, 0, 40, 0], 128, 72, {"spare": 70}),
        ([0, 0, 130, 0], 136, 136, {"DTYPE": 1}),
        ([0, 0, 0], 128, 64, {"spare": 8}),
        ([1], 8, 8, {"blocks": 20}),
        ([60, 70, 130], 136, 136, {"blocks": 2, "SEND_LATER": 0}),
        ([70, 3, 30, 64], 136, 72, {"STAGES": 2, "MIN_BLOCKS": 2, "GROUP": 1, "BN": 64}),
        ([130, 0, 3], 136, 72, {**WIDE_TILE, "blocks": 2}),
        ([64, 0, 33, 90], 136, 72, {"MASKED": 1, "capacity": 90}),
        ([128, 300, 1, 64], 136, 72, {"MASKED": 1, "capacity": 128, "BM": 128, "DTYPE": 1}),
        ([0, 70, 0, 3, 64, 1], 136, 272, {"rung": GROUPED_FP8, "spare": 70}),
        ([0, 0, 0], 128, 64, {"rung": GROUPED_FP8, "spare": 8}),
        ([1, 2, 1], 8, 16, {"rung": GROUPED_FP8, "blocks": 2, "CLUSTER": 2}),
        ([130, 0, 3, 140], 264, 528, {"rung": GROUPED_FP8, **LARGE_FP8, "blocks": 4}),
        ([200, 0, 33, 90], 136, 144, {"rung": GROUPED_FP8, "MASKED": 1, "capacity": 90}),
    ],
)
def test_products_of_any_heights_are_right_and_no_other_rows_are_written(heights, n, k, how):
    room = {name: value for name, value in how.items() if name in ("capacity", "spare")}
    settings = {name: value for name, value in how.items() if name not in room}
    given, findings, places = run(kernel_of(**settings), heights, n, k, **room)
    assert not findings and all_right(given, places)


@pytest.mark.parametrize("at", [0, 2, 3, 5])
def test_each_product_has_the_bits_that_19_blocks_gives_it(at):
    kernel = kernel_of(4, rung=GROUPED_FP8, **GROUPED_FP8.families[at])
    given, findings, places = run(kernel, [70, 0, 3], 200, 144)
    by_19 = gl.load("19_blocks", **FLAT_FP8)
    assert not findings
    for single in alone(given, places):
        assert (by_19(single.A, single.B, scales=single.scales) == single.C).all()


def test_more_products_than_a_warp_has_lanes():
    heights = [int(height) for height in np.random.default_rng(5).integers(0, 4, 70)]
    given, findings, places = run(kernel_of(blocks=5), heights, 72, 8)
    assert not findings and all_right(given, places)


def test_each_product_has_the_bits_that_18_gives_it():
    given, _, places = run(kernel_of(), [70, 0, 3, 64], 136, 200)
    by_18 = gl.load("18_persistent", BM=64, BN=128, STAGES=3, CLUSTER=1)
    for single in alone(given, places):
        assert (by_18(single.A, single.B).view("u2") == single.C.view("u2")).all()


def test_the_rung_itself_is_right_at_the_shapes_of_the_gate():
    assert kernel_of(BN=64, STAGES=2, OP_B=1, DTYPE=1).verify(seed=1).passed
    assert kernel_of(rung=GROUPED_FP8).verify(seed=1).passed


MISTAKES = {
    "all boxes of 64 rows stored whole": (
        "store_rows.cuh", "rows >= WARPGROUP_ROWS", "rows > 0", [10, 64, 64], 128, 264, 2
    ),
    "the B of the first product": (
        "24_grouped.cu", "map_b, tile.product,", "map_b, 0,", [10, 64], 128, 64, 2
    ),
    "empty products counted": (
        "products.cuh", "if (first_tiles[middle] <= number)", "if (first_tiles[middle] < number)",
        [10, 0, 64], 128, 64, 2,
    ),
    "tiles looked up before they are numbered": (
        "24_grouped.cu", "__syncthreads();  ", "", [70, 3, 64, 1], 136, 72, 3
    ),
    "a buffer filled while it is stored": (
        "store_rows.cuh", "else tma_store_wait_read<0>();",
        "else tma_store_wait_read<STORE_BUFFERS - 1>();", [64, 10, 64, 10], 256, 136, 1,
    ),
    "a tile of FP8 stored whole": (
        "blocks_epilogue.cuh", "row < rows;", "row < WARP_ROWS;", [64, 10], 128, 144, 2
    ),
    "scales of rows beyond all products": (
        "24_fp8.cu", "b, tile.m, tile.n, tile.m + tile.rows,", "b, tile.m, tile.n, tile.m + BM,",
        [10], 128, 144, 1,
    ),
    "the B in FP8 of the first product": (
        "24_fp8.cu", "map_b, tile.product * N +", "map_b,", [10, 64], 128, 144, 2
    ),
    "the scales of the first B": (
        "24_fp8.cu", "(size_t)tile.product *", "(size_t)0 *", [10, 64], 128, 144, 2
    ),
    "a place for one tile alone": (
        "24_fp8.cu", "FOUND = STAGES + 1", "FOUND = 1", [64, 10, 64, 10, 3], 256, 16, 1
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name):
    file, old, new, heights, n, k, blocks = MISTAKES[name]
    texts = {rung: rung.path.read_text(encoding="utf-8") for rung in (GROUPED, GROUPED_FP8)}
    rung, text = next(
        (rung, text) for rung, text in texts.items()
        if file == rung.path.name or f'"{file}"' in text
    )  # fmt: skip
    if file != rung.path.name:
        header = kernel_file(file).read_text(encoding="utf-8").replace("#pragma once", "")
        text = text.replace(f'#include "{file}"', header)
    assert text.count(old) == 1
    try:
        mistaken = kernel_of(blocks, text.replace(old, new), rung)
        given, findings, places = run(mistaken, heights, n, k)
    except (AssertionError, gl.KernelMistake):
        return
    assert findings or not all_right(given, places)


# ---- gl.grouped_matmul ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def matrices():
    operands = tables.grouped_operands(kernel_of(), [70, 0, 3, 20], 136, 72)
    return operands.A, operands.B, operands.rows


def exact(A, B, rows):
    each = zip(rows, rows[1:], B, strict=False)
    return np.concatenate([A[a:b].astype(float) @ matrix.astype(float) for a, b, matrix in each])


def test_a_call_multiplies_all_products(matrices):
    A, B, rows = matrices
    out = np.empty((93, 136), np.float16)
    assert gl.grouped_matmul(A, B, rows.tolist(), out=out) is out
    assert abs(out - exact(A, B, rows)).max() < 0.02


def test_a_call_takes_masked_products_and_b_transposed(matrices):
    A, B, _ = matrices
    A, used = A[:80].reshape(4, 20, 72), [20, 0, 1, 7]
    out = np.full((4, 20, 136), 7, np.float16)
    turned = np.ascontiguousarray(B.swapaxes(1, 2))
    gl.grouped_matmul(A, turned, np.array(used), masked=True, transpose_b=True, out=out)
    for product, height in enumerate(used):
        want = A[product, :height].astype(float) @ B[product].astype(float)
        assert (abs(out[product, :height] - want) < 0.02).all()
        assert (out[product, height:] == 7).all()


def test_bfloat16_is_taken_as_its_bits_and_as_a_type(matrices):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    A, B, _ = matrices
    A, B = A[:8].astype(ml_dtypes.bfloat16), B[:1].astype(ml_dtypes.bfloat16)
    C = gl.grouped_matmul(A, B, [0, 8])
    bits = gl.grouped_matmul(A.view(np.uint16), B.view(np.uint16), [0, 8])
    assert C.dtype == A.dtype and (C.view(np.uint16) == bits).all()
    assert abs(C.astype(float) - A.astype(float) @ B[0].astype(float)).max() < 0.1


@pytest.mark.parametrize("masked", [False, True])
def test_fp8_is_taken_with_scales_of_blocks_that_quantize_makes(masked):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    heights, (n, k) = [70, 0, 3], (136, 144)
    X = gl.random_matrix(90, k, 7)
    W = [gl.random_matrix(n, k, seed) for seed in (8, 9, 10)]
    A, a = gl.quantize(X, "blocks")
    made = [gl.quantize(matrix, "blocks", "B") for matrix in W]
    B, b = (np.stack(each) for each in zip(*made, strict=True))
    rows = np.cumsum([0, *heights])
    if masked:
        A, a, rows = A.reshape(3, 30, k), a.reshape(3, 30, -1), np.array([30, 0, 3])
    how = {"masked": masked, "transpose_b": True, "scales": (a, b)}
    C = gl.grouped_matmul(A, B, rows, **how)
    C8 = gl.grouped_matmul(*(X.view(ml_dtypes.float8_e4m3fn) for X in (A, B)), rows, **how)
    assert C.dtype == np.uint16 and (C8.dtype, C8.shape) == (ml_dtypes.bfloat16, C.shape)
    assert (C8.view(np.uint16) == C).all()
    starts, used = (np.arange(3) * 30, rows) if masked else (rows[:-1], heights)
    C8 = C8.reshape(90, n).astype(float)
    for start, height, matrix in zip(starts, used, W, strict=True):
        here = slice(start, start + height)
        assert abs(C8[here] - X[here].astype(float) @ matrix.T).max(initial=0.0) < 1.5


FP8_CALL = {
    "A": np.zeros((93, 144), "u1"), "B": np.zeros((4, 136, 144), "u1"), "transpose_b": True,
    "scales": (np.ones((93, 2), "f4"), np.ones((4, 2, 2), "f4")),
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scales": None}, "A is uint8: grouped_matmul takes float16, .* and FP8 with scales"),
        ({"A": np.zeros((93, 144), "f2")}, "A is float16: grouped_matmul takes with scales float8"),
        ({"transpose_b": False, "B": np.zeros((4, 144, 136), "u1")}, "FP8 is multiplied along K"),
        ({"A": np.zeros((93, 136), "u1"), "B": np.zeros((4, 136, 136), "u1")}, "multiples of 16 "),
        ({"scales": 1.0}, "scales are builtins.float: pass a tuple"),
        (
            {"scales": (np.ones((93, 2), "f4"), np.ones((2, 2), "f4"))},
            r"and \(4, 2, 2\), B's row-major",
        ),
        ({"out": np.zeros((93, 136), "u1")}, r"it must be a uint16 array \(93, 136\)"),
    ],
)
def test_a_call_in_fp8_that_cannot_be_done_is_refused(change, message):
    with pytest.raises(gl.ArgumentError, match=message):
        gl.grouped_matmul(**{"rows": [0, 70, 70, 73, 93], **FP8_CALL, **change})


def test_nothing_to_multiply_gives_an_empty_result(matrices):
    A, B, _ = matrices
    assert gl.grouped_matmul(A[:0], B, [0] * 5).shape == (0, 136)
    assert (gl.grouped_matmul(A, B[:0], [3]) == 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [0, 1]}, r"rows is int64 \(2,\): it is int32 \(5,\)"),
        ({"rows": [0, 70, 60, 73, 93]}, "at least the one before"),
        ({"rows": [0, 70, 70, 73, 94]}, "and at most 93"),
        ({"rows": np.zeros(5, "f4")}, "rows is float32"),
        ({"masked": True}, r"it is \(products, capacity, K\)"),
        ({"masked": 1}, "masked is 1"),
        ({"A": [1.0]}, "A is builtins.list"),
        ({"A": np.zeros((93, 72), "f4")}, "A is float32"),
        ({"A": np.zeros((93, 64), "f2")}, "do not go together"),
        ({"A": np.zeros((72, 93), "f2").T}, "row-major without gaps"),
        ({"B": np.zeros((4, 72, 136), "u2")}, "both of one type"),
        ({"B": np.zeros((4, 72, 12), "f2")}, "multiples of 8"),
        ({"out": np.zeros((93, 128), "f2")}, r"it must be a float16 array \(93, 136\)"),
    ],
)
def test_a_call_that_cannot_be_done_is_refused(matrices, change, message):
    given = dict(zip(("A", "B", "rows"), matrices, strict=True)) | change
    with pytest.raises(gl.ArgumentError, match=message):
        gl.grouped_matmul(**given)


def test_a_result_that_lies_over_an_operand_is_refused():
    A, B = np.zeros((8, 8), "f2"), np.zeros((1, 8, 8), "f2")
    with pytest.raises(gl.ArgumentError, match="out shares memory with A"):
        gl.grouped_matmul(A, B, [0, 8], out=A)


def test_the_host_chooses_by_what_it_knows():
    def chosen(m, n, products):
        return suited(ladder.Problem(m, n, 512, products), SIMULATED.sm_count)

    assert chosen(8192, 4096, 4) == LARGE
    assert chosen(32, 4096, 128) == FLAT
    assert chosen(64, 256, 8) == SMALL
    many = chosen(64, 4096, 3000)
    assert many["STAGES"] < FLAT["STAGES"] and most_products(GROUPED.defaults | many) >= 3000


def test_settings_and_shapes_that_cannot_be_are_refused_in_a_sentence():
    for settings, message in (
        ({"BM": 128, "MIN_BLOCKS": 2}, "one block fills an SM's registers"),
        ({"BM": 64, "BN": 128, "STAGES": 6, "MIN_BLOCKS": 2}, "no second block fits"),
    ):
        with pytest.raises(gl.IllegalSetting, match=message):
            gl.load(GROUPED.name, **settings)
    kernel = kernel_of()
    for problem, message in (((8, 5, 8, 2), "multiples of 8"), ((8, 8, 8, 60000), "has room for")):
        with pytest.raises(gl.IllegalSetting, match=message):
            kernel.launches(ladder.Problem(*problem))
    A, B = np.zeros((1, 8, 8), "f2"), np.zeros((1, 8, 8), "f2")
    with pytest.raises(gl.ArgumentError, match="takes no C, alpha or beta"):
        kernel(A, B, alpha=2.0)


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason=f"needs a GPU: {why_no_gpu()}")
@pytest.mark.parametrize("heights", [[100, 0, 200, 20, 130], [30] * 700])
def test_a_call_on_a_gpu_takes_rows_that_are_there(heights):
    import cupy

    operands = tables.grouped_operands(kernel_of(), heights, 136, 72)
    A, B, rows = (cupy.asarray(X) for X in (operands.A, operands.B, operands.rows))
    C = gl.grouped_matmul(A, B, rows)
    again = gl.grouped_matmul(A, B, operands.rows, out=cupy.empty_like(C))
    assert abs(C.get() - exact(operands.A, operands.B, operands.rows)).max() < 0.02
    assert bool((again == C).all())
    assert (gl.grouped_matmul(operands.A, operands.B, operands.rows) == C.get()).all()


# ---- the record ----------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason=f"needs a GPU: {why_no_gpu()}")
def test_every_way_is_verified_and_measured_on_a_gpu(monkeypatch):
    cases = measure.Case("ragged", (70, 0, 300)), measure.Case("masked", (5, 64), 64)
    in_fp8 = measure.Case("FP8, ragged", (70, 0, 300), rung=measure.IN_FP8)
    monkeypatch.setattr(measure, "CASES", cases)
    monkeypatch.setattr(measure, "FP8_CASES", (in_fp8,))
    rows = pandas.DataFrame(measure._measured(print))
    for case in cases:
        ways = {*rows[rows["case"] == case.name]["way"]}
        assert {measure.RUNG, measure.LOOP, measure.GROUPED} <= ways <= {*measure.WAYS}
    assert {*rows[rows["case"] == in_fp8.name]["way"]} == {measure.IN_FP8, measure.LOOP_FP8}
    known = {name: kind for name, kind in measure.TABLE.columns.items() if name in rows}
    registry.parsed(rows.to_csv(index=False), Path("grouped.csv"), known)


def test_heights_that_nobody_gave_are_the_host_s_in_the_simulator_and_moved_once_on_a_gpu(
    monkeypatch,
):
    kernel = kernel_of(6)
    moved = []
    monkeypatch.setattr(kernel, "to_device", lambda array: moved.append(array) or len(moved))
    assert kernel.check()
    assert not moved
    operands = kernel.operands(kernel.problem(64, 64, 64), seed=1)
    assert [kernel._values(operands, 1.0, 0.0)["rows"] for _ in range(2)] == [1, 1]
    assert len(moved) == 1


@pytest.fixture
def on_a_mock(monkeypatch):
    """The record is made in the simulator, of small cases in FP8, and nothing is timed."""
    monkeypatch.setitem(sys.modules, "cupy", np)
    monkeypatch.setattr(measure, "N", 136)
    monkeypatch.setattr(measure, "K", 144)

    def make_sets(problem, count, precision):
        operands = Operands.from_seed(problem, precision, 3)
        return [(operands.A, operands.B, operands.C)]

    def in_rounds(sides, rounds, name):
        return [[1.0 + at] * rounds for at, _ in enumerate(sides)], SimpleNamespace(
            sm_clock_mhz=1500.0, power_w=600.0
        )

    monkeypatch.setattr(measure, "make_sets", make_sets)
    monkeypatch.setattr(measure, "in_rounds", in_rounds)
    monkeypatch.setattr(measure, "_side", lambda launch, stream: None)
    return SimpleNamespace(synchronize=lambda: None)


def test_cases_in_fp8_are_verified_and_measured(on_a_mock, monkeypatch):
    monkeypatch.setattr(measure, "TRIED_FP8", (FLAT_FP8,))
    for case in (
        measure.Case("FP8, ragged", (70, 0, 3), rung=measure.IN_FP8),
        measure.Case("FP8, masked", (5, 64, 0), 64, measure.IN_FP8),
    ):
        monkeypatch.setattr(measure, "CASES", (case,))
        inputs = measure.Inputs(case, on_a_mock, None)
        rows = pandas.DataFrame(measure._measure(inputs, None, print))
        assert [*rows["way"]] == [measure.IN_FP8, measure.LOOP_FP8]
        known = {name: kind for name, kind in measure.TABLE.columns.items() if name in rows}
        registry.parsed(rows.to_csv(index=False), Path("grouped.csv"), known)
        of_rows = [measure._fingerprint(row, SIMULATED) for row in rows.itertuples()]
        assert all(each.code for each in of_rows)
        kernel = gl.load(measure.IN_FP8, **measure.settings_of(case, FLAT_FP8))
        way = measure.Way("other scales", "", inputs.by_24(kernel), None)
        inputs.scales = tuple(scale * 2 for scale in inputs.scales)
        with pytest.raises(gl.VerificationError, match="is not A @ B"):
            inputs.require_right(way)


def test_heights_of_cases_add_up_and_are_the_same_everywhere():
    by_name = {case.name: case for case in measure.CASES}
    few = by_name["128 of 1 to 64"]
    assert (min(few.heights), max(few.heights), len(few.heights)) == (1, 63, 128)
    assert few.heights[:4] == (6, 16, 52, 38)
    masked = by_name["64 masked, 0 to 256 of 256"]
    assert masked.room == 64 * 256 and masked.given_rows.tolist() == list(masked.heights)
    empty = by_name["8, one empty"]
    assert empty.given_rows[[3, 4, 8]].tolist() == [12288, 12288, 28672]


def test_the_record_has_every_case_and_the_fastest_of_each_way():
    table = measure.TABLE.read()
    ways = tables.by_way(table, "us")
    assert list(ways.index) == [case.name for case in measure.CASES]
    assert {measure.RUNG, measure.LOOP, measure.GROUPED} <= {*ways}
    assert (table.query("way == @measure.LOOP")["pct_loop"] == 100).all()


def test_what_is_launched_without_knowing_the_heights_was_timed():
    table = measure.TABLE.read()
    chosen = tables.as_launched(table, 132).query("way == @measure.RUNG").set_index("case")
    assert list(chosen.index) == [case.name for case in measure.CASES]
    assert (chosen["pct_loop"] <= tables.by_way(table, "pct_loop")[measure.RUNG] * 1.01).all()


def test_in_fp8_the_fastest_tile_is_taken_where_heights_differ():
    table = measure.TABLE.read().query("way == @measure.IN_FP8").set_index(["case", "settings"])
    for case in measure.FP8_CASES:
        if len(set(case.heights)) > 1:
            chosen = measure.settings_of(case, suited(case.problem, 132, GROUPED_FP8))
            times = table["us"][case.name]
            assert times[ladder.written(chosen)] <= 1.02 * times.min(), case.name


def test_waves_are_those_of_the_fastest_tile():
    table = measure.TABLE.read()
    waves = tables.waves(table, 132).loc["128 of 1 to 64"]  # heights that are one tile each
    assert waves["tiles"] == 128 * measure.N // int(waves["tile"].partition("×")[2])
    assert (waves["waves, one by one"], waves["waves, one launch"]) == (128, 16)
    rate = tables.of_a_copy(table).loc["128 of 1 to 64"]
    assert rate[measure.LOOP] < rate[measure.RUNG]


def test_the_lookup_says_product_and_row_of_each_tile_and_its_figure_follows_a_block():
    heights = [100, 0, 200, 20, 130]
    turns = tables.turns(kernel_of(6), heights, n=256, k=64, sm_count=6)
    numbered = tables.numbered(heights, 256, 64, 128)
    starts, places = tables.lookup(turns, heights, 64)
    assert starts.tolist() == [*numbered["first row"], 450]
    products = places.reshape(-1, 2)[:, 0]
    assert np.bincount(products, minlength=5).tolist() == numbered["tiles"].tolist()
    shown = repr(figures.tiles(turns, heights, 256, follow=2))
    assert "Outlined: the tiles of block 2" in shown and "Product 1 has no rows" in shown


def test_a_grouped_product_of_cublas_is_given_by_columns(monkeypatch):
    made = []

    class Matrix:
        def __init__(self, rows, columns, address):
            self.shape, self.data = (rows, columns), SimpleNamespace(ptr=address)

        def __len__(self):
            return self.shape[0]

    def asarray(addresses):
        made.append(addresses.tolist())
        return Matrix(len(addresses), 1, 1000 + len(made))

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=asarray))
    cublas, calls = Cublas.__new__(Cublas), []
    cublas.dtype, cublas._handle = "bfloat16", "handle"
    monkeypatch.setattr(cublas, "_call", lambda *given: calls.append(given))
    products = [
        tuple(Matrix(*shape, 10 * at + which) for which, shape in enumerate(shapes))
        for at, shapes in enumerate([((5, 64), (64, 32), (5, 32)), ((7, 64), (64, 32), (7, 32))])
    ]
    cublas.prepared_grouped(products)()
    ((name, handle, *given),) = calls
    lists = [list(each) if hasattr(each, "__len__") else each for each in given]
    assert (name, handle) == ("cublasGemmGroupedBatchedEx", "handle")
    assert made == [[0, 10], [1, 11], [2, 12]]
    assert lists[2:5] == [[32, 32], [5, 7], [64, 64]]  # by columns: N, M, K
    assert [given[6].value, given[9].value, given[13].value] == [1002, 1001, 1003]
    assert lists[7] == lists[10] == lists[14] == BRAIN and lists[15:18] == [[32, 32], 2, [1, 1]]
