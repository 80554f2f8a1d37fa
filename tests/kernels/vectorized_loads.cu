// Vectorized loads
// Idea:    a thread moves 16 bytes at once, from global memory and from shared memory. A's tile is
//          staged transposed, so that the TM elements which a thread needs lie side by side.
// Before:  thread_tile_2d.cu moved 4 bytes with each load.
// Launch:  block (BM / TM * BN / TN), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes; where N or K is no multiple of 4, rows do not, and single
//          elements are moved instead.

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 128
#endif
#ifndef BK
#define BK 8
#endif
#ifndef TM
#define TM 8                                     // a multiple of 4, as TN
#endif
#ifndef TN
#define TN 8
#endif
#define THREADS ((BM / TM) * (BN / TN))

// Four elements of a row with `cols` of them, from `col` on, zeros past its end.
__device__ float4 load_four(const float* row, int col, int cols, bool aligned)
{
    float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (aligned) {
        if (col < cols) four = *(const float4*)(row + col);
    } else {
        if (col + 0 < cols) four.x = row[col + 0];
        if (col + 1 < cols) four.y = row[col + 1];
        if (col + 2 < cols) four.z = row[col + 2];
        if (col + 3 < cols) four.w = row[col + 3];
    }
    return four;
}

extern "C" __global__ void __launch_bounds__(THREADS)
vectorized_loads(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                 int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) float a[BK][BM];    // transposed: a[k][row]
    __shared__ __align__(16) float b[BK][BN];

    const int thread = threadIdx.x;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the block's corner of C
    const int x = thread % (BN / TN) * TN;       // my first column of the block's tile
    const int y = thread / (BN / TN) * TM;       // my first row of it
    const bool a_aligned = K % 4 == 0, b_aligned = N % 4 == 0;

    float sums[TM][TN] = {};
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        for (int i = thread; i < BM * BK / 4; i += THREADS) {
            const int row = i / (BK / 4), k = i % (BK / 4) * 4;
            const int cols = top + row < M ? K : 0;            // a row below A has no elements
            const float4 four = load_four(A + (size_t)(top + row) * K, tile_k + k, cols, a_aligned);
            a[k + 0][row] = four.x;
            a[k + 1][row] = four.y;
            a[k + 2][row] = four.z;
            a[k + 3][row] = four.w;
        }
        for (int i = thread; i < BK * BN / 4; i += THREADS) {
            const int k = i / (BN / 4), col = i % (BN / 4) * 4;
            const int cols = tile_k + k < K ? N : 0;
            *(float4*)&b[k][col] =
                load_four(B + (size_t)(tile_k + k) * N, left + col, cols, b_aligned);
        }
        __syncthreads();

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_column[TM], b_row[TN];
            #pragma unroll
            for (int i = 0; i < TM; i += 4)
                *(float4*)&a_column[i] = *(const float4*)&a[k][y + i];
            #pragma unroll
            for (int j = 0; j < TN; j += 4)
                *(float4*)&b_row[j] = *(const float4*)&b[k][x + j];
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                #pragma unroll
                for (int j = 0; j < TN; ++j)
                    sums[i][j] += a_column[i] * b_row[j];
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int row = top + y + i;
        if (row >= M) return;
        #pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int col = left + x + j;
            float* here = C + (size_t)row * N + col;
            if (b_aligned && col < N) {
                float4 four = beta == 0.0f ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : *(float4*)here;
                four.x = alpha * sums[i][j + 0] + beta * four.x;
                four.y = alpha * sums[i][j + 1] + beta * four.y;
                four.z = alpha * sums[i][j + 2] + beta * four.z;
                four.w = alpha * sums[i][j + 3] + beta * four.w;
                *(float4*)here = four;
            } else {
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    if (col + v >= N) break;
                    const float old = beta == 0.0f ? 0.0f : here[v];
                    here[v] = alpha * sums[i][j + v] + beta * old;
                }
            }
        }
    }
}
