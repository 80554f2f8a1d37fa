// The tiles in flat arrays, with a padding that every index must agree on.
#define TILE 16
#define WIDTH (TILE + 1)
extern __shared__ float tiles[];
extern "C" __global__ void k(const float* A, const float* B, float* C, int n) {
    float* a = tiles;
    float* b = tiles + TILE * WIDTH;
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int start = 0; start < n; start += TILE) {
        a[y * WIDTH + x] = A[row * n + start + x];
        b[y * WIDTH + x] = B[(start + y) * n + col];
        __syncthreads();
        for (int i = 0; i < TILE; ++i)
            sum += a[y * WIDTH + i] * b[i * WIDTH + x];
        __syncthreads();
    }
    C[row * n + col] = sum;
}
