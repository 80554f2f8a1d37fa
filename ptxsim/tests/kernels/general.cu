// A thread for each element of C, of matrices that lie in any way that BLAS allows
// Idea:    strides lead from one matrix of the batch to the next, or an array of pointers does.
// Launch:  block (16, 16), grid (ceil(N / 16), ceil(M / 16), batch).
// Takes:   any M, N, K and batch; float32; OP_A, OP_B of 1: A, B stored transposed.

#ifndef OP_A
#define OP_A 0
#endif
#ifndef OP_B
#define OP_B 0
#endif

__device__ void product(const float* A, const float* B, float* C, int M, int N, int K,
                        int lda, int ldb, int ldc, float alpha, float beta)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
        sum += A[OP_A ? k * lda + row : row * lda + k] * B[OP_B ? col * ldb + k : k * ldb + col];
    float* at = &C[row * ldc + col];
    *at = alpha * sum + (beta == 0.0f ? 0.0f : beta * *at);
}

extern "C" __global__ void strided(const float* A, const float* B, float* C, int M, int N, int K,
                                   int lda, int ldb, int ldc,
                                   long long stride_a, long long stride_b, long long stride_c,
                                   int batch, float alpha, float beta)
{
    for (int z = blockIdx.z; z < batch; z += gridDim.z)
        product(A + z * stride_a, B + z * stride_b, C + z * stride_c, M, N, K, lda, ldb, ldc,
                alpha, beta);
}

extern "C" __global__ void pointers(const float* const* A, const float* const* B, float* const* C,
                                    int M, int N, int K, int lda, int ldb, int ldc, int batch,
                                    float alpha, float beta)
{
    for (int z = blockIdx.z; z < batch; z += gridDim.z)
        product(A[z], B[z], C[z], M, N, K, lda, ldb, ldc, alpha, beta);
}
