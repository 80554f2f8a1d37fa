// 01  Naive
// Idea:    one thread computes one element of C: a whole row of A times a whole column of B.
// Slip:    threadIdx.x counts rows, so the 32 threads of a warp stand below each other in C.
//          A warp then reads 32 rows of A at once, in 32 different places of memory.
// Launch:  block (BLOCK_X, BLOCK_Y), grid (ceil(M / BLOCK_X), ceil(N / BLOCK_Y)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C.

#ifndef BLOCK_X
#define BLOCK_X 64
#endif
#ifndef BLOCK_Y
#define BLOCK_Y 8
#endif

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
naive(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
      int M, int N, int K, float alpha, float beta)
{
    // The element of C that this thread computes. x runs down the rows here.
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    const int col = blockIdx.y * BLOCK_Y + threadIdx.y;
    if (row >= M || col >= N) return;            // blocks at the edge stick out of C

    // Dot product of row `row` of A and column `col` of B.
    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
        sum += A[(size_t)row * K + k]            // the warp reads 32 rows of A: K floats apart
             * B[(size_t)k * N + col];           // the warp reads one element of B, 32 times

    // Where beta is 0, C is not read: it may hold anything, NaN included.
    const size_t index = (size_t)row * N + col;
    if (beta == 0.0f)
        C[index] = alpha * sum;
    else
        C[index] = alpha * sum + beta * C[index];
}
