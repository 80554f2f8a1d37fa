// 08  The lanes of its warps: a measurement beside 08_warp_tiling.cu, no rung of the ladder
// Idea:    where the lanes of a warp stand in its tile, and nothing else. By default it is 08.
//          LANES_ACROSS: lanes side by side, of 32; the others stand below them. 16 is as in 07.
//          SQUARES 0: row by row. 1: in squares of 2×2, for 8 lanes side by side.
// Before:  08_warp_tiling.cu.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   as 08.

#include "float4.cuh"
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
#define WM 64                                    // rows of C that a warp computes
#endif
#ifndef WN
#define WN 64                                    // columns
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1                             // blocks that must fit on one SM
#endif
#ifndef LANES_ACROSS
#define LANES_ACROSS 8
#endif
#ifndef SQUARES
#define SQUARES 1
#endif
#define PAD 4                                    // of A's tile, against bank conflicts
#define STRIDE_M (4 * 32 / LANES_ACROSS)         // rows from a thread's tile of 4×4 to the next
#define STRIDE_N (4 * LANES_ACROSS)              // and columns
#define TILES_M (WM / STRIDE_M)                  // tiles of 4×4 of a thread: one below the other
#define TILES_N (WN / STRIDE_N)                  // and side by side
#define THREADS (32 * (BM / WM) * (BN / WN))
#define A_FLOAT4 (BM * BK / 4 / THREADS)         // loads of 16 bytes by each thread, of A's tile
#define B_FLOAT4 (BK * BN / 4 / THREADS)         // and of B's

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
warp_tiling(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
            int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) float a[BK][BM + PAD];            // transposed: a[k][row]
    __shared__ __align__(16) float b[BK][BN];

    const int thread = threadIdx.x;
    const int tile_m = blockIdx.y * BM, tile_n = blockIdx.x * BN;  // the block's tile of C
    const bool in_bounds = tile_m + BM <= M && tile_n + BN <= N && N % 4 == 0 && K % 4 == 0;

    // Block to warp to lane. In squares, bits 0, 2 and 3 of the lane count columns, bits 1 and 4
    // rows.
    const int warp = thread / 32, lane = thread % 32;
#if SQUARES
    static_assert(LANES_ACROSS == 8, "squares of 2x2 need 8 lanes side by side");
    const int lane_n = lane % 2 + lane / 4 % 4 * 2, lane_m = lane / 2 % 2 + lane / 16 * 2;
#else
    const int lane_n = lane % LANES_ACROSS, lane_m = lane / LANES_ACROSS;
#endif
    const int thread_m = warp / (BN / WN) * WM + lane_m * 4;  // the thread's first row
    const int thread_n = warp % (BN / WN) * WN + lane_n * 4;  // and column in the block's tile

    float accumulators[TILES_M * 4][TILES_N * 4] = {};
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        // All threads load their part of the next tiles into registers.
        float4 a_next[A_FLOAT4], b_next[B_FLOAT4];
        if (in_bounds && tile_k + BK <= K) {
            load_columns<true, THREADS, BM>(a_next, A, tile_m, tile_k, M, K);
            load_rows<true, THREADS, BN>(b_next, B, tile_k, tile_n, K, N);
        } else {
            load_columns<false, THREADS, BM>(a_next, A, tile_m, tile_k, M, K);
            load_rows<false, THREADS, BN>(b_next, B, tile_k, tile_n, K, N);
        }
        __syncthreads();                         // all threads have read the tiles before
        store_columns<THREADS, BM>(a, a_next);
        store_rows<THREADS>(b, b_next);
        __syncthreads();                         // the next ones are complete

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float fragment_a[TILES_M * 4], fragment_b[TILES_N * 4];
            #pragma unroll
            for (int p = 0; p < TILES_M; ++p)
                *(float4*)&fragment_a[4 * p] = *(const float4*)&a[k][thread_m + STRIDE_M * p];
            #pragma unroll
            for (int q = 0; q < TILES_N; ++q)
                *(float4*)&fragment_b[4 * q] = *(const float4*)&b[k][thread_n + STRIDE_N * q];
            #pragma unroll
            for (int i = 0; i < TILES_M * 4; ++i)
                #pragma unroll
                for (int j = 0; j < TILES_N * 4; ++j)
                    accumulators[i][j] += fragment_a[i] * fragment_b[j];
        }
    }

    #pragma unroll
    for (int i = 0; i < TILES_M * 4; ++i)
        #pragma unroll
        for (int q = 0; q < TILES_N; ++q)
            store_float4(C, tile_m + thread_m + i / 4 * STRIDE_M + i % 4,
                         tile_n + thread_n + STRIDE_N * q, M, N, &accumulators[i][4 * q],
                         alpha, beta, in_bounds);
}
