// The product where rows do not begin at multiples of 16 bytes, as tensor maps need, or K is 0:
// threads load element by element, and one warpgroup computes 64×64 of C. Slow.
// Launch: block (128), grid (ceil(N / 64), ceil(M / 64)).
#pragma once

// The square of a matrix X of rows × cols that begins at (row, col), zeros outside, as a copy by
// tensor map would leave it.
__device__ __forceinline__ void bring_elements(Bits (&square)[ROW_ELEMENTS * ROW_ELEMENTS],
                                               const Bits* X, int row, int col, int rows, int cols)
{
    for (int i = threadIdx.x; i < ROW_ELEMENTS * ROW_ELEMENTS; i += GROUP_THREADS) {
        const int r = i / ROW_ELEMENTS, c = i % ROW_ELEMENTS;
        square[r * ROW_ELEMENTS + (c ^ r % 8 * 8)] =
            row + r < rows && col + c < cols ? X[(size_t)(row + r) * cols + col + c] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(GROUP_THREADS)
any_width(const Bits* __restrict__ A, const Bits* __restrict__ B, OfC* __restrict__ C, int M, int N,
          int K, float alpha, float beta)
{
    __shared__ __align__(SWIZZLED_BYTES) Bits a[ROW_ELEMENTS * ROW_ELEMENTS];
    __shared__ __align__(SWIZZLED_BYTES) Bits b[ROW_ELEMENTS * ROW_ELEMENTS];
    const int top = blockIdx.y * GROUP_ROWS, left = blockIdx.x * ROW_ELEMENTS;

    float sums[32] = {};
    for (int k = 0; k < K; k += BK) {
        bring_elements(a, A, top, k, M, K);
        if (OP_B) bring_elements(b, B, left, k, N, K);
        else bring_elements(b, B, k, left, K, N);
        publish_stores();
        __syncthreads();
        fence_sums();
        #pragma unroll
        for (int d = 0; d < BK; d += DEPTH)
            start_product<!OP_B>(sums, behind(describe(shared_address(a)), d * 2),
                                 behind(describe(shared_address(b)), d * (OP_B ? 2 : ROW_BYTES)), 1);
        commit_products();
        wait_for_products<0>();
        __syncthreads();                         // all have multiplied it before it is filled anew
    }
    combine(sums, C, top, left, M, N, alpha, beta);
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        const int r = top + row_of(i), c = left + col_of(i);
        const PairOfC one = rounded(sums[i], 0.0f);
        if (r < M && c < N) C[(size_t)r * N + c] = *(const OfC*)&one;
    }
}
