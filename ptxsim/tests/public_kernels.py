"""Small kernels of the kinds that public collections have, written for these tests.

Of Rodinia's kinds: alignment, stencils, dynamic programming, LU, graphs. Of CUDA's samples: scans,
histograms, sorts, transposes, reductions, shuffles. Of collections for language models: elementwise
functions, softmax, norms, rotations and products in float16 and bfloat16. PUBLIC has one launch of
each, a Sample with what NumPy says of it: see test_simulator_agrees.py.
"""

from __future__ import annotations

import numpy as np

from sample_kernels import Sample

f4, f8, i4, u2, u4 = np.float32, np.float64, np.int32, np.uint16, np.uint32


def integers(seed: int, *shape: int, least: int = -9, most: int = 9, dtype=f4) -> np.ndarray:
    """Small integers: float32 adds them exactly, in any order."""
    return np.random.default_rng(seed).integers(least, most + 1, shape).astype(dtype)


def near(value, relative: float, absolute: float = 0.0):
    """A float64 value with an error bound."""
    value = np.asarray(value, f8)
    return value, absolute + relative * np.abs(value)


# --- of Rodinia's kinds ---------------------------------------------------------------------------

# Best alignment within a tile: along diagonals first to the longest one, then from it.
NEEDLE = """
#define B 16
__device__ void fill(int (*cell)[B + 1], int (*match)[B], int row, int col, int penalty) {
    const int gap = max(cell[row][col - 1], cell[row - 1][col]) - penalty;
    cell[row][col] = max(cell[row - 1][col - 1] + match[row - 1][col - 1], gap);
}
extern "C" __global__ void k(const int* score, int* best, int cols, int penalty) {
    __shared__ int cell[B + 1][B + 1], match[B][B];
    const int t = threadIdx.x;
    if (t == 0) cell[0][0] = best[0];
    cell[t + 1][0] = best[cols * (t + 1)];
    cell[0][t + 1] = best[t + 1];
    for (int row = 0; row < B; ++row) match[row][t] = score[cols * (row + 1) + t + 1];
    __syncthreads();
    for (int d = 0; d < B; ++d) {
        if (t <= d) fill(cell, match, d - t + 1, t + 1, penalty);
        __syncthreads();
    }
    for (int d = B - 2; d >= 0; --d) {
        if (t <= d) fill(cell, match, B - t, t + B - d, penalty);
        __syncthreads();
    }
    for (int row = 0; row < B; ++row) best[cols * (row + 1) + t + 1] = cell[row + 1][t + 1];
}"""


def aligned(args):
    score, best, _, penalty = args
    best = best.copy()
    for i, j in np.ndindex(16, 16):
        gap = max(best[i + 1, j], best[i, j + 1]) - penalty
        best[i + 1, j + 1] = max(best[i, j] + score[i + 1, j + 1], gap)
    return {1: best}


def edges():
    best = np.zeros((17, 17), i4)
    best[0] = best[:, 0] = -10 * np.arange(17)
    return best


# Several steps of heat in a tile whose border becomes wrong by one each step.
HOTSPOT = """
#define B 16
extern "C" __global__ void k(const float* power, const float* from, float* to,
                             int rows, int cols, int steps, float rate) {
    __shared__ float now[B][B], heat[B][B];
    const int tx = threadIdx.x, ty = threadIdx.y, whole = B - 2 * steps;
    const int x = whole * blockIdx.x - steps + tx, y = whole * blockIdx.y - steps + ty;
    const bool inside = x >= 0 && x < cols && y >= 0 && y < rows;
    if (inside) { now[ty][tx] = from[y * cols + x]; heat[ty][tx] = power[y * cols + x]; }
    __syncthreads();
    const int up = y > 0 ? ty - 1 : ty, down = y < rows - 1 ? ty + 1 : ty;
    const int left = x > 0 ? tx - 1 : tx, right = x < cols - 1 ? tx + 1 : tx;
    for (int i = 0; i < steps; ++i) {
        const bool known = min(tx, ty) > i && max(tx, ty) < B - 1 - i && inside;
        float next;
        if (known) {
            const float here = now[ty][tx], sum = now[up][tx] + now[down][tx] - 2.0f * here;
            next = here + rate * (heat[ty][tx] + sum + now[ty][left] + now[ty][right] - 2.0f * here
                                  + (1.5f - here) / 7.0f);
        }
        __syncthreads();
        if (known) now[ty][tx] = next;
        __syncthreads();
    }
    if (inside && min(tx, ty) >= steps && max(tx, ty) < B - steps) to[y * cols + x] = now[ty][tx];
}"""


def heated(args):
    power, now, _, _, _, steps, rate = args
    now = now.astype(f8)
    for _ in range(steps):
        around = np.pad(now, 1, mode="edge")
        sums = around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:] - 4 * now
        now = now + rate * (power + sums + (1.5 - now) / 7)
    return {2: near(now, 1e-6, 1e-6)}


PATHFINDER = """
extern "C" __global__ void k(const int* wall, const int* from, int* to, int cols, int steps) {
    __shared__ int before[64], after[64];
    const int t = threadIdx.x, x = (64 - 2 * steps) * blockIdx.x - steps + t;
    const bool inside = x >= 0 && x < cols;
    const int left = x > 0 ? t - 1 : t, right = x < cols - 1 ? t + 1 : t;
    if (inside) before[t] = from[x];
    __syncthreads();
    for (int i = 0; i < steps; ++i) {
        const bool known = t > i && t < 63 - i && inside;
        if (known)
            after[t] = min(before[t], min(before[left], before[right])) + wall[i * cols + x];
        __syncthreads();
        if (known) before[t] = after[t];
        __syncthreads();
    }
    if (inside && t >= steps && t < 64 - steps) to[x] = before[t];
}"""


def shortest(args):
    wall, best, *_ = args
    for row in wall:
        around = np.pad(best, 1, mode="edge")
        best = np.minimum(np.minimum(around[:-2], around[2:]), best) + row
    return {2: best}


LUD = """
extern "C" __global__ void k(float* A) {
    __shared__ float m[16][16];
    const int t = threadIdx.x;
    A += 256 * blockIdx.x;
    for (int i = 0; i < 16; ++i) m[i][t] = A[16 * i + t];
    __syncthreads();
    for (int i = 0; i < 15; ++i) {
        if (t > i) m[t][i] /= m[i][i];
        __syncthreads();
        if (t > i) for (int row = i + 1; row < 16; ++row) m[row][t] -= m[row][i] * m[i][t];
        __syncthreads();
    }
    for (int i = 0; i < 16; ++i) A[16 * i + t] = m[i][t];
}"""


def factored(args):
    found = args[0].astype(f8)
    for m in found:
        for i in range(15):
            m[i + 1 :, i] /= m[i, i]
            m[i + 1 :, i + 1 :] -= np.outer(m[i + 1 :, i], m[i, i + 1 :])
    return {0: near(found, 2e-6, 2e-6)}


# Sums of a row and of its squares, from pairs to the whole; the last thread of a pair adds.
SUMS = """
extern "C" __global__ void k(const float* x, float* sums, float* squares, int n) {
    __shared__ float a[64], b[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    a[t] = i < n ? x[i] : 0.0f;
    b[t] = a[t] * a[t];
    for (int width = 2; width <= 64; width *= 2) {
        __syncthreads();
        if (t % width == width - 1) {
            a[t] += a[t - width / 2];
            b[t] += b[t - width / 2];
        }
    }
    if (t == 63) { sums[blockIdx.x] = a[t]; squares[blockIdx.x] = b[t]; }
}"""


def summed(args):
    x = np.pad(args[0], (0, 3 * 64 - 150)).reshape(3, 64)
    return {1: x.sum(axis=1), 2: (x * x).sum(axis=1)}


BFS = """
extern "C" __global__ void k(const int* first, const int* edges, const char* frontier,
                             char* next, int* level, int nodes, int now) {
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || !frontier[node]) return;
    for (int i = first[node]; i < first[node + 1]; ++i) {
        const int other = edges[i];
        if (level[other] < 0) { level[other] = now; next[other] = 1; }
    }
}"""


def graph():
    random = np.random.default_rng(3)
    first = np.concatenate([[0], np.cumsum(random.integers(0, 6, 100))]).astype(i4)
    edges = random.integers(0, 100, first[-1]).astype(i4)
    level = np.where(np.arange(100) % 9 == 0, 0, -1).astype(i4)
    return [first, edges, (level == 0).astype(np.int8), np.zeros(100, np.int8), level, 100, 1]


def reached(args):
    first, edges, frontier, _, level, _, now = args
    new = np.unique(np.concatenate([edges[first[i] : first[i + 1]]
                                    for i in np.flatnonzero(frontier)]))  # fmt: skip
    new = new[level[new] < 0]
    level, found = level.copy(), np.zeros(100, np.int8)
    level[new], found[new] = now, 1
    return {3: found, 4: level}


# --- of the kinds of CUDA's samples ---------------------------------------------------------------

SCAN = """
extern "C" __global__ void k(const uint4* x, uint4* out) {
    __shared__ volatile unsigned s[2 * 64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    uint4 v = x[i];
    v.y += v.x; v.z += v.y; v.w += v.z;
    s[t] = 0;
    s[64 + t] = v.w;
    for (int far = 1; far < 64; far *= 2) {
        __syncthreads();
        const unsigned sum = s[64 + t] + s[64 + t - far];
        __syncthreads();
        s[64 + t] = sum;
    }
    const unsigned before = s[64 + t] - v.w;
    out[i] = make_uint4(v.x + before, v.y + before, v.z + before, v.w + before);
}"""

# Up a tree and down again; places are spread so that banks do not meet.
TREE = """
#define AT(i) ((i) + (i) / 32)
extern "C" __global__ void k(const int* x, int* out, int* totals) {
    __shared__ int s[AT(128)];
    const int t = threadIdx.x, n = 128;
    s[AT(t)] = x[blockIdx.x * n + t];
    s[AT(t + 64)] = x[blockIdx.x * n + t + 64];
    int far = 1;
    for (int pairs = n / 2; pairs > 0; pairs /= 2, far *= 2) {
        __syncthreads();
        if (t < pairs) s[AT(far * (2 * t + 2) - 1)] += s[AT(far * (2 * t + 1) - 1)];
    }
    if (t == 0) { totals[blockIdx.x] = s[AT(n - 1)]; s[AT(n - 1)] = 0; }
    for (int pairs = 1; pairs < n; pairs *= 2) {
        far /= 2;
        __syncthreads();
        if (t < pairs) {
            const int a = AT(far * (2 * t + 1) - 1), b = AT(far * (2 * t + 2) - 1), left = s[a];
            s[a] = s[b];
            s[b] += left;
        }
    }
    __syncthreads();
    out[blockIdx.x * n + t] = s[AT(t)];
    out[blockIdx.x * n + t + 64] = s[AT(t + 64)];
}"""


def scanned(x):
    return np.cumsum(x, axis=-1, dtype=x.dtype)


HISTOGRAM = """
#define WARPS 3
extern "C" __global__ void k(const unsigned* x, unsigned* out, int n) {
    __shared__ unsigned bins[WARPS][256];
    unsigned* own = bins[threadIdx.x / 32];
    for (int i = threadIdx.x; i < WARPS * 256; i += blockDim.x) bins[0][i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        for (int byte = 0; byte < 4; ++byte) atomicAdd(own + (x[i] >> 8 * byte & 255), 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) {
        unsigned sum = 0;
        for (int w = 0; w < WARPS; ++w) sum += bins[w][bin];
        atomicAdd(out + bin, sum);
    }
}"""

# A block's tile lies on a diagonal; tiles of 16 by 16, padded.
DIAGONAL = """
extern "C" __global__ void k(const float* x, float* out, int rows, int cols) {
    __shared__ float tile[16][17];
    const int by = blockIdx.x, bx = (blockIdx.x + blockIdx.y) % gridDim.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    for (int i = 0; i < 16; i += 4)
        tile[ty + i][tx] = x[(16 * by + ty + i) * cols + 16 * bx + tx];
    __syncthreads();
    for (int i = 0; i < 16; i += 4)
        out[(16 * bx + ty + i) * rows + 16 * by + tx] = tile[tx][ty + i];
}"""

# The last block to come adds what all have left.
LAST_BLOCK = """
__device__ int sum_of_block(int sum, int* s) {
    for (int far = 16; far > 0; far /= 2) sum += __shfl_down_sync(~0u, sum, far);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? s[threadIdx.x] : 0;
        for (int far = 16; far > 0; far /= 2) sum += __shfl_down_sync(~0u, sum, far);
    }
    __syncthreads();
    return sum;
}
extern "C" __global__ void k(const int* x, volatile int* parts, unsigned* ticket, int* out, int n) {
    __shared__ int s[4];
    __shared__ bool last;
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    sum = sum_of_block(sum, s);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    sum = sum_of_block(threadIdx.x < gridDim.x ? parts[threadIdx.x] : 0, s);
    if (threadIdx.x == 0) *out = sum;
}"""

# Scans in a warp, the positive ones moved to the front, and votes.
SHUFFLES = """
extern "C" __global__ void k(const int* x, int* sums, int* packed, int* votes) {
    const int t = threadIdx.x, lane = t % 32, i = blockIdx.x * blockDim.x + t, v = x[i];
    int sum = v;
    for (int far = 1; far < 32; far *= 2) {
        const int other = __shfl_up_sync(~0u, sum, far);
        if (lane >= far) sum += other;
    }
    sums[i] = sum;
    const unsigned positive = __ballot_sync(~0u, v > 0);
    if (v > 0) packed[i - lane + __popc(positive & ((1u << lane) - 1))] = v;
    int most = v;
    for (int far = 16; far > 0; far /= 2) most = max(most, __shfl_xor_sync(~0u, most, far));
    const unsigned alike = __match_any_sync(~0u, v);
    votes[i] = most + 100 * __popc(alike) + 10000 * __all_sync(~0u, v > -9)
             + 20000 * __any_sync(~0u, v == 9) + 40000 * __reduce_min_sync(~0u, v + 9);
}"""


def voted(args):
    x = args[0].reshape(-1, 32)
    packed = np.zeros_like(x)
    for row, v in zip(packed, x, strict=True):
        row[: (v > 0).sum()] = v[v > 0]
    alike = (x[:, :, None] == x[:, None]).sum(axis=2)
    votes = x.max(axis=1, keepdims=True) + 100 * alike
    of_warp = 10000 * (x > -9).all(axis=1) + 20000 * (x == 9).any(axis=1)
    votes = votes + (of_warp + 40000 * (x.min(axis=1) + 9))[:, None]
    return {1: scanned(x).reshape(-1), 2: packed.reshape(-1), 3: votes.astype(i4).reshape(-1)}


BITONIC = """
extern "C" __global__ void k(unsigned* keys, unsigned* values) {
    __shared__ unsigned key[128], value[128];
    const int t = threadIdx.x, begin = blockIdx.x * 128;
    for (int i = t; i < 128; i += 64) { key[i] = keys[begin + i]; value[i] = values[begin + i]; }
    for (int size = 2; size <= 128; size *= 2)
        for (int far = size / 2; far > 0; far /= 2) {
            __syncthreads();
            const int at = 2 * t - (t & (far - 1));
            const bool up = (t & (size / 2)) == 0;
            if ((key[at] > key[at + far]) == up) {
                const unsigned a = key[at], b = value[at];
                key[at] = key[at + far]; key[at + far] = a;
                value[at] = value[at + far]; value[at + far] = b;
            }
        }
    __syncthreads();
    for (int i = t; i < 128; i += 64) { keys[begin + i] = key[i]; values[begin + i] = value[i]; }
}"""


def sorted_(args):
    order = np.argsort(args[0], axis=1)
    return {i: np.take_along_axis(args[i], order, axis=1) for i in (0, 1)}


CONVOLUTION = """
#define R 4
__constant__ float filter[2 * R + 1] = {1, -2, 3, 4, 5, 4, 3, -2, 1};
extern "C" __global__ void k(const float* x, float* out, int cols) {
    __shared__ float s[4][32 + 2 * R];
    const int tx = threadIdx.x, ty = threadIdx.y, left = 32 * blockIdx.x;
    const int row = 4 * blockIdx.y + ty;
    for (int i = tx; i < 32 + 2 * R; i += 32) {
        const int col = left - R + i;
        s[ty][i] = col >= 0 && col < cols ? x[row * cols + col] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
    #pragma unroll
    for (int i = -R; i <= R; ++i) sum += filter[R - i] * s[ty][tx + R + i];
    if (left + tx < cols) out[row * cols + left + tx] = sum;
}"""


def convolved(args):
    rows = [np.convolve(row, [1, -2, 3, 4, 5, 4, 3, -2, 1], "same") for row in args[0]]
    return {1: np.array(rows, f4)}


WALSH = """
extern "C" __global__ void k(float* x) {
    __shared__ float s[256];
    const int t = threadIdx.x;
    x += 256 * blockIdx.x;
    for (int i = t; i < 256; i += 64) s[i] = x[i];
    for (int far = 64; far > 0; far /= 4) {
        const int low = t & (far - 1), at = 4 * t - 3 * low;
        __syncthreads();
        const float a = s[at], b = s[at + far], c = s[at + 2 * far], d = s[at + 3 * far];
        s[at] = a + b + c + d;
        s[at + far] = a - b + c - d;
        s[at + 2 * far] = a + b - c - d;
        s[at + 3 * far] = a - b - c + d;
    }
    __syncthreads();
    for (int i = t; i < 256; i += 64) x[i] = s[i];
}"""


def walsh(args):
    matrix = np.ones((1, 1))
    for _ in range(8):
        matrix = np.kron(matrix, [[1, 1], [1, -1]])
    return {0: (args[0] @ matrix).astype(f4)}


# The largest float by compare-and-swap, and what an atomic gives back.
ATOMICS = """
extern "C" __global__ void k(const float* x, float* largest, int* numbers, int n) {
    __shared__ int most, least, count;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) { most = -1000; least = 1000; count = 0; }
    __syncthreads();
    if (i < n) {
        int* place = (int*)largest;
        int old = *place;
        while (__int_as_float(old) < x[i]) {
            const int seen = atomicCAS(place, old, __float_as_int(x[i]));
            if (seen == old) break;
            old = seen;
        }
        atomicMax(&most, (int)x[i]);
        atomicMin(&least, (int)x[i]);
        if (x[i] > 0.0f) atomicAdd(&count, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicMax(numbers, most);
        atomicMin(numbers + 1, least);
        atomicAdd(numbers + 2, count);
    }
}"""


def extremes(args):
    x = args[0]
    return {1: x.max(keepdims=True), 2: np.array([x.max(), x.min(), (x > 0).sum()], i4)}


# --- of the kinds of collections for language models ----------------------------------------------

# T, a 16-bit type; T2, two of them. All kernels of a type are compiled together.
SIXTEEN = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#ifdef BF16
typedef __nv_bfloat16 T;
typedef __nv_bfloat162 T2;
__device__ float number(T x) { return __bfloat162float(x); }
__device__ float2 numbers(T2 x) { return __bfloat1622float2(x); }
__device__ T rounded(float x) { return __float2bfloat16(x); }
__device__ T2 pair(float x, float y) { return __floats2bfloat162_rn(x, y); }
__device__ T2 twice(T x) { return __bfloat162bfloat162(x); }
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#else
typedef half T;
typedef half2 T2;
__device__ float number(T x) { return __half2float(x); }
__device__ float2 numbers(T2 x) { return __half22float2(x); }
__device__ T rounded(float x) { return __float2half(x); }
__device__ T2 pair(float x, float y) { return __floats2half2_rn(x, y); }
__device__ T2 twice(T x) { return __half2half2(x); }
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#endif
#define KERNEL extern "C" __global__ void

template <typename N> __device__ N warp_sum(N v) {
    for (int far = 16; far > 0; far /= 2) v = v + __shfl_xor_sync(~0u, v, far);
    return v;
}
__device__ float warp_max(float v) {
    for (int far = 16; far > 0; far /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, far));
    return v;
}

// The first number is one for all threads.
KERNEL scaled(const T* x, T* y, int n) {
    const T s = x[0];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hfma(x[i], s * s, s + s);
}
KERNEL gelu(const T* x, T* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const T v = x[i], one = rounded(1.0f), a = rounded(1.59576912f), b = rounded(0.07135481f);
    y[i] = v * (one / (one + hexp(-(a * v + b * v * v * v))));
}
KERNEL pairs(const T2* x, const T2* z, T2* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hmax2(__hfma2(x[i], z[i], twice(rounded(0.5f))), twice(rounded(0.0f)));
}
// Eight numbers for each thread, by one load and one store.
KERNEL packs(const T* x, const T* z, T* y, int n) {
    const int i = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    uint4 a = *(const uint4*)(x + i), b = *(const uint4*)(z + i), sums;
    #pragma unroll
    for (int j = 0; j < 4; ++j) ((T2*)&sums)[j] = __hadd2(((T2*)&a)[j], ((T2*)&b)[j]);
    *(uint4*)(y + i) = sums;
}
// A warp for each row: softmax with the largest taken off, sums in float32.
KERNEL softmax(const T* x, T* y, int n) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    x += row * n, y += row * n;
    float most = -1e30f, sum = 0.0f;
    for (int i = lane; i < n; i += 32) most = fmaxf(most, number(x[i]));
    most = warp_max(most);
    for (int i = lane; i < n; i += 32) sum += __expf(number(x[i]) - most);
    sum = warp_sum(sum);
    for (int i = lane; i < n; i += 32) y[i] = rounded(__expf(number(x[i]) - most) / sum);
}
// The same in one pass: two results are joined by what the smaller maximum is off.
KERNEL online(const T* x, float* y, int n) {
    __shared__ float2 s[2];
    const int t = threadIdx.x;
    x += blockIdx.x * n, y += blockIdx.x * n;
    float most = -1e30f, sum = 0.0f;
    for (int i = t; i < n; i += 64) {
        const float v = number(x[i]), more = fmaxf(most, v);
        sum = sum * __expf(most - more) + __expf(v - more);
        most = more;
    }
    for (int far = 16; far > 0; far /= 2) {
        const float m = __shfl_xor_sync(~0u, most, far), d = __shfl_xor_sync(~0u, sum, far);
        const float more = fmaxf(most, m);
        sum = sum * __expf(most - more) + d * __expf(m - more);
        most = more;
    }
    if (t % 32 == 0) s[t / 32] = make_float2(most, sum);
    __syncthreads();
    const float2 a = s[0], b = s[1];
    most = fmaxf(a.x, b.x);
    sum = a.y * __expf(a.x - most) + b.y * __expf(b.x - most);
    for (int i = t; i < n; i += 64) y[i] = __expf(number(x[i]) - most) * __frcp_rn(sum);
}
// A block for each row of 64 numbers; sums in the type itself.
KERNEL layer_norm(const T* x, T* y, T gain, T bias) {
    __shared__ T s[2];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    const T v = x[i], parts = rounded(1.0f / 64.0f);
    const T sum = warp_sum(v);
    if (t % 32 == 0) s[t / 32] = sum;
    __syncthreads();
    const T centred = v - (s[0] + s[1]) * parts;
    __syncthreads();
    const T squares = warp_sum(centred * centred);
    if (t % 32 == 0) s[t / 32] = squares;
    __syncthreads();
    const T scale = hrsqrt(__hfma(s[0] + s[1], parts, rounded(1e-3f)));
    y[i] = __hfma(centred * scale, gain, bias);
}
KERNEL rms_norm(const T2* x, T2* y, int n) {
    const int lane = threadIdx.x;
    x += blockIdx.x * n, y += blockIdx.x * n;
    float sum = 0.0f;
    for (int i = lane; i < n; i += 32) {
        const float2 v = numbers(x[i]);
        sum += v.x * v.x + v.y * v.y;
    }
    const float scale = rsqrtf(warp_sum(sum) / (2 * n) + 1e-5f);
    for (int i = lane; i < n; i += 32) {
        const float2 v = numbers(x[i]);
        y[i] = pair(v.x * scale, v.y * scale);
    }
}
KERNEL rope(const T2* x, T2* y, int pairs) {
    const int i = threadIdx.x, position = blockIdx.x;
    const float angle = position * powf(10000.0f, -(float)i / pairs);
    float sine, cosine;
    sincosf(angle, &sine, &cosine);
    const float2 v = numbers(x[position * pairs + i]);
    y[position * pairs + i] = pair(v.x * cosine - v.y * sine, v.x * sine + v.y * cosine);
}
KERNEL dot(const T2* x, const T2* z, float* out, int n) {
    __shared__ float s[2];
    const int i = blockIdx.x * 64 + threadIdx.x;
    float sum = 0.0f;
    if (i < n) {
        const float2 product = numbers(__hmul2(x[i], z[i]));
        sum = product.x + product.y;
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(out, s[0] + s[1]);
}
KERNEL gemv(const T2* A, const T2* x, T* y, int n) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    float sum = 0.0f;
    for (int i = lane; i < n; i += 32) {
        const float2 a = numbers(A[row * n + i]), b = numbers(x[i]);
        sum += a.x * b.x + a.y * b.y;
    }
    sum = warp_sum(sum);
    if (lane == 0) y[row] = rounded(sum);
}
// Tiles of 16 by 16 in shared memory; a thread adds up two columns, in the type itself.
KERNEL gemm(const T* A, const T* B, T2* C, int n, int depth) {
    __shared__ T a[16][16];
    __shared__ T2 b[16][8];
    const int x = threadIdx.x, y = threadIdx.y, row = 16 * blockIdx.y + y;
    T2 sums = pair(0.0f, 0.0f);
    for (int k = 0; k < depth; k += 16) {
        a[y][x] = A[row * depth + k + x];
        a[y][x + 8] = A[row * depth + k + x + 8];
        b[y][x] = ((const T2*)B)[((k + y) * n + 16 * blockIdx.x) / 2 + x];
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 16; ++i) sums = __hfma2(twice(a[y][i]), b[i][x], sums);
        __syncthreads();
    }
    C[(row * n + 16 * blockIdx.x) / 2 + x] = sums;
}
// A warp for each 16 by 8 of C, by tensor cores.
KERNEL mma(const T* A, const T* B, float* C, int n, int depth) {
    __shared__ __align__(16) T a[16][16], b[16][8];
    const int lane = threadIdx.x, top = 16 * blockIdx.y, left = 8 * blockIdx.x;
    float c[4] = {};
    for (int k = 0; k < depth; k += 16) {
        for (int i = lane; i < 256; i += 32)
            a[i / 16][i % 16] = A[(top + i / 16) * depth + k + i % 16];
        for (int i = lane; i < 128; i += 32) b[i / 8][i % 8] = B[(k + i / 8) * n + left + i % 8];
        __syncwarp();
        unsigned x[4], y[2];
        const unsigned of_a = (unsigned)__cvta_generic_to_shared(&a[lane % 16][lane / 16 * 8]);
        const unsigned of_b = (unsigned)__cvta_generic_to_shared(&b[lane % 16][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(of_a) : "memory");
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(y[0]), "=r"(y[1]) : "r"(of_b) : "memory");
        asm volatile(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
        __syncwarp();
    }
    float* to = C + (top + lane / 4) * n + left + 2 * (lane % 4);
    to[0] = c[0], to[1] = c[1], to[8 * n] = c[2], to[8 * n + 1] = c[3];
}
"""

DP4A = """
extern "C" __global__ void k(const int* A, const int* x, int* y, int n) {
    int sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) sum = __dp4a(A[blockIdx.x * n + i], x[i], sum);
    for (int far = 16; far > 0; far /= 2) sum += __shfl_down_sync(~0u, sum, far);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}"""

SIXTEEN_BITS = {"half": (2.0**-11, ()), "bfloat16": (2.0**-8, ("-DBF16",))}  # half a last digit


def to_bits(x, name: str) -> np.ndarray:
    """Numbers in the 16-bit type: float16, or bfloat16 as uint16, rounded to nearest."""
    if name == "half":
        return x.astype(np.float16)
    bits = x.astype(f4).view(u4)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(u2)


def to_numbers(x) -> np.ndarray:
    """float64 of an array: of uint16 as bfloat16."""
    return ((x.astype(u4) << 16).view(f4) if x.dtype == u2 else x).astype(f8)


def of_sixteen_bits(name: str) -> dict[str, Sample]:
    digit, options = SIXTEEN_BITS[name]

    def given(seed, *shape):
        return to_bits(np.random.default_rng(seed).uniform(-2, 2, shape), name)

    def sample(entry, grid, block, args, expected, digits, absolute=0.0):
        """`expected`: float64 of the last array; `digits`: of T, that it may be off."""

        def wanted(args):
            arrays = [i for i, arg in enumerate(args) if isinstance(arg, np.ndarray)]
            exact = expected(*(to_numbers(args[i]) for i in arrays[:-1]))
            return {arrays[-1]: near(exact, 2 * digits * digit, absolute)}

        return Sample(SIXTEEN, grid, block, args, wanted, entry=entry, options=options)

    def softmax(x):
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def layer_norm(x):
        centred = x - x.mean(axis=1, keepdims=True)
        return 1.5 * centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-3) - 0.5

    def rope(x):
        angles = np.arange(8)[:, None] * 10000.0 ** (-np.arange(16) / 16)
        return ((x[..., 0] + 1j * x[..., 1]) * np.exp(1j * angles)).view(f8).reshape(x.shape)

    def empty(*shape, dtype=None):
        return np.zeros(shape, dtype or given(0, 1).dtype)

    scalar = [to_bits(np.array([v]), name)[0] for v in (1.5, -0.5)]
    return {
        "shared by all": sample(
            "scaled", (2, 1, 1), (64, 1, 1), lambda: [given(1, 100), empty(100), 100],
            lambda x: x * x[0] ** 2 + 2 * x[0], 1, digit),
        "gelu": sample(
            "gelu", (2, 1, 1), (64, 1, 1), lambda: [given(2, 100), empty(100), 100],
            lambda x: x / (1 + np.exp(-(1.59576912 * x + 0.07135481 * x**3))), 4, digit),
        "pairs": sample(
            "pairs", (2, 1, 1), (32, 1, 1), lambda: [given(3, 90), given(4, 90), empty(90), 45],
            lambda x, z: np.maximum(x * z + 0.5, 0), 1, digit),
        "packs": sample(
            "packs", (1, 1, 1), (32, 1, 1), lambda: [given(5, 200), given(6, 200), empty(200), 200],
            np.add, 1),
        "softmax": sample(
            "softmax", (2, 1, 1), (32, 3, 1), lambda: [given(7, 6, 70), empty(6, 70), 70],
            softmax, 1, 1e-5),
        "online softmax": sample(
            "online", (3, 1, 1), (64, 1, 1), lambda: [given(8, 3, 150),
                                                      empty(3, 150, dtype=f4), 150],
            softmax, 0, 1e-7),
        "layer norm": sample(
            "layer_norm", (4, 1, 1), (64, 1, 1), lambda: [given(9, 4, 64), empty(4, 64), *scalar],
            layer_norm, 4, 8 * digit),
        "rms norm": sample(
            "rms_norm", (3, 1, 1), (32, 1, 1), lambda: [given(10, 3, 100), empty(3, 100), 50],
            lambda x: x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5), 1, 1e-5),
        "rope": sample(
            "rope", (8, 1, 1), (16, 1, 1), lambda: [given(11, 8, 16, 2), empty(8, 16, 2), 16],
            rope, 1, 1e-5),
        "dot product": sample(
            "dot", (2, 1, 1), (64, 1, 1), lambda: [given(12, 220), given(13, 220),
                                                   empty(1, dtype=f4), 110],
            lambda x, z: [(x * z).sum()], 0, 16 * digit),
        "matrix by vector": sample(
            "gemv", (3, 1, 1), (32, 2, 1), lambda: [given(14, 6, 160), given(15, 160),
                                                    empty(6), 80],
            lambda A, x: A @ x, 1, 1e-5),
        "product": sample(
            "gemm", (2, 2, 1), (8, 16, 1), lambda: [given(16, 32, 48), given(17, 48, 32),
                                                    empty(32, 32), 32, 48],
            np.matmul, 1, 200 * digit),
        "product on tensor cores": sample(
            "mma", (3, 2, 1), (32, 1, 1), lambda: [given(18, 32, 48), given(19, 48, 24),
                                                   empty(32, 24, dtype=f4), 24, 48],
            np.matmul, 0, 1e-5),
    }  # fmt: skip


def _zeros(*shape, dtype=f4):
    return np.zeros(shape, dtype)


PUBLIC = {
    "needle": Sample(NEEDLE, (1, 1, 1), (16, 1, 1),
                     lambda: [integers(1, 17, 17, dtype=i4), edges(), 17, 10], aligned),
    "hotspot": Sample(
        HOTSPOT, (3, 2, 1), (16, 16, 1),
        lambda: [integers(2, 21, 30) / f4(9), integers(3, 21, 30) / f4(5), _zeros(21, 30),
                 21, 30, 2, 0.125], heated),
    "pathfinder": Sample(
        PATHFINDER, (3, 1, 1), (64, 1, 1),
        lambda: [integers(4, 5, 150, dtype=i4), integers(5, 150, dtype=i4), _zeros(150, dtype=i4),
                 150, 5], shortest),
    "lud": Sample(LUD, (2, 1, 1), (16, 1, 1),
                  lambda: [integers(6, 2, 16, 16) + 40 * np.eye(16, dtype=f4)], factored),
    "sums of squares": Sample(SUMS, (3, 1, 1), (64, 1, 1),
                              lambda: [integers(7, 150), _zeros(3), _zeros(3), 150], summed),
    "bfs": Sample(BFS, (2, 1, 1), (64, 1, 1), graph, reached),
    "scan": Sample(
        SCAN, (3, 1, 1), (64, 1, 1),
        lambda: [integers(8, 3, 256, least=0, dtype=u4), _zeros(3, 256, dtype=u4)],
        lambda args: {1: scanned(args[0])}),
    "scan by a tree": Sample(
        TREE, (3, 1, 1), (64, 1, 1),
        lambda: [integers(9, 3, 128, dtype=i4), _zeros(3, 128, dtype=i4), _zeros(3, dtype=i4)],
        lambda args: {1: scanned(args[0]) - args[0], 2: args[0].sum(axis=1, dtype=i4)}),
    "histogram": Sample(
        HISTOGRAM, (2, 1, 1), (96, 1, 1),
        lambda: [integers(10, 500, least=0, most=2**32 - 1, dtype=u4), _zeros(256, dtype=u4), 500],
        lambda args: {1: np.bincount(args[0].view(np.uint8), minlength=256).astype(u4)}),
    "transpose": Sample(DIAGONAL, (2, 2, 1), (16, 4, 1),
                        lambda: [integers(11, 32, 32), _zeros(32, 32), 32, 32],
                        lambda args: {1: args[0].T.copy()}),
    "last block": Sample(
        LAST_BLOCK, (5, 1, 1), (96, 1, 1),
        lambda: [integers(12, 1000, dtype=i4), _zeros(5, dtype=i4), _zeros(1, dtype=u4),
                 _zeros(1, dtype=i4), 1000],
        lambda args: {2: args[2], 3: args[0].sum(keepdims=True, dtype=i4)}),
    "shuffles": Sample(
        SHUFFLES, (2, 1, 1), (64, 1, 1),
        lambda: [integers(13, 128, dtype=i4), *(_zeros(128, dtype=i4) for _ in range(3))], voted),
    "sort": Sample(
        BITONIC, (2, 1, 1), (64, 1, 1),
        lambda: [np.random.default_rng(14).permutation(256).astype(u4).reshape(2, 128),
                 np.arange(256, dtype=u4).reshape(2, 128)], sorted_),
    "convolution": Sample(CONVOLUTION, (2, 2, 1), (32, 4, 1),
                          lambda: [integers(15, 8, 50), _zeros(8, 50), 50], convolved),
    "Walsh transform": Sample(WALSH, (2, 1, 1), (64, 1, 1), lambda: [integers(16, 2, 256)], walsh),
    "atomics": Sample(
        ATOMICS, (2, 1, 1), (64, 1, 1),
        lambda: [integers(17, 100, most=90), np.full(1, -100, f4), np.array([-99, 99, 0], i4), 100],
        extremes),
    "eight bits": Sample(
        DP4A, (3, 1, 1), (32, 1, 1),
        lambda: [integers(18, 3, 50, least=-2**31, most=2**31 - 1, dtype=i4),
                 integers(19, 50, least=-2**31, most=2**31 - 1, dtype=i4), _zeros(3, dtype=i4), 50],
        lambda args: {2: args[0].view(np.int8).astype(i4) @ args[1].view(np.int8).astype(i4)}),
    **{f"{what}, {name}": sample for name in SIXTEEN_BITS
       for what, sample in of_sixteen_bits(name).items()},
}  # fmt: skip
