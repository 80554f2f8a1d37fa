// A warp's part of C through shared memory, element by element: any N, alpha and beta. A first
// reading can leave this out, too.
#pragma once

#include "mma_operands.cuh"

// 16 rows of a warp's part of C, in shared memory.
struct Strip {
    Accumulator c[16][WN + 4];
};

// As store_fours, by way of a strip that only this warp uses.
__device__ __forceinline__ void store_any(Strip& strip, Result* C, const Accumulators& accumulators,
                                          int row, int col, int M, int N, float alpha, float beta,
                                          const float* bias)
{
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < TILES_M; ++i) {
        #pragma unroll
        for (int pair = 0; pair < TILES_N / 2; ++pair)
            #pragma unroll
            for (int lower = 0; lower < 2; ++lower) {
                Accumulator four[4];
                four_neighbours(four, accumulators[i], pair, lower, lane);
                #pragma unroll
                for (int v = 0; v < 4; ++v)
                    strip.c[8 * lower + lane / 4][column_of_four(pair, lane) + v] = four[v];
            }
        __syncwarp();
        #pragma unroll 1
        for (int e = lane; e < 16 * WN; e += 32) {
            const int r = row + 16 * i + e / WN, c = col + e % WN;
            if (r >= M || c >= N) continue;
            Result* to = C + (size_t)r * N + c;
            Result result = beta == 0.0f ? Result() : *to;
            combine(result, strip.c[e / WN][e % WN], alpha, beta, BIAS && bias ? bias[c] : 0.0f);
            *to = result;
        }
        __syncwarp();                            // all have read it before it is filled again
    }
}
