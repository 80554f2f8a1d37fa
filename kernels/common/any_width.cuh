// The product where rows do not begin at multiples of 16 bytes, as tensor maps need, or K is 0:
// threads load element by element, and one warpgroup computes 64×64 of C. Slow, and no part of the
// rung's idea: a first reading can leave it out.
// Launch: block (128), grid (ceil(N / 64), ceil(M / 64)).
#pragma once

#include "operand_b.cuh"
#include "alpha_beta.cuh"

// The 64×64 square of a matrix X of rows × cols that begins at (row, col), zeros outside, swizzled
// as by a tensor map.
__device__ __forceinline__ void store_square(Element (&square)[ROW_ELEMENTS * ROW_ELEMENTS],
                                             const Element* X, int row, int col, int rows, int cols)
{
    for (int i = threadIdx.x; i < ROW_ELEMENTS * ROW_ELEMENTS; i += WARPGROUP_THREADS) {
        const int r = i / ROW_ELEMENTS, c = i % ROW_ELEMENTS;
        square[r * ROW_ELEMENTS + (c ^ r % 8 * 8)] =
            row + r < rows && col + c < cols ? X[(size_t)(row + r) * cols + col + c] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(WARPGROUP_THREADS)
any_width(const Element* __restrict__ A, const Element* __restrict__ B, ElementC* __restrict__ C,
          int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(SWIZZLE_PERIOD) Element a[ROW_ELEMENTS * ROW_ELEMENTS];
    __shared__ __align__(SWIZZLE_PERIOD) Element b[ROW_ELEMENTS * ROW_ELEMENTS];
    const int tile_m = blockIdx.y * WARPGROUP_ROWS, tile_n = blockIdx.x * ROW_ELEMENTS;

    const Descriptor first_a = make_descriptor(shared_address(a));
    const Descriptor first_b = make_descriptor(shared_address(b));
    float accumulators[32] = {};
    for (int k_tile = 0; k_tile < K; k_tile += ROW_ELEMENTS) {
        store_square(a, A, tile_m, k_tile, M, K);
        if (OP_B) store_square(b, B, tile_n, k_tile, N, K);
        else store_square(b, B, k_tile, tile_n, K, N);
        // The tensor cores read what threads have stored, by another path.
        fence_async_proxy();
        __syncthreads();
        wgmma_fence();
        #pragma unroll
        for (int k = 0; k < ROW_ELEMENTS; k += WGMMA_K)
            wgmma<TRANSPOSE_B>(accumulators, advance(first_a, k * (int)sizeof(Element)),
                               advance(first_b, k * BYTES_PER_K), 1);
        wgmma_commit();
        wgmma_wait<0>();
        __syncthreads();                         // all have multiplied it before it is overwritten
    }
    apply_alpha_beta(accumulators, C, tile_m, tile_n, M, N, alpha, beta);
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        const int row = tile_m + accumulator_row(i), col = tile_n + accumulator_column(i);
        const PairC pair = round_pair(accumulators[i], 0.0f);
        if (row < M && col < N) C[(size_t)row * N + col] = *(const ElementC*)&pair;
    }
}
