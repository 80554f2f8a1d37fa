"""Clusters, and blocks that wait for one another: against an NVIDIA H200."""

import json

import numpy as np
import pytest

import ptxsim
import record_clusters as recorder
from cluster_mistakes import kernel_text, record
from ptxsim.async_copy import counted
from test_tma import SETTINGS, tensor_map


def launch(case, **how):
    """(the arguments as the launch left them, the run)."""
    args, given = case.args(), []
    for arg in args:
        if isinstance(arg, tuple):
            given.append(tensor_map(*arg))
        elif isinstance(arg, recorder.Maps):
            given.append(ptxsim.TensorMaps([tensor_map(*box) for box in arg.maps]))
        else:
            given.append(arg)
    grid, block = ((*shape, 1, 1)[:3] for shape in (case.grid, case.block))
    run = ptxsim.launch(
        recorder.source(), case.entry, grid, block, given, shared_bytes=case.shared_bytes,
        **SETTINGS, **how,
    )  # fmt: skip
    return [arg[1] if isinstance(arg, tuple) else arg for arg in args], run


def different(a, b):
    differ = a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}")
    return differ & ~(np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else differ


RECORDED = [name for name, case in recorder.cases().items() if f"{name} {case.seen[0]}" in record()]


@pytest.mark.parametrize("name", RECORDED)
def test_a_case_gives_what_the_hardware_gave(name):
    case = recorder.cases()[name]
    args, run = launch(case, check=True)
    assert run.findings == []
    for number in case.seen:
        seen, expected = recorder.kept(args[number]), record()[f"{name} {number}"]
        assert seen.dtype == expected.dtype
        if expected.ndim == 0:
            assert seen == expected
            continue
        if name.endswith(" f32"):  # any NaN is as good as any other
            seen, expected = seen.view("f4"), expected.view("f4")
        assert np.argwhere(different(seen, expected)).tolist() == []


# --- orders that are enough ---------------------------------------------------------------------


def test_inits_that_are_fenced_need_no_more_than_a_relaxed_arrival():
    """As libraries do it: nothing else is to be told at the first barrier."""
    case = recorder.cases()["ring"]
    text, first = kernel_text("ring"), "    sync();\n    const float* from"
    assert text.count(first) == 1
    relaxed = """
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    const float* from"""
    args = case.args()
    run = ptxsim.launch(text.replace(first, relaxed), "ring", (6, 1, 1), (160, 1, 1), args,
                           check=True, **SETTINGS)  # fmt: skip
    assert run.findings == []
    assert args[1].tobytes() == record()["ring 1"].tobytes()


FAR = """extern "C" __global__ void __cluster_dims__(BLOCKS) k(int* out) {
    __shared__ __align__(16) int box[4];
    const unsigned here = (unsigned)__cvta_generic_to_shared(box), t = threadIdx.x;
    unsigned there;
    int value = 0;
    box[t % 4] = t % 4;
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(t - 1));
    if (t > 0 && t <= USED)
        asm volatile("ld.shared::cluster.s32 %0, [%1 + 8];" : "=r"(value) : "r"(there) : "memory");
    out[blockIdx.x * 32 + t] = value;
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}"""


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_rank_that_is_not_there_may_be_mapped_but_not_used(blocks):
    for used in (blocks, blocks + 1, 31):
        text = FAR.replace("BLOCKS", str(blocks)).replace("USED", str(used))
        out = np.zeros((blocks, 32), np.int32)
        run = ptxsim.launch(text, "k", blocks, 32, [out], check=True, **SETTINGS)
        kinds = {"out-of-bounds read"} if used > blocks else set()
        assert {finding.kind for finding in run.findings} == kinds
        assert (out[:, 1 : blocks + 1] == 2).all()


INITIALISED = """extern "C" __global__ void __cluster_dims__(2) k(const int* in, int* out) {
    __shared__ __align__(16) int box[32];
    __shared__ unsigned long long full;
    const unsigned to = (unsigned)__cvta_generic_to_shared(box), t = threadIdx.x;
    const unsigned mbar = (unsigned)__cvta_generic_to_shared(&full);
    if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(mbar));
    asm volatile("barrier.cluster.arriveHOW; barrier.cluster.wait;" ::: "memory");
    if (t == 32) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" :: "r"(mbar));
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1], 128, [%2];" :: "r"(to), "l"(in), "r"(mbar) : "memory");
    }
    asm volatile("{ .reg .pred done; again: "
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0; "
                 "@!done bra again; }" :: "r"(mbar) : "memory");
    if (t < 32) out[blockIdx.x * 32 + t] = box[t];
}"""


@pytest.mark.parametrize("how, is_told", [("", True), (".relaxed", False)])
def test_a_barrier_of_the_cluster_tells_a_block_of_its_own_mbarriers(how, is_told):
    given, out = np.arange(32, dtype=np.int32), np.zeros((2, 32), np.int32)
    text = INITIALISED.replace("HOW", how)
    run = ptxsim.launch(text, "k", 2, 64, [given, out], check=True, **SETTINGS)
    assert (out == given).all()
    assert ("mbarrier not fenced" in {f.kind for f in run.findings}) is not is_told
    assert not (is_told and run.findings)


# --- launches -------------------------------------------------------------------------------------

RANKS = """extern "C" __global__ void ATTRIBUTE k(int* out) {
    __shared__ int seen;
    unsigned rank, blocks, there;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there)
                 : "r"((unsigned)__cvta_generic_to_shared(&seen)), "r"((rank + 1) % blocks));
    if (threadIdx.x == 0)
        asm volatile("st.shared::cluster.s32 [%0], %1;" :: "r"(there), "r"(rank) : "memory");
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    out[(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x] = seen + 100 * blocks;
}"""


def ranks(attribute="", grid=(4, 2, 1), **how):
    out = np.zeros((grid[1], grid[0], 32), np.int32)
    run = ptxsim.launch(
        RANKS.replace("ATTRIBUTE", attribute), "k", grid, (32, 1, 1), [out], **SETTINGS, **how
    )
    return out, run


@pytest.mark.parametrize(
    ("attribute", "how"),
    [("__cluster_dims__(2, 2, 1)", {}), ("", {"cluster": (2, 2)}), ("", {"cluster": (2, 2, 1)})],
)
def test_a_cluster_is_of_the_kernel_or_of_the_launch(attribute, how):
    out, run = ranks(attribute, check=True, **how)
    assert run.findings == []
    assert (out[:, :, 0] == [[403, 400, 403, 400], [401, 402, 401, 402]]).all()
    assert (out == out[:, :, :1]).all()


@pytest.mark.parametrize(
    ("attribute", "grid", "how", "message"),
    [
        ("__cluster_dims__(2, 1, 1)", (3, 2, 1), {}, "x is 3, it must be a multiple of 2"),
        ("__cluster_dims__(1, 4, 1)", (4, 2, 1), {}, "y is 2, it must be a multiple of 4"),
        ("", (32, 2, 1), {"cluster": (32,)}, "x is 32, it must be 1 to 16"),
        ("", (8, 8, 1), {"cluster": (8, 4)}, "clusters of 8×4×1 blocks; a cluster has at most 8"),
        ("__cluster_dims__(2, 1, 1)", (4, 2, 1), {"cluster": (4,)}, "for clusters of 2×1×1"),
    ],
)  # fmt: skip
def test_a_cluster_that_no_gpu_takes_is_refused(attribute, grid, how, message):
    with pytest.raises(ptxsim.LaunchError, match=message):
        ranks(attribute, grid, **how)


def test_before_hopper_there_are_no_clusters():
    source = 'extern "C" __global__ void k(int* out) { out[0] = 1; }'
    with pytest.raises(ptxsim.LaunchError, match="sm_80 has no clusters"):
        ptxsim.launch(source, "k", (2, 1, 1), (32, 1, 1), [np.zeros(1, np.int32)],
                         arch="sm_80", cluster=(2,))  # fmt: skip


def test_single_blocks_run_with_their_whole_cluster():
    out, _ = ranks("__cluster_dims__(2, 1, 1)", blocks=[(1, 0, 0)])
    assert (out[0, :, 0] == [201, 200, 0, 0]).all() and (out[1] == 0).all()


# --- registers ------------------------------------------------------------------------------------

DIVIDED = """extern "C" __global__ void ATTRIBUTE k(int* out) {
    if (threadIdx.x < 128) asm volatile("setmaxnreg.PRODUCER.sync.aligned.u32 FEW;");
    else asm volatile("setmaxnreg.inc.sync.aligned.u32 MANY;");
    out[threadIdx.x] = 1;
}"""


@pytest.mark.parametrize(
    ("attribute", "producer", "few", "many", "kinds"),
    [
        ("__launch_bounds__(384, 1)", "dec", 40, 232, set()),
        ("__launch_bounds__(384, 1)", "dec", 24, 240, set()),
        ("__launch_bounds__(384, 1)", "dec", 40, 240, {"registers over the budget"}),
        ("__launch_bounds__(384, 1)", "inc", 40, 232,
         {"registers over the budget", "wrong number of registers"}),
        ("__launch_bounds__(384, 1)", "dec", 24, 160, {"wrong number of registers"}),
        ("", "dec", 40, 232, {"setmaxnreg ignored"}),
    ],
)  # fmt: skip
def test_warps_divide_the_registers_of_their_block(attribute, producer, few, many, kinds):
    text = DIVIDED.replace("ATTRIBUTE", attribute).replace("PRODUCER", producer)
    text, out = text.replace("FEW", str(few)).replace("MANY", str(many)), np.zeros(384, np.int32)
    run = ptxsim.launch(text, "k", (1, 1, 1), (384, 1, 1), [out], check=True, **SETTINGS)
    found_kinds = {finding.kind for finding in run.findings}
    assert (found_kinds == kinds) if not kinds or producer == "dec" else (found_kinds & kinds)
    assert (out == 1).all()


# --- blocks that wait -----------------------------------------------------------------------------


def grid_barrier(blocks, threads=64, shared_bytes=0, **how):
    case, n = recorder.cases()["few steps"], blocks * threads
    args = [np.arange(n, dtype=np.uint32), np.zeros(n, np.uint32), np.zeros(1, np.uint32), 2]
    return args, ptxsim.launch(
        recorder.source(), case.entry, (blocks, 1, 1), (threads, 1, 1), args,
        shared_bytes=shared_bytes, **SETTINGS, **how,
    )  # fmt: skip


def stencil(x):
    return x + 3 * np.roll(x, -1) + np.roll(x, 1)


@pytest.mark.parametrize(("blocks", "check"), [(1, True), (132, True)])
def test_a_barrier_of_all_blocks_that_fit_opens(blocks, check):
    args, run = grid_barrier(blocks, check=check)
    assert run.findings == []
    once = stencil(np.arange(blocks * 64, dtype=np.uint32))
    assert (args[0] == stencil(once)).all() and args[2] == 2 * blocks


def test_one_block_more_than_fit_waits_for_ever():
    _, run = grid_barrier(133, shared_bytes=200 * 1024)
    (finding,) = [f for f in run.findings if "loop" in f.what]
    assert finding.kind == "deadlock"
    assert "1 of the grid's 133 blocks have not begun" in finding.what
    assert "an NVIDIA H200 has room for 132 at a time" in finding.what


def test_chunks_that_finish_together_are_not_taken_for_slow_ones(monkeypatch):
    monkeypatch.setattr(ptxsim.grid, "CHUNK_LANES", 64)
    monkeypatch.setattr(ptxsim.grid, "SEEN_S", 0.0)
    args, run = grid_barrier(40, limit_s=3.0)
    assert run.findings == [] and args[2] == 80


BACK_OFF = """extern "C" __global__ void k(int* lock, int* sum, int rounds) {
    if (threadIdx.x) return;
    for (int round = 0; round < rounds; ++round) {
        unsigned wait = 8;
        while (atomicCAS(lock, 0, 1)) {
            __nanosleep(wait);
            wait = wait < 1000 ? 2 * wait : wait + 1;
        }
        *(volatile int*)sum = *(volatile int*)sum + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}"""


def test_a_lock_whose_loop_counts_is_given_on_too():
    """Chunks of few blocks: those in one wait for those in others."""
    lock, total = np.zeros((2, 1), np.int32)
    run = ptxsim.launch(BACK_OFF, "k", (70, 1, 1), (64, 1, 1), [lock, total, 3], check=True)
    assert run.findings == [] and total == 210 and lock == 0


NEIGHBOURS = """extern "C" __global__ void k(volatile int* flags, int* out) {
    __shared__ int before;
    const int b = gridDim.x - 1 - blockIdx.x;    // the last block in the grid is the first in line
    if (threadIdx.x == 0) {
        if (b > 0) while (flags[b - 1] == 0) { }
        before = b > 0 ? flags[b - 1] : 0;
        flags[b] = before + 1;
    }
    __syncthreads();
    out[b * blockDim.x + threadIdx.x] = before;
}"""


def test_first_blocks_may_wait_for_the_last():
    flags, out = np.zeros(300, np.int32), np.zeros((300, 64), np.int32)
    run = ptxsim.launch(NEIGHBOURS, "k", (300, 1, 1), (64, 1, 1), [flags, out], check=True)
    assert run.findings == []
    assert (out == np.arange(300)[:, None]).all()


# --- counters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", recorder.COUNTED)
def test_what_is_counted_of_clusters_and_copies_is_what_the_profiler_counted(name):
    expected = json.loads(str(record()["counters"]))[name]
    _, run = launch(recorder.cases()[name], count=True)
    values = {m: value for m, value in run.counters.items() if value and m in recorder.METRICS}
    assert values == expected


@pytest.mark.parametrize("name", recorder.counted_boxes())
def test_a_box_takes_the_sectors_that_the_profiler_counted(name):
    case = recorder.counted_boxes()[name]
    used = tensor_map(case, case.memory().copy())
    count = counted.loaded if name.startswith("load") else counted.stored
    sectors = [count(used, np.array([corner])) for corner in case.corners]
    assert sectors == json.loads(str(record()["sectors"]))[name]
