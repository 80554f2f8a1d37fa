// 02  Coalescing
// Idea:    the same work, but the 32 threads of a warp stand side by side in a row of C.
//          What they read of B at one moment is then one unbroken piece of memory.
// Before:  01_naive.cu let a warp walk down a column: 32 places of memory for every load of A.
// Launch:  block (BLOCK_X, BLOCK_Y), grid (ceil(N / BLOCK_X), ceil(M / BLOCK_Y)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C.

#ifndef BLOCK_X
#define BLOCK_X 64
#endif
#ifndef BLOCK_Y
#define BLOCK_Y 8
#endif

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
coalescing(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
           int M, int N, int K, float alpha, float beta)
{
    // The element of C that this thread computes. x runs along the columns: the only change.
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= M || col >= N) return;            // blocks at the edge stick out of C

    // Dot product of row `row` of A and column `col` of B.
    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
        sum += A[(size_t)row * K + k]            // the warp reads one element of A, 32 times
             * B[(size_t)k * N + col];           // the warp reads 32 neighbours of B

    // Where beta is 0, C is not read: it may hold anything, NaN included.
    const size_t index = (size_t)row * N + col;
    if (beta == 0.0f)
        C[index] = alpha * sum;
    else
        C[index] = alpha * sum + beta * C[index];
}
