// A product for each block along z
// Idea:    strides, in elements, lead from one matrix of the batch to the next.
// Launch:  block (16, 16), grid (ceil(N / 16), ceil(M / 16), batch).
// Takes:   any M, N, K and batch; float32, B stored transposed.

extern "C" __global__ void batched(const float* A, const float* B, float* C, int M, int N, int K,
                                   long long stride_a, long long stride_b, long long stride_c,
                                   float alpha, float beta)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    A += blockIdx.z * stride_a;
    B += blockIdx.z * stride_b;
    C += blockIdx.z * stride_c;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
        sum += A[row * K + k] * B[col * K + k];
    C[row * N + col] = alpha * sum + (beta == 0.0f ? 0.0f : beta * C[row * N + col]);
}
