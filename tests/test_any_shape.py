"""Kernels for shapes that nobody tuned: right for any shape and type; the model that chooses."""

import re
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gemmlab as gl
from gemmlab import ladder
from gemmlab.kernel.bounds import error_bound, reference
from gemmlab.kernel.operands import random_values
from gemmlab.ladder import BRAIN, HALF, SIMULATED, SINGLE, IllegalSetting, Problem
from gemmlab.lessons.autotuning.kernels import (
    ANY_SHAPE,
    CUTS,
    DIRECT,
    LANES,
    SQUARES,
    STREAM_K,
    TILES,
)
from gemmlab.products import model
from ptxsim.architectures import LIMITS

FEW_SMS = 3  # in the simulator, so that small problems are cut too
TYPES = {ANY_SHAPE.name: (HALF, BRAIN), DIRECT.name: (SINGLE, HALF, BRAIN)}


def right(rung, problem, precision, alpha=1.0, beta=0.0, sms=FEW_SMS, **chosen):
    """Whether the kernel with these settings multiplies within the bound of its type."""
    wanted = rung.defaults | chosen | ladder.of_type(rung, precision.name)
    wanted |= rung.suited(problem, wanted)
    kernel = gl.load(rung.name, **wanted).scheduled_for(sms)
    m, n, k = problem.shape
    A, B, C = (
        precision.a.encode(random_values(rows * columns, seed), precision.a.storage).reshape(
            rows, columns
        )
        for seed, (rows, columns) in enumerate(((m, k), (k, n), (m, n)))
    )
    got = kernel(A, B, alpha=alpha, beta=beta, C=C if beta else None)
    A, B, C = map(precision.a.decode, (A, B, C))
    expected = reference(A, B, C if beta else None, alpha, beta)
    bound = error_bound(A, B, C if beta else None, alpha, beta, precision)
    return (abs(precision.c.decode(got) - expected) <= bound).all()


@pytest.mark.parametrize("tile", TILES, ids=ladder.written)
def test_any_shape_is_right_whole_and_cut(tile):
    """With rows of C that begin anywhere, few columns of them and many, and at whole words."""
    shapes = (37, 75, 331), (19, 259, 40), (33, 72, 264)
    for shape, workers in product(shapes, (0, tile["MIN_BLOCKS"])):
        assert right(ANY_SHAPE, Problem(*shape), HALF, **tile, WORKERS=workers), (shape, workers)


@pytest.mark.parametrize("lanes", LANES, ids=ladder.written)
def test_direct_is_right_in_all_types(lanes):
    n = 1 if lanes["ONE_COLUMN"] else 22
    for precision, k in product(TYPES[DIRECT.name], (45, 264)):
        assert right(DIRECT, Problem(19, n, k), precision, **lanes), (precision.name, k)


@pytest.mark.parametrize("family", SQUARES, ids=ladder.written)
def test_stream_k_is_right_with_cut_tiles(family):
    """Two tiles of a cluster, the second one narrow, by five workers, or four of them."""
    n = STREAM_K.cluster_tiles(family)[1] * family["BN"] + 24
    sms = -(-5 * family["CLUSTER"] // family["MIN_BLOCKS"])
    cut = 1 + SQUARES.index(family) % 2
    assert right(STREAM_K, Problem(40, n, 520), HALF, sms=sms, **family, CUT=cut)


@given(
    st.integers(1, 200), st.integers(1, 25), st.integers(1, 90), st.sampled_from(sorted(CUTS)),
    st.sampled_from([(1.0, 0.0), (-0.5, 1.0), (2.0, 0.25)]), st.sampled_from((HALF, BRAIN)),
    st.sampled_from([s for s in SQUARES if s["BM"] == 64]),
)  # fmt: skip
@settings(max_examples=20)
def test_stream_k_takes_any_size_of_whole_16_bytes(m, n, k, cut, factors, precision, family):
    assert right(STREAM_K, Problem(m, 8 * n, 8 * k), precision, *factors, **family, CUT=cut)


@pytest.mark.parametrize("family", SQUARES, ids=ladder.written)
def test_so_many_blocks_fit_on_an_sm(family):
    """Blocks of cut tiles wait for one another: all of them must be resident."""
    launch = STREAM_K.product(STREAM_K.defaults | family)
    limits = LIMITS["sm_90"]
    block_bytes = launch.shared_bytes + limits.reserved_bytes
    assert family["MIN_BLOCKS"] * block_bytes <= limits.shared_bytes
    assert family["MIN_BLOCKS"] * launch.block[0] <= limits.threads


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 9000), st.data())
def test_each_k_tile_belongs_to_one_worker(m, n, k, data):
    """Whole and cut tiles are all tiles; no worker is idle; no more share than are there."""
    family = data.draw(st.sampled_from(SQUARES)) | {"CUT": data.draw(st.sampled_from(sorted(CUTS)))}
    problem = Problem(m, 8 * n, 8 * k)
    workers, cut, sharing = STREAM_K.divided(problem, STREAM_K.defaults | family, SIMULATED)
    down, across = STREAM_K.cluster_tiles(family)
    tiles = -(-m // (family["BM"] * down)) * -(-8 * n // (family["BN"] * across))
    most = SIMULATED.sm_count * family["MIN_BLOCKS"] // family["CLUSTER"]
    assert 0 <= cut <= tiles and workers <= most and sharing <= workers
    assert (cut == 0) == (sharing == 0)
    if cut:  # all are resident, for they wait for one another; each has some k tiles
        assert (cut < sharing or sharing == most) and cut * -(-8 * k // 64) >= sharing * 2
    assert workers <= max(tiles - cut, sharing), "a worker has nothing to do"


@given(
    st.sampled_from([(rung, each) for rung in (ANY_SHAPE, DIRECT) for each in TYPES[rung.name]]),
    st.integers(1, 70), st.integers(1, 70), st.integers(0, 300),
    st.sampled_from([(1.0, 0.0), (-0.5, 1.0), (2.0, 0.25)]), st.data(),
)  # fmt: skip
@settings(max_examples=30)
def test_any_size_with_any_factors(of_type, m, n, k, factors, data):
    rung, precision = of_type
    family = data.draw(st.sampled_from([f for f in rung.families if not f.get("ONE_COLUMN")]))
    workers = {"WORKERS": data.draw(st.sampled_from([0, 1]))} if rung is ANY_SHAPE else {}
    assert right(rung, Problem(m, n, k), precision, *factors, **family, **workers)


@pytest.mark.parametrize(
    ("name", "chosen", "shape", "message"),
    [
        (ANY_SHAPE.name, {"COPY_B": 4}, (8, 6, 8), "multiples of them, not K=8 and N=6"),
        (DIRECT.name, {"VECTOR_A": 2}, (8, 8, 7), "multiples of them, not K=7 and N=8"),
        (DIRECT.name, LANES[2], (8, 2, 8), "with ONE_COLUMN=1 takes N=1, not N=2"),
    ],
)
def test_a_shape_that_the_settings_do_not_suit_is_refused(name, chosen, shape, message):
    m, n, k = shape
    kernel = gl.load(name, **chosen)
    dtype = kernel.precision.a.storage
    with pytest.raises(IllegalSetting, match=message):
        kernel(np.ones((m, k), dtype), np.ones((k, n), dtype))


@pytest.mark.parametrize("rung", [ANY_SHAPE, DIRECT], ids=lambda rung: rung.name)
def test_the_defaults_of_the_file_are_those_of_its_entry(rung):
    text = rung.path.read_text(encoding="utf-8")
    for name, value in rung.macros(rung.defaults).items():
        if name != "DTYPE" or rung is DIRECT:  # mma_instruction.cuh has the other's
            assert re.search(rf"^#define {name} {value}\b", text, re.M), name


def test_more_workers_than_fit_are_refused():
    with pytest.raises(IllegalSetting, match="has 3 workers for each SM, where 2 blocks fit"):
        gl.load(ANY_SHAPE.name, WORKERS=3)


# ---- the model -----------------------------------------------------------------------------------


def counted(rung, chosen, *shape):
    wanted = rung.defaults | chosen
    wanted |= rung.suited(Problem(*shape), wanted)
    values = model.counts(rung, wanted, Problem(*shape), SIMULATED)
    return SimpleNamespace(**dict(zip(model.COSTS, values, strict=True)))


def test_costs_are_counted_from_the_launch():
    """132 tiles of 64×64 and 10 k tiles on 132 SMs, then half a tile for each of them."""
    tile = TILES[0]
    whole = counted(ANY_SHAPE, tile, 64 * 132, 64, 640)
    assert (whole.k_tile, whole.k_tile_of_sm, whole.store, whole.join) == (10, 10, 1, 0)
    cut = counted(ANY_SHAPE, tile | {"WORKERS": 1}, 64 * 66, 64, 640)
    assert (cut.k_tile, cut.join, cut.worker) == (5, 1, 2)
    assert cut.parts_mb == pytest.approx(132 * 64 * 64 * 4 / 1e6)
    uneven = counted(ANY_SHAPE, tile, 64 * 133, 64, 640)
    assert uneven.k_tile_of_sm == 20, "one SM has two tiles"
    assert counted(ANY_SHAPE, tile, 64, 64, 641).narrow_k_tile > whole.narrow_k_tile == 0


def test_costs_of_cut_tiles():
    """150 tiles of 64×64 on 132 SMs: one for each, and 18 that are cut in 7 parts."""
    squares = {"BM": 64, "BN": 64, "STAGES": 8}
    cut = counted(STREAM_K, squares | {"CUT": 1}, 64 * 150, 64, 64 * 70)
    assert (cut.k_tile, cut.join, cut.worker) == (70 + 10, 1, 7)
    assert cut.parts_mb == pytest.approx(18 * 7 * 64 * 64 * 4 / 1e6)
    whole = counted(STREAM_K, squares | {"CUT": 0}, 64 * 150, 64, 64 * 70)
    assert (whole.k_tile, whole.join) == (140, 0)
    few_rows = counted(STREAM_K, squares | {"CUT": 1}, 3, 640, 6400)
    assert few_rows.parts_mb == pytest.approx(few_rows.worker * 10 * 16 * 64 * 4 / 1e6)


def test_what_a_kernel_does_not_take_has_no_time():
    assert model.counts(DIRECT, DIRECT.defaults | LANES[2], Problem(8, 2, 8), SIMULATED) is None
    persistent = ladder.find("18_persistent")
    assert model.counts(persistent, persistent.defaults, Problem(8, 7, 8), SIMULATED) is None
