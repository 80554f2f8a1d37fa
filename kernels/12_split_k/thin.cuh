// Two kernels for products that read one large matrix once, and so are bound by memory.
#pragma once

#include "cluster_barrier.cuh"
#include "cp_async.cuh"
#include "grid_counters.cuh"
#include "tile_order.cuh"
#include "tile_sizes.cuh"

#define WARPS (BM == TM ? 4 : BM / TM)           // of a block

// Four elements of a row, of which `count` are in bounds; the others are zero. ALIGNED: neighbours,
// at a multiple of 16 bytes; or else every 32nd one.
template <bool ALIGNED>
__device__ __forceinline__ float4 load_float4(const float* from, int count)
{
    if (ALIGNED && count >= 4) return __ldcs((const float4*)from);
    constexpr int step = ALIGNED ? 1 : 32;
    return make_float4(count > 0 ? from[0] : 0.0f, count > step ? from[step] : 0.0f,
                       count > 2 * step ? from[2 * step] : 0.0f,
                       count > 3 * step ? from[3 * step] : 0.0f);
}

#if BM == TM
static_assert(BN == 128 && TN == 4, "a warp's lanes have four columns of a strip each");
static_assert(OP_B == 0, "B's rows go across the strip");
static_assert(STAGES == 1, "a piece of A is loaded when all warps have read the one before");
constexpr int STRIP = BM * BN;
// ---- few rows, B as it is: lanes go across B's rows, warps and parts along K --------------------

// Load BM rows of A, `depth` long, into shared memory, transposed: a[k][row].
__device__ __forceinline__ void load_rows(float (*a)[BM], const float* A, int lda, int rows,
                                          int depth)
{
    #pragma unroll 4
    for (int i = threadIdx.x; i < BK * BM; i += 32 * WARPS) {
        const int row = OP_A ? i % BM : i / BK, k = OP_A ? i / BM : i % BK;
        const size_t at = OP_A ? (size_t)k * lda + row : (size_t)row * lda + k;
        a[k][row] = row < rows && k < depth ? A[at] : 0.0f;
    }
}

// A thread's BM rows and four columns, over its warp's k of a part of K that is `length` long. A
// and B: where the part begins, B at the thread's first column. The next rows of B are prefetched.
template <bool ALIGNED>
__device__ __forceinline__ void multiply_rows(float (&accumulators)[BM][4], float (*a)[BM],
                                              const float* A, int lda, int rows, const float* B,
                                              int ldb, int columns, int length)
{
    constexpr int AT_ONCE = BM > 4 ? 4 : 8;      // rows of B that a warp takes at a time
    const int first_k = threadIdx.x / 32 * AT_ONCE;
    float4 next[AT_ONCE];
    const auto prefetch = [&](int k) {
        #pragma unroll
        for (int n = 0; n < AT_ONCE; ++n)
            next[n] = load_float4<ALIGNED>(B + (size_t)(k + n) * ldb, k + n < length ? columns : 0);
    };
    prefetch(first_k);
    #pragma unroll 1
    for (int k_begin = 0; k_begin < length; k_begin += BK) {
        __syncthreads();                         // all warps have read the last piece
        load_rows(a, A + (OP_A ? (size_t)k_begin * lda : k_begin), lda, rows, length - k_begin);
        __syncthreads();
        #pragma unroll 1
        for (int k = first_k; k < BK; k += WARPS * AT_ONCE) {
            float4 b[AT_ONCE];
            #pragma unroll
            for (int n = 0; n < AT_ONCE; ++n) b[n] = next[n];
            prefetch(k_begin + k + WARPS * AT_ONCE);
            #pragma unroll
            for (int n = 0; n < AT_ONCE; ++n)
                #pragma unroll
                for (int row = 0; row < BM; ++row) {
                    accumulators[row][0] += a[k + n][row] * b[n].x;
                    accumulators[row][1] += a[k + n][row] * b[n].y;
                    accumulators[row][2] += a[k + n][row] * b[n].z;
                    accumulators[row][3] += a[k + n][row] * b[n].w;
                }
        }
    }
}

// A block has BM rows and BN columns of C. Each warp takes some of the k of the block's part.
// Launch: block (32 * WARPS), grid (tiles * SPLIT); JOIN of ALONE, LAST_ARRIVER or CLUSTER. Dynamic
// shared memory: BM columns of A, BK deep, or the sums of all warps, whichever is more.
extern "C" __global__ void __launch_bounds__(32 * WARPS) IN_CLUSTERS
few_rows(const float* __restrict__ A, const float* __restrict__ B, float* C, int M, int N, int K,
         int lda, int ldb, int ldc, float alpha, float beta, float* parts, unsigned* arrived)
{
    extern __shared__ __align__(16) float shared[];
    const int tile = blockIdx.x / SPLIT, part = blockIdx.x % SPLIT, tile_cols = ceil_div(N, BN);
    const int tile_m = tile / tile_cols * BM, tile_n = tile % tile_cols * BN;
    const int first = (long long)K * part / SPLIT, end = (long long)K * (part + 1) / SPLIT;
    const int lane = threadIdx.x % 32;
    const bool aligned = ldb % 4 == 0 && (size_t)B % 16 == 0;
    const int thread_n = aligned ? 4 * lane : lane;  // this thread's first column

    float (*a)[BM] = (float (*)[BM])shared;
    float accumulators[BM][4] = {};
    A += OP_A ? (size_t)first * lda + tile_m : (size_t)tile_m * lda + first;
    B += (size_t)first * ldb + tile_n + thread_n;
    if (aligned)
        multiply_rows<true>(accumulators, a, A, lda, M - tile_m, B, ldb, N - tile_n - thread_n,
                            end - first);
    else
        multiply_rows<false>(accumulators, a, A, lda, M - tile_m, B, ldb, N - tile_n - thread_n,
                             end - first);

    // The sums of all warps, and then those of all parts, in their order.
    __syncthreads();
    #pragma unroll
    for (int row = 0; row < BM; ++row)
        #pragma unroll
        for (int v = 0; v < 4; ++v)
            shared[(threadIdx.x / 32 * BM + row) * BN + thread_n + (aligned ? v : 32 * v)] =
                accumulators[row][v];
    __syncthreads();
    for (int i = threadIdx.x; i < STRIP; i += 32 * WARPS) {
        float sum = shared[i];
        #pragma unroll
        for (int warp = 1; warp < WARPS; ++warp) sum += shared[warp * STRIP + i];
        if (JOIN == LAST_ARRIVER && SPLIT > 1) parts[(size_t)blockIdx.x * STRIP + i] = sum;
        else shared[i] = sum;
    }
    int begin = 0, stop = STRIP;            // what this block stores
    if (JOIN == CLUSTER) {
        cluster_arrive();
        cluster_wait();
        begin = STRIP * part / SPLIT;
        stop = STRIP * (part + 1) / SPLIT;
    } else if (SPLIT > 1) {
        if (!is_last_block(&arrived[tile], SPLIT)) return;
    }
    #pragma unroll 1
    for (int i = begin + threadIdx.x; i < stop; i += 32 * WARPS) {
        float sum = 0.0f;
        if (JOIN == CLUSTER || SPLIT == 1) {
            #pragma unroll
            for (int other = 0; other < SPLIT; ++other)
                sum += SPLIT == 1 ? shared[i] : load_remote(&shared[i], other);
        } else {
            #pragma unroll 8
            for (int other = 0; other < SPLIT; ++other)
                sum += __ldcg(&parts[(size_t)(tile * SPLIT + other) * STRIP + i]);
        }
        const int row = tile_m + i / BN, col = tile_n + i % BN;
        float* to = C + (size_t)row * ldc + col;
        if (row < M && col < N) *to = alpha * sum + (beta == 0.0f ? 0.0f : beta * *to);
    }
    if (JOIN == CLUSTER) {
        cluster_arrive();
        cluster_wait();
    }
}

#else
// ---- few columns, A as it is: a warp for TM rows, its lanes along K -----------------------------

static_assert(OP_A == 0, "A's rows go along K");
static_assert(STAGES == 2, "one stage is filled while the other is read");
constexpr int LINE = BK + 4;                     // of a column of B in shared memory
constexpr int SUMS = TM * BN;

// Start to copy BN columns of B, BK deep, from k on, to shared memory: each in a line.
__device__ __forceinline__ void copy_columns(unsigned to, const float* B, int ldb, int columns,
                                             int k, int K)
{
    #pragma unroll 4
    for (int i = threadIdx.x; i < BK * BN; i += 32 * WARPS) {
        const int n = OP_B ? i / BK : i % BN, deep = OP_B ? i % BK : i / BN;
        const size_t at = OP_B ? (size_t)n * ldb + k + deep : (size_t)(k + deep) * ldb + n;
        cp_async<4>(to + 4 * (n * LINE + deep), B + at, n < columns && k + deep < K ? 4 : 0);
    }
    cp_async_commit();
}

// A thread's part of TM rows: of 128 k that the warp takes at a time it has four. The next four of
// each row are prefetched.
template <bool ALIGNED>
__device__ __forceinline__ void multiply_columns(float (&accumulators)[SUMS], float* shared,
                                                 const float* const (&rows)[TM], const float* B,
                                                 int ldb, int columns, int K)
{
    const int lane = threadIdx.x % 32, first_k = ALIGNED ? 4 * lane : lane;
    copy_columns(shared_address(shared), B, ldb, columns, 0, K);
    float4 next[TM];
    #pragma unroll
    for (int i = 0; i < TM; ++i) next[i] = load_float4<ALIGNED>(rows[i] + first_k, K - first_k);
    #pragma unroll 1
    for (int k_begin = 0; k_begin < K; k_begin += BK) {
        const int stage = k_begin / BK % 2 * BN * LINE;
        copy_columns(shared_address(shared) + 4 * (BN * LINE - stage), B, ldb, columns,
                     k_begin + BK, K);
        cp_async_wait<1>();
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; k += 128) {
            float4 a[TM];
            const int next_k = k_begin + k + 128 + first_k;
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                a[i] = next[i];
                next[i] = load_float4<ALIGNED>(rows[i] + next_k, K - next_k);
            }
            #pragma unroll
            for (int n = 0; n < BN; ++n) {
                const float* column = shared + stage + n * LINE + k + first_k;
                const float4 b = ALIGNED ? *(const float4*)column
                    : make_float4(column[0], column[32], column[64], column[96]);
                #pragma unroll
                for (int i = 0; i < TM; ++i) {
                    float& sum = accumulators[i * BN + n];
                    sum += a[i].x * b.x;
                    sum += a[i].y * b.y;
                    sum += a[i].z * b.z;
                    sum += a[i].w * b.w;
                }
            }
        }
        __syncthreads();                         // all warps have read what is filled next
    }
    cp_async_wait<0>();
}

// Launch: block (32 * WARPS), grid (tiles); dynamic shared memory: two times BN columns of B.
extern "C" __global__ void __launch_bounds__(32 * WARPS, SUMS <= 64 ? 4 : 2)
few_columns(const float* __restrict__ A, const float* __restrict__ B, float* C, int M, int N, int K,
            int lda, int ldb, int ldc, float alpha, float beta)
{
    extern __shared__ __align__(16) float shared[];
    const int lane = threadIdx.x % 32, tile_cols = ceil_div(N, BN);
    const int tile_n = blockIdx.x % tile_cols * BN;
    const int first_row = blockIdx.x / tile_cols * BM + threadIdx.x / 32 * TM;
    const float* rows[TM];                       // past the last row: the last one again
    #pragma unroll
    for (int i = 0; i < TM; ++i) rows[i] = A + (size_t)min(first_row + i, M - 1) * lda;
    B += OP_B ? (size_t)tile_n * ldb : tile_n;

    float accumulators[SUMS] = {};
    if (lda % 4 == 0 && (size_t)A % 16 == 0)
        multiply_columns<true>(accumulators, shared, rows, B, ldb, N - tile_n, K);
    else
        multiply_columns<false>(accumulators, shared, rows, B, ldb, N - tile_n, K);

    // The sum over the lanes: of two lanes, each keeps half of the accumulators and adds those of
    // the other.
    int first_sum = 0;                           // of those that this lane keeps
    #pragma unroll
    for (int apart = 16, count = SUMS; apart > 0; apart /= 2) {
        const bool upper = lane & apart;
        if (count > 1) {
            count /= 2;
            #pragma unroll
            for (int n = 0; n < count; ++n) {
                const float given = upper ? accumulators[n] : accumulators[n + count];
                accumulators[n] = (upper ? accumulators[n + count] : accumulators[n]) +
                                  __shfl_xor_sync(~0u, given, apart);
            }
            first_sum += upper ? count : 0;
        } else {
            accumulators[0] += __shfl_xor_sync(~0u, accumulators[0], apart);
        }
    }
    constexpr int OF_LANE = SUMS > 32 ? SUMS / 32 : 1, SPARE = SUMS < 32 ? 32 / SUMS : 1;
    if (lane % SPARE == 0)
        #pragma unroll
        for (int n = 0; n < OF_LANE; ++n) {
            const int row = first_row + (first_sum + n) / BN, col = tile_n + (first_sum + n) % BN;
            float* to = &C[(size_t)row * ldc + col];
            if (row < M && col < N)
                *to = alpha * accumulators[n] + (beta == 0.0f ? 0.0f : beta * *to);
        }
}
#endif
