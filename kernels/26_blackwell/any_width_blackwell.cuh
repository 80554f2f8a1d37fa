// The product where rows do not begin at multiples of 16 bytes, as tensor maps need, or K is 0: a
// thread computes an element of C. Slow, and no part of the rung's idea.
// Launch: block (32, 8), grid (ceil(N / 32), ceil(M / 8)).
#pragma once

#include "output_type.cuh"

extern "C" __global__ void any_width(const ElementC* __restrict__ A, const ElementC* __restrict__ B,
                                     ElementC* __restrict__ C, int M, int N, int K, float alpha,
                                     float beta)
{
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
        sum += to_float(A[(size_t)row * K + k]) * to_float(B[(size_t)k * N + col]);
    sum *= alpha;
    if (beta != 0.0f) sum += beta * to_float(C[(size_t)row * N + col]);
    C[(size_t)row * N + col] = (ElementC)round_pair(sum, 0.0f);
}
