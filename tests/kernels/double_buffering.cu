// Double buffering
// Idea:    while the block multiplies one pair of tiles, its threads already wait for the next one,
//          which comes from global memory into registers. Two buffers of shared memory take turns,
//          so that one barrier per tile is enough.
// Before:  warp_tiling.cu loaded, waited, multiplied, waited.
// Launch:  block (BM / TM * BN / 8), grid (ceil(N / BN), ceil(M / BM)).
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
#define TM 8                                     // a multiple of 4
#endif
#define TN 8
#define PAD 4                                    // of A's tile, against bank conflicts
#define THREADS ((BM / TM) * (BN / TN))
#define A_FOURS (BM * BK / 4 / THREADS)          // float4 of A that a thread brings
#define B_FOURS (BK * BN / 4 / THREADS)          // and of B
static_assert(A_FOURS * THREADS * 4 == BM * BK && B_FOURS * THREADS * 4 == BK * BN,
              "every thread brings the same number of float4");

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

// My part of the tiles that begin at tile_k, from global memory into registers.
__device__ void fetch(float4 (&a_next)[A_FOURS], float4 (&b_next)[B_FOURS],
                      const float* A, const float* B, int M, int N, int K,
                      int top, int left, int tile_k)
{
    const bool a_aligned = K % 4 == 0, b_aligned = N % 4 == 0;
    #pragma unroll
    for (int f = 0; f < A_FOURS; ++f) {
        const int i = threadIdx.x + f * THREADS;
        const int row = top + i / (BK / 4), k = tile_k + i % (BK / 4) * 4;
        a_next[f] = load_four(A + (size_t)row * K, k, row < M ? K : 0, a_aligned);
    }
    #pragma unroll
    for (int f = 0; f < B_FOURS; ++f) {
        const int i = threadIdx.x + f * THREADS;
        const int k = tile_k + i / (BN / 4), col = left + i % (BN / 4) * 4;
        b_next[f] = load_four(B + (size_t)k * N, col, k < K ? N : 0, b_aligned);
    }
}

// The same part, from registers into one buffer of shared memory, A transposed.
__device__ void keep(float (&a)[BK][BM + PAD], float (&b)[BK][BN],
                     const float4 (&a_next)[A_FOURS], const float4 (&b_next)[B_FOURS])
{
    #pragma unroll
    for (int f = 0; f < A_FOURS; ++f) {
        const int i = threadIdx.x + f * THREADS;
        const int row = i / (BK / 4), k = i % (BK / 4) * 4;
        a[k + 0][row] = a_next[f].x;
        a[k + 1][row] = a_next[f].y;
        a[k + 2][row] = a_next[f].z;
        a[k + 3][row] = a_next[f].w;
    }
    #pragma unroll
    for (int f = 0; f < B_FOURS; ++f) {
        const int i = threadIdx.x + f * THREADS;
        *(float4*)&b[i / (BN / 4)][i % (BN / 4) * 4] = b_next[f];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
double_buffering(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                 int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) float a[2][BK][BM + PAD];         // transposed: a[buffer][k][row]
    __shared__ __align__(16) float b[2][BK][BN];

    const int thread = threadIdx.x;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the block's corner of C
    const int x = thread % (BN / TN) * 4;        // my columns: x to x + 3, and BN / 2 further right
    const int y = thread / (BN / TN) * TM;       // my first row of the block's tile

    float4 a_next[A_FOURS], b_next[B_FOURS];
    fetch(a_next, b_next, A, B, M, N, K, top, left, 0);
    keep(a[0], b[0], a_next, b_next);
    __syncthreads();

    float sums[TM][TN] = {};
    int now = 0;                                 // the buffer that is multiplied
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        const bool more = tile_k + BK < K;
        if (more) fetch(a_next, b_next, A, B, M, N, K, top, left, tile_k + BK);

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_column[TM], b_row[TN];
            #pragma unroll
            for (int i = 0; i < TM; i += 4)
                *(float4*)&a_column[i] = *(const float4*)&a[now][k][y + i];
            #pragma unroll
            for (int half = 0; half < 2; ++half)
                *(float4*)&b_row[4 * half] = *(const float4*)&b[now][k][x + half * (BN / 2)];
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                #pragma unroll
                for (int j = 0; j < TN; ++j)
                    sums[i][j] += a_column[i] * b_row[j];
        }

        // The other buffer was read before the last barrier: it may be overwritten now.
        now ^= 1;
        if (more) keep(a[now], b[now], a_next, b_next);
        __syncthreads();
    }

    const bool aligned = N % 4 == 0;
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int row = top + y + i;
        if (row >= M) return;
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int col = left + x + half * (BN / 2);
            const float* mine = &sums[i][4 * half];
            float* here = C + (size_t)row * N + col;
            if (aligned && col < N) {
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
