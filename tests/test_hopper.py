"""16 to 18 in the simulator: every width and setting, and each fence and barrier left out."""

import pytest
from corpus import self_contained

from gemmlab import ladder
from gemmlab.kernel import checks, verify
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder.settings import IllegalSetting
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.tma_wgmma.rung import RUNG as TMA_WGMMA
from gemmlab.lessons.warp_specialized.rung import RUNG as WARP_SPECIALIZED

RUNGS = (TMA_WGMMA, WARP_SPECIALIZED, PERSISTENT)
every_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)


def kernel(rung, source=None, **settings):
    """For a GPU of so few SMs that a persistent block computes several tiles."""
    known = {name: value for name, value in settings.items() if name in rung.defaults}
    chosen = ladder.settings_for(rung, known)
    return Kernel(rung, chosen, "sm_90a", source or rung.path).scheduled_for(2)


@every_rung
@pytest.mark.parametrize("op_b", (0, 1), ids=("NN", "NT"))
def test_all_widths_are_right(rung, op_b):
    """Rows of whole 16 bytes by tensor map, with tails; others, and K of 0, without."""
    loaded = kernel(rung, OP_B=op_b)
    for shape in ((264, 520, 392), (264, 8, 72), (1, 264, 8), (40, 77, 99), (33, 40, 0), (9, 8, 7)):
        for factors in ((1.0, 0.0), (0.5, 2.0)):
            case = verify.check(loaded, *shape, *factors, seed=3)
            assert case.passed, case


@pytest.mark.parametrize(
    "rung, rows, columns",
    (
        (TMA_WGMMA, 64, 64), (WARP_SPECIALIZED, 64, 128), (PERSISTENT, 64, 64),
        (PERSISTENT, 128, 128),
    ),
)  # fmt: skip
def test_other_tiles_are_right_and_without_a_finding(rung, rows, columns):
    loaded = kernel(rung, BM=rows, BN=columns, STAGES=2, CLUSTER=columns // 64, GROUP=4)
    assert verify.check(loaded, 200, 264, 200, 1.0, 0.0, seed=5).passed
    assert loaded.check().passed


@pytest.mark.parametrize(
    "rung, dtype, wide",
    (
        (TMA_WGMMA, 1, 0), (TMA_WGMMA, 0, 1), (WARP_SPECIALIZED, 1, 1), (PERSISTENT, 1, 0),
    ),
)  # fmt: skip
def test_other_types_are_right_and_without_a_finding(rung, dtype, wide):
    loaded = kernel(rung, BN=128, DTYPE=dtype, OUT32=wide, STAGES=2)
    for shape in ((136, 264, 72), (61, 67, 71)):
        for factors in ((1.0, 0.0), (0.5, 2.0)):
            assert verify.check(loaded, *shape, *factors, seed=3).passed
    assert loaded.check().passed


@pytest.mark.parametrize(
    "settings",
    (
        {"BM": 64, "BN": 128, "SPLIT": 4},
        {"BM": 64, "BN": 64, "SPLIT": 8, "OP_B": 1},
        {"BN": 128, "SPLIT": 2, "OUT32": 1},
    ),
    ids=ladder.written,
)
def test_parts_of_k_are_added_without_a_finding(settings):
    """Also where a part has no steps, and C has edges in every part's share."""
    loaded = kernel(WARP_SPECIALIZED, **settings)
    for shape in ((72, 136, 712), (200, 264, 136), (64, 8, 64)):
        for factors in ((1.0, 0.0), (0.5, 2.0)):
            case = verify.check(loaded, *shape, *factors, seed=3)
            assert case.passed, case
    assert loaded.check().passed


@pytest.mark.parametrize(
    "settings",
    (
        {"BM": 128, "BN": 64, "SHARE_A": 1},
        {"BM": 64, "BN": 128, "SHARE_A": 1, "CLUSTER": 4, "OP_B": 1},
        {"BN": 256, "SEND_LATER": 0},
        {"BN": 128, "CLUSTER": 1},
    ),
    ids=ladder.written,
)
def test_other_ways_of_18_have_the_same_bits_without_a_finding(settings):
    """One tile of a block or several, one step or more than there are pieces and stages."""
    persistent, of_16 = kernel(PERSISTENT, **settings), kernel(TMA_WGMMA, **settings)
    for shape in ((264, 520, 40), (264, 520, 200), (136, 392, 712)):
        given = persistent.operands(persistent.problem(*shape), 4)
        every = (k(given.A, given.B, given.C, 0.5, 2.0) for k in (persistent, of_16))
        assert len({C.tobytes() for C in every}) == 1
    assert persistent.check().passed


@every_rung
def test_what_may_begin_early_waits_for_the_launch_before(rung):
    loaded = kernel(rung)
    (launch,) = loaded.launches(loaded.problem(128, 256, 64))
    waits = "griddepcontrol.wait" in loaded.compiled.ptx
    assert launch.early == waits == (rung is not TMA_WGMMA)


def test_products_that_have_no_tensor_maps_take_another_kernel():
    for rung in RUNGS:
        loaded = kernel(rung)
        by_maps = rung.entry(loaded.settings)
        by_shape = {
            (128, 256, 64): by_maps, (1, 8, 8): by_maps,
            (128, 256, 65): "any_width", (128, 255, 64): "any_width", (8, 8, 0): "any_width",
        }  # fmt: skip
        for shape, entry in by_shape.items():
            assert loaded.launches(loaded.problem(*shape))[0].entry == entry


def test_persistent_blocks_are_no_more_than_the_gpu_has_and_all_rounds_alike():
    loaded = kernel(PERSISTENT).scheduled_for(132)
    blocks = {n: loaded.grid(n, n, n)[0] for n in (256, 2048, 4096, 8192)}
    # Clusters of 256×256: 1, 64, 256 and 1024; 66 at a time, in 1, 1, 4 and 16 rounds.
    assert blocks == {256: 2, 2048: 128, 4096: 128, 8192: 128}


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(IllegalSetting, match="bytes of shared memory"):
        kernel(WARP_SPECIALIZED, STAGES=6)
    with pytest.raises(IllegalSetting, match="less than the 64 columns"):
        kernel(PERSISTENT, BN=64)
    with pytest.raises(IllegalSetting, match="for sums of 131072 bytes"):
        kernel(WARP_SPECIALIZED, STAGES=2, SPLIT=2)
    for given in ({"STAGES": 1}, {"BN": 96}, {"BN": 160}):
        with pytest.raises(IllegalSetting, match="is not legal, the values are"):
            kernel(WARP_SPECIALIZED, **given)


# ---- planted mistakes ----------------------------------------------------------------------------

LEFT_OUT = ""
SPENT = "write to a wgmma's source"
MISTAKES = {
    "16 nobody waits for a full stage": (
        "mbarrier_wait(full + MBARRIER_BYTES * (k_tile % STAGES), k_tile / STAGES % 2);", LEFT_OUT,
        "read of a copy in flight",
    ),
    "16 mbarriers used before they are set up": (
        "__syncthreads();                             // the mbarriers", "//",
        "write-after-write race",
    ),
    "16 sums not fenced": (
        "wgmma_fence();\n        multiply_stage(accumulators, shared",
        "multiply_stage(accumulators, shared",
        "missing wgmma.fence",
    ),
    "16 products not committed": (
        "true);\n        wgmma_commit();", "true);", "sums in flight",
    ),
    "16 one group too many under way": ("wgmma_wait<PENDING>", "wgmma_wait<PENDING + 1>", SPENT),
    "16 another warpgroup may still multiply": (
        "__syncthreads();                         // in all warpgroups", "//",
        "write-after-read race",
    ),
    "16 half of the bytes expected": (
        "(full, sizeof(Stage))", "(full, sizeof(Stage) / 2)", "wrong transaction bytes",
    ),
    "16 stored elements not made known": (
        "fence_async_proxy();\n        __syncthreads();", "__syncthreads();", "async-proxy race",
    ),
    "17 nobody waits for an empty stage": (
        "mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);", LEFT_OUT,
        "write of a copy in flight",
    ),
    "17 the wrong parity": (
        "* state.stage, state.parity ^ 1)", "* state.stage, state.parity)", "deadlock",
    ),
    "17 a buffer filled that is still copied": (
        "if (leader) tma_store_wait_read<STORE_BUFFERS - 1>();", LEFT_OUT,
        "write to a copy's source",
    ),
    "17 sent before all have stored": (
        "named_barrier_sync<WARPGROUP_THREADS>(warpgroup + 1);          // all threads", "//",
        "read-after-write race",
    ),
    "17 leaves before C is there": (
        "if (leader) tma_store_wait();", LEFT_OUT, "bulk store not waited for",
    ),
    "17 more registers than there are": (
        "inc.sync.aligned.u32 232", "inc.sync.aligned.u32 240", "registers over the budget",
    ),
    "17 parts are added before they are there": (
        "    cluster_arrive();\n"
        "    cluster_wait();                              // the accumulators of all", "//",
        "read-after-write race",
    ),
    "17 leaves while other parts are added": (
        "    cluster_arrive();\n"
        "    cluster_wait();                              // none ends", "//",
        "access to a block that has left",
    ),
    "17 a part's sums put where tiles are still multiplied": (
        "    named_barrier_sync<CONSUMERS * WARPGROUP_THREADS>(CONSUMERS + 1);", "//",
        "write-after-read race",
    ),
    "18 mbarriers not made known to the cluster": (
        "        mbarrier_fence_init();", LEFT_OUT, "mbarrier not fenced",
    ),
    "18 the other block may not have begun": (
        "    cluster_sync_relaxed();", "    __syncthreads();",
        "access to a block that may not run",
    ),
    "18 leaves while others arrive": (
        "for (int s = 0; s < STAGES; ++s, state.advance())",
        "for (int s = 0; s < STAGES - 1; ++s, state.advance())",
        "access to a block that has left",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name):
    old, new, kind = MISTAKES[name]
    rung = RUNGS[int(name[:2]) - 16]
    text = self_contained(rung.path.read_text(encoding="utf-8"))
    assert text.count(old) == 1
    columns = 256 if "buffer" in name else 128 if rung is PERSISTENT else 64
    split = 2 if "part" in name else 1
    broken = kernel(rung, text.replace(old, new), BN=columns, STAGES=2, GROUP=2, SPLIT=split)
    rows, cols = rung.tile(broken.settings)
    # More steps than stages, with tails; without tensor maps.
    products = (rows + 8, cols + 8, 328, 1.0, 0.0), (rows + 1, cols + 1, 65, 1.0, 0.0)
    cases = (checks.check_product(broken, *product) for product in products)
    assert any(finding.kind == kind for case in cases for finding in case.findings)


def test_sums_of_the_tile_before_are_not_added():
    text = self_contained(PERSISTENT.path.read_text(encoding="utf-8"))
    added = kernel(PERSISTENT, text.replace("warpgroup, k_tile > 0);", "warpgroup, true);"), BN=128)
    case = verify.check(added, 264, 264, 72, 1.0, 0.0, seed=1)
    assert not case.passed and "C[" in case.message
