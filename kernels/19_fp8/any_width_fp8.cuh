// The product where rows do not begin at multiples of 16 bytes, as tensor maps need, or K is 0:
// threads load byte by byte, and one warpgroup computes 64×64 of C. Slow, and no part of the rung's
// idea: a first reading can leave it out.
// Launch: block (128), grid (ceil(N / 64), ceil(M / 64)).
#pragma once

#include "fp8_epilogue.cuh"
#include "fp8_intervals.cuh"
#include "fp8_stage.cuh"
#include "tile_order.cuh"
#include "tma.cuh"

// Copy 64 rows of a matrix X of rows × cols, BK elements of each, from (row, col) on, into shared
// memory; zeros for what is outside, swizzled as a tensor map would.
__device__ __forceinline__ void store_square(Element (&square)[SQUARE_BYTES], const Element* X,
                                             int row, int col, int rows, int cols)
{
    for (int i = threadIdx.x; i < SQUARE_BYTES; i += WARPGROUP_THREADS) {
        const int r = i / ROW_BYTES, c = i % ROW_BYTES;
        square[r * ROW_BYTES + (c ^ r % 8 * 16)] =
            row + r < rows && col + c < cols ? X[(size_t)(row + r) * cols + col + c] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(WARPGROUP_THREADS)
any_width(const Element* __restrict__ A, const Element* __restrict__ B, ElementC* __restrict__ C,
          const float* __restrict__ scale_a, const float* __restrict__ scale_b, int M, int N, int K,
          float alpha, float beta)
{
    __shared__ __align__(SWIZZLE_PERIOD) Element a[SQUARE_BYTES];
    __shared__ __align__(SWIZZLE_PERIOD) Element b[SQUARE_BYTES];
    // WARPGROUP_ROWS is the side of the tile: 64 rows, and 64 columns.
    const int tile_m = blockIdx.y * WARPGROUP_ROWS, tile_n = blockIdx.x * WARPGROUP_ROWS;
    const int k_tiles = ceil_div(K, BK);
    const Scales scales{scale_a, scale_b, M, N, k_tiles};

    const Descriptor first_a = make_descriptor(shared_address(a));
    const Descriptor first_b = make_descriptor(shared_address(b));
    float totals[32] = {}, partial[32] = {};
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        store_square(a, A, tile_m, k_tile * BK, M, K);
        store_square(b, B, tile_n, k_tile * BK, N, K);
        fence_async_proxy();
        __syncthreads();
        wgmma_fence();
        #pragma unroll
        for (int k = 0; k < BK; k += WGMMA_K)
            wgmma(partial, advance(first_a, k), advance(first_b, k),
                  k_tile % INTERVAL > 0 || k > 0);
        wgmma_commit();
        wgmma_wait<0>();
        __syncthreads();                         // all have multiplied it before it is overwritten
        if ((k_tile + 1) % INTERVAL == 0 || k_tile + 1 == k_tiles)
            // Scales that change along K are of single k tiles: INTERVAL is 1 with them.
            promote(totals, partial,
                    load_interval_scales(scales, tile_m + accumulator_row(0), tile_n, k_tile));
    }
    apply_scales(totals, C, scales, tile_m, tile_n, alpha, beta);
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        const int row = tile_m + accumulator_row(i), col = tile_n + accumulator_column(i);
        const PairC pair = round_pair(totals[i], 0.0f);
        if (row < M && col < N) C[(size_t)row * N + col] = *(const ElementC*)&pair;
    }
}
