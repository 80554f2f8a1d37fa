// Warp tiling
// Idea:    a third level between block and thread. A warp owns WM×WN of the block's tile; its 32
//          lanes stand 4 down and 8 across, and each computes 4×4 elements at a time. So the reads
//          of one warp lie close together, and registers hold pieces that all its lanes reuse.
// Before:  bank_conflicts.cu spread a warp over the whole width of the block's tile.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)).
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
#define BK 16
#endif
#ifndef WM
#define WM 64                                    // a multiple of 16: 4 lanes of 4 rows
#endif
#ifndef WN
#define WN 64                                    // a multiple of 32: 8 lanes of 4 columns
#endif
#define PAD 4                                    // of A's tile, against bank conflicts
#define DOWN (WM / 16)                           // pieces of 4×4 that a thread has, down
#define ACROSS (WN / 32)                         // and across
#define THREADS (32 * (BM / WM) * (BN / WN))

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
warp_tiling(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
            int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) float a[BK][BM + PAD];            // transposed: a[k][row]
    __shared__ __align__(16) float b[BK][BN];

    const int thread = threadIdx.x;
    const int warp = thread / 32, lane = thread % 32;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the block's corner of C
    const int y = warp / (BN / WN) * WM + lane / 8 * 4;        // my first row of the block's tile
    const int x = warp % (BN / WN) * WN + lane % 8 * 4;        // my first column of it
    const bool a_aligned = K % 4 == 0, b_aligned = N % 4 == 0;

    float sums[DOWN * 4][ACROSS * 4] = {};
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
            float a_column[DOWN * 4], b_row[ACROSS * 4];
            #pragma unroll
            for (int down = 0; down < DOWN; ++down)
                *(float4*)&a_column[4 * down] = *(const float4*)&a[k][y + 16 * down];
            #pragma unroll
            for (int across = 0; across < ACROSS; ++across)
                *(float4*)&b_row[4 * across] = *(const float4*)&b[k][x + 32 * across];
            #pragma unroll
            for (int i = 0; i < DOWN * 4; ++i)
                #pragma unroll
                for (int j = 0; j < ACROSS * 4; ++j)
                    sums[i][j] += a_column[i] * b_row[j];
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < DOWN * 4; ++i) {
        const int row = top + y + i / 4 * 16 + i % 4;
        if (row >= M) return;
        #pragma unroll
        for (int across = 0; across < ACROSS; ++across) {
            const int col = left + x + 32 * across;
            const float* mine = &sums[i][4 * across];
            float* here = C + (size_t)row * N + col;
            if (b_aligned && col < N) {
                float4 four = beta == 0.0f ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : *(float4*)here;
                four.x = alpha * mine[0] + beta * four.x;
                four.y = alpha * mine[1] + beta * four.y;
                four.z = alpha * mine[2] + beta * four.z;
                four.w = alpha * mine[3] + beta * four.w;
                *(float4*)here = four;
            } else {
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    if (col + v >= N) break;
                    const float old = beta == 0.0f ? 0.0f : here[v];
                    here[v] = alpha * mine[v] + beta * old;
                }
            }
        }
    }
}
