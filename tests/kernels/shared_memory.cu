// Shared-memory tiling
// Idea:    a block loads a TILE×TILE piece of A and of B once, and all its threads reuse them.
// Slip:    TRANSPOSED 1 keeps B's piece column by column: the warp then writes and reads it at a
//          stride of TILE floats, all in one bank. PAD 1 moves each column on by a bank.
// Launch:  block (TILE, TILE), grid (ceil(N / TILE), ceil(M / TILE)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C.

#ifndef TILE
#define TILE 32
#endif
#ifndef PAD
#define PAD 0
#endif
#ifndef TRANSPOSED
#define TRANSPOSED 0
#endif

#if TRANSPOSED
#define B_TILE(k, x) b[x][k]
#else
#define B_TILE(k, x) b[k][x]
#endif

extern "C" __global__ void __launch_bounds__(TILE * TILE)
shared_memory(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
              int M, int N, int K, float alpha, float beta)
{
    __shared__ float a[TILE][TILE + PAD];
    __shared__ float b[TILE][TILE + PAD];

    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y;
    const int col = blockIdx.x * TILE + x;

    float sum = 0.0f;
    for (int tile_k = 0; tile_k < K; tile_k += TILE) {
        // Each thread brings one element of A and one of B; outside them the tiles hold zeros.
        a[y][x] = row < M && tile_k + x < K ? A[(size_t)row * K + tile_k + x] : 0.0f;
        B_TILE(y, x) = tile_k + y < K && col < N ? B[(size_t)(tile_k + y) * N + col] : 0.0f;
        __syncthreads();                         // the tiles are whole

        #pragma unroll
        for (int k = 0; k < TILE; ++k)
            sum += a[y][k] * B_TILE(k, x);
        __syncthreads();                         // nobody reads them any more
    }

    if (row >= M || col >= N) return;
    const size_t here = (size_t)row * N + col;
    if (beta == 0.0f)
        C[here] = alpha * sum;
    else
        C[here] = alpha * sum + beta * C[here];
}
