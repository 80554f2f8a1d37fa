// A warp's sums to C, with factors, a bias and an activation on the way: from registers, or through
// shared memory where beta is not 0 or rows of C are no multiples of four elements. C is of 16 bits
// as A and B, or float32 (OUT32, and from TF32 and 8-bit floats), or int32 from INT8.
#pragma once

#include "mma_operands.cuh"

#ifndef BIAS
#define BIAS 0                                   // 1: add a bias for each column
#endif
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

// Sums of whole numbers stay exact; factors are applied in double precision, and what comes of them
// is rounded to the nearest number, the even one of two, within int32.
__device__ __forceinline__ void combine(Result& c, int sum, float alpha, float beta, float)
{
    if (alpha == 1.0f && beta == 0.0f) { c = sum; return; }
    double x = (double)alpha * sum;
    if (beta != 0.0f) x += (double)beta * c;
    c = __double2int_rn(x);
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

struct __align__(4 * sizeof(Result)) Four { Result c[4]; };

// A warp's sums to C, M × N, from (row, col) on, where beta is 0 and rows have a multiple of four
// elements: four neighbours at a time. There are many copies of this, so it is kept short.
__device__ __forceinline__ void store_fours(Result* C, const Sum (&sums)[DOWN][ACROSS][4], int row,
                                            int col, int M, int N, float alpha, const float* bias)
{
    const int lane = threadIdx.x % 32;
    row += lane / 4;
    #pragma unroll
    for (int pair = 0; pair < ACROSS / 2; ++pair) {
        const int x = col + my_column(pair, lane);
        const bool inside = x < N;               // all four, or none of them
        float4 added = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (BIAS && bias && inside) added = *(const float4*)(bias + x);
        #pragma unroll
        for (int i = 0; i < 2 * DOWN; ++i) {
            Sum four[4];
            Four out;
            four_neighbours(four, sums[i / 2], pair, i % 2, lane);
            combine(out.c[0], four[0], alpha, 0.0f, added.x);
            combine(out.c[1], four[1], alpha, 0.0f, added.y);
            combine(out.c[2], four[2], alpha, 0.0f, added.z);
            combine(out.c[3], four[3], alpha, 0.0f, added.w);
            if (inside && row + 8 * i < M) *(Four*)(C + (size_t)(row + 8 * i) * N + x) = out;
        }
    }
}

// The rows of a warp's pieces that lie side by side, on the way out through shared memory.
struct Strip {
    Sum c[16][WN + 4];
};

// A warp's sums to C in any case, element by element.
__device__ __forceinline__ void store_any(Strip& strip, Result* C, const Sum (&sums)[DOWN][ACROSS][4],
                                          int row, int col, int M, int N, float alpha, float beta,
                                          const float* bias)
{
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < DOWN; ++i) {
        #pragma unroll
        for (int pair = 0; pair < ACROSS / 2; ++pair)
            #pragma unroll
            for (int lower = 0; lower < 2; ++lower) {
                Sum four[4];
                four_neighbours(four, sums[i], pair, lower, lane);
                #pragma unroll
                for (int v = 0; v < 4; ++v)
                    strip.c[8 * lower + lane / 4][my_column(pair, lane) + v] = four[v];
            }
        __syncwarp();
        #pragma unroll 1
        for (int f = lane; f < 16 * WN; f += 32) {
            const int y = row + 16 * i + f / WN, x = col + f % WN;
            if (y >= M || x >= N) continue;
            Result* here = C + (size_t)y * N + x;
            Result c = beta == 0.0f ? Result() : *here;
            combine(c, strip.c[f / WN][f % WN], alpha, beta, BIAS && bias ? bias[x] : 0.0f);
            *here = c;
        }
        __syncwarp();                            // all have read it before it is filled anew
    }
}
