// 03  Shared-memory tiling
// Idea:    a block loads a TILE×BK tile of A and a BK×TILE tile of B once, and all its threads
//          reuse them.
// Before:  02_coalescing.cu read every element of A N times from global memory, of B M times.
// Launch:  block (TILE, TILE), grid (ceil(N / TILE), ceil(M / TILE)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C.

#ifndef TILE
#define TILE 32                                  // rows and columns of C that a block computes
#endif
#ifndef BK
#define BK 64                                    // how far along K one step goes: TILE or more
#endif
#ifndef PAD
#define PAD 0                                    // unused floats at the end of a tile's row
#endif

extern "C" __global__ void __launch_bounds__(TILE * TILE)
shared_memory(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
              int M, int N, int K, float alpha, float beta)
{
    __shared__ float a[TILE][BK + PAD];
    __shared__ float b[BK][TILE + PAD];

    const int x = threadIdx.x, y = threadIdx.y;  // this thread's element of the block's tile of C
    const int row = blockIdx.y * TILE + y;
    const int col = blockIdx.x * TILE + x;
    const bool in_bounds = (blockIdx.y + 1) * TILE <= M && (blockIdx.x + 1) * TILE <= N;

    const float* a_source = A + (size_t)row * K + x;           // the first elements to load
    const float* b_source = B + (size_t)y * N + col;
    float sum = 0.0f;
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        // Each thread loads BK / TILE elements of A and as many of B.
        if (in_bounds && tile_k + BK <= K) {
            #pragma unroll
            for (int i = 0; i < BK; i += TILE) {
                a[y][x + i] = a_source[i];
                b[y + i][x] = b_source[(size_t)i * N];
            }
        } else {                                 // at the edges: zeros for what lies outside
            #pragma unroll
            for (int i = 0; i < BK; i += TILE) {
                a[y][x + i] = row < M && tile_k + x + i < K ? a_source[i] : 0.0f;
                b[y + i][x] = tile_k + y + i < K && col < N ? b_source[(size_t)i * N] : 0.0f;
            }
        }
        a_source += BK;
        b_source += (size_t)BK * N;
        __syncthreads();                         // both tiles are complete

        #pragma unroll
        for (int k = 0; k < BK; ++k)
            sum += a[y][k] * b[k][x];
        __syncthreads();                         // all threads have read them
    }

    // Where beta is 0, C is not read: it may hold anything, NaN included.
    if (row >= M || col >= N) return;
    const size_t index = (size_t)row * N + col;
    C[index] = beta == 0.0f ? alpha * sum : alpha * sum + beta * C[index];
}
