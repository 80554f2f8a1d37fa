// A warp's sums to C, with factors, a bias and an activation on the way, in registers.
// C is of 16 bits as A and B, or float32 (OUT32, and from TF32 and 8-bit floats), or int32 from INT8.
#pragma once

#include "mma_instruction.cuh"

#ifndef ACTIVATION
#define ACTIVATION 0                             // 0: none, 1: ReLU, 2: GELU by tanh, 3: by erf
#endif
#ifndef OUT32
#define OUT32 0                                  // 1: C is float32 where A and B are of 16 bits
#endif

#if DTYPE == 3
typedef int Result;
#elif DTYPE > 1 || OUT32
typedef float Result;
#else
typedef unsigned short Result;                   // the bits of a number
#endif

// erf within 1.5e-7, by formula 7.1.26 of M. Abramowitz, I. A. Stegun, "Handbook of Mathematical
// Functions" (1964).
__device__ __forceinline__ float short_erf(float x)
{
    const float t = __fdividef(1.0f, 1.0f + 0.3275911f * fabsf(x));
    const float sum = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t
                        - 0.284496736f) * t + 0.254829592f) * t;
    return copysignf(1.0f - sum * __expf(-x * x), x);
}

__device__ __forceinline__ float activation(float x)
{
#if ACTIVATION == 1
    return x < 0.0f ? 0.0f : x;                  // NaN stays NaN: fmaxf(x, 0) would make it 0
#elif ACTIVATION == 2
    return __fdividef(x, 1.0f + __expf(-1.59576912f * (x + 0.044715f * x * x * x)));
#elif ACTIVATION == 3
    return 0.5f * x * (1.0f + short_erf(0.707106781f * x));
#else
    return x;
#endif
}

__device__ __forceinline__ float number(float c) { return c; }
__device__ __forceinline__ float number(int c) { return c; }
__device__ __forceinline__ float number(unsigned short c)
{
    float x;
    if (DTYPE == 1) x = __uint_as_float((unsigned)c << 16);
    else asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(c));
    return x;
}

#if DTYPE == 3

// Sums of whole numbers stay exact; factors and a bias are applied in double precision, and what
// comes of them is rounded to the nearest number, the even one of two, within int32.
__device__ __forceinline__ void combine(Result& c, int sum, float alpha, float beta, float bias)
{
    if (alpha == 1.0f && beta == 0.0f && bias == 0.0f) { c = sum; return; }
    double x = (double)alpha * sum;
    if (beta != 0.0f) x += (double)beta * c;
    c = __double2int_rn(x + bias);
}

#else

__device__ __forceinline__ void round_to(float& c, float x) { c = x; }
__device__ __forceinline__ void round_to(unsigned short& c, float x)
{
    if (DTYPE == 1) asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(c) : "f"(x));
    else asm("cvt.rn.f16.f32 %0, %1;" : "=h"(c) : "f"(x));
}

// activation(alpha * sum + beta * c + bias), rounded once. Where beta is 0, c is not looked at.
__device__ __forceinline__ void combine(Result& c, float sum, float alpha, float beta, float bias)
{
    float x = alpha * sum;
    if (beta != 0.0f) x += beta * number(c);
    round_to(c, activation(x + bias));
}

#endif

// Four neighbours of a row of C. Those outside of C, M × N, are left out.
__device__ __forceinline__ void store_four(Result* C, const Sum (&sums)[4], int row, int col,
                                           int M, int N, float alpha, float beta,
                                           const float* bias)
{
    struct __align__(4 * sizeof(Result)) Four { Result c[4]; };
    if (row >= M || col >= N) return;
    Result* here = C + (size_t)row * N + col;
    Four four = {};
    float4 added = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (N % 4 == 0) {                            // all four, or none of them
        if (beta != 0.0f) four = *(const Four*)here;
        if (bias) added = *(const float4*)(bias + col);
        combine(four.c[0], sums[0], alpha, beta, added.x);
        combine(four.c[1], sums[1], alpha, beta, added.y);
        combine(four.c[2], sums[2], alpha, beta, added.z);
        combine(four.c[3], sums[3], alpha, beta, added.w);
        *(Four*)here = four;
        return;
    }
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        if (col + v >= N) return;
        if (beta != 0.0f) four.c[v] = here[v];
        combine(four.c[v], sums[v], alpha, beta, bias ? bias[col + v] : 0.0f);
        here[v] = four.c[v];
    }
}
