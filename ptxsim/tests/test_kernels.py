"""Small kernels of many kinds, run whole in the simulator and compared with NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matrices import error_bound, random_matrix, reference
from ptxsim import LaunchError, UnknownInstruction, launch

TILED = """
#define T 8
extern "C" __global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[T][T + PAD], b[T][T + PAD];
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float sum = 0.0f;
    for (int tile_k = 0; tile_k < K; tile_k += T) {
        int ka = tile_k + threadIdx.x, kb = tile_k + threadIdx.y;
        a[threadIdx.y][threadIdx.x] = row < M && ka < K ? A[row * K + ka] : 0.0f;
        b[threadIdx.y][threadIdx.x] = kb < K && col < N ? B[kb * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < T; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
"""


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 30), st.sampled_from([0, 1]))
def test_tiles_in_shared_memory_with_barriers_and_tails(m, n, k, pad):
    A, B = random_matrix(m, k, 1), random_matrix(k, n, 2)
    C = np.full((m, n), np.nan, np.float32)
    grid = (-(-n // 8), -(-m // 8), 1)
    run = launch(TILED, "tiled", grid, (8, 8, 1), [A, B, C, m, n, k], options=(f"-DPAD={pad}",))
    assert not run.findings
    error = np.abs(C - reference(A, B, None, 1.0, 0.0))
    assert (error <= error_bound(A, B, None, 1.0, 0.0)).all()


def test_banks_conflict_without_padding_and_not_with_it():
    """A warp that walks down a column of 32 floats hits one bank; a row of 33 spreads it."""
    source = """extern "C" __global__ void column(float* out) {
        __shared__ float s[32][WIDTH];
        s[threadIdx.x][threadIdx.y] = threadIdx.x;
        __syncthreads();
        out[threadIdx.y * 32 + threadIdx.x] = s[threadIdx.x][threadIdx.y];
    }"""
    waves = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
    for width, each in ((32, 32), (33, 1)):
        out = np.zeros(128, np.float32)
        options = (f"-DWIDTH={width}",)
        run = launch(source, "column", (1, 1, 1), (32, 4, 1), [out], options=options, count=True)
        assert run.counters[waves] == 4 * each
        assert np.array_equal(out, np.tile(np.arange(32, dtype=np.float32), 4))


def test_lanes_part_and_meet_again():
    source = """extern "C" __global__ void collatz(const int* start, int* steps, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        int x = start[i], count = 0;
        while (x != 1) {
            if (x % 2 == 0) x /= 2;
            else x = 3 * x + 1;
            ++count;
        }
        steps[i] = count;
    }"""
    start = np.arange(1, 100, dtype=np.int32)
    steps = np.zeros_like(start)
    assert not launch(source, "collatz", (4, 1, 1), (32, 1, 1), [start, steps, 99]).findings

    def collatz(x):
        return 0 if x == 1 else 1 + collatz(x // 2 if x % 2 == 0 else 3 * x + 1)

    assert steps.tolist() == [collatz(int(x)) for x in start]


def test_vector_loads_and_three_dimensions():
    source = """extern "C" __global__ void scale(const float4* x, float4* y, float by) {
        int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * (threadIdx.z
              + blockDim.z * (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z))));
        float4 v = x[i];
        y[i] = make_float4(v.w * by, v.z * by, v.y * by, v.x * by);
    }"""
    x = random_matrix(1, 4 * 360, 3)[0]
    y = np.full_like(x, np.nan)
    run = launch(source, "scale", (2, 3, 2), (5, 3, 2), [x, y, 2.0], count=True)
    assert np.array_equal(y.reshape(-1, 4), 2 * x.reshape(-1, 4)[:, ::-1])
    # 12 blocks of 30 threads: one request each, of 480 bytes that start at a multiple of 32.
    assert run.counters["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 12
    assert run.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 12 * 15


@settings(deadline=None, max_examples=30)
@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(0, 40))
def test_integer_arithmetic_is_that_of_c(a, b, shift):
    source = """extern "C" __global__ void integers(long long* out, int a, int b, int s) {
        out[0] = b == 0 ? 0 : a / b;
        out[1] = b == 0 ? 0 : a % b;
        out[2] = (long long)a * b;
        out[3] = (unsigned)a > (unsigned)b;
        out[4] = a < b ? min(a, b) : max(a, b);
        out[5] = s < 32 ? (long long)((unsigned)a >> s) : -1;
        out[6] = s < 32 ? (long long)(a >> s) : -1;
        out[7] = __umulhi((unsigned)a, (unsigned)b);
    }"""
    if (a, b) == (-(2**31), -1):
        return
    out = np.full(8, 77, np.int64)
    assert not launch(source, "integers", (1, 1, 1), (1, 1, 1), [out, a, b, shift]).findings
    quotient = 0 if b == 0 else int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    ua, ub = a % 2**32, b % 2**32
    assert out.tolist() == [
        quotient,
        0 if b == 0 else a - quotient * b,
        a * b,
        int(ua > ub),
        a if a >= b else min(a, b),
        ua >> shift if shift < 32 else -1,
        a >> shift if shift < 32 else -1,
        (ua * ub) >> 32,
    ]


def test_a_barrier_that_some_threads_never_reach_is_found():
    source = """extern "C" __global__ void half(float* x) {
        if (threadIdx.x < 16) __syncthreads();
        else while (x[0] == 1.0f) x[threadIdx.x] += 1.0f;
        x[threadIdx.x] = 2.0f;
        __syncthreads();
    }"""
    run = launch(source, "half", (1, 1, 1), (32, 1, 1), [np.zeros(32, np.float32)])
    assert run.findings and all("barrier" in str(found) for found in run.findings)


def test_accesses_outside_are_found_and_dropped():
    source = """extern "C" __global__ void out(float* x, float* y, int shift) {
        __shared__ float s[32];
        s[threadIdx.x] = x[threadIdx.x + shift];
        __syncthreads();
        y[threadIdx.x] = s[threadIdx.x + shift];
    }"""
    x, y = random_matrix(1, 32, 1)[0], np.zeros(32, np.float32)
    run = launch(source, "out", (1, 1, 1), (32, 1, 1), [x, y, 2])
    reads = {str(found) for found in run.findings}
    assert any("line 3: x[32] of 32" in r and "thread (30, 0, 0)" in r for r in reads), reads
    assert any("line 5" in r and "shared memory" in r for r in reads), reads
    run = launch(source, "out", (1, 1, 1), (32, 1, 1), [x, y[:16], 0])
    (write,) = run.findings
    assert "write" in write.kind and "y[16] of 16" in str(write) and write.lanes == 16


def test_an_unknown_instruction_is_named_and_nothing_is_touched():
    source = """extern "C" __global__ void asks(float* x) {
        x[threadIdx.x] = 1.0f;
        unsigned n; asm volatile("mov.u32 %0, %smid;" : "=r"(n)); x[0] = n;
    }"""
    x = np.zeros(32, np.float32)
    with pytest.raises(UnknownInstruction, match=r"'asks', line 3: .*%smid"):
        launch(source, "asks", (1, 1, 1), (32, 1, 1), [x])
    assert not x.any()


COPY = 'extern "C" __global__ void copy(const float* x, float* y, int n) { if (n) y[0] = x[0]; }'
ONE = np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"entry": "cpy"}, "no kernel 'cpy'; it has copy"),
        ({"block": (2048, 1, 1)}, "x is 2048, it must be 1 to 1024"),
        ({"block": (64, 32, 1)}, "2048 threads, at most 1024"),
        ({"grid": (1, 0, 1)}, "y is 0"),
        ({"args": [ONE, ONE]}, "takes 3 arguments, not 2"),
        ({"args": [ONE, ONE, 2**40]}, "n = 1099511627776 does not fit"),
        ({"args": [ONE, ONE, 1.5]}, "n = 1.5"),
        ({"args": [ONE, ONE[::2], 1]}, "y is not C-contiguous"),
        ({"args": [ONE, ONE, ONE]}, "n is an array"),
    ],
)
def test_a_launch_that_cannot_be_is_refused_before_it_runs(change, says):
    usual = {"entry": "copy", "grid": (1, 1, 1), "block": (1, 1, 1), "args": [ONE, ONE, 4]}
    with pytest.raises(LaunchError, match=says):
        launch(COPY, **{**usual, **change})
