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

// erf within 1.5e-7, by formula 7.1.26 of M. Abramowitz, I. A. Stegun, "Handbook of Mathematical
// Functions" (1964). erff is nearer, and takes more than twice the instructions.
__device__ __forceinline__ float short_erf(float x)
{
    const float t = __fdividef(1.0f, 1.0f + 0.3275911f * fabsf(x));
    const float sum = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t
                        - 0.284496736f) * t + 0.254829592f) * t;
    return copysignf(1.0f - sum * __expf(-x * x), x);
}

// The last step, for one element. Put your own here.
__device__ __forceinline__ float activation(float x)
{
#if ACTIVATION == 1
    return x < 0.0f ? 0.0f : x;                  // NaN stays NaN: fmaxf(x, 0) would make it 0
#elif ACTIVATION == 2
    // 0.5 x (1 + tanh(y)) is x / (1 + exp(-2 y)), which takes fewer instructions than tanhf.
    return __fdividef(x, 1.0f + __expf(-1.59576912f * (x + 0.044715f * x * x * x)));
#elif ACTIVATION == 3
    return 0.5f * x * (1.0f + short_erf(0.707106781f * x));
#else
    return x;
#endif
}

__device__ __forceinline__ float4 load_four(const float* X, int row, int col, int rows, int cols,
                                            bool inside)
{
    return inside ? load_four<true>(X, row, col, rows, cols)
                  : load_four<false>(X, row, col, rows, cols);
}

// sums += factor * four, element by element.
__device__ __forceinline__ void add(float* sums, float factor, const float4& four)
{
    sums[0] += factor * four.x;
    sums[1] += factor * four.y;
    sums[2] += factor * four.z;
    sums[3] += factor * four.w;
}

// A thread's sums become its elements of C. First all of them in registers, then all are stored: a
// load that comes after stores would wait for them.
__device__ __forceinline__ void finish(float (&sums)[TM][TN], float* C, const float* bias,
                                       int row, int col, int M, int N,
                                       float alpha, float beta, bool inside)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] *= alpha;
    if (beta != 0.0f) {                          // otherwise C is not read
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int q = 0; q < TN / 4; ++q)
                add(&sums[i][4 * q], beta,
                    load_four(C, row_of(row, i), col_of(col, q), M, N, inside));
            asm volatile("" ::: "memory");       // no more loads ahead: registers are short
        }
    }
    if (bias) {
        #pragma unroll
        for (int q = 0; q < TN / 4; ++q) {
            const float4 four = load_four(bias, 0, col_of(col, q), 1, N, inside);
            #pragma unroll
            for (int i = 0; i < TM; ++i) add(&sums[i][4 * q], 1.0f, four);
        }
    }
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] = activation(sums[i][j]);
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int q = 0; q < TN / 4; ++q)
            store_four(C, row_of(row, i), col_of(col, q), M, N, &sums[i][4 * q],
                       1.0f, 0.0f, inside);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
fused_epilogue(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta, const float* __restrict__ bias)
{
    product(A, B, M, N, K, [=](float (&sums)[TM][TN], int row, int col, bool inside) {
        finish(sums, C, bias, row, col, M, N, alpha, beta, inside);
    });
}
