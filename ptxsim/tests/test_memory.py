"""Local, constant and generic memory against NumPy and Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxsim

f4 = np.float32

LOCAL = """extern "C" __global__ void k(const int* index, int* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int own[6];
    for (int j = 0; j < 6; ++j) own[j] = 10 * i + j;
    for (int j = 0; j < n; ++j) {
        const int a = index[i * n + j];
        own[a] = own[(a + 1) % 6] + 1;
    }
    int sum = 0;
    for (int j = 0; j < 6; ++j) sum = 3 * sum + own[(j + n) % 6];
    out[i] = sum;
}"""


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(1, 40), st.integers(0, 5), st.integers(0, 99))
def test_each_thread_has_its_own_local_array(blocks, threads, n, seed):
    index = np.random.default_rng(seed).integers(0, 6, (blocks * threads, n), np.int32)
    out = np.zeros(blocks * threads, np.int32)
    args = [index, out, n]
    done = ptxsim.launch(LOCAL, "k", (blocks, 1, 1), (threads, 1, 1), args, check=True)
    assert not done.findings
    for i, elements in enumerate([10 * i + j for j in range(6)] for i in range(blocks * threads)):
        for a in index[i]:
            elements[a] = elements[(a + 1) % 6] + 1
        total = 0
        for j in range(6):
            total = 3 * total + elements[(j + n) % 6]
        assert out[i] == total


@pytest.mark.parametrize(("index", "element"), [(6, 6), (-1, -1)])
def test_an_access_outside_a_local_array_is_found(index, element):
    index, out = np.full((2, 1), index, np.int32), np.zeros(2, np.int32)
    index[0] = 0
    done = ptxsim.launch(LOCAL, "k", (1, 1, 1), (2, 1, 1), [index, out, 1])
    (finding,) = [f for f in done.findings if f.kind == "out-of-bounds write"]
    assert (finding.line, finding.thread, finding.lanes) == (7, (1, 0, 0), 1)
    assert finding.what == f"local memory[{element}] of 6 elements of 4 bytes"


GENERIC = """extern "C" __global__ void k(const int* which, int* x, int* out) {
    __shared__ int s[32];
    int own[2];
    const int i = threadIdx.x;
    s[i] = 100 + i;
    own[which[i] & 1] = 200 + i;
    own[~which[i] & 1] = 300 + i;
    __syncthreads();
    int* places[3] = {x + i, s + i, own + (which[i] & 1)};
    int* place = places[which[i]];
    out[i] = *place;
    *place = -i;
    atomicAdd(place, 5);
    out[32 + i] = *place;
    out[64 + i] = s[i];
    out[96 + i] = __isShared(place) + 2 * __isGlobal(place) + 4 * __isLocal(place);
}"""


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=32, max_size=32)
    | st.integers(0, 2).map(lambda w: [w] * 32)
)
def test_a_generic_address_leads_to_the_memory_it_came_from(which):
    which, i = np.array(which, np.int32), np.arange(32, dtype=np.int32)
    x, out = 400 + i, np.zeros(128, np.int32)
    done = ptxsim.launch(GENERIC, "k", (1, 1, 1), (32, 1, 1), [which, x, out], check=True)
    assert not done.findings
    first, second, shared, kind = out.reshape(4, 32)
    assert np.array_equal(first, np.choose(which, [400 + i, 100 + i, 200 + i]))
    assert np.array_equal(second, 5 - i)
    assert np.array_equal(x, np.where(which == 0, 5 - i, 400 + i))
    assert np.array_equal(shared, np.where(which == 1, 5 - i, 100 + i))
    assert np.array_equal(kind, np.array([2, 1, 4])[which])


def test_variables_of_the_module_begin_as_declared():
    source = """__constant__ int table[4] = {1, -2, 3};
    __constant__ double half = 0.5;
    __device__ const float weights[3] = {0.25f, 1e30f, -0.0f};
    __device__ short counter = -7;
    __device__ unsigned char flags[5] = {1, 2, 255};
    extern "C" __global__ void k(float* out, const int* index) {
        const int i = threadIdx.x;
        if (i == 0) counter += 3;
        __syncthreads();
        out[i] = table[i & 3] * half + weights[index[i]] + counter + flags[i & 3];
    }"""
    index, out = np.array([0, 2, 0, 2], np.int32), np.zeros(4, f4)
    for _ in range(2):  # each launch finds them so
        done = ptxsim.launch(source, "k", (1, 1, 1), (4, 1, 1), [out, index])
        assert not done.findings
        assert out.tolist() == [0.5 + 0.25 - 4 + 1, -1 - 4 + 2, 1.5 + 0.25 - 4 + 255, -4.0]
    index[1] = 3
    (finding,) = ptxsim.launch(source, "k", (1, 1, 1), (4, 1, 1), [out, index]).findings
    assert (finding.kind, finding.what) == ("out-of-bounds read", "weights[3] of 3 elements")


def test_untyped_bits_are_extended_with_zeros():
    source = """extern "C" __global__ void k(const signed char* x, int* y) {
        asm volatile("ld.global.b8 %0, [%1];" : "=r"(y[0]) : "l"(x));
        asm volatile("ld.global.s8 %0, [%1];" : "=r"(y[1]) : "l"(x));
    }"""
    y = np.zeros(2, np.int32)
    assert not ptxsim.launch(source, "k", 1, 1, [np.array([-2], np.int8), y]).findings
    assert y.tolist() == [254, -2]


def test_cache_hints_change_nothing():
    source = """extern "C" __global__ void k(const int* x, int* y) {
        const int i = threadIdx.x;
        int a, b, c, d;
        asm volatile("prefetch.global.L2 [%0];" :: "l"(x + i));
        asm volatile("ld.global.L1::no_allocate.L2::128B.s32 %0, [%1];" : "=r"(a) : "l"(x + i));
        asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(b) : "l"(x + i));
        asm volatile("ld.global.nc.L2::256B.v2.s32 {%0, %1}, [%2];"
                     : "=r"(c), "=r"(d) : "l"(x + 2 * (i / 2)));
        y[i] = a + 10 * b + 100 * c + 1000 * d + 10000 * __ldcg(x + i) + 100000 * __ldcv(x + i);
        asm volatile("st.release.gpu.global.s32 [%0], %1;" :: "l"(y + 8 + i), "r"(a) : "memory");
        __stcs(y + 16 + i, b);
    }"""
    x, y = np.arange(8, dtype=np.int32), np.zeros(24, np.int32)
    assert not ptxsim.launch(source, "k", (1, 1, 1), (8, 1, 1), [x, y]).findings
    even = x // 2 * 2
    assert np.array_equal(y[:8], 110011 * x + 100 * even + 1000 * (even + 1))
    assert np.array_equal(y[8:16], x) and np.array_equal(y[16:], x)


MISALIGNED = """extern "C" __global__ void k(float* x, int off, float* y) {{
    __shared__ float s[64];
    float own[8];
    for (int i = 0; i < 8; ++i) own[i] = i;
    s[threadIdx.x] = s[threadIdx.x + 32] = threadIdx.x;
    __syncthreads();
    own[off & 7] = 1;
    char* base = (char*){base};
    {access}
}}"""
ACCESSES = {
    "read of 8 bytes": "y[0] = ((volatile float2*)(base + off))->x + *(double*)(base + off);",
    "read of 16 bytes": "float4 v = *(float4*)(base + off); y[0] = v.x + v.y + v.z + v.w;",
    "write of 4 bytes": "*(volatile float*)(base + off) = 1;",
}


@pytest.mark.parametrize("base", ["x", "s", "own"])
@pytest.mark.parametrize("access", ACCESSES)
def test_an_address_that_its_size_does_not_divide_is_found(base, access):
    kind, size = access.split()[0], int(access.split()[2])
    source = MISALIGNED.format(base=base, access=ACCESSES[access])
    for off in (0, size // 2):
        x, y = np.zeros(64, f4), np.zeros(1, f4)
        done = ptxsim.launch(source, "k", (1, 1, 1), (32, 1, 1), [x, off, y])
        kinds = {finding.kind for finding in done.findings}
        assert kinds == ({f"misaligned {kind}"} if off else set())


# --- blocks that are alike ------------------------------------------------------------------------

ALIKE = """extern "C" __global__ void k(const int* modes, const int* more, int* out,
                                        int n, int edge) {
    __shared__ int s[64];
    const int i = threadIdx.x, x = blockIdx.x, y = blockIdx.y;
    int sum = 0;
    #pragma unroll 1
    for (int step = 0; step < n; ++step) {
        const int mode = modes[step];
        const int v = 9 * i + step + (mode & 1 ? 5 * x : 0) + (mode & 2 ? 7 * y : 0);
        if (x == edge) {
            if (i % 3 != more[n + step]) s[i] = v;
        } else {
            s[i] = v + more[step];
            __threadfence_block();
        }
        __syncthreads();
        sum = 3 * sum + s[(i + 1) % 64];
        __syncthreads();
    }
    out[(y * gridDim.x + x) * 64 + i] = sum;
}"""


@settings(max_examples=30, deadline=None)
@given(
    modes=st.lists(st.integers(0, 3), min_size=1, max_size=20), more=st.booleans(),
    left_out=st.booleans(), edge=st.integers(0, 4), seed=st.integers(0, 99),
)  # fmt: skip
def test_blocks_read_their_own_shared_memory_however_alike_it_is(modes, more, left_out, edge, seed):
    """What blocks store on their own is the same in all, or along one axis, or nowhere."""
    n, random = len(modes), np.random.default_rng(seed)
    added = random.integers(0, 2, n) if more else np.zeros(n, int)
    skipped = random.integers(0, 4, n) if left_out else np.full(n, 3)
    skipped[0] = 3
    out = np.zeros((3, 4, 64), np.int32)
    args = [np.int32(modes), np.int32([*added, *skipped]), out, n, edge]
    assert not ptxsim.launch(ALIKE, "k", (4, 3, 1), (64, 1, 1), args).findings
    y, x, i = np.ogrid[:3, :4, :64]
    held, total = np.zeros((3, 4, 64), np.int32), np.zeros((3, 4, 64), np.int32)
    for step, mode in enumerate(modes):
        new = 9 * i + step + 5 * x * (mode & 1) + 7 * y * (mode >> 1)
        stores = (x != edge) | (i % 3 != skipped[step])
        held = np.where(stores, new + np.where(x == edge, 0, added[step]), held).astype(np.int32)
        total = 3 * total + np.roll(held, -1, axis=2)
    assert (out == total).all()


BELOW = """extern "C" __global__ void k(int* out, int down, int differs) {
    __shared__ int s[98];
    const int i = threadIdx.x, x = blockIdx.x;
    s[i] = i * i + x * differs;
    if (i < 34) s[i + 64] = -i - x * differs;
    __syncthreads();
    const int* base = s + (i - down);    // below s for some threads, or for all
    out[64 * x + i] = base[32] + 3 * base[33];
}"""


@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize(("blocks", "differs"), [(3, 0), (3, 1)])
@pytest.mark.parametrize("down", [-1, 5])
def test_the_base_of_a_load_may_lie_below_what_it_leads_to(down, blocks, differs, count):
    out = np.zeros((blocks, 64), np.int32)
    args = [out, down, differs]
    run = ptxsim.launch(BELOW, "k", (blocks, 1, 1), (64, 1, 1), args, count=count)
    assert run.findings == []
    i, x = np.arange(64), differs * np.arange(blocks)[:, None]
    held = np.concatenate([i**2 + x, -i[:34] - x], axis=1)
    first = i + 32 - down
    assert (out == held[:, first] + 3 * held[:, first + 1]).all()
