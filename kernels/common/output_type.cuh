// The type of C: float32 with OUT32; else 16 bits, bfloat16 with OUT_BFLOAT16, or float16.
#pragma once

#ifndef OUT32
#define OUT32 0
#endif

#if OUT32
typedef float ElementC;
typedef float2 PairC;                            // two neighbours of a row
#else
typedef unsigned short ElementC;
typedef unsigned PairC;
#endif

// cvt takes the upper half first.
__device__ __forceinline__ PairC round_pair(float first, float second)
{
#if OUT32
    return make_float2(first, second);
#else
    unsigned pair;
#if OUT_BFLOAT16
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
#endif
    return pair;
#endif
}

__device__ __forceinline__ float to_float(ElementC element)
{
#if OUT32
    return element;
#elif OUT_BFLOAT16
    return __uint_as_float((unsigned)element << 16);
#else
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(element));
    return value;
#endif
}
