// Two kernels for products that read one large matrix once, and so are bound by memory.
#pragma once

#include "async_copy.cuh"
#include "meeting.cuh"
#include "tile_sizes.cuh"

#define WARPS (BM == TM ? 4 : BM / TM)           // of a block
// BK k of the smaller matrix lie in shared memory, STAGES times.
// Four elements of a row: neighbours, of neighbouring lanes, or, off 16 bytes, every 32nd one. `count`:
// how many there are from the first one on; the others are zero.
template <bool BY_FOUR>
__device__ __forceinline__ float4 four_of(const float* here, int count)
{
    if (BY_FOUR && count >= 4) return __ldcs((const float4*)here);
    constexpr int step = BY_FOUR ? 1 : 32;
    return make_float4(count > 0 ? here[0] : 0.0f, count > step ? here[step] : 0.0f,
                       count > 2 * step ? here[2 * step] : 0.0f,
                       count > 3 * step ? here[3 * step] : 0.0f);
}

#if BM == TM
static_assert(BN == 128 && TN == 4, "a warp's lanes have four columns of a strip each");
static_assert(OP_B == 0, "B's rows go across the strip");
static_assert(STAGES == 1, "A is brought when all have read what was there");
constexpr int STRIP_SUMS = BM * BN;
// ---- few rows, B as it is: lanes go across B's rows, warps and parts along K -----------------------

// Bring BM rows of A, `depth` long, to shared memory: k goes down there.
__device__ __forceinline__ void bring_rows(float (*a)[BM], const float* A, int lda, int rows,
                                           int depth)
{
    #pragma unroll 4
    for (int i = threadIdx.x; i < BK * BM; i += 32 * WARPS) {
        const int row = OP_A ? i % BM : i / BK, k = OP_A ? i / BM : i % BK;
        const size_t at = OP_A ? (size_t)k * lda + row : (size_t)row * lda + k;
        a[k][row] = row < rows && k < depth ? A[at] : 0.0f;
    }
}

// My sums of BM rows and four columns, over my warp's k of a part of K that is `length` long. A and B:
// where the part begins, B at my first column. The next rows of B are on their way meanwhile.
template <bool BY_FOUR>
__device__ __forceinline__ void multiply_rows(float (&sums)[BM][4], float (*a)[BM], const float* A,
                                              int lda, int rows, const float* B, int ldb,
                                              int columns, int length)
{
    constexpr int TOGETHER = BM > 4 ? 4 : 8;     // rows of B that a warp takes at a time
    const int mine = threadIdx.x / 32 * TOGETHER;
    float4 next[TOGETHER];
    const auto read = [&](int k) {
        #pragma unroll
        for (int n = 0; n < TOGETHER; ++n)
            next[n] = four_of<BY_FOUR>(B + (size_t)(k + n) * ldb, k + n < length ? columns : 0);
    };
    read(mine);
    #pragma unroll 1
    for (int from = 0; from < length; from += BK) {
        __syncthreads();                         // all have read what was there
        bring_rows(a, A + (OP_A ? (size_t)from * lda : from), lda, rows, length - from);
        __syncthreads();
        #pragma unroll 1
        for (int k = mine; k < BK; k += WARPS * TOGETHER) {
            float4 b[TOGETHER];
            #pragma unroll
            for (int n = 0; n < TOGETHER; ++n) b[n] = next[n];
            read(from + k + WARPS * TOGETHER);
            #pragma unroll
            for (int n = 0; n < TOGETHER; ++n)
                #pragma unroll
                for (int row = 0; row < BM; ++row) {
                    sums[row][0] += a[k + n][row] * b[n].x;
                    sums[row][1] += a[k + n][row] * b[n].y;
                    sums[row][2] += a[k + n][row] * b[n].z;
                    sums[row][3] += a[k + n][row] * b[n].w;
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
    const int tile = blockIdx.x / SPLIT, part = blockIdx.x % SPLIT, across = tiles_of(N, BN);
    const int top = tile / across * BM, left = tile % across * BN;
    const int first = (long long)K * part / SPLIT, end = (long long)K * (part + 1) / SPLIT;
    const int lane = threadIdx.x % 32;
    const bool by_four = ldb % 4 == 0 && (size_t)B % 16 == 0;
    const int mine = by_four ? 4 * lane : lane;  // my first column of the strip

    float (*a)[BM] = (float (*)[BM])shared;
    float sums[BM][4] = {};
    A += OP_A ? (size_t)first * lda + top : (size_t)top * lda + first;
    B += (size_t)first * ldb + left + mine;
    if (by_four)
        multiply_rows<true>(sums, a, A, lda, M - top, B, ldb, N - left - mine, end - first);
    else
        multiply_rows<false>(sums, a, A, lda, M - top, B, ldb, N - left - mine, end - first);

    // The sums of all warps, and then those of all parts, in their order.
    __syncthreads();
    #pragma unroll
    for (int row = 0; row < BM; ++row)
        #pragma unroll
        for (int v = 0; v < 4; ++v)
            shared[(threadIdx.x / 32 * BM + row) * BN + mine + (by_four ? v : 32 * v)] =
                sums[row][v];
    __syncthreads();
    for (int i = threadIdx.x; i < STRIP_SUMS; i += 32 * WARPS) {
        float sum = shared[i];
        #pragma unroll
        for (int warp = 1; warp < WARPS; ++warp) sum += shared[warp * STRIP_SUMS + i];
        if (JOIN == LAST_ARRIVER && SPLIT > 1) parts[(size_t)blockIdx.x * STRIP_SUMS + i] = sum;
        else shared[i] = sum;
    }
    int begin = 0, stop = STRIP_SUMS;            // what I store
    if (JOIN == CLUSTER) {
        arrive_in_cluster();
        wait_in_cluster();
        begin = STRIP_SUMS * part / SPLIT;
        stop = STRIP_SUMS * (part + 1) / SPLIT;
    } else if (SPLIT > 1) {
        if (!is_last(&arrived[tile], SPLIT)) return;
    }
    #pragma unroll 1
    for (int i = begin + threadIdx.x; i < stop; i += 32 * WARPS) {
        float sum = 0.0f;
        if (JOIN == CLUSTER || SPLIT == 1) {
            #pragma unroll
            for (int other = 0; other < SPLIT; ++other)
                sum += SPLIT == 1 ? shared[i] : of_block(&shared[i], other);
        } else {
            #pragma unroll 8
            for (int other = 0; other < SPLIT; ++other)
                sum += __ldcg(&parts[(size_t)(tile * SPLIT + other) * STRIP_SUMS + i]);
        }
        const int row = top + i / BN, col = left + i % BN;
        float* here = C + (size_t)row * ldc + col;
        if (row < M && col < N) *here = alpha * sum + (beta == 0.0f ? 0.0f : beta * *here);
    }
    if (JOIN == CLUSTER) {
        arrive_in_cluster();
        wait_in_cluster();
    }
}

#else
// ---- few columns, A as it is: a warp for TM rows, its lanes along K --------------------------------

static_assert(OP_A == 0, "A's rows go along K");
static_assert(STAGES == 2, "one place is filled while the other is read");
constexpr int LINE = BK + 4;                  // of a column of B in shared memory
constexpr int SUMS = TM * BN;

// Start to bring BN columns of B, BK deep, from k on, to shared memory: each in a line.
__device__ __forceinline__ void fetch_columns(unsigned to, const float* B, int ldb, int columns,
                                              int k, int K)
{
    #pragma unroll 4
    for (int i = threadIdx.x; i < BK * BN; i += 32 * WARPS) {
        const int n = OP_B ? i / BK : i % BN, deep = OP_B ? i % BK : i / BN;
        const size_t at = OP_B ? (size_t)n * ldb + k + deep : (size_t)(k + deep) * ldb + n;
        start_copy<false, 4>(to + 4 * (n * LINE + deep), B + at, n < columns && k + deep < K);
    }
    commit_copies();
}

// My sums of TM rows. Of 128 k that the warp takes at a time, I have four; the next four of each row
// are on their way meanwhile.
template <bool BY_FOUR>
__device__ __forceinline__ void multiply_columns(float (&sums)[SUMS], float* shared,
                                                 const float* const (&rows)[TM], const float* B,
                                                 int ldb, int columns, int K)
{
    const int lane = threadIdx.x % 32, mine = BY_FOUR ? 4 * lane : lane;
    fetch_columns(shared_address(shared), B, ldb, columns, 0, K);
    float4 next[TM];
    #pragma unroll
    for (int i = 0; i < TM; ++i) next[i] = four_of<BY_FOUR>(rows[i] + mine, K - mine);
    #pragma unroll 1
    for (int from = 0; from < K; from += BK) {
        const int place = from / BK % 2 * BN * LINE;
        fetch_columns(shared_address(shared) + 4 * (BN * LINE - place), B, ldb, columns,
                      from + BK, K);
        wait_for_copies<1>();
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; k += 128) {
            float4 a[TM];
            const int then = from + k + 128 + mine;
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                a[i] = next[i];
                next[i] = four_of<BY_FOUR>(rows[i] + then, K - then);
            }
            #pragma unroll
            for (int n = 0; n < BN; ++n) {
                const float* column = shared + place + n * LINE + k + mine;
                const float4 b = BY_FOUR ? *(const float4*)column
                    : make_float4(column[0], column[32], column[64], column[96]);
                #pragma unroll
                for (int i = 0; i < TM; ++i) {
                    float& sum = sums[i * BN + n];
                    sum += a[i].x * b.x;
                    sum += a[i].y * b.y;
                    sum += a[i].z * b.z;
                    sum += a[i].w * b.w;
                }
            }
        }
        __syncthreads();                         // all have read what is filled next
    }
    wait_for_copies<0>();
}

// Launch: block (32 * WARPS), grid (tiles); dynamic shared memory: two times BN columns of B.
extern "C" __global__ void __launch_bounds__(32 * WARPS, SUMS <= 64 ? 4 : 2)
few_columns(const float* __restrict__ A, const float* __restrict__ B, float* C, int M, int N, int K,
            int lda, int ldb, int ldc, float alpha, float beta)
{
    extern __shared__ __align__(16) float shared[];
    const int lane = threadIdx.x % 32, across = tiles_of(N, BN), left = blockIdx.x % across * BN;
    const int first = blockIdx.x / across * BM + threadIdx.x / 32 * TM;
    const float* rows[TM];                       // past the last one: the last one again
    #pragma unroll
    for (int i = 0; i < TM; ++i) rows[i] = A + (size_t)min(first + i, M - 1) * lda;
    B += OP_B ? (size_t)left * ldb : left;

    float sums[SUMS] = {};
    if (lda % 4 == 0 && (size_t)A % 16 == 0)
        multiply_columns<true>(sums, shared, rows, B, ldb, N - left, K);
    else
        multiply_columns<false>(sums, shared, rows, B, ldb, N - left, K);

    // The lanes' sums: of two lanes, each takes half of what is left, and adds the other's.
    int which = 0;                               // my first one
    #pragma unroll
    for (int apart = 16, left_over = SUMS; apart > 0; apart /= 2) {
        const bool upper = lane & apart;
        if (left_over > 1) {
            left_over /= 2;
            #pragma unroll
            for (int n = 0; n < left_over; ++n) {
                const float given = upper ? sums[n] : sums[n + left_over];
                sums[n] = (upper ? sums[n + left_over] : sums[n]) +
                          __shfl_xor_sync(~0u, given, apart);
            }
            which += upper ? left_over : 0;
        } else {
            sums[0] += __shfl_xor_sync(~0u, sums[0], apart);
        }
    }
    constexpr int MINE = SUMS > 32 ? SUMS / 32 : 1, SPARE = SUMS < 32 ? 32 / SUMS : 1;
    if (lane % SPARE == 0)
        #pragma unroll
        for (int n = 0; n < MINE; ++n) {
            const int row = first + (which + n) / BN, col = left + (which + n) % BN;
            float* here = &C[(size_t)row * ldc + col];
            if (row < M && col < N)
                *here = alpha * sums[n] + (beta == 0.0f ? 0.0f : beta * *here);
        }
}
#endif
