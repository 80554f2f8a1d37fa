"""Asynchronous copies and mbarriers: what lands when, who is told, and what is found."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxsim
from ptxsim.memory.global_memory import POISON

f4 = np.float32

HEAD = """
typedef unsigned long long mbarrier;
__device__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}
template <int BYTES> __device__ void copy(void* to, const void* from, int read = BYTES) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :: "r"(place(to)), "l"(from), "n"(BYTES), "r"(read) : "memory");
}
__device__ void init(mbarrier* b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(place(b)), "r"(count) : "memory");
}
__device__ mbarrier arrive(mbarrier* b) {
    mbarrier state;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];"
                 : "=l"(state) : "r"(place(b)) : "memory");
    return state;
}
__device__ void expect(mbarrier* b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(place(b)), "r"(bytes) : "memory");
}
__device__ void wait_parity(mbarrier* b, int parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(place(b)), "r"(parity) : "memory");
}
__device__ void wait_state(mbarrier* b, mbarrier state) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(place(b)), "l"(state) : "memory");
}
__device__ void bulk(void* to, const void* from, int bytes, mbarrier* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];"
                 :: "r"(place(to)), "l"(from), "r"(bytes), "r"(place(b)) : "memory");
}
"""
IN = np.arange(1, 1025, dtype=f4)


def run(body, threads=64, blocks=2, source=IN, **how):
    """What `out`, four floats a thread, holds afterwards, float32 (blocks, threads, 4); the run."""
    text = f'{HEAD}extern "C" __global__ void k(const float* in, float* out) {{\n{body}\n}}'
    out = np.zeros((blocks, threads, 4), f4)
    args = [source, out]
    done = ptxsim.launch(text, "k", (blocks, 1, 1), (threads, 1, 1), args, **how)
    return out, done


def kinds(done):
    return {finding.kind for finding in done.findings}


ONE_EACH = """
    __shared__ __align__(16) float box[256];
    const int t = threadIdx.x, me = 4 * (blockIdx.x * blockDim.x + t);
    copy<16>(&box[4 * t], in + me);
    commit();
    WAIT
    for (int i = 0; i < 4; ++i) out[me + i] = box[4 * t + i];
"""


@pytest.mark.parametrize("wait", ["wait<0>();", 'asm volatile("cp.async.wait_all;" ::: "memory");'])
def test_a_copy_is_there_once_its_thread_has_waited(wait):
    out, done = run(ONE_EACH.replace("WAIT", wait), check=True)
    assert done.findings == []
    assert (out.reshape(-1) == IN[:512]).all()


@pytest.mark.parametrize("wait", ["", "wait<1>();", "wait<0>();"])
def test_before_that_there_is_poison_and_the_checks_say_so(wait):
    body = ONE_EACH if wait else ONE_EACH.replace("commit();", "")
    if wait == "wait<0>();":  # waits for groups, but the copy is in none
        body = ONE_EACH.replace("commit();", "")
    out, done = run(body.replace("WAIT", wait))
    assert (out.view(np.uint32) == POISON).all() and done.findings == []
    _, done = run(body.replace("WAIT", wait), check=True)
    assert kinds(done) == {"read of a copy in flight"}


def test_threads_of_a_branch_have_groups_of_their_own():
    body = """
    __shared__ float box[2][64];
    const int t = threadIdx.x, me = 4 * (blockIdx.x * blockDim.x + t);
    copy<4>(&box[0][t], in + t);
    commit();
    if (t % 2) { copy<4>(&box[1][t], in + 64 + t); commit(); }
    wait<1>();
    for (int i = 0; i < 2; ++i) out[me + i] = box[i][t];
    """
    out, _ = run(body)
    assert (out[:, 1::2, 0] == IN[1:64:2]).all(), "the older of two groups"
    assert (out[:, ::2, 0].view(np.uint32) == POISON).all(), "the one group may be in flight"


@settings(max_examples=20)
@given(st.sampled_from([4, 8, 16]), st.integers(0, 16))
def test_bytes_that_are_not_read_are_zeros(size, read):
    read = min(read, size)
    body = f"""
    __shared__ __align__(16) float box[256];
    const int t = threadIdx.x, me = 4 * t;
    for (int i = 0; i < 4; ++i) box[me + i] = -1.0f;
    copy<{size}>(&box[me], in + me, {read} - (t == 5 ? {read} : 0));
    commit();
    wait<0>();
    for (int i = 0; i < 4; ++i) out[me + i] = box[me + i];
    """
    out, done = run(body, blocks=1)
    expected = np.full((64, 4), -1, f4).view(np.uint8)
    expected[:, :size] = 0
    expected[:, :read] = IN[:256].reshape(64, 4).view(np.uint8)[:, :read]
    expected[5, :size] = 0
    assert done.findings == []
    assert out.tobytes() == expected.tobytes()


def test_a_source_that_is_not_read_may_lie_anywhere_and_one_that_is_may_not():
    body = """
    __shared__ float box[64];
    const int t = threadIdx.x, me = 4 * t;
    copy<4>(&box[t], in + 1000 + t, t < LIMIT ? 4 : 0);
    commit();
    wait<0>();
    out[me] = box[t];
    """
    out, done = run(body.replace("LIMIT", "24"), blocks=1)
    assert done.findings == []
    assert (out[0, :24, 0] == IN[1000:]).all() and (out[0, 24:, 0] == 0).all()
    _, done = run(body.replace("LIMIT", "25"), blocks=1)
    (finding,) = done.findings
    assert finding.kind == "out-of-bounds read" and "in[1024]" in finding.what
    assert finding.thread == (24, 0, 0)


BULK = """
    __shared__ __align__(128) float box[256];
    __shared__ mbarrier full;
    const int t = threadIdx.x, me = 4 * (blockIdx.x * blockDim.x + t);
    if (t == 0) init(&full, 1);
    __syncthreads();
    if (t == 0) { expect(&full, 1024); bulk(box, in + 256 * blockIdx.x, 1024, &full); }
    wait_parity(&full, 0);
    for (int i = 0; i < 4; ++i) out[me + i] = box[4 * t + i];
"""


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("wait_parity(&full, 0)", "wait_parity(&full, 1)", "read of a copy in flight"),
        ("expect(&full, 1024)", "expect(&full, 1040)", "deadlock"),
        ("init(&full, 1)", "init(&full, 2)", "deadlock"),
        ("if (t == 0) init(&full, 1);", "", "uninitialised mbarrier"),
        ("bulk(box, in", "bulk(box, in + 1", "misaligned bulk copy"),
        ("in + 256 * blockIdx.x, 1024", "in + 256 * blockIdx.x, 1000", "misaligned bulk copy"),
        ("in + 256 * blockIdx.x", "in + 900", "out-of-bounds read"),
        ("expect(&full, 1024);", "expect(&full, 1024); arrive(&full); arrive(&full);", None),
    ],
)  # fmt: skip
def test_what_goes_wrong_with_an_mbarrier_is_named(old, new, kind):
    assert old in BULK
    _, done = run(BULK.replace(old, new), check=True)
    assert (kind or "mbarrier overflow") in kinds(done)


@pytest.mark.parametrize(
    ("count", "arrivals", "first", "lanes"),
    [
        (64, "arrive(&all);", None, 0),
        (32, "arrive(&all); arrive(&all);", None, 0),  # each warp completes a phase of its own
        (16, "if (t % 2) arrive(&all); else arrive(&all);", None, 0),
        (63, "arrive(&all);", 63, 1),
        (62, "arrive(&all);", 62, 2),
        (58, "arrive(&all);", 58, 6),
        (1, "if (t < 32) arrive(&all); wait_parity(&all, 0);", 1, 31),  # one phase is complete
    ],
)
def test_a_warp_must_not_arrive_more_often_in_one_instruction_than_a_phase_expects(
    count, arrivals, first, lanes
):
    """A GPU stops such a kernel. Arrivals of other instructions or warps begin the next phase."""
    body = f"""
    __shared__ mbarrier all;
    const int t = threadIdx.x;
    if (t == 0) init(&all, {count});
    __syncthreads();
    {arrivals}
    out[t] = t;
    """
    _, done = run(body, check=True)
    assert [(finding.kind, finding.thread, finding.lanes) for finding in done.findings] == (
        [("mbarrier overflow", (first, 0, 0), 2 * lanes)] if lanes else []
    )
    assert "mbarrier overflow" not in kinds(run(body)[1])


def test_phases_follow_one_another_by_parity():
    body = """
    __shared__ float box[64];
    __shared__ mbarrier full, empty;
    const int t = threadIdx.x, me = 4 * (blockIdx.x * blockDim.x + t);
    if (t == 0) { init(&full, 32); init(&empty, 32); }
    __syncthreads();
    for (int i = 0; i < 4; ++i) {
        if (t < 32) {                               // the first warp writes, the second reads
            wait_parity(&empty, (i + 1) % 2);
            box[t] = 100 * i + t;
            arrive(&full);
        } else {
            wait_parity(&full, i % 2);
            out[me + i] = box[63 - t];
            arrive(&empty);
        }
    }
    """
    out, done = run(body, check=True)
    assert done.findings == []
    expected = 100 * np.arange(4) + np.arange(31, -1, -1)[:, None]
    assert (out[:, 32:] == expected).all()


def test_a_state_tells_of_the_phase_that_an_arrival_was_in():
    body = """
    __shared__ float box[64];
    __shared__ mbarrier all;
    const int t = threadIdx.x, me = 4 * (blockIdx.x * blockDim.x + t);
    if (t == 0) init(&all, 64);
    __syncthreads();
    for (int i = 0; i < 3; ++i) {
        box[t] = 10 * t + i;
        wait_state(&all, arrive(&all));
        out[me + i] = box[63 - t];
        wait_state(&all, arrive(&all));
    }
    """
    out, done = run(body, check=True)
    assert done.findings == []
    assert (out[:, :, :3] == 10 * np.arange(63, -1, -1)[:, None] + np.arange(3)).all()


def test_an_mbarrier_may_be_told_of_ordinary_copies():
    body = """
    __shared__ float box[64];
    __shared__ mbarrier full;
    const int t = threadIdx.x, me = 4 * (blockIdx.x * blockDim.x + t);
    if (t == 0) init(&full, 64);
    __syncthreads();
    copy<4>(&box[t], in + t);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
                 :: "r"(place(&full)) : "memory");
    wait_parity(&full, 0);
    out[me] = box[63 - t];
    """
    out, done = run(body, check=True)
    assert done.findings == []
    assert (out[:, :, 0] == IN[63::-1][:64]).all()


PAST_L1 = """extern "C" __global__ void k(const float* in, int chunks, int pitch, int begin,
                                        int turned) {
    extern __shared__ __align__(128) char room[];
    const int row = threadIdx.x / chunks, col = threadIdx.x % chunks;
    const int place = turned ? col * (32 / chunks) + row : threadIdx.x;
    const unsigned to = (unsigned)__cvta_generic_to_shared(room) + 16 * place;
    asm volatile("cp.async.CACHE.shared.global [%0], [%1], 16;"
        :: "r"(to), "l"((const char*)in + begin + row * pitch + 16 * col) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
}"""


@pytest.mark.parametrize(
    ("chunks", "pitch", "begin", "turned", "sectors"),
    [  # as Nsight Compute counted them on an NVIDIA H200
        (1, 128, 0, 0, 32), (1, 4096, 16, 1, 32), (2, 128, 0, 0, 16), (2, 256, 0, 1, 32),
        (2, 4096, 16, 0, 16), (2, 4096, 16, 1, 32), (4, 4096, 16, 0, 16), (8, 256, 0, 1, 32),
        (8, 4096, 16, 0, 20), (16, 128, 0, 0, 16), (16, 4096, 16, 0, 20), (16, 4144, 0, 1, 32),
        (32, 4096, 16, 0, 20), (32, 4144, 0, 1, 16),
    ],
)  # fmt: skip
def test_copies_past_l1_count_sectors_by_where_they_go(chunks, pitch, begin, turned, sectors):
    memory = np.zeros(1 << 15, np.float32)
    args = [memory, chunks, pitch, begin, turned]
    how = {"count": True, "shared_bytes": 512}
    source = PAST_L1.replace("CACHE", "cg")
    run = ptxsim.launch(source, "k", (1, 1, 1), (32, 1, 1), args, **how)
    assert run.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == sectors
    run = ptxsim.launch(PAST_L1.replace("CACHE", "ca"), "k", (1, 1, 1), (32, 1, 1), args, **how)
    lane = np.arange(32)
    touched = np.unique((begin + lane // chunks * pitch + 16 * (lane % chunks)) // 32).size
    assert run.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == touched
