// A few blocks walk over all tiles of C.
#define TILE 8
extern "C" __global__ void k(const float* A, const float* B, float* C, int n) {
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y, across = n / TILE;
    float sum = 0.0f;
    for (int tile = blockIdx.x; tile < across * across; tile += gridDim.x) {
        const int row = tile / across * TILE + y, col = tile % across * TILE + x;
        sum = 0.0f;
        for (int start = 0; start < n; start += TILE) {
            a[y][x] = A[row * n + start + x];
            b[y][x] = B[(start + y) * n + col];
            __syncthreads();
            for (int i = 0; i < TILE; ++i)
                sum += a[y][i] * b[i][x];
            __syncthreads();
        }
        C[row * n + col] = sum;
    }
}
