"""Whole kernels in the simulator: results against NumPy and Python, and the mistakes it names."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxsim
import sample_kernels
from ptxsim import LaunchError, UnknownInstruction

f4 = np.float32


def check(sample, **how):
    before = sample.args()
    args, done = sample.run(**how)
    assert done.findings == []
    for index, expected in sample.expected(before).items():
        assert sample_kernels.matches(args[index], expected)


@pytest.mark.parametrize("name", sample_kernels.SAMPLES)
def test_a_kernel_computes_what_its_source_says(name):
    check(sample_kernels.SAMPLES[name])


@pytest.mark.parametrize(
    ("granted", "threads"), [("1", 1), ("3", 3), ("99", 8), ("0", 1), ("", 5), ("4,2", 5)]
)
def test_threads_are_as_many_as_are_granted(granted, threads, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    monkeypatch.setenv("OMP_NUM_THREADS", granted)
    assert ptxsim.grid._threads() == threads


@pytest.mark.parametrize("arch", ["sm_75", "sm_120"])
@pytest.mark.parametrize("name", ["tiled", "vector", "reduction", "unsigned char"])
def test_kernels_for_other_architectures_run_too(name, arch):
    check(sample_kernels.SAMPLES[name], arch=arch)


sizes = st.integers(1, 70)


@settings(max_examples=25)
@given(sizes, sizes, st.integers(0, 70), st.sampled_from([(4, 0), (8, 1), (16, 0), (16, 1)]))
def test_tiled_products_of_any_shape(m, n, k, tile_and_pad):
    check(sample_kernels.tiled(m, n, k, *tile_and_pad))


@settings(max_examples=20)
@given(st.tuples(*[st.integers(1, 4)] * 3), st.tuples(*[st.integers(1, 9)] * 3))
def test_any_grid_and_block(grid, block):
    check(sample_kernels.positions(grid, block))


def test_arrays_may_have_no_elements():
    source = """extern "C" __global__ void k(const float* x, float* out, int n) {
        for (int i = 0; i < n; ++i) out[i] = x[i];
    }"""
    empty = np.zeros((0, 5), f4)
    assert not ptxsim.launch(source, "k", (2, 1, 1), (8, 1, 1), [empty, empty, 0]).findings
    (read, write) = ptxsim.launch(source, "k", (1, 1, 1), (1, 1, 1), [empty, empty, 1]).findings
    assert str(read).endswith("x[0] of 0 elements, by block (0, 0, 0), thread (0, 0, 0)")
    assert (read.kind, write.kind) == ("out-of-bounds read", "out-of-bounds write")


def test_only_the_blocks_that_are_named_run():
    x = np.zeros(40, f4)
    source = 'extern "C" __global__ void k(float* x) { x[blockIdx.x * 10 + threadIdx.x] = 1.0f; }'
    ptxsim.launch(source, "k", (4, 1, 1), (10, 1, 1), [x], blocks=[(1, 0, 0), (3, 0, 0)])
    assert x.reshape(4, 10).tolist() == [[0.0] * 10, [1.0] * 10] * 2


# --- mistakes -------------------------------------------------------------------------------------

MISTAKES = """extern "C" __global__ void k(const float* x, float* out, int from, int to, int wild) {
    __shared__ __align__(16) float s[48];
    const int t = threadIdx.x + blockIdx.x * blockDim.x;
    s[threadIdx.x % 48] = 1.0f;
    if (t % 3 == 1) return;
    float v = x[t + from];
    if (wild == 1) v += x[t + (1ll << 44)];
    if (wild == 2) v += s[threadIdx.x + 25];
    if (wild == 3) s[threadIdx.x - 3] = v;
    out[t + to] = v;
}"""


def mistakes(x_size=64, out_size=64, start=0, to=0, wild=0, **how):
    x, out = np.arange(x_size, dtype=f4), np.zeros(out_size, f4)
    done = ptxsim.launch(MISTAKES, "k", (2, 1, 1), (32, 1, 1), [x, out, start, to, wild], **how)
    return done.findings, out


OF_S = "of 48 elements of 4 bytes in shared memory"


def test_a_correct_launch_has_no_findings():
    findings, out = mistakes()
    t = np.arange(64)
    assert findings == [] and np.array_equal(out, np.where(t % 3 == 1, 0, t))


@pytest.mark.parametrize(
    ("how", "kind", "line", "what", "block", "thread", "lanes"),
    [
        # 60 and 63 pass (60 % 3 = 0); 61 returned; the first outside is 62 + 2.
        ({"start": 2}, "out-of-bounds read", 6, "x[64] of 64 elements", 1, 30, 2),
        ({"start": -2}, "out-of-bounds read", 6, "x[-2] of 64 elements", 0, 0, 1),
        ({"to": 1}, "out-of-bounds write", 10, "out[64] of 64 elements", 1, 31, 1),
        ({"start": -(2**28)}, "out-of-bounds read", 6, f"x[{-(2**28)}] of 64 elements", 0, 0, 43),
        ({"wild": 1}, "out-of-bounds read", 7, "address 0xbf0800000000 of no array", 0, 0, 43),
        # Blocks of 32: threads 23 and later are outside; 23 and 24 of block 0, 23 % 3 = 2.
        ({"wild": 2}, "out-of-bounds read", 8, f"s[48] {OF_S}", 0, 23, 12),
        ({"wild": 3}, "out-of-bounds write", 9, f"s[-3] {OF_S}", 0, 0, 4),
    ],
)
def test_an_access_out_of_bounds_is_named(how, kind, line, what, block, thread, lanes):
    findings, _ = mistakes(**how)
    finding = findings[0]
    assert (finding.kind, finding.kernel, finding.line, finding.what) == (kind, "k", line, what)
    assert (finding.block, finding.thread) == ((block, 0, 0), (thread, 0, 0))
    active = [t for t in range(64) if t % 3 != 1]
    if "start" in how:
        assert finding.lanes == sum(not 0 <= t + how["start"] < 64 for t in active)
    assert len(findings) == 1 and finding.lanes == lanes
    more = f" and {lanes - 1} more" if lanes > 1 else ""
    assert str(finding) == (
        f"{kind} in kernel 'k', line {line}: {what}, by block {finding.block}, "
        f"thread {finding.thread}{more}"
    )


def test_an_access_out_of_bounds_changes_nothing_and_reads_nan():
    _, out = mistakes(start=2)
    assert np.isnan(out[[62, 63]]).all() and out[60] == 62
    findings, out = mistakes(to=1)
    assert len(findings) == 1 and out[63] == 62 and out[0] == 0


def test_the_first_lane_and_its_element_belong_together():
    """The address depends on y alone; in row 0 only x = 9 is active, and reads row 0's element."""
    source = """extern "C" __global__ void k(const float* x, float* out) {
        const int x_ = threadIdx.x, y = threadIdx.y;
        if (y == 0 ? x_ == 9 : x_ == 2) out[y * 32 + x_] = x[100 + 7 * x_];
    }"""
    arrays = [np.zeros(100, f4), np.zeros(64, f4)]
    (finding,) = ptxsim.launch(source, "k", (1, 1, 1), (32, 2, 1), arrays).findings
    assert finding.thread == (9, 0, 0) and finding.what == "x[163] of 100 elements"


def test_shared_memory_starts_as_nan():
    source = """extern "C" __global__ void k(float* out) {
        __shared__ float s[64];
        s[threadIdx.x] = 1.0f;
        __syncthreads();
        out[threadIdx.x] = s[threadIdx.x + 16];
    }"""
    out = np.zeros(32, f4)
    ptxsim.launch(source, "k", (1, 1, 1), (32, 1, 1), [out])
    assert (out[:16] == 1).all() and np.isnan(out[16:]).all()


def test_a_barrier_that_only_some_threads_reach_is_named():
    source = """extern "C" __global__ void k(float* x) {
    __shared__ float s[64];
    if (x[blockIdx.x * 64 + threadIdx.x] > 0.0f) {
        s[threadIdx.x] = 1.0f;
        __syncthreads();
        x[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x ^ 1];
    } else {
        s[threadIdx.x] = 2.0f;
        __syncthreads();
        x[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x ^ 1] - 2.0f;
    }
}"""
    x = np.ones(192, f4)
    x[:64] = 0  # block 0 goes one way, blocks 1 and 2 the other: that is allowed
    assert ptxsim.launch(source, "k", (3, 1, 1), (64, 1, 1), [x.copy()]).findings == []
    x[100] = 0
    (finding,) = ptxsim.launch(source, "k", (3, 1, 1), (64, 1, 1), [x]).findings
    assert finding.kind == "divergent barrier" and finding.line in (5, 9)
    assert finding.block == (1, 0, 0) and (finding.lanes == 1) == (finding.thread == (36, 0, 0))


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "instruction"),
    [
        ('asm("{ .reg .b32 r; fns.b32 r, r, r, r; }");', "fns.b32"),
        ('asm("{ .reg .b32 r; vabsdiff4.u32.u32.u32.add r, r, r, r; }");', "vabsdiff4"),
        ('asm("{ .reg .b32 r; mad.lo.cc.u32 r, r, r, r; subc.u32 r, r, r; }");', "subc.u32"),
        ('asm("pmevent 1;");', "pmevent 1"),
        ('unsigned n; asm("mov.u32 %0, %smid;" : "=r"(n)); x[0] = n;', "%smid"),
    ],
)
def test_an_unknown_instruction_is_named_before_anything_runs(statement, instruction):
    source = f"""extern "C" __global__ void k(float* x) {{
    x[threadIdx.x] = 1.0f;
    {statement}
    }}"""
    x = np.zeros(64, f4)
    with pytest.raises(UnknownInstruction) as error:
        ptxsim.launch(source, "k", (1, 1, 1), (64, 1, 1), [x])
    assert "kernel 'k', line 3: " in str(error.value) and instruction in str(error.value)
    assert not x.any()


TAKES = """extern "C" __global__ void k(float* x, int n, float f, long long l) {
    x[0] = n + f + l;
}"""


def test_scalars_arrive_as_they_are():
    x = np.zeros(1, f4)
    for n, f, big in [(-7, 0.5, 2**40), (2**32 - 1, -2, -(2**40)), (np.int16(3), f4(1), 0)]:
        ptxsim.launch(TAKES, "k", (1, 1, 1), (1, 1, 1), [x, n, f, big])
        as_int = int(n) - 2**32 if n >= 2**31 else int(n)
        assert x[0] == f4(f4(f4(as_int) + f4(f)) + f4(big))


# --- single accesses ------------------------------------------------------------------------------


def test_accesses_are_those_of_the_source_in_their_order():
    source = """extern "C" __global__ void k(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        for (int j = 0; j < 3; ++j)
            out[i] = x[5 * i + j];
}"""
    arrays = [np.zeros(5 * 100, f4), np.zeros(100, f4)]
    done = ptxsim.launch(source, "k", (2, 1, 1), (64, 1, 1), [*arrays, 100], count=True)
    accesses = done.accesses((1, 0, 0), warp=1)
    i = np.arange(96, 128)
    assert len(accesses) == 6
    for number, access in enumerate(accesses):
        j, store = divmod(number, 2)
        assert (access.array, access.operation) == [("x", "load"), ("out", "store")][store]
        assert access.line == 5 and access.space == "global" and access.size == 4
        assert (access.block, access.warp) == ((1, 0, 0), 1)
        assert np.array_equal(access.active, i < 100)
        expected = 4 * (i if store else 5 * i + j)
        assert np.array_equal(access.addresses[access.active], expected[access.active])
    assert len(done.accesses((1, 0, 0))) == 12
    assert [a.warp for a in done.accesses((0, 0, 0))] == [0, 1] * 6


def test_accesses_need_a_counted_run_and_a_block_of_the_grid():
    source = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] = 1.0f; }'
    x = np.zeros(32, f4)
    with pytest.raises(LaunchError, match="count=True"):
        ptxsim.launch(source, "k", (1, 1, 1), (32, 1, 1), [x]).accesses()
    done = ptxsim.launch(source, "k", (1, 1, 1), (32, 1, 1), [x], count=True)
    with pytest.raises(LaunchError, match=r"block \(0, 1, 0\) is not in the grid"):
        done.accesses((0, 1, 0))


def test_the_instructions_of_a_warp_are_given_in_the_order_of_execution():
    source = """
    extern "C" __global__ void k(float* x) {
        __shared__ float box[64];
        box[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        if (threadIdx.x < 32) x[threadIdx.x] = box[63 - threadIdx.x];
    }
    """
    run = ptxsim.launch(source, "k", (1, 1, 1), (64, 1, 1), [np.ones(64, f4)], count=True)
    for warp, last in ((0, ["shared load", "global store"]), (1, [])):
        steps = run.instructions((0, 0, 0), warp)
        done = []
        for step in steps:
            done += ["barrier"] if step.opcode.startswith("bar") else []
            done += [f"{access.space} {access.operation}" for access in step.accesses]
        assert done == ["global load", "shared store", "barrier", *last]
        assert [a for step in steps for a in step.accesses] == run.accesses((0, 0, 0), warp)
        assert steps[-1].opcode.startswith("ret")


def test_an_asynchronous_copy_is_recorded_with_both_its_ends_and_counted_as_before():
    source = """
    extern "C" __global__ void k(const float* x, float* y) {
        __shared__ float box[32];
        const unsigned to = (unsigned)__cvta_generic_to_shared(&box[31 - threadIdx.x]);
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(x + threadIdx.x));
        asm volatile("cp.async.wait_all;" ::: "memory");
        y[threadIdx.x] = box[threadIdx.x];
    }
    """
    x, y = np.arange(32, dtype=f4), np.zeros(32, f4)
    run = ptxsim.launch(source, "k", (1, 1, 1), (32, 1, 1), [x, y], count=True)
    (copy,) = [s for s in run.instructions() if s.opcode.startswith("cp.async.ca")]
    source_, destination = copy.accesses
    assert (source_.space, source_.operation) == ("global", "load")
    assert (destination.space, destination.operation) == ("shared", "copy")
    assert source_.addresses.tolist() == list(range(0, 128, 4))
    assert destination.addresses.tolist() == list(range(124, -1, -4))
    assert "copy" not in {line.operation for line in run.lines}
