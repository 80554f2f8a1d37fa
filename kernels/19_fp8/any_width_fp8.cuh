// The product where rows do not begin at multiples of 16 bytes, as tensor maps need, or K is 0:
// threads load byte by byte, and one warpgroup computes 64×64 of C. Slow.
// Launch: block (128), grid (ceil(N / 64), ceil(M / 64)).
#pragma once

// 64 rows of a matrix X of rows × cols, 128 of each, from (row, col) on, zeros outside, as a copy by
// tensor map would leave them.
__device__ __forceinline__ void bring_bytes(Byte (&tile)[SQUARE_BYTES], const Byte* X, int row,
                                            int col, int rows, int cols)
{
    for (int i = threadIdx.x; i < SQUARE_BYTES; i += GROUP_THREADS) {
        const int r = i / ROW_BYTES, c = i % ROW_BYTES;
        tile[r * ROW_BYTES + (c ^ r % 8 * 16)] =
            row + r < rows && col + c < cols ? X[(size_t)(row + r) * cols + col + c] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(GROUP_THREADS)
any_width(const Byte* __restrict__ A, const Byte* __restrict__ B, OfC* __restrict__ C,
          const float* __restrict__ scale_a, const float* __restrict__ scale_b, int M, int N, int K,
          float alpha, float beta)
{
    __shared__ __align__(SWIZZLED_BYTES) Byte a[SQUARE_BYTES];
    __shared__ __align__(SWIZZLED_BYTES) Byte b[SQUARE_BYTES];
    const int top = blockIdx.y * GROUP_ROWS, left = blockIdx.x * GROUP_ROWS;
    const int steps = tiles_of(K, BK);
    const Scales scales{scale_a, scale_b, M, N, steps};

    float totals[32] = {}, sums[32] = {};
    for (int step = 0; step < steps; ++step) {
        bring_bytes(a, A, top, step * BK, M, K);
        bring_bytes(b, B, left, step * BK, N, K);
        publish_stores();
        __syncthreads();
        fence_sums();
        start_products(sums, a, b, step % INTERVAL > 0);
        commit_products();
        wait_for_products<0>();
        __syncthreads();                         // all have multiplied it before it is filled anew
        if ((step + 1) % INTERVAL == 0 || step + 1 == steps)
            promote(totals, sums, scales.along_k(top + row_of(0), left, step));
    }
    combine(totals, C, top, left, scales, alpha, beta);
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        const int r = top + row_of(i), c = left + col_of(i);
        const PairOfC one = rounded(totals[i], 0.0f);
        if (r < M && c < N) C[(size_t)r * N + c] = *(const OfC*)&one;
    }
}
