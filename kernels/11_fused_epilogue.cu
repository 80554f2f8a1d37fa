// 11  Fused epilogue
// Idea:    what is done to every element of C afterwards, such as a bias and an activation, is done
//          before it is stored, while it is in a register. That saves whole passes over C.
// Before:  10_register_banks.cu, which is included here, stored alpha * A @ B + beta * C. All but
//          its last step is the same.
// Launch:  as rung 10: block ((BM / TM) * (BN / TN)), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = activation(alpha * A @ B + beta * C + bias). `bias`
//          has N elements, one for each column of C, and may be null: no bias. A, B, C and bias
//          begin at multiples of 16 bytes.

#define EPILOGUE                                 // of 10 all but its own kernel
#include "10_register_banks.cu"

#ifndef ACTIVATION
#define ACTIVATION 1                             // 0: none, 1: ReLU, 2: GELU by tanh, 3: by erf
#endif

// The last step, for one element. Put your own here.
__device__ __forceinline__ float activation(float x)
{
#if ACTIVATION == 1
    return x < 0.0f ? 0.0f : x;                  // NaN stays NaN: fmaxf(x, 0) would make it 0
#elif ACTIVATION == 2
    return 0.5f * x * (1.0f + tanhf(0.797884561f * (x + 0.044715f * x * x * x)));
#elif ACTIVATION == 3
    return 0.5f * x * (1.0f + erff(0.707106781f * x));
#else
    return x;
#endif
}

// One element of C, from its sum, what C held before, and the bias of its column. Where beta is 0
// or there is no bias, nothing was read, and nothing is added.
__device__ __forceinline__ float finished(float sum, float old, float bias,
                                          float alpha, float beta, bool biased)
{
    float x = alpha * sum;
    if (beta != 0.0f) x += beta * old;
    if (biased) x += bias;
    return activation(x);
}

__device__ __forceinline__ float4 load_four(const float* X, int row, int col, int rows, int cols,
                                            bool inside)
{
    return inside ? load_four<true>(X, row, col, rows, cols)
                  : load_four<false>(X, row, col, rows, cols);
}

// The elements (row, col) to (row, col + 3) of C, M × N. Unless all are known to be `inside` C, each
// is looked at, and those outside are left out.
__device__ __forceinline__ void finish_four(float* C, const float* bias, int row, int col,
                                            int M, int N, const float* sums,
                                            float alpha, float beta, bool inside)
{
    float4 old = {}, add = {};
    if (beta != 0.0f) old = load_four(C, row, col, M, N, inside);
    if (bias) add = load_four(bias, 0, col, 1, N, inside);
    const float four[4] = {finished(sums[0], old.x, add.x, alpha, beta, bias),
                           finished(sums[1], old.y, add.y, alpha, beta, bias),
                           finished(sums[2], old.z, add.z, alpha, beta, bias),
                           finished(sums[3], old.w, add.w, alpha, beta, bias)};
    float* here = C + (size_t)row * N + col;
    if (inside) {
        *(float4*)here = make_float4(four[0], four[1], four[2], four[3]);
        return;
    }
    #pragma unroll
    for (int v = 0; v < 4; ++v)
        if (row < M && col + v < N) here[v] = four[v];
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
fused_epilogue(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta, const float* __restrict__ bias)
{
    product(A, B, M, N, K, [=](int row, int col, const float* sums, bool inside) {
        finish_four(C, bias, row, col, M, N, sums, alpha, beta, inside);
    });
}
