// Eight-bit elements with scales
// Idea:    an element is a sign, four bits of exponent and three of fraction (E4M3); a float32
//          belongs to each row of A and to each column of B.
// Launch:  block (16, 16), grid (ceil(N / 16), ceil(M / 16)).
// Takes:   any M, N, K; A and B in E4M3 without NaN, C float32.

__device__ float number(unsigned char bits)
{
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    const float size = exponent ? ldexpf(8 + fraction, exponent - 10) : ldexpf(fraction, -9);
    return bits & 128 ? -size : size;
}

extern "C" __global__ void scaled(const unsigned char* A, const unsigned char* B, float* C,
                                  const float* scale_a, const float* scale_b,
                                  int M, int N, int K, float alpha, float beta)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
        sum += number(A[row * K + k]) * number(B[k * N + col]);
    const float product = alpha * (scale_a[row] * scale_b[col] * sum);
    C[row * N + col] = product + (beta == 0.0f ? 0.0f : beta * C[row * N + col]);
}
