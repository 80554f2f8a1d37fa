// 09  Double buffering
// Idea:    while one pair of tiles is multiplied, the next one is under way.
//          STAGES 1: into registers, and from there into the second of two buffers.
//          STAGES 2 and more: with asynchronous copies straight into that many buffers.
// Before:  08_warp_tiling.cu waited for each pair of tiles before it multiplied.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes. Where N or K is no multiple of 4, and at the edges of A and B,
//          single elements are moved instead. STAGES 2 and more: from sm_80 on.

#include "cp_async.cuh"
#include "float4.cuh"
#include "shared_address.cuh"
#include "staging.cuh"

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 128                                   // columns
#endif
#ifndef BK
#define BK 8                                     // how far along K one step goes
#endif
#ifndef WM
#define WM 32                                    // rows of C that a warp computes
#endif
#ifndef WN
#define WN 64                                    // columns
#endif
#ifndef STAGES
#define STAGES 1
#endif
#define PAD 4                                    // of A's tile, against bank conflicts
#define TILES_M (WM / 16)                        // tiles of 4×4 of a thread: one below the other
#define TILES_N (WN / 32)                        // and side by side
#define THREADS (32 * (BM / WM) * (BN / WN))
#define A_FLOAT4 (BM * BK / 4 / THREADS)         // loads of 16 bytes by each thread, of A's tile
#define B_FLOAT4 (BK * BN / 4 / THREADS)         // and of B's
#define BUFFERS (STAGES == 1 ? 2 : STAGES)
// Blocks that must fit on one SM: as many as leave a thread the registers for its accumulators.
#define RESIDENT_THREADS (WM * WN == 4096 ? 256 : WM * WN == 2048 ? 384 : 512)
#define MIN_BLOCKS (RESIDENT_THREADS > THREADS ? RESIDENT_THREADS / THREADS : 1)

typedef float ATile[BK][BM + PAD];               // transposed: a[k][row]
typedef float BTile[BK][BN];

// The two matrices, and where the block's rows of A and columns of B begin.
struct Inputs {
    const float *A, *B;
    int M, N, K, tile_m, tile_n;
    bool in_bounds;
};

// Multiply one pair of tiles: the thread's rows begin at thread_m, its columns at thread_n.
__device__ __forceinline__ void multiply(float (&accumulators)[TILES_M * 4][TILES_N * 4],
                                         const ATile& a, const BTile& b,
                                         int thread_m, int thread_n)
{
    #pragma unroll
    for (int k = 0; k < BK; ++k) {
        float fragment_a[TILES_M * 4], fragment_b[TILES_N * 4];
        #pragma unroll
        for (int p = 0; p < TILES_M; ++p)
            *(float4*)&fragment_a[4 * p] = *(const float4*)&a[k][thread_m + 16 * p];
        #pragma unroll
        for (int q = 0; q < TILES_N; ++q)
            *(float4*)&fragment_b[4 * q] = *(const float4*)&b[k][thread_n + 32 * q];
        #pragma unroll
        for (int i = 0; i < TILES_M * 4; ++i)
            #pragma unroll
            for (int j = 0; j < TILES_N * 4; ++j)
                accumulators[i][j] += fragment_a[i] * fragment_b[j];
    }
}

#if STAGES == 1

// Load this thread's part of the tiles that begin at tile_k into registers.
template <bool IN_BOUNDS>
__device__ __forceinline__ void load_tiles(float4 (&a_next)[A_FLOAT4], float4 (&b_next)[B_FLOAT4],
                                           const Inputs& in, int tile_k)
{
    load_columns<IN_BOUNDS, THREADS, BM>(a_next, in.A, in.tile_m, tile_k, in.M, in.K);
    load_rows<IN_BOUNDS, THREADS, BN>(b_next, in.B, tile_k, in.tile_n, in.K, in.N);
}

__device__ __forceinline__ void load_tiles(float4 (&a_next)[A_FLOAT4], float4 (&b_next)[B_FLOAT4],
                                           const Inputs& in, int tile_k)
{
    if (in.in_bounds && tile_k + BK <= in.K)
        load_tiles<true>(a_next, b_next, in, tile_k);
    else
        load_tiles<false>(a_next, b_next, in, tile_k);
}

// Store the same part from registers to one buffer.
__device__ __forceinline__ void store_tiles(ATile& a, BTile& b, const float4 (&a_next)[A_FLOAT4],
                                            const float4 (&b_next)[B_FLOAT4])
{
    store_columns<THREADS, BM>(a, a_next);
    store_rows<THREADS>(b, b_next);
}

#else

template <int BYTES>
__device__ __forceinline__ void copy(float* to, const float* from)
{
    cp_async<BYTES>(shared_address(to), from);
}

// Start to copy the tiles that begin at tile_k, as one group. Transposing A takes a copy for each
// element. Past the end of K there is nothing to copy, and the group is empty.
__device__ __forceinline__ void copy_tiles(ATile& a, BTile& b, const Inputs& in, int tile_k)
{
    if (in.in_bounds && tile_k + BK <= in.K) {
        #pragma unroll
        for (int v = 0; v < 4 * A_FLOAT4; ++v) {
            const int i = threadIdx.x + v * THREADS;
            const int row = i / 8 % BM, k = i % 8 + i / (8 * BM) * 8;
            copy<4>(&a[k][row], in.A + (size_t)(in.tile_m + row) * in.K + tile_k + k);
        }
        #pragma unroll
        for (int v = 0; v < B_FLOAT4; ++v) {
            const int i = threadIdx.x + v * THREADS;
            const int k = i / (BN / 4), col = i % (BN / 4) * 4;
            copy<16>(&b[k][col], in.B + (size_t)(tile_k + k) * in.N + in.tile_n + col);
        }
    } else if (tile_k < in.K) {
        for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
            const int row = i / 8 % BM, k = i % 8 + i / (8 * BM) * 8;
            if (in.tile_m + row < in.M && tile_k + k < in.K)
                copy<4>(&a[k][row], in.A + (size_t)(in.tile_m + row) * in.K + tile_k + k);
            else
                a[k][row] = 0.0f;
        }
        for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
            const int k = i / BN, col = i % BN;
            if (tile_k + k < in.K && in.tile_n + col < in.N)
                copy<4>(&b[k][col], in.B + (size_t)(tile_k + k) * in.N + in.tile_n + col);
            else
                b[k][col] = 0.0f;
        }
    }
    cp_async_commit();
}

#endif

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
double_buffering(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                 int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) ATile a[BUFFERS];
    __shared__ __align__(16) BTile b[BUFFERS];

    const int thread = threadIdx.x;
    const int tile_m = blockIdx.y * BM, tile_n = blockIdx.x * BN;  // the block's tile of C
    const bool in_bounds = tile_m + BM <= M && tile_n + BN <= N && N % 4 == 0 && K % 4 == 0;
    const Inputs in = {A, B, M, N, K, tile_m, tile_n, in_bounds};

    // Block to warp to lane. Bits 0, 2 and 3 of the lane count columns, bits 1 and 4 rows.
    const int warp = thread / 32, lane = thread % 32;
    const int lane_n = lane % 2 + lane / 4 % 4 * 2, lane_m = lane / 2 % 2 + lane / 16 * 2;
    const int thread_m = warp / (BN / WN) * WM + lane_m * 4;  // the thread's first row
    const int thread_n = warp % (BN / WN) * WN + lane_n * 4;  // and column in the block's tile

    float accumulators[TILES_M * 4][TILES_N * 4] = {};
    int buffer = 0;                              // the one that is multiplied
#if STAGES == 1
    float4 a_next[A_FLOAT4], b_next[B_FLOAT4];
    load_tiles(a_next, b_next, in, 0);
    store_tiles(a[0], b[0], a_next, b_next);
    __syncthreads();

    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        const bool more = tile_k + BK < K;
        if (more) load_tiles(a_next, b_next, in, tile_k + BK);
        multiply(accumulators, a[buffer], b[buffer], thread_m, thread_n);

        // The other buffer was read before the last barrier: it may be overwritten now.
        buffer ^= 1;
        if (more) store_tiles(a[buffer], b[buffer], a_next, b_next);
        __syncthreads();
    }
#else
    for (int stage = 0; stage < STAGES - 1; ++stage)
        copy_tiles(a[stage], b[stage], in, stage * BK);

    int freed = STAGES - 1;                      // the buffer that was multiplied before
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();                         // the copies of all threads are complete
        copy_tiles(a[freed], b[freed], in, tile_k + (STAGES - 1) * BK);
        multiply(accumulators, a[buffer], b[buffer], thread_m, thread_n);
        freed = buffer;
        buffer = buffer + 1 == STAGES ? 0 : buffer + 1;
    }
#endif

    #pragma unroll
    for (int i = 0; i < TILES_M * 4; ++i)
        #pragma unroll
        for (int q = 0; q < TILES_N; ++q)
            store_float4(C, tile_m + thread_m + i / 4 * 16 + i % 4, tile_n + thread_n + 32 * q,
                         M, N, &accumulators[i][4 * q], alpha, beta, in_bounds);
}
