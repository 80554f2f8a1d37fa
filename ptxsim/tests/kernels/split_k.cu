// Two launches: parts of K, then their sum
// Idea:    block z sums its share of K into a part of its own, and a second kernel adds the parts.
// Launch:  parts_of_k: block (16, 16), grid (ceil(N / 16), ceil(M / 16), PARTS);
//          add_parts: block 256, grid ceil(M * N / 256).
// Takes:   any M, N, K; float32. `parts` is PARTS matrices of M by N.

#ifndef PARTS
#define PARTS 4
#endif

extern "C" __global__ void parts_of_k(const float* A, const float* B, float* parts,
                                      int M, int N, int K)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    const int part = (K + PARTS - 1) / PARTS, first = blockIdx.z * part;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = first; k < K && k < first + part; ++k)
        sum += A[row * K + k] * B[k * N + col];
    parts[(blockIdx.z * M + row) * N + col] = sum;
}

extern "C" __global__ void add_parts(const float* parts, float* C, int M, int N,
                                     float alpha, float beta)
{
    const int at = blockIdx.x * 256 + threadIdx.x;
    if (at >= M * N) return;
    float sum = 0.0f;
    for (int part = 0; part < PARTS; ++part)
        sum += parts[part * M * N + at];
    C[at] = alpha * sum + (beta == 0.0f ? 0.0f : beta * C[at]);
}
