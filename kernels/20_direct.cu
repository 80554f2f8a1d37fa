// 20  Direct
// Idea:    a product that is tiny or thin ends before a pipeline has filled. Here each lane reads
//          A and B straight from global memory into registers, as much as it can at once, so that
//          a short K costs one latency of memory: no copies to shared memory, no barrier. Lanes,
//          and warps of a block, may share K; they join their sums at the end.
// Before:  20_any_shape.cu brought tiles to shared memory, whatever the size of C.
// Launch:  block (32 * WARPS * WARPS_K), grid (ceil(M / BM), ceil(N / BN)) with BM = WARPS * TM *
//          32 / (LANES_N * LANES_K) and BN = LANES_N * TN; at most 65535 along N.
// Takes:   any M, N, K; float32, float16 with DTYPE=1 or bfloat16 with DTYPE=2, row-major; sums
//          float32. C = alpha * A @ B + beta * C, rounded once. K is a multiple of VECTOR_A and N
//          of VECTOR_B. With ONE_COLUMN N is 1. From sm_80 on; launched early from sm_90 on.

#ifndef DTYPE
#define DTYPE 0                                  // 0: float32, 1: float16, 2: bfloat16
#endif
#ifndef TM
#define TM 1                                     // rows of C that a lane computes
#endif
#ifndef TN
#define TN 2                                     // columns
#endif
#ifndef LANES_N
#define LANES_N 4                                // lanes side by side along N, a power of two
#endif
#ifndef LANES_K
#define LANES_K 8                                // lanes that share K; all others lie along M
#endif
#ifndef WARPS
#define WARPS 2                                  // of a block, along M
#endif
#ifndef WARPS_K
#define WARPS_K 1                                // warps that share K
#endif
#ifndef VECTOR_A
#define VECTOR_A 1                               // neighbours along K of a load of A: 1, 2, 4, 8
#endif
#ifndef VECTOR_B
#define VECTOR_B 1                               // along N of a load of B and a store of C
#endif
#ifndef ONE_COLUMN
#define ONE_COLUMN 0                             // N is 1: B too is loaded VECTOR_A along K
#endif
#ifndef UNROLL
#define UNROLL 8                                 // loads of a row of A at once
#endif

#if __CUDA_ARCH__ < 900
#define EARLY_LAUNCH 0
#endif
#if DTYPE == 0
#define OUT32 1
#elif DTYPE == 2
#define OUT_BFLOAT16 1
#endif

#include "output_type.cuh"
#include "programmatic_launch.cuh"

typedef ElementC Element;
constexpr int LANES_M = 32 / (LANES_N * LANES_K), GROUPS = TN / VECTOR_B;
constexpr int BM = WARPS * LANES_M * TM, BN = LANES_N * TN, THREADS = 32 * WARPS * WARPS_K;
constexpr int APART = LANES_K * WARPS_K * VECTOR_A;    // along K, from a lane's load to its next
constexpr int STEP = UNROLL * APART;
static_assert(LANES_M * LANES_N * LANES_K == 32, "powers of two");
static_assert(TN % VECTOR_B == 0, "a lane has whole vectors of C");
static_assert(ONE_COLUMN == 0 || BN == 1, "one column, one lane for it");

// Neighbours in memory, as they are there; one of 16 bits alone has a word's low half.
template <int COUNT>
struct Vector {
    static constexpr int BYTES = COUNT * (int)sizeof(Element), WORDS = BYTES < 4 ? 1 : BYTES / 4;
    static_assert(BYTES <= 16, "a load has up to 16 bytes");
    unsigned words[WORDS];

    // Zeros unless `valid`. Volatile: the compiler may move other loads of read-only memory to
    // before the wait for the previous launch, which wrote it.
    __device__ __forceinline__ void load(const Element* from, bool valid)
    {
        if constexpr (BYTES == 2) {
            unsigned short half;
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b16 %0, 0;"
                         " @p ld.global.nc.b16 %0, [%1]; }"
                         : "=h"(half) : "l"(from), "r"((int)valid));
            words[0] = half;
        } else if constexpr (BYTES == 4) {
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0;"
                         " @p ld.global.nc.b32 %0, [%1]; }"
                         : "=r"(words[0]) : "l"(from), "r"((int)valid));
        } else if constexpr (BYTES == 8) {
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0;"
                         " @p ld.global.nc.v2.b32 {%0, %1}, [%2]; }"
                         : "=r"(words[0]), "=r"(words[1]) : "l"(from), "r"((int)valid));
        } else {
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0;"
                         " mov.b32 %2, 0; mov.b32 %3, 0;"
                         " @p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4]; }"
                         : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                         : "l"(from), "r"((int)valid));
        }
    }

    __device__ __forceinline__ void store(Element* to) const
    {
        if constexpr (BYTES == 2) *to = (Element)words[0];
        else if constexpr (BYTES == 4) *(unsigned*)to = words[0];
        else if constexpr (BYTES == 8) *(uint2*)to = make_uint2(words[0], words[1]);
        else *(uint4*)to = make_uint4(words[0], words[1], words[2], words[3]);
    }

    __device__ __forceinline__ float operator[](int i) const
    {
#if DTYPE == 0
        return __uint_as_float(words[i]);
#else
        return to_float((Element)(words[i / 2] >> i % 2 * 16));
#endif
    }
};

// A word of C. The second number is for 16 bits alone.
__device__ __forceinline__ unsigned rounded(float first, float second)
{
#if DTYPE == 0
    return __float_as_uint(first);
#else
    return round_pair(first, second);
#endif
}

// Where a lane reads next: its rows of A, and its columns of B. `k_left`: of K, from there on.
struct NextLoads {
    const Element* rows[TM];
    const Element* columns[GROUPS];
    int N, k_left;

    __device__ __forceinline__ void advance(int k)
    {
        #pragma unroll
        for (int i = 0; i < TM; ++i) rows[i] += k;
        #pragma unroll
        for (int g = 0; g < GROUPS; ++g) columns[g] += (long long)k * N;
        k_left -= k;
    }
};

// The compiler is to compute addresses here, not again wherever they are used.
__device__ __forceinline__ void keep_addresses(NextLoads& next)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) asm volatile("" : "+l"(next.rows[i]));
    #pragma unroll
    for (int g = 0; g < GROUPS; ++g) asm volatile("" : "+l"(next.columns[g]));
}

// sums += A @ B, for UNROLL vectors of this lane's k. All loads are under way before the first sum.
// WHOLE: none of them is beyond K.
template <bool WHOLE>
__device__ __forceinline__ void multiply(float (&sums)[TM][TN], const NextLoads& next)
{
    constexpr int LOADS = ONE_COLUMN ? 1 : VECTOR_A;           // of B, for a vector along K of A
    Vector<VECTOR_A> a[UNROLL][TM];
    Vector<ONE_COLUMN ? VECTOR_A : VECTOR_B> b[UNROLL][LOADS][GROUPS];
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        const bool valid = WHOLE || u * APART < next.k_left;
        #pragma unroll
        for (int i = 0; i < TM; ++i) a[u][i].load(next.rows[i] + u * APART, valid);
        #pragma unroll
        for (int v = 0; v < LOADS; ++v)
            #pragma unroll
            for (int g = 0; g < GROUPS; ++g)
                b[u][v][g].load(next.columns[g] + (long long)(u * APART + v) * next.N, valid);
    }
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u)
        #pragma unroll
        for (int v = 0; v < VECTOR_A; ++v)
            #pragma unroll
            for (int j = 0; j < TN; ++j)
                #pragma unroll
                for (int i = 0; i < TM; ++i)
                    sums[i][j] += a[u][i][v] * (ONE_COLUMN ? b[u][0][0][v]
                                                : b[u][v % LOADS][j / VECTOR_B][j % VECTOR_B]);
}

// Where a row begins. Neither number is negative, so this is one multiplication to 64 bits.
__device__ __forceinline__ size_t row_offset(unsigned row, unsigned stride)
{
    return (size_t)row * stride;
}

// COUNT neighbours of a row. Where beta is 0, C is not read: it may hold anything, NaN included.
template <int COUNT>
__device__ __forceinline__ void store(Element* to, const float* sums, float alpha, float beta)
{
    constexpr int OF_WORD = 4 / sizeof(Element);
    float values[COUNT + 1] = {};
    #pragma unroll
    for (int v = 0; v < COUNT; ++v) {
        values[v] = alpha * sums[v];
        if (beta != 0.0f) values[v] += beta * to_float(to[v]);
    }
    Vector<COUNT> result;
    #pragma unroll
    for (int v = 0; v < COUNT; v += OF_WORD)
        result.words[v / OF_WORD] = rounded(values[v], values[v + 1]);
    result.store(to);
}

// One block on an SM is enough: for more of them ptxas would save registers, and put sums between
// the loads.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
direct(const Element* __restrict__ A, const Element* __restrict__ B, Element* __restrict__ C,
       int M, int N, int K, float alpha, float beta)
{
    trigger_next_launch();
    if (ONE_COLUMN) N = 1;
    const int lane = threadIdx.x % 32, warp = WARPS * WARPS_K == 1 ? 0 : threadIdx.x / 32;
    const int lane_k = lane % LANES_K, warp_k = WARPS_K == 1 ? 0 : warp / WARPS;
    const int warp_m = WARPS_K == 1 ? warp : warp % WARPS;
    const int tile_m = blockIdx.x * BM, tile_n = ONE_COLUMN ? 0 : blockIdx.y * BN;
    // In the tile. Its next row is LANES_M rows on, its next vector of a row LANES_N vectors on.
    const int row = warp_m * (LANES_M * TM) + lane / (LANES_N * LANES_K);
    const int column = lane / LANES_K % LANES_N * VECTOR_B;

    const int first_k = (warp_k * LANES_K + lane_k) * VECTOR_A;
    NextLoads next;
    next.N = N;
    next.k_left = K - first_k;
    #pragma unroll
    for (int i = 0; i < TM; ++i)                 // past the last row: the last one again
        next.rows[i] = A + row_offset(min(tile_m + row + i * LANES_M, M - 1), K) + first_k;
    #pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
        const int n = tile_n + column + g * (LANES_N * VECTOR_B);
        next.columns[g] = B + row_offset(first_k, N) + (ONE_COLUMN ? 0 : min(n, N - VECTOR_B));
    }
    keep_addresses(next);
    wait_for_previous_launch();
    float sums[TM][TN] = {};
    #pragma unroll 1
    for (int steps = K / STEP; steps > 0; --steps) {
        multiply<true>(sums, next);
        next.advance(STEP);
    }
    if (K % STEP != 0) multiply<false>(sums, next);

    #pragma unroll
    for (int apart = LANES_K / 2; apart > 0; apart /= 2)
        #pragma unroll
        for (int i = 0; i < TM; ++i)
            #pragma unroll
            for (int j = 0; j < TN; ++j) sums[i][j] += __shfl_xor_sync(~0u, sums[i][j], apart);

#if WARPS_K == 1
    if (lane_k != 0) return;
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            const int m = tile_m + row + i * LANES_M;
            const int n = tile_n + column + g * (LANES_N * VECTOR_B);
            if (m < M && n < N)
                store<VECTOR_B>(C + row_offset(m, N) + n, sums[i] + g * VECTOR_B, alpha, beta);
        }
#else
    __shared__ float parts[WARPS_K][BM][BN];
    if (lane_k == 0)
        #pragma unroll
        for (int i = 0; i < TM; ++i)
            #pragma unroll
            for (int j = 0; j < TN; ++j)
                parts[warp_k][row + i * LANES_M]
                     [column + j / VECTOR_B * (LANES_N * VECTOR_B) + j % VECTOR_B] = sums[i][j];
    __syncthreads();
    #pragma unroll
    for (int first = 0; first < BM * BN; first += THREADS) {
        const int i = first + threadIdx.x, m = tile_m + i / BN, n = tile_n + i % BN;
        if (i >= BM * BN || m >= M || n >= N) break;
        float sum = 0.0f;
        #pragma unroll
        for (int part = 0; part < WARPS_K; ++part) sum += parts[part][i / BN][i % BN];
        store<1>(C + row_offset(m, N) + n, &sum, alpha, beta);
    }
#endif
}
