"""Mistakes planted in correct kernels, and who finds each: the simulator's checks or verification.

A mistake is one change of text in a kernel of corpus.py or of OWN below, with the headers that it
includes, or of its launch. The kernels without it are run the same way, so that a finding is due to
the mistake alone. A rung that no longer holds the text of a mistake is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import corpus
import numpy as np
from cluster_mistakes import MISTAKES_IN_CLUSTERS, InCluster
from planting import BOTH, CHECKS, VERIFICATION, Mistake
from sample_kernels import Sample, matches

import ptxsim
from gemmlab.kernel.operands import random_matrix

f4 = np.float32

# (m, n, k, alpha, beta): C wider than high, with tails, and C to be read, higher than wide.
SHAPES = ((20, 35, 37, 1.0, 0.0), (40, 18, 24, 0.5, 2.0))
# For blocks of 64×64: float4 in the first, rows of no multiple of 4 in the second.
WIDE_SHAPES = ((68, 132, 20, 1.0, 0.0), (130, 67, 17, 0.5, 2.0))
# For wgmma.cu: three steps of k and more.
THREE_TILES = ((66, 70, 200, 1.0, 0.0), (40, 64, 264, 0.5, 2.0))
SIZES = (100, 33)


@dataclass(frozen=True)
class Trial:
    """One run: how it was launched, and what came of it."""

    findings: list[ptxsim.Finding]
    right: bool


# --- small kernels --------------------------------------------------------------------------------

# The tiles in flat arrays, with a padding that every index must agree on.
FLAT = """
#define TILE 16
#define WIDTH (TILE + 1)
extern __shared__ float tiles[];
extern "C" __global__ void k(const float* A, const float* B, float* C, int n) {
    float* a = tiles;
    float* b = tiles + TILE * WIDTH;
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int start = 0; start < n; start += TILE) {
        a[y * WIDTH + x] = A[row * n + start + x];
        b[y * WIDTH + x] = B[(start + y) * n + col];
        __syncthreads();
        for (int i = 0; i < TILE; ++i)
            sum += a[y * WIDTH + i] * b[i * WIDTH + x];
        __syncthreads();
    }
    C[row * n + col] = sum;
}"""

# A few blocks walk over all tiles of C.
PERSISTENT = """
#define TILE 8
extern "C" __global__ void k(const float* A, const float* B, float* C, int n) {
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y, across = n / TILE;
    float sum = 0.0f;
    for (int tile = blockIdx.x; tile < across * across; tile += gridDim.x) {
        const int row = tile / across * TILE + y, col = tile % across * TILE + x;
        sum = 0.0f;
        for (int start = 0; start < n; start += TILE) {
            a[y][x] = A[row * n + start + x];
            b[y][x] = B[(start + y) * n + col];
            __syncthreads();
            for (int i = 0; i < TILE; ++i)
                sum += a[y][i] * b[i][x];
            __syncthreads();
        }
        C[row * n + col] = sum;
    }
}"""

# The sum over k is split among four threads, which add to one element of shared memory in turn.
SPLIT = """
#define PARTS 4
extern "C" __global__ void k(const float* A, const float* B, float* C, int n) {
    __shared__ float sums[32];
    const int x = threadIdx.x, part = threadIdx.y, col = blockIdx.x * 32 + x, row = blockIdx.y;
    if (part == 0) sums[x] = 0.0f;
    float sum = 0.0f;
    for (int i = part; i < n; i += PARTS)
        sum += A[row * n + i] * B[i * n + col];
    for (int turn = 0; turn < PARTS; ++turn) {
        __syncthreads();
        if (part == turn) sums[x] += sum;
    }
    __syncthreads();
    if (part == 0) C[row * n + col] = sums[x];
}"""

# Each warp turns a piece of 32×4 round in shared memory of its own, twice.
WARP_PRIVATE = """
extern "C" __global__ void k(const float* x, float* out, int rounds) {
    __shared__ float mine[4][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float value = x[blockIdx.x * 128 + threadIdx.x];
    for (int round = 0; round < rounds; ++round) {
        mine[warp][lane] = value;
        __syncwarp();
        value = 2.0f * mine[warp][(lane + 5) % 32];
        __syncwarp();
    }
    out[blockIdx.x * 128 + threadIdx.x] = value;
}"""

# Warp 0 brings pieces, warps 1 and 2 use them; two named barriers hand them over.
HAND_OVER = """
extern "C" __global__ void k(const float* x, float* out, int pieces) {
    __shared__ float piece[64];
    const int t = threadIdx.x;
    float sum = 0.0f;
    for (int i = 0; i < pieces; ++i) {
        if (t < 32) {
            piece[t] = x[i * 64 + t];
            piece[t + 32] = x[i * 64 + t + 32];
            asm volatile("bar.arrive 1, 96;" ::: "memory");
            asm volatile("bar.sync 2, 96;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 96;" ::: "memory");
            sum += piece[95 - t];
            asm volatile("bar.arrive 2, 96;" ::: "memory");
        }
    }
    if (t >= 32) out[t - 32] = sum;
}"""

# The positions of the positive elements, in any order: a counter gives out places.
COMPACT = """
extern "C" __global__ void k(const float* x, int* places, int n) {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 64)
        if (x[i] > 0.0f) atomicAdd(&count, 1);
    __syncthreads();
    if (threadIdx.x == 0) places[0] = count;
}"""

# A window slides over a row; the last values stand in an array of the thread, indexed at run time.
WINDOW = """
#define WIDTH 5
extern "C" __global__ void k(const float* x, float* out, int cols) {
    const float* row = x + threadIdx.x * cols;
    float last[WIDTH];
    for (int i = 0; i < WIDTH; ++i) last[i] = 0.0f;
    int oldest = 0;
    for (int col = 0; col < cols; ++col) {
        last[oldest] = row[col];
        if (++oldest == WIDTH) oldest = 0;
    }
    out[threadIdx.x] = last[oldest];
}"""

# The last elements of some rows of a matrix with over 2**31 elements, of which these rows are here.
ROW_ENDS = """
extern "C" __global__ void k(const float* x, float* out, int first_row, int cols) {
    const float* whole = x - (size_t)first_row * cols;
    const int row = first_row + threadIdx.x;
    out[threadIdx.x] = whole[(size_t)row * cols + cols - 1];
}"""

# A row's largest magnitude scales the row.
SCALED = """
extern "C" __global__ void k(const float* x, float* out, int cols) {
    __shared__ float largest;
    __shared__ float of_thread[64];
    const float* row = x + blockIdx.x * cols;
    float mine = 0.0f;
    for (int col = threadIdx.x; col < cols; col += 64)
        mine = fmaxf(mine, fabsf(row[col]));
    of_thread[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        float found = 0.0f;
        for (int i = 0; i < 64; ++i) found = fmaxf(found, of_thread[i]);
        largest = found;
    }
    __syncthreads();
    for (int col = threadIdx.x; col < cols; col += 64)
        out[blockIdx.x * cols + col] = row[col] / largest;
}"""

# Pieces come by cp.async into three stages; a thread copies one element and reads another's.
PIPELINE = """
#define STAGES 3
#define PIECE 128
__device__ void copy(float* to, const float* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> __device__ void wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
}
extern "C" __global__ void k(const float* x, float* out, int pieces) {
    __shared__ float stage[STAGES][PIECE];
    const int t = threadIdx.x;
    for (int i = 0; i < STAGES - 1; ++i) {
        if (i < pieces) copy(&stage[i][t], x + i * PIECE + t);
        commit();
    }
    float sum = 0.0f;
    for (int i = 0; i < pieces; ++i) {
        wait<STAGES - 2>();
        __syncthreads();
        const int next = i + STAGES - 1;
        if (next < pieces) copy(&stage[next % STAGES][t], x + next * PIECE + t);
        commit();
        sum += (i + 1) * stage[i % STAGES][PIECE - 1 - t];
    }
    out[t] = sum;
}"""

# One thread brings pieces by bulk copies, 128 use them; mbarriers say "full" and "empty".
BULK = """
#define STAGES 2
#define PIECE 128
#define BYTES (4 * PIECE)
typedef unsigned long long mbarrier;
__device__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(mbarrier* b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(place(b)), "r"(count) : "memory");
}
__device__ void arrive(mbarrier* b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(place(b)) : "memory");
}
__device__ void arrive_and_expect(mbarrier* b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(place(b)), "r"(bytes) : "memory");
}
__device__ void wait(mbarrier* b, int parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(place(b)), "r"(parity) : "memory");
}
__device__ void copy(float* to, const float* from, int bytes, mbarrier* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];"
                 :: "r"(place(to)), "l"(from), "r"(bytes), "r"(place(b)) : "memory");
}
extern "C" __global__ void k(const float* x, float* out, int pieces) {
    __shared__ __align__(128) float stage[STAGES][PIECE];
    __shared__ mbarrier full[STAGES], empty[STAGES];
    const int t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 1);
            init(&empty[s], PIECE);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (t == PIECE) {
        for (int i = 0; i < pieces; ++i) {
            const int s = i % STAGES, round = i / STAGES;
            if (round > 0) wait(&empty[s], (round - 1) & 1);
            arrive_and_expect(&full[s], BYTES);
            copy(stage[s], x + i * PIECE, BYTES, &full[s]);
        }
    } else if (t < PIECE) {
        float sum = 0.0f;
        for (int i = 0; i < pieces; ++i) {
            const int s = i % STAGES, round = i / STAGES;
            wait(&full[s], round & 1);
            sum += (i + 1) * stage[s][PIECE - 1 - t];
            arrive(&empty[s]);
        }
        out[t] = sum;
    }
}"""


def _square_product(source: str, grid, block, n: int = 32, shared_bytes: int = 0) -> Sample:
    A, B = random_matrix(n, n, 31), random_matrix(n, n, 32)
    given = corpus.Inputs(A, B, np.full((n, n), np.nan, f4), 1.0, 0.0)
    return Sample(
        source, grid, block, lambda: [A.copy(), B.copy(), given.C.copy(), n],
        lambda args: {2: (given.reference(), given.bound())}, shared_bytes,
    )  # fmt: skip


def _warp_private() -> Sample:
    x = np.arange(256, dtype=f4)

    def expected(args):
        lanes = (np.arange(32) + 15) % 32
        return {1: 8 * x.reshape(8, 32)[:, lanes].reshape(-1)}

    return Sample(WARP_PRIVATE, (2, 1, 1), (128, 1, 1),
                  lambda: [x.copy(), np.zeros(256, f4), 3], expected)  # fmt: skip


def _hand_over() -> Sample:
    x = np.random.default_rng(33).integers(-9, 9, (5, 64)).astype(f4)
    return Sample(HAND_OVER, (1, 1, 1), (96, 1, 1), lambda: [x.copy(), np.zeros(64, f4), 5],
                  lambda args: {1: x.sum(axis=0)[::-1].copy()})  # fmt: skip


def _compact() -> Sample:
    x = random_matrix(1, 200, 34)[0]
    return Sample(COMPACT, (1, 1, 1), (64, 1, 1), lambda: [x.copy(), np.zeros(1, np.int32), 200],
                  lambda args: {1: np.array([(x > 0).sum()], np.int32)})  # fmt: skip


def _window() -> Sample:
    x = random_matrix(32, 12, 35)
    return Sample(WINDOW, (1, 1, 1), (32, 1, 1), lambda: [x.copy(), np.zeros(32, f4), 12],
                  lambda args: {1: x[:, -5].copy()})  # fmt: skip


def _row_ends() -> Sample:
    x = random_matrix(3, 1000, 37)
    return Sample(ROW_ENDS, (1, 1, 1), (3, 1, 1),
                  lambda: [x.copy(), np.zeros(3, f4), 2_200_000, 1000],
                  lambda args: {1: x[:, -1].copy()})  # fmt: skip


def _scaled() -> Sample:
    x = random_matrix(3, 150, 36)
    wanted = x.astype(np.float64) / np.abs(x).max(axis=1, keepdims=True)
    return Sample(SCALED, (3, 1, 1), (64, 1, 1), lambda: [x.copy(), np.zeros((3, 150), f4), 150],
                  lambda args: {1: (wanted, 2.0**-22)})  # fmt: skip


def _pieces(source: str, threads: int) -> Sample:
    """The sum of pieces of 128, each times its number and turned round."""
    pieces = 7
    x = np.random.default_rng(38).integers(-9, 9, (pieces, 128)).astype(f4)
    wanted = (np.arange(1, pieces + 1)[:, None] * x).sum(axis=0)[::-1].astype(f4)

    def args():
        return [x.copy(), np.zeros(128, f4), pieces]

    return Sample(source, (1, 1, 1), (threads, 1, 1), args, lambda args: {1: wanted})


OWN = {
    "flat tiles": _square_product(FLAT, (2, 2, 1), (16, 16, 1), shared_bytes=4 * 2 * 16 * 17),
    "persistent": _square_product(PERSISTENT, (3, 1, 1), (8, 8, 1)),
    "split": _square_product(SPLIT, (1, 32, 1), (32, 4, 1)),
    "warp-private": _warp_private(),
    "hand-over": _hand_over(),
    "compact": _compact(),
    "window": _window(),
    "row ends": _row_ends(),
    "scaled": _scaled(),
    "pipeline": _pieces(PIPELINE, 128),
    "bulk copies": _pieces(BULK, 160),
}


# --- mistakes in products -------------------------------------------------------------------------

TILED = "03_shared_memory TILE=16 BK=16 PAD=0"
COLUMN = "04_thread_tile_1d BM=32 BN=32 BK=16 TM=4"
RECTANGLE = "05_thread_tile_2d BM=64 BN=64 BK=8 TM=4 TN=4"
FOURS = "06_vectorized_loads BM=64 BN=64 BK=8 TM=8 TN=8"
SWIZZLED = "07_bank_conflicts BM=64 BN=64 BK=8 PAD=0 SWIZZLE=1 SPLIT=1"
WARPS = "08_warp_tiling BM=64 BN=64 BK=8 WM=32 WN=32 MIN_BLOCKS=1"
DOUBLE = "09_double_buffering BM=64 BN=64 BK=8 WM=32 WN=32 STAGES=1"
TENSOR = "mma_sync swizzled"

WHOLE_TILES = "        __syncthreads();                         // both pieces are whole\n"
READ_TILES = "        __syncthreads();                         // nobody reads them any more\n"
RETURN = "    if (row >= M || col >= N) return;\n"

MISTAKES = [
    # Barriers.
    Mistake(
        "first barrier removed",
        TILED,
        "tiles are read before they are whole",
        WHOLE_TILES,
        "",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "second barrier removed",
        TILED,
        "tiles are overwritten while others read them",
        READ_TILES,
        "",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "barrier in a branch",
        TILED,
        "only threads inside C reach the barrier",
        WHOLE_TILES,
        "        if (row < M) __syncthreads();\n",
        CHECKS,
        ("barrier",),
    ),
    Mistake(
        "barriers on both sides of a branch",
        TILED,
        "threads of one block meet at two different barriers",
        READ_TILES,
        "        if (x < 4) { sum += 0.0f * a[0][0]; __syncthreads(); } else __syncthreads();\n",
        CHECKS,
        ("divergent barrier",),
    ),
    Mistake(
        "return before a barrier",
        TILED,
        "threads outside C leave before they have loaded",
        "    float sum = 0.0f;\n",
        RETURN + "    float sum = 0.0f;\n",
        BOTH,
        ("uninitialised",),
    ),
    Mistake(
        "trips that differ",
        TILED,
        "each thread makes its own number of trips round the barriers",
        "tile_k < K; tile_k += BK",
        "tile_k < K + (y == 0 ? BK : 0); tile_k += BK",
        CHECKS,
        ("barrier",),
    ),
    # Indices.
    Mistake(
        "block indices swapped",
        TILED,
        "blockIdx.x counts rows, the grid counts columns with it",
        """    const int row = blockIdx.y * TILE + y;
    const int col = blockIdx.x * TILE + x;
    const bool whole = (blockIdx.y + 1) * TILE <= M && (blockIdx.x + 1) * TILE <= N;
""",
        """    const int row = blockIdx.x * TILE + y;
    const int col = blockIdx.y * TILE + x;
    const bool whole = (blockIdx.x + 1) * TILE <= M && (blockIdx.y + 1) * TILE <= N;
""",
        VERIFICATION,
    ),
    Mistake(
        "stride of C is M",
        TILED,
        "ldc = M: right for a square C only",
        "here = (size_t)row * N",
        "here = (size_t)row * M",
        BOTH,
        ("out-of-bounds write",),
    ),
    Mistake(
        "stride of B is K",
        TILED,
        "ldb = K: right for a square B only",
        "B + (size_t)y * N + col",
        "B + (size_t)y * K + col",
        BOTH,
        ("out-of-bounds read",),
    ),
    Mistake(
        "row one too far",
        TILED,
        "`row <= M` reads a row below A",
        "a[y][x + i] = row < M",
        "a[y][x + i] = row <= M",
        CHECKS,
        ("out-of-bounds read",),
    ),
    Mistake(
        "column one too far",
        TILED,
        "`col <= N` reads past the last row of B",
        "&& col < N",
        "&& col <= N",
        CHECKS,
        ("out-of-bounds read",),
    ),
    Mistake(
        "k one too far",
        TILED,
        "`<= K` reads past the last row of A",
        "tile_k + x + i < K",
        "tile_k + x + i <= K",
        BOTH,
        ("out-of-bounds read",),
    ),
    Mistake(
        "no bound on k",
        TILED,
        "past K, A's next row is multiplied with B's missing ones",
        """row < M && tile_k + x + i < K ? a_from[i] : 0.0f;
                b[y + i][x] = tile_k + y + i < K && col < N""",
        """row < M ? a_from[i] : 0.0f;
                b[y + i][x] = col < N""",
        BOTH,
        ("out-of-bounds read",),
    ),
    Mistake(
        "no bound on the store",
        TILED,
        "threads right of C write into its next row",
        RETURN,
        "",
        CHECKS,
        ("out-of-bounds write",),
    ),
    Mistake(
        "no bound on the store's columns",
        TILED,
        "threads right of C write into its next row",
        "row >= M || col >= N",
        "row >= M",
        CHECKS,
        ("out-of-bounds write",),
    ),
    Mistake(
        "store one row too far",
        TILED,
        "`row > M` lets a row below C be written",
        "row >= M ||",
        "row > M ||",
        CHECKS,
        ("out-of-bounds write",),
    ),
    Mistake(
        "no zeros at the edge",
        TILED,
        "outside A the tile keeps what it had",
        "a[y][x + i] = row < M && tile_k + x + i < K ? a_from[i] : 0.0f;",
        "if (row < M && tile_k + x + i < K) a[y][x + i] = a_from[i];",
        CHECKS,
        ("uninitialised read",),
    ),
    Mistake(
        "tile read the other way",
        TILED,
        "written as b[k][x], read as b[x][k]",
        "a[y][k] * b[k][x]",
        "a[y][k] * b[x][k]",
        VERIFICATION,
    ),
    Mistake(
        "a tile too small",
        TILED,
        "the last row of a tile does not exist",
        "float a[TILE][BK + PAD];\n    __shared__ float b[BK][TILE + PAD];",
        "float a[TILE - 1][BK + PAD];\n    __shared__ float b[BK - 1][TILE + PAD];",
        BOTH,
        ("out-of-bounds",),
    ),
    # The epilogue.
    Mistake(
        "C read where beta is 0",
        TILED,
        "0 * NaN is NaN",
        "beta == 0.0f ? alpha * sum : alpha * sum + beta",
        "alpha * sum + beta",
        BOTH,
        ("uninitialised read",),
    ),
    Mistake(
        "alpha forgotten",
        TILED,
        "right where alpha is 1",
        ": alpha * sum + beta",
        ": sum + beta",
        VERIFICATION,
    ),
    Mistake(
        "beta forgotten",
        TILED,
        "right where beta is 0 or 1",
        "+ beta * C[here]",
        "+ C[here]",
        VERIFICATION,
    ),
    Mistake(
        "alpha twice",
        TILED,
        "alpha * (sum + beta * C)",
        "alpha * sum + beta * C[here]",
        "alpha * (sum + beta * C[here])",
        VERIFICATION,
    ),
    # The launch, the loop.
    Mistake(
        "grid one block short",
        TILED,
        "N / TILE instead of ceil(N / TILE)",
        "",
        "",
        VERIFICATION,
        change={"grid": "floor"},
    ),
    Mistake(
        "half the threads",
        TILED,
        "block (TILE, TILE / 2): half of each tile is loaded",
        "",
        "",
        BOTH,
        ("uninitialised read",),
        change={"block": (16, 8, 1)},
    ),
    Mistake(
        "K loop one tile short",
        TILED,
        "the last, partial tile of K is left out",
        "tile_k < K; tile_k",
        "tile_k + BK <= K; tile_k",
        VERIFICATION,
    ),
    Mistake(
        "integer sum",
        TILED,
        "the sum is kept as an integer",
        "float sum = 0.0f;",
        "int sum = 0;",
        VERIFICATION,
    ),
    # Tiles of a thread.
    Mistake(
        "half a tile loaded",
        COLUMN,
        "one element per thread, the tile has two",
        "first < ROWS * COLUMNS;",
        "first < BLOCK_THREADS;",
        BOTH,
        ("uninitialised read",),
    ),
    Mistake(
        "threads overlap",
        COLUMN,
        "a thread's first row is not multiplied by TM",
        "thread / BN * TM;",
        "thread / BN;",
        VERIFICATION,
    ),
    Mistake(
        "bound of the wrong side",
        COLUMN,
        "rows are held against N",
        "load_tile<false, THREADS>(a, A, top, tile_k, M, K)",
        "load_tile<false, THREADS>(a, A, top, tile_k, N, K)",
        BOTH,
        ("out-of-bounds read",),
    ),
    Mistake(
        "k and column swapped",
        RECTANGLE,
        "b[x][k] of a tile b[k][x]",
        "b_row[j] = b[k][x + j];",
        "b_row[j] = b[x + j][k];",
        BOTH,
        ("out-of-bounds read",),
    ),
    Mistake(
        "no bound on B's rows",
        RECTANGLE,
        "rows below B are read, and multiplied by zeros",
        "load_tile<false, THREADS>(b, B, tile_k, left, K, N)",
        "load_tile<false, THREADS>(b, B, tile_k, left, K + BK, N)",
        BOTH,
        ("out-of-bounds read",),
    ),
    Mistake(
        "corner of the block swapped",
        RECTANGLE,
        "top from blockIdx.x",
        "top = blockIdx.y * BM, left = blockIdx.x * BN",
        "top = blockIdx.x * BM, left = blockIdx.y * BN",
        VERIFICATION,
    ),
    Mistake(
        "row and column of the thread tile swapped",
        RECTANGLE,
        "sums[j][i]: the piece is transposed",
        "alpha * sums[i][j] : alpha * sums[i][j] + beta",
        "alpha * sums[j][i] : alpha * sums[j][i] + beta",
        VERIFICATION,
    ),
    # Vectors.
    Mistake(
        "float4 from rows that are not aligned",
        FOURS,
        "N is not held against 4",
        "&& N % 4 == 0 && K % 4 == 0",
        "&& K % 4 == 0",
        BOTH,
        ("misaligned read",),
        shapes=((68, 67, 20, 1.0, 0.0),),
    ),
    Mistake(
        "alignment of the wrong matrix",
        FOURS,
        "the rows of A are K long, not M",
        "&& N % 4 == 0 && K % 4 == 0",
        "&& N % 4 == 0 && M % 4 == 0",
        BOTH,
        ("misaligned read",),
        shapes=((68, 132, 17, 1.0, 0.0),),
    ),
    Mistake(
        "float4 at an odd padding",
        WARPS,
        "rows of 65 floats do not begin at 16 bytes",
        "#define PAD 4 ",
        "#define PAD 1 ",
        BOTH,
        ("misaligned read",),
    ),
    Mistake(
        "rows below A",
        FOURS,
        "rows past M are loaded",
        "(A, top + row, tile_k + k, M, K)",
        "(A, top + row, tile_k + k, M + BM, K)",
        CHECKS,
        ("out-of-bounds read",),
    ),
    Mistake(
        "last vector past the row",
        FOURS,
        "the tail writes on where the row has ended",
        "row < M && col + v < N",
        "row < M && col < N",
        BOTH,
        ("out-of-bounds write",),
    ),
    Mistake(
        "a component twice",
        FOURS,
        "the third element of four is staged as the second",
        "a[k + 1][row] = four.y",
        "a[k + 1][row] = four.z",
        VERIFICATION,
    ),
    Mistake(
        "half the vectors",
        FOURS,
        "half of A's tile is never loaded",
        "first < BM * BK / 4;",
        "first < BM * BK / 8;",
        BOTH,
        ("uninitialised read",),
    ),
    Mistake(
        "swizzle on one side",
        SWIZZLED,
        "stored at the swizzled place, read at the plain one",
        "a[k][PLACE(k, y + i)]",
        "a[k][y + i]",
        VERIFICATION,
    ),
    Mistake(
        "swizzle that splits vectors",
        SWIZZLED,
        "an XOR with 1 tears groups of four apart",
        "(k) / 4 * (128 / BK)",
        "(k) / 4",
        BOTH,
        ("misaligned read",),
    ),
    Mistake(
        "halves mixed up",
        SWIZZLED,
        "the right half is stored beside the left one",
        "left + MY_COLUMNS(slot, group)",
        "left + slot * 4 + group * 4",
        VERIFICATION,
    ),
    # Warps.
    Mistake(
        "lanes in the wrong place",
        WARPS,
        "lane / 8 makes eight rows of lanes, not four",
        "lane / 16 * 2",
        "lane / 8 * 2",
        BOTH,
        ("uninitialised read",),
    ),
    Mistake(
        "warps on the diagonal",
        WARPS,
        "row and column of a warp from the same remainder",
        "warp / (BN / WN) * WM",
        "warp % (BN / WN) * WM",
        VERIFICATION,
    ),
    Mistake(
        "piece at the wrong distance",
        WARPS,
        "pieces of a thread are 16 rows apart, not 4",
        "a[k][y + 16 * p]",
        "a[k][y + 4 * p]",
        VERIFICATION,
    ),
    # Two buffers.
    Mistake(
        "buffer not flipped",
        DOUBLE,
        "the next tile goes where this one is being read",
        "        now ^= 1;\n",
        "",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "no barrier between buffers",
        DOUBLE,
        "tiles are read before they are whole",
        "b_next);\n        __syncthreads();\n",
        "b_next);\n",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "no barrier before the loop",
        DOUBLE,
        "the first tile is read before it is whole",
        "b_next);\n    __syncthreads();\n",
        "b_next);\n",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "always the first buffer",
        DOUBLE,
        "A is read from buffer 0 in every step",
        "a[now], b[now], y, x);\n\n",
        "a[0], b[now], y, x);\n\n",
        BOTH,
        ("race",),
    ),
    Mistake(
        "the same tile again",
        DOUBLE,
        "the next tile is fetched from where this one came",
        "fetch(a_next, b_next, in, tile_k + BK)",
        "fetch(a_next, b_next, in, tile_k)",
        VERIFICATION,
    ),
    Mistake(
        "last tile not fetched",
        DOUBLE,
        "`more` looks two tiles ahead",
        "more = tile_k + BK < K",
        "more = tile_k + 2 * BK < K",
        VERIFICATION,
    ),
    # Small kernels of other kinds.
    Mistake(
        "padding on one side",
        "flat tiles",
        "written with a padding, read without",
        "sum += a[y * WIDTH + i]",
        "sum += a[y * TILE + i]",
        BOTH,
        ("uninitialised read",),
    ),
    Mistake(
        "too little dynamic shared memory",
        "flat tiles",
        "the padding was forgotten in the launch",
        "",
        "",
        BOTH,
        ("out-of-bounds",),
        change={"shared_bytes": 4 * 2 * 16 * 16},
    ),
    Mistake(
        "sum not reset",
        "persistent",
        "the next tile goes on with the last one's sum",
        "        sum = 0.0f;\n",
        "",
        VERIFICATION,
    ),
    Mistake(
        "no barrier between tiles",
        "persistent",
        "the next tile is loaded while this one is read",
        "            __syncthreads();\n        }\n",
        "        }\n",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "accumulator not cleared",
        "split",
        "sums in shared memory start from anything",
        "    if (part == 0) sums[x] = 0.0f;\n",
        "",
        BOTH,
        ("uninitialised read",),
    ),
    Mistake(
        "turns without a barrier",
        "split",
        "four threads add to one element at once",
        "        __syncthreads();\n        if (part == turn)",
        "        if (part == turn)",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "no __syncwarp after the write",
        "warp-private",
        "lanes read before others have written",
        "        mine[warp][lane] = value;\n        __syncwarp();\n",
        "        mine[warp][lane] = value;\n",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "no __syncwarp after the read",
        "warp-private",
        "lanes write while others read",
        "        __syncwarp();\n    }\n",
        "    }\n",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "__syncwarp without some lanes",
        "warp-private",
        "the mask names half of the warp",
        "        mine[warp][lane] = value;\n        __syncwarp();\n",
        "        mine[warp][lane] = value;\n        __syncwarp(0xffff);\n",
        CHECKS,
        ("divergent warp", "race"),
    ),
    Mistake(
        "named barrier waits for too many",
        "hand-over",
        "a count of 128 with 96 threads",
        "bar.sync 1, 96",
        "bar.sync 1, 128",
        BOTH,
        ("deadlock", "barrier count"),
    ),
    Mistake(
        "named barrier waits for too few",
        "hand-over",
        "a count of 64 lets the readers go early",
        "bar.sync 1, 96",
        "bar.sync 1, 64",
        CHECKS,
        ("race", "barrier count"),
    ),
    Mistake(
        "wrong named barrier",
        "hand-over",
        "the readers announce the end at the first barrier",
        "bar.arrive 2, 96",
        "bar.arrive 1, 96",
        BOTH,
        ("deadlock",),
    ),
    Mistake(
        "plain add to a counter",
        "compact",
        "two threads read the same count",
        "atomicAdd(&count, 1)",
        "count += 1",
        BOTH,
        ("race",),
    ),
    Mistake(
        "counter not ready",
        "compact",
        "threads count before the counter is cleared",
        "    if (threadIdx.x == 0) count = 0;\n    __syncthreads();\n",
        "    if (threadIdx.x == 0) count = 0;\n",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "local array overrun",
        "window",
        "the ring of 5 wraps after 6",
        "if (++oldest == WIDTH)",
        "if (++oldest > WIDTH)",
        BOTH,
        ("out-of-bounds",),
    ),
    Mistake(
        "index in 32 bits",
        "row ends",
        "row * cols passes 2**31",
        "(size_t)row * cols",
        "row * cols",
        BOTH,
        ("out-of-bounds read",),
    ),
    Mistake(
        "result used too early",
        "scaled",
        "the row's largest is read while thread 0 looks for it",
        "        largest = found;\n    }\n    __syncthreads();\n",
        "        largest = found;\n    }\n",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "no atomics",
        "histogram",
        "lanes that meet in a bin count once",
        "atomicAdd(&mine[x[i]], 1u);",
        "mine[x[i]] += 1;",
        BOTH,
        ("race",),
    ),
    Mistake(
        "no atomics between blocks",
        "histogram",
        "blocks overwrite each other's counts",
        "atomicAdd(&bins[bin], mine[bin]);",
        "bins[bin] += mine[bin];",
        VERIFICATION,
        shapes=(1000,),
    ),
    Mistake(
        "bins not cleared",
        "histogram",
        "shared memory starts with anything",
        "        mine[bin] = 0;\n    __syncthreads();",
        "        ;\n    __syncthreads();",
        CHECKS,
        ("uninitialised read",),
    ),
    Mistake(
        "counts added too early",
        "histogram",
        "no barrier before the counts are taken",
        "1u);\n    __syncthreads();\n",
        "1u);\n",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "no barrier in a transpose",
        "transpose",
        "the tile is read before it is whole",
        "    __syncthreads();\n",
        "",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "bounds not transposed",
        "transpose",
        "the bounds of reading, kept for writing",
        "left + i < cols && top + threadIdx.x < rows",
        "left + i < rows && top + threadIdx.x < cols",
        BOTH,
        ("uninitialised read",),
    ),
    Mistake(
        "warps' sums read too early",
        "block_reduction",
        "no barrier before the first warp adds",
        "    __syncthreads();\n",
        "",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "mask of half a warp",
        "block_reduction",
        "lanes shuffle that the mask does not name",
        "0xffffffff",
        "0x0000ffff",
        CHECKS,
        ("divergent warp",),
    ),
    Mistake(
        "shuffle one step short",
        "block_reduction",
        "lane 0 gets the sum of 16 lanes",
        "distance = 16;",
        "distance = 8;",
        VERIFICATION,
    ),
    Mistake(
        "more warps than there are",
        "block_reduction",
        "values of warps that do not exist",
        "lane < WARPS ?",
        "lane <= WARPS ?",
        CHECKS,
        ("out-of-bounds read",),
    ),
    # Tensor cores.
    Mistake(
        "ldmatrix before the barrier",
        TENSOR,
        "tiles are read before they are whole",
        "load_tile(b_tile, B, tile_k, left, K, N);\n        __syncthreads();\n",
        "load_tile(b_tile, B, tile_k, left, K, N);\n",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "tiles overwritten under ldmatrix",
        TENSOR,
        "no barrier after the multiplications",
        "        __syncthreads();\n    }\n\n    for",
        "    }\n\n    for",
        CHECKS,
        ("race",),
        shapes=((68, 72, 70, 1.0, 0.0),),
    ),
    Mistake(
        "ldmatrix past the swizzle",
        TENSOR,
        "stored at the swizzled place, read at the plain one",
        "a_tile + place(row, chunk)",
        "a_tile + (row * (TILE / CHUNK) + chunk) * CHUNK",
        VERIFICATION,
    ),
    Mistake(
        "B not transposed",
        TENSOR,
        "ldmatrix without .trans brings B's rows as its columns",
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared",
        "ldmatrix.sync.aligned.m8n8.x4.shared",
        VERIFICATION,
    ),
    Mistake(
        "registers of A in the wrong order",
        TENSOR,
        "the second piece is below, not to the right",
        """"r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]),""",
        """"r"(a[i][0]), "r"(a[i][2]), "r"(a[i][1]), "r"(a[i][3]),""",
        VERIFICATION,
    ),
    Mistake(
        "rows named by the wrong lanes",
        TENSOR,
        "lanes 8 to 15 name the next chunk, not lanes 16 on",
        "16 * i + lane % 16, chunk = k / CHUNK + lane / 16;",
        "16 * i + lane % 8 + lane / 16 * 8, chunk = k / CHUNK + lane / 8 % 2;",
        VERIFICATION,
    ),
    Mistake(
        "columns of the sums mixed up",
        TENSOR,
        "a lane's two sums are neighbours",
        "2 * (lane % 4) + r % 2;",
        "lane % 4 + 4 * (r % 2);",
        VERIFICATION,
    ),
    Mistake(
        "16 bytes from rows that are not aligned",
        TENSOR,
        "the length of a row is not held against 8",
        "x + CHUNK <= cols && cols % CHUNK == 0",
        "x + CHUNK <= cols",
        BOTH,
        ("misaligned read",),
    ),
    Mistake(
        "tail of a row not cut",
        TENSOR,
        "a chunk's last elements come from the next row",
        "                if (x + j < cols) words",
        "                words",
        CHECKS,
        ("out-of-bounds read",),
    ),
    # Asynchronous copies in groups.
    Mistake(
        "no wait for a copy",
        "pipeline",
        "a stage is read while its copy is on the way",
        "        wait<STAGES - 2>();\n",
        "",
        BOTH,
        ("read of a copy in flight",),
    ),
    Mistake(
        "wait for one group too few",
        "pipeline",
        "the last group may still be on the way",
        "wait<STAGES - 2>",
        "wait<STAGES - 1>",
        BOTH,
        ("read of a copy in flight",),
    ),
    Mistake(
        "no commit in the loop",
        "pipeline",
        "copies join no group that is waited for",
        "        commit();\n        sum",
        "        sum",
        BOTH,
        ("read of a copy in flight",),
    ),
    Mistake(
        "commit with a copy only",
        "pipeline",
        "at the end groups are missing, the wait counts them",
        "x + next * PIECE + t);\n        commit();",
        "x + next * PIECE + t), commit();",
        BOTH,
        ("read of a copy in flight",),
    ),
    Mistake(
        "wait without a barrier",
        "pipeline",
        "my copies are there, others' may not be",
        "        __syncthreads();\n        const int next",
        "        const int next",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "copy before the barrier",
        "pipeline",
        "a stage is overwritten that others still read",
        """        wait<STAGES - 2>();
        __syncthreads();
        const int next = i + STAGES - 1;
        if (next < pieces) copy(&stage[next % STAGES][t], x + next * PIECE + t);
        commit();
""",
        """        const int next = i + STAGES - 1;
        if (next < pieces) copy(&stage[next % STAGES][t], x + next * PIECE + t);
        commit();
        wait<STAGES - 1>();
        __syncthreads();
""",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "one stage too few",
        "pipeline",
        "the next copy goes into the stage that is being read",
        "&stage[next % STAGES]",
        "&stage[next % (STAGES - 1)]",
        BOTH,
        ("copy in flight",),
    ),
    # mbarriers and bulk copies.
    Mistake(
        "parity does not turn",
        "bulk copies",
        "the second round waits for the first one's phase",
        "wait(&full[s], round & 1);",
        "wait(&full[s], 0);",
        BOTH,
        ("deadlock",),
    ),
    Mistake(
        "parity the wrong way round",
        "bulk copies",
        "the phase before the first is complete at once",
        "wait(&full[s], round & 1);",
        "wait(&full[s], (round & 1) ^ 1);",
        BOTH,
        ("read of a copy in flight",),
    ),
    Mistake(
        "no wait for full",
        "bulk copies",
        "a stage is read before its copy is there",
        "            wait(&full[s], round & 1);\n",
        "",
        BOTH,
        ("read of a copy in flight",),
    ),
    Mistake(
        "no wait for empty",
        "bulk copies",
        "a stage is overwritten that others still read",
        "            if (round > 0) wait(&empty[s], (round - 1) & 1);\n",
        "",
        CHECKS,
        ("write of a copy in flight",),
    ),
    Mistake(
        "too many bytes expected",
        "bulk copies",
        "the phase never completes",
        "arrive_and_expect(&full[s], BYTES);",
        "arrive_and_expect(&full[s], 2 * BYTES);",
        BOTH,
        ("deadlock",),
    ),
    Mistake(
        "too few bytes copied",
        "bulk copies",
        "half a piece is copied, a whole one expected",
        "x + i * PIECE, BYTES, &full[s]",
        "x + i * PIECE, BYTES / 2, &full[s]",
        BOTH,
        ("deadlock",),
    ),
    Mistake(
        "too few bytes expected",
        "bulk copies",
        "the phase completes with half of the piece there",
        "arrive_and_expect(&full[s], BYTES);",
        "arrive_and_expect(&full[s], BYTES / 2);",
        BOTH,
        ("deadlock",),
    ),
    Mistake(
        "no bytes expected",
        "bulk copies",
        "the phase completes before the copy",
        "arrive_and_expect(&full[s], BYTES);",
        "arrive(&full[s]);",
        BOTH,
        ("read of a copy in flight",),
    ),
    Mistake(
        "arrival count too high",
        "bulk copies",
        "empty waits for more threads than there are",
        "init(&empty[s], PIECE);",
        "init(&empty[s], PIECE + 32);",
        BOTH,
        ("deadlock",),
    ),
    Mistake(
        "arrival count too low",
        "bulk copies",
        "one warp's arrivals release the stage for all",
        "init(&empty[s], PIECE);",
        "init(&empty[s], 32);",
        BOTH,
        ("deadlock",),
    ),
    Mistake(
        "one arrival too few",
        "bulk copies",
        "empty does not wait for one of 128 readers",
        "init(&empty[s], PIECE);",
        "init(&empty[s], PIECE - 1);",
        CHECKS,
        ("write-after-read race",),
    ),
    Mistake(
        "two arrivals too few",
        "bulk copies",
        "empty does not wait for two of 128 readers",
        "init(&empty[s], PIECE);",
        "init(&empty[s], PIECE - 2);",
        CHECKS,
        ("write-after-read race",),
    ),
    Mistake(
        "six arrivals too few",
        "bulk copies",
        "empty does not wait for six of 128 readers",
        "init(&empty[s], PIECE);",
        "init(&empty[s], PIECE - 6);",
        CHECKS,
        ("write-after-read race",),
    ),
    Mistake(
        "arrival before the read",
        "bulk copies",
        "a stage is given back, then read",
        """            sum += (i + 1) * stage[s][PIECE - 1 - t];
            arrive(&empty[s]);
""",
        """            arrive(&empty[s]);
            sum += (i + 1) * stage[s][PIECE - 1 - t];
""",
        CHECKS,
        ("race",),
    ),
    Mistake(
        "mbarriers never initialised",
        "bulk copies",
        "they hold anything",
        "            init(&full[s], 1);\n            init(&empty[s], PIECE);\n",
        "",
        BOTH,
        ("uninitialised mbarrier",),
    ),
    Mistake(
        "no barrier after the initialisation",
        "bulk copies",
        "mbarriers are used before they are ready",
        "    __syncthreads();\n    if (t == PIECE)",
        "    if (t == PIECE)",
        CHECKS,
        ("race",),
    ),
    # wgmma: the tensor cores read shared memory by themselves, and registers are late.
    Mistake(
        "registers not fenced",
        "wgmma_shared",
        "the sums were set to 0, and wgmma.fence does not come before the product",
        "        fence_registers();\n        for (int k = 0; k < TILE; k += 16)",
        "        for (int k = 0; k < TILE; k += 16)",
        CHECKS,
        ("missing wgmma.fence",),
        THREE_TILES,
    ),
    Mistake(
        "fenced before the sums are scaled",
        "wgmma_shared",
        "the next product does not see what a thread has done to its sums",
        """        fence_registers();
        for (int k = 0; k < TILE; k += 16)          // 32 bytes of a row of A, 16 rows of B
            multiply(sums, a + k * 2 / 16, b + k * ROW_BYTES / 16);
        commit();
        wait<STAGES - 1>();
""",
        """        if (tile_k == 0) fence_registers();
        for (int k = 0; k < TILE; k += 16)          // 32 bytes of a row of A, 16 rows of B
            multiply(sums, a + k * 2 / 16, b + k * ROW_BYTES / 16);
        commit();
        wait<0>();
        for (int i = 0; i < SUMS; i++) sums[i] = sums[i] * alpha / alpha;
""",
        CHECKS,
        ("missing wgmma.fence",),
        THREE_TILES,
    ),
    Mistake(
        "sums read too early",
        "wgmma_shared",
        "the last product may be under way when C is written",
        "    wait<0>();\n    store(",
        "    store(",
        CHECKS,
        ("sums in flight",),
        THREE_TILES,
    ),
    Mistake(
        "group not committed",
        "wgmma_shared",
        "wgmma.wait_group does not wait for products of no group",
        "        commit();\n        wait<STAGES - 1>();",
        "        wait<STAGES - 1>();",
        CHECKS,
        ("sums in flight", "write to a wgmma's source"),
        THREE_TILES,
    ),
    Mistake(
        "one product too many in flight",
        "wgmma_shared",
        "a tile is written again while the product before reads it",
        "wait<STAGES - 1>();",
        "wait<STAGES>();",
        CHECKS,
        ("write to a wgmma's source",),
        THREE_TILES,
    ),
    Mistake(
        "one stage for two",
        "wgmma_shared",
        "every tile lies in the first stage, which the product before still reads",
        "stage = (stage + 1) % STAGES)",
        "stage = 0)",
        CHECKS,
        ("write to a wgmma's source",),
        THREE_TILES,
    ),
    Mistake(
        "stores not fenced",
        "wgmma_shared",
        "the tensor cores may read what was there before: no fence.proxy.async",
        "        fence_stores();\n        __syncthreads();\n        const Descriptor",
        "        __syncthreads();\n        const Descriptor",
        CHECKS,
        ("async-proxy race",),
        THREE_TILES,
    ),
    Mistake(
        "stores fenced by one warp",
        "wgmma_shared",
        "the other warps' stores are not made known, and there is no barrier before the fence",
        "        fence_stores();\n        __syncthreads();\n        const Descriptor",
        """        if (threadIdx.x < 32) fence_stores();
        __syncthreads();
        const Descriptor""",
        CHECKS,
        ("async-proxy race",),
        THREE_TILES,
    ),
    Mistake(
        "no barrier before wgmma",
        "wgmma_shared",
        "a warp starts the product before others have brought their part of the tiles",
        "        fence_stores();\n        __syncthreads();\n        const Descriptor",
        "        fence_stores();\n        const Descriptor",
        CHECKS,
        ("read-after-write race",),
        THREE_TILES,
    ),
    Mistake(
        "a descriptor for each warp",
        "wgmma_shared",
        "the warps of a warpgroup must name the same A, of which each takes its rows",
        "        const Descriptor a = descriptor(a_tiles[stage]), b",
        """        const char* own = a_tiles[stage] + threadIdx.x / 32 * 16 * ROW_BYTES;
        const Descriptor a = descriptor(own), b""",
        CHECKS,
        ("divergent warpgroup",),
        THREE_TILES,
    ),
    Mistake(
        "a descriptor outside",
        "wgmma_shared",
        "the address is not divided by 16",
        "return address >> 4 |",
        "return address |",
        BOTH,
        ("out-of-bounds read",),
        THREE_TILES,
    ),
    Mistake(
        "wrong stride in a descriptor",
        "wgmma_shared",
        "groups of 8 rows are 512 bytes apart, and lie 1024 apart",
        "#define GROUP_BYTES (8 * ROW_BYTES)",
        "#define GROUP_BYTES (4 * ROW_BYTES)",
        VERIFICATION,
        (),
        THREE_TILES,
    ),
    Mistake(
        "wrong swizzle in a descriptor",
        "wgmma_shared",
        "64 bytes, where rows of 128 bytes were stored",
        "| 1ull << 62;",
        "| 2ull << 62;",
        VERIFICATION,
        (),
        THREE_TILES,
    ),
    Mistake(
        "not swizzled",
        "wgmma_shared",
        "chunks are stored in their order",
        "(chunk ^ row % 8) * 16",
        "chunk * 16",
        VERIFICATION,
        (),
        THREE_TILES,
    ),
    Mistake(
        "tiles not aligned",
        "wgmma_shared",
        "the swizzle repeats every 1024 bytes, and the tiles begin between",
        "    __shared__ __align__(1024) char a_tiles[STAGES][TILE_BYTES];   // [row][k]\n",
        """    __shared__ __align__(1024) char shifted[256 + STAGES * TILE_BYTES];
    char (&a_tiles)[STAGES][TILE_BYTES] = *(char (*)[STAGES][TILE_BYTES])(shifted + 256);
""",
        VERIFICATION,
        (),
        THREE_TILES,
    ),
    Mistake(
        "A overwritten too early",
        "wgmma_registers",
        "registers of A are loaded anew while the products before may still read them",
        "        commit();\n        wait<0>();\n    }\n",
        "        commit();\n        wait<1>();\n    }\n    wait<0>();\n",
        CHECKS,
        ("registers in flight",),
        THREE_TILES,
    ),
    Mistake(
        "A not fenced",
        "wgmma_registers",
        "the product may read registers before A is in them",
        "        fence_registers();\n        for (int i = 0; i < 4; i++)",
        "        if (tile_k == 0) fence_registers();\n        for (int i = 0; i < 4; i++)",
        CHECKS,
        ("missing wgmma.fence",),
        THREE_TILES,
    ),
    Mistake(
        "rows of A exchanged",
        "wgmma_registers",
        "the second register holds 8 rows further, not 8 of k",
        "const int row = row_of(0) + r % 2 * 8;",
        "const int row = row_of(0) + r / 2 * 8;",
        VERIFICATION,
        (),
        THREE_TILES,
    ),
    *MISTAKES_IN_CLUSTERS,
]


IN_CLUSTERS = {one.of for one in MISTAKES_IN_CLUSTERS}


# --- running one ----------------------------------------------------------------------------------


def find(name: str) -> Mistake:
    (found,) = (one for one in MISTAKES if one.name == name)
    return found


def base(name: str):
    """The kernel of this name: a corpus.Product, a corpus.Other, a Sample or an InCluster."""
    if name in OWN:
        return OWN[name]
    if name in IN_CLUSTERS:
        return InCluster(name)
    (found,) = (one for one in (*corpus.PRODUCTS, *corpus.OTHERS) if one.name == name)
    return found


def planted(mistake: Mistake) -> str:
    """The text with the mistake in it, and in place of #include the headers of kernels/.

    Raises ValueError where the text that it replaces does not stand there exactly once.
    """
    text = base(mistake.of).text
    if not mistake.old:
        return text
    text = corpus.self_contained(text)
    if (times := text.count(mistake.old)) != 1:
        raise ValueError(
            f"{mistake.name}: {mistake.old!r} stands {times} times in {mistake.of}, it must stand "
            "there once: plant the mistake in the kernel as it is now"
        )
    return text.replace(mistake.old, mistake.new)


def shapes(kernel, mistake: Mistake) -> tuple:
    """What to run it at: (m, n, k, alpha, beta) of a product, sizes of others, once for Samples."""
    if mistake.shapes:
        return mistake.shapes
    if isinstance(kernel, Sample | InCluster):
        return (None,)
    if isinstance(kernel, corpus.Other):
        return SIZES
    if max(kernel.tile) <= 32:
        return SHAPES
    return WIDE_SHAPES


def correct(mistake: Mistake) -> Mistake:
    """The same kernel run the same way, without the mistake."""
    return replace(mistake, old="", new="", change=None, found_by=frozenset(), kinds=())


@dataclass(frozen=True)
class Prepared:
    """A launch ready to run, in the simulator or on a GPU.

    `empty`: which arguments nobody has written. `right` judges the arguments after.
    """

    source: str
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: list
    arch: str
    options: tuple[str, ...]
    shared_bytes: int
    empty: tuple[int, ...]
    right: Callable[[], bool]


def prepare(mistake: Mistake, shape) -> Prepared:
    """The launch at one of `shapes`, with new arrays."""
    kernel, source = base(mistake.of), planted(mistake)
    change, empty = dict(mistake.change or {}), ()
    if isinstance(kernel, Sample):
        args, entry, arch, options = kernel.args(), "k", "sm_90a", ()
        expected, grid = kernel.expected(args), kernel.grid

        def right():
            return all(matches(args[i], value) for i, value in expected.items())

    elif isinstance(kernel, InCluster):
        case, arch, options = kernel.case, kernel.arch, kernel.options
        args, entry, grid = case.args(), case.entry, (*case.grid, 1, 1)[:3]

        def right():
            return kernel.is_right(args)

    elif isinstance(kernel, corpus.Other):
        entry, arch, options = kernel.entry, kernel.arch, kernel.options
        grid, args, wanted = kernel.case(shape)

        def right():
            return matches([a for a in args if isinstance(a, np.ndarray)][-1], wanted)

    else:
        entry, arch, options = kernel.entry, kernel.arch, kernel.options
        m, n, k = kernel.fitting(*shape[:3])
        given = kernel.inputs(m, n, k, *shape[3:])
        before = replace(given, C=given.C.copy())
        args, grid = kernel.arguments(given), kernel.grid(m, n)
        if given.beta == 0:
            empty = tuple(i for i, arg in enumerate(args) if arg is given.C)
        if change.pop("grid", None) == "floor":
            grid = (max(n // kernel.tile[1], 1), max(m // kernel.tile[0], 1), 1)

        def right():
            return kernel.wrong_elements(given.C, before) == 0

    block, shared_bytes = (
        ((*case.block, 1, 1)[:3], case.shared_bytes) if isinstance(kernel, InCluster)
        else (kernel.block, kernel.shared_bytes)
    )  # fmt: skip
    usual = Prepared(source, entry, grid, block, args, arch, options, shared_bytes, empty, right)
    return replace(usual, **change)


def trials(mistake: Mistake, check: bool = True) -> Iterator[Trial]:
    """Run it in the simulator at each of its shapes."""
    for shape in shapes(base(mistake.of), mistake):
        it = prepare(mistake, shape)
        args = [
            ptxsim.uninitialised(arg) if i in it.empty else arg for i, arg in enumerate(it.args)
        ]
        run = ptxsim.launch(
            it.source, it.entry, it.grid, it.block, args, arch=it.arch, options=it.options,
            shared_bytes=it.shared_bytes, check=check, limit_s=None,
        )  # fmt: skip
        yield Trial(run.findings, it.right())
