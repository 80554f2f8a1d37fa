"""15_mma_sync: its types, its tiles in shared memory, and which lane holds what."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest
import record_forms
from figures import test_it_can_be_read  # noqa: F401

import gemmlab as gl
import ptxsim
from gemmlab import ladder
from gemmlab.cuda.options import options_for
from gemmlab.kernel import verify
from gemmlab.kernel.bounds import error_bound, reference
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import IllegalSetting
from gemmlab.ladder.precision import BFLOAT16, E4M3, E5M2, INTEGER, TF32
from gemmlab.ladder.probes import MMA_CEILINGS
from gemmlab.ladder.probes import MMA_TYPES as TYPES
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons.mma_sync import figures as mma_figures
from gemmlab.lessons.mma_sync import lanes as mma_lanes
from gemmlab.lessons.mma_sync import measure
from gemmlab.lessons.mma_sync import tables as precisions
from gemmlab.lessons.mma_sync.rung import RUNG as MMA_SYNC
from gemmlab.measure import ceilings
from gemmlab.records import runs
from ptxsim.metrics import FMA_METRIC, MATRIX_METRICS, METRICS, TIMING_DEPENDENT

FORMS = record_forms.RECORD.current()
SMALL = {"BM": 64, "BN": 128, "WM": 32, "WN": 32}
EVERY = pytest.mark.parametrize(
    "dtype", range(len(TYPES)), ids=[precision.name for precision in TYPES]
)


def loaded(dtype=0, **settings):
    """With tiles of 64×128 and two or more mma.sync along K in a stage."""
    deep = {"BK": 64 // TYPES[dtype].a.bytes}
    return Kernel(
        MMA_SYNC, ladder.settings_for(MMA_SYNC, SMALL | deep | {"DTYPE": dtype} | settings),
        None, MMA_SYNC.path,
    )  # fmt: skip


# ---- numbers -------------------------------------------------------------------------------------


OF_ML_DTYPES = {
    BFLOAT16: ml_dtypes.bfloat16, E4M3: ml_dtypes.float8_e4m3fn, E5M2: ml_dtypes.float8_e5m2,
}  # fmt: skip


@pytest.mark.parametrize("element", OF_ML_DTYPES)
def test_numbers_and_rounding_are_those_of_ml_dtypes(element):
    """Of every pattern; of random numbers, and of those half-way between two."""
    grid, other = np.arange(2 ** (8 * element.bytes), dtype=element.bits), OF_ML_DTYPES[element]
    with np.errstate(invalid="ignore"):  # some are NaN that signal
        numbers = element.decode(grid)
        assert np.array_equal(numbers, grid.view(other).astype(float), equal_nan=True)
    inside = np.sort(numbers[np.abs(numbers) <= 1])
    random = np.random.default_rng(3).uniform(-1, 1, 2000)
    for values in (random, (inside[1:] + inside[:-1]) / 2):
        values = values.astype("f4")
        encoded = element.encode(values, element.storage)
        assert np.array_equal(element.decode(encoded), values.astype(other).astype(float))


def test_a_tf32_bound_allows_for_cut_operands_and_for_little_more():
    A, B = gl.random_matrix(16, 40, 1), gl.random_matrix(40, 16, 2)
    cut = [(X.view("u4") & np.uint32(0xFFFFE000)).view("f4").astype(float) for X in (A, B)]
    error = abs(cut[0] @ cut[1] - reference(A, B, None, 1, 0))
    bound = error_bound(A, B, None, 1, 0, TF32)
    assert (error <= bound).all() and (bound <= 2.02 * 2.0**-10 * (abs(A) @ abs(B))).all()


# ---- products ------------------------------------------------------------------------------------


@EVERY
def test_a_type_passes_with_edges_factors_and_bias(dtype):
    kernel = loaded(dtype)
    for shape, factors in (
        ((61, 67, 71), (0.5, 2.0)), ((1, 129, 65), (1.0, 0.0)), ((65, 144, 48), (-1.5, 0.0)),
        ((17, 33, 0), (1.0, 0.0)), ((7, 5, 3), (0.0, 1.0)),
    ):  # fmt: skip
        case = verify.check(kernel, *shape, *factors, seed=dtype)
        assert case.passed, case


@pytest.mark.parametrize(
    ("dtype", "out", "activation"), [(0, 0, 1), (1, 0, 2), (1, 0, 3), (0, 1, 0)]
)
def test_sixteen_bits_with_an_epilogue(dtype, out, activation):
    kernel = loaded(dtype, OUT32=out, BIAS=1 - out, ACTIVATION=activation, BK=64)
    assert verify.check(kernel, 65, 131, 33, 0.5, 2.0, seed=4).passed
    assert verify.check(kernel, 65, 132, 40, 1.0, 0.0, seed=5, biased=False).passed


@pytest.mark.parametrize("columns", [8, 10, 11])
@pytest.mark.parametrize("depth", [64, 66, 67])
def test_rows_that_begin_off_sixteen_bytes_read_nothing_outside(columns, depth):
    """Guard cells around A and B hold NaN, and the simulator tells of reads outside of an array."""
    assert verify.check(loaded(), 9, columns, depth, 1.0, 0.0, seed=6).passed


def test_whole_numbers_are_exact_and_round_to_even():
    kernel = loaded(3)
    A = np.full((3, 20), -128, "i1")
    B = np.full((20, 5), -128, "i1")
    assert (kernel(A, B) == 20 * 2**14).all()
    odd = kernel(A[:, :1].copy(), B[:1], np.full((3, 5), 1, "i4"), alpha=0.0, beta=0.5)
    assert (odd == 0).all() and INTEGER.errors(20) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"DTYPE": 3, "BK": 32}, "BK from 64 on"),
        ({"DTYPE": 2}, "BK up to 32"),
        ({"BN": 64}, "makes 2 warps; a block of 128×64 has 4 or 8"),
        ({"BM": 64, "BN": 64, "WN": 64}, "makes 1 warps"),
        ({"DTYPE": 1, "STAGES": 3}, "with FP16 alone"),
        ({"STAGES": 6}, "needs 294912 bytes of shared memory, a block has 231424"),
        ({"DTYPE": 2, "BK": 32, "OUT32": 1}, "tf32, whose C is float32 already"),
        ({"DTYPE": 3, "BIAS": 1}, "a bias, which is for C of 16 bits"),
        ({"ACTIVATION": 1}, "without a bias"),
        ({"DTYPE": 4, "BK": 64, "arch": "sm_86"}, "needs sm_89"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_with_the_reason(settings, reason):
    arch = settings.pop("arch", None)
    with pytest.raises(IllegalSetting, match=reason):
        chosen = ladder.settings_for(MMA_SYNC, settings)
        Kernel(MMA_SYNC, chosen, arch, MMA_SYNC.path)


def explained(settings, row):
    """What the GPU counts otherwise: the machine code that the assembler makes of PTX differs.

    In GELU by erf it fuses a product and a difference, as PTX lets it: 7 FFMA instead of 6. With
    FP16 and a bias alone it predicates the load of a sum where the code branches around it: each
    element of whole tiles is counted.
    """
    if settings["ACTIVATION"] == 3:
        return {FMA_METRIC: 7 * row["m"] * row["n"]}
    form = settings["DTYPE"], settings["BIAS"], settings["ACTIVATION"]
    if form == (0, 1, 0) and row["n"] % 4:
        tiles = ceil_div(row["m"], settings["BM"]) * ceil_div(row["n"], settings["BN"])
        sums = tiles * settings["BM"] * settings["BN"]
        return {METRICS["shared", "load"][0]: sums // 32}
    return {}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_bits_of_the_gpu_and_counts_what_it_counted(name):
    """Of each type, C of 32 bits, bias and activations; conflicts of whole tiles among it."""
    form, recorded = record_forms.kernel(name), FORMS[name]
    for row in recorded["results"]:
        asked = [row[key] for key in ("m", "n", "k", "alpha", "beta", "seed")]
        assert runs.result_digest(form, *asked) == row["sha256"], row
    for row in recorded["counters"]:
        counted = form.trace(row["m"], row["n"], row["k"], seed=record_forms.SEED).counters
        counted = dict(counted) | explained(form.settings, row)
        exact = (counted.keys() & row["metrics"].keys()) - TIMING_DEPENDENT
        assert len(exact) >= 7 and MATRIX_METRICS["shared", "ldmatrix"][0] in exact
        assert {key: counted[key] for key in exact} == {key: row["metrics"][key] for key in exact}


@pytest.mark.parametrize("dtype", measure.NAMES)
def test_the_bits_of_a_product_are_those_of_the_recorded_gpu(dtype):
    """Which tiles it is computed by changes nothing: each sum goes along K by itself."""
    recorded = measure.BY_TYPES.read()
    digests = set(recorded[recorded["dtype"] == dtype]["sha256"])
    number = [precision.name for precision in TYPES].index(dtype)
    assert digests == {measure.bits_of(loaded(number))}


def test_steps_with_other_paddings_have_the_bits_of_the_rungs():
    """Sectors that loads move, and wavefronts of shared memory, tell the paddings apart."""
    loads, reads = METRICS["global", "load"][1], METRICS["shared", "load"][1]
    swizzled = next(step for step in measure.STEPS if step.settings == {"STAGES": 3, "GROUP": 1})
    wmma = measure.STEPS[0]
    apart = [step for step in measure.STEPS if step.file]
    assert len(apart) == 5
    shape = (128, 256, 64)
    counted, bits = {}, {}
    for step in (swizzled, wmma, *apart):
        kernel = step.kernel()
        given = kernel.operands(kernel.problem(*shape), seed=3)
        counted[step.title] = kernel.trace(*shape).counters
        bits[step.title] = kernel(given.A, given.B).tobytes()
    assert len(set(bits.values())) == 1
    for step in apart:
        counters, of_rung = (
            counted[step.title],
            counted[(wmma if "14" in step.file else swizzled).title],
        )
        chunks = step.settings.get("PADDING", step.settings.get("ROW_PAD", 0) // 8)
        assert counters[loads] == counted[(wmma if chunks == 1 else swizzled).title][loads]
        if not step.settings.get("STRIPS"):
            assert (counters[reads] > 1.5 * of_rung[reads]) == (chunks == 2)


# ---- tiles and lanes -----------------------------------------------------------------------------


def conflicts(kernel):
    return kernel.trace(64, 128, 64).counters[METRICS["shared", "load"][-1]]


@EVERY
def test_a_swizzled_tile_has_no_conflicts(dtype):
    assert conflicts(loaded(dtype)) == 0


def test_an_unswizzled_tile_has_conflicts():
    assert conflicts(loaded(SWIZZLE=0)) > 0


def test_lanes_hold_what_ptx_documents():
    """Words t and t + 4 of a row of 32 bytes: Parallel Thread Execution ISA, "Matrix Fragments"."""
    held, each = mma_lanes.by_mma(), 2  # elements of a word
    g, t = np.divmod(np.arange(32), 4)
    places = list(product((0, 4), (0, 8)))
    expected = [
        [(g[lane] + row, (t[lane] + word) * each + i) for word, row in places for i in range(each)]
        for lane in range(32)
    ]
    assert held["A"].tolist() == np.array(expected).tolist()
    of_b = held["B"].reshape(32, -1, 2, each, 2)
    assert (
        of_b[..., 0] == ((t[:, None] + [0, 4])[..., None] * each + np.arange(each))[:, None]
    ).all()
    assert (of_b[..., 1] == of_b[:, :, :1, :1, 1]).all()  # one column to a piece
    # Every sum belongs to the column that the lane of its place holds in B.
    for lane, places in enumerate(held["C"].reshape(32, -1, 4, 2)):
        for piece, four in enumerate(places):
            columns = [of_b[4 * (2 * t[lane] + i), piece, 0, 0, 1] for i in (0, 1)]
            rows = [g[lane], g[lane] + 8]
            assert four.tolist() == [[row, column] for row in rows for column in columns]


@EVERY
def test_the_ceiling_of_a_type_has_a_twin(dtype):
    precision, chains, unroll = TYPES[dtype], 4, 2
    macros = MMA_CEILINGS.macros | {"DTYPE": dtype, "CHAINS": chains, "UNROLL": unroll}
    out = np.zeros(32, precision.accumulate.storage)
    lanes = ceilings.mma_lanes(precision, chains)
    ptxsim.launch(
        MMA_CEILINGS.path, MMA_CEILINGS.entry, (1, 1, 1), (32, 1, 1),
        [out, *lanes, np.int32(3), np.uint32(0)], options=options_for(macros),
    )  # fmt: skip
    expected = ceilings.mma_chain(precision, 3, chains, unroll)
    assert np.array_equal(out, expected) and np.any(expected)


def test_the_shared_memory_of_the_ladder_is_what_the_kernel_touches():
    for dtype in (0, 2, 3):
        kernel = loaded(dtype)
        trace = kernel.trace(64, 128, 5 * kernel.settings["BK"])
        ends = [
            int(access.addresses[access.active].max()) + access.size
            for access in trace.run.accesses()
            if access.space == "shared"
        ]
        assert max(ends) == MMA_SYNC.shared_bytes(kernel.settings)


# ---- figures -------------------------------------------------------------------------------------

ROWS = {"rows as they are": 0, "swizzled rows": 1}


@pytest.fixture(scope="module")
def traces():
    small = {"BM": 64, "BN": 64, "BK": 64, "WM": 32, "WN": 32}
    kernels = {name: gl.load("15_mma_sync", SWIZZLE=on, **small) for name, on in ROWS.items()}
    return {name: kernel.trace(64, 64, 64) for name, kernel in kernels.items()}


@pytest.fixture(params=("registers", "chunks"))
def figure(request, traces):
    if request.param == "chunks":
        return mma_figures.chunks(traces)
    return mma_figures.registers(traces["rows as they are"], mma_lanes.by_mma())


def test_the_holder_of_an_element_is_the_documented_one():
    """PTX: c[0], c[1] of lane 4g + t are row g, columns 2t and 2t + 1; then the same of g + 8."""
    for row, column in ((0, 0), (45, 27), (63, 63)):
        of_piece, lane = row % 16, 4 * (row % 8) + column % 8 // 2
        assert mma_lanes.holder_of_c(row, column) == (lane, of_piece // 8 * 2 + column % 2)


def test_the_loop_by_hand_has_fewer_instructions_with_the_swizzle_than_with_padding():
    titles = ["C from registers", "swizzled tiles instead of padding"]
    table = precisions.instructions_of_steps(titles)
    assert list(table.index) == titles
    padded, swizzled = table["other instructions"]
    loop = gl.sass.loop(gl.load("15_mma_sync"))
    assert padded > swizzled == sum(loop.mix.values()) - loop.mix["multiply-adds"]
    assert (table["L2 bytes per byte loaded"] < 2).all()
