// 08  The lanes of its warps: a measurement beside 08_warp_tiling.cu, no rung of the ladder
// Idea:    where the lanes of a warp stand in its tile, and nothing else. As it is here it is 08.
//          LANES_ACROSS: lanes side by side, of 32; the others stand below them. 16 is as in 07.
//          SQUARES 0: row by row. 1: in squares of 2×2, for 8 lanes across.
// Before:  08_warp_tiling.cu.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   as 08.

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
#define MIN_BLOCKS 1                             // so many blocks shall fit on one SM
#endif
#ifndef LANES_ACROSS
#define LANES_ACROSS 8
#endif
#ifndef SQUARES
#define SQUARES 1
#endif
#define PAD 4                                    // of A's tile, against bank conflicts
#define ROWS_APART (4 * 32 / LANES_ACROSS)       // of a thread's pieces of 4×4
#define COLUMNS_APART (4 * LANES_ACROSS)
#define DOWN (WM / ROWS_APART)                   // pieces that a thread has, downwards
#define ACROSS (WN / COLUMNS_APART)              // and across
#define THREADS (32 * (BM / WM) * (BN / WN))

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
warp_tiling(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
            int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) float a[BK][BM + PAD];            // transposed: a[k][row]
    __shared__ __align__(16) float b[BK][BN];

    const int thread = threadIdx.x;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the block's corner of C
    const bool whole = top + BM <= M && left + BN <= N && N % 4 == 0 && K % 4 == 0;

    // Block to warp to lane. In squares, bits 0, 2, 3 of the lane go across, bits 1 and 4 down.
    const int warp = thread / 32, lane = thread % 32;
#if SQUARES
    static_assert(LANES_ACROSS == 8, "squares of 2x2 stand 8 lanes across");
    const int across = lane % 2 + lane / 4 % 4 * 2, down = lane / 2 % 2 + lane / 16 * 2;
#else
    const int across = lane % LANES_ACROSS, down = lane / LANES_ACROSS;
#endif
    const int y = warp / (BN / WN) * WM + down * 4;            // my first row of the block's tile
    const int x = warp % (BN / WN) * WN + across * 4;          // my first column of it

    float sums[DOWN * 4][ACROSS * 4] = {};
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        // All threads bring their part of the next tiles as far as registers.
        float4 a_next[FOURS(BM * BK)], b_next[FOURS(BK * BN)];
        if (whole && tile_k + BK <= K) {
            fetch_columns<true, THREADS, BM>(a_next, A, top, tile_k, M, K);
            fetch_rows<true, THREADS, BN>(b_next, B, tile_k, left, K, N);
        } else {
            fetch_columns<false, THREADS, BM>(a_next, A, top, tile_k, M, K);
            fetch_rows<false, THREADS, BN>(b_next, B, tile_k, left, K, N);
        }
        __syncthreads();                         // nobody reads the tiles before any more
        keep_columns<THREADS, BM>(a, a_next);
        keep_rows<THREADS>(b, b_next);
        __syncthreads();                         // the next ones are whole

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_column[DOWN * 4], b_row[ACROSS * 4];
            #pragma unroll
            for (int p = 0; p < DOWN; ++p)
                *(float4*)&a_column[4 * p] = *(const float4*)&a[k][y + ROWS_APART * p];
            #pragma unroll
            for (int q = 0; q < ACROSS; ++q)
                *(float4*)&b_row[4 * q] = *(const float4*)&b[k][x + COLUMNS_APART * q];
            #pragma unroll
            for (int i = 0; i < DOWN * 4; ++i)
                #pragma unroll
                for (int j = 0; j < ACROSS * 4; ++j)
                    sums[i][j] += a_column[i] * b_row[j];
        }
    }

    #pragma unroll
    for (int i = 0; i < DOWN * 4; ++i)
        #pragma unroll
        for (int q = 0; q < ACROSS; ++q)
            store_four(C, top + y + i / 4 * ROWS_APART + i % 4, left + x + COLUMNS_APART * q, M, N,
                       &sums[i][4 * q], alpha, beta, whole);
}
