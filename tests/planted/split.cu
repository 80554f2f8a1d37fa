// The sum over k is split among four threads, which add to one element of shared memory in turn.
#define PARTS 4
extern "C" __global__ void k(const float* A, const float* B, float* C, int n) {
    __shared__ float sums[32];
    const int x = threadIdx.x, part = threadIdx.y, col = blockIdx.x * 32 + x, row = blockIdx.y;
    if (part == 0) sums[x] = 0.0f;
    float sum = 0.0f;
    for (int i = part; i < n; i += PARTS)
        sum += A[row * n + i] * B[i * n + col];
    for (int turn = 0; turn < PARTS; ++turn) {
        __syncthreads();
        if (part == turn) sums[x] += sum;
    }
    __syncthreads();
    if (part == 0) C[row * n + col] = sums[x];
}
