// 21  The sum over ranks
// Idea:    each thread adds elements of all terms in the order of ranks, in float32, and rounds once:
//          the same bits with every run, whatever arrives first.
// Launch:  block (256), grid as many as the GPU holds; each thread goes on by the whole grid.
// Takes:   terms: TERMS addresses of `count` elements each, float32, float16 or bfloat16 as DTYPE
//          says. Writes their sum to `into`, which may be one of them.

#ifndef TERMS
#define TERMS 2
#endif
#ifndef DTYPE
#define DTYPE 0                                  // 0: float32, 1: float16, 2: bfloat16
#endif

#if DTYPE == 0
typedef float Element;
#else
typedef unsigned short Element;                  // the bits
#endif

__device__ __forceinline__ float as_float(Element x)
{
#if DTYPE == 0
    return x;
#elif DTYPE == 1
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x));
    return wide;
#else
    return __uint_as_float((unsigned)x << 16);
#endif
}

__device__ __forceinline__ Element rounded(float x)
{
#if DTYPE == 0
    return x;
#else
    Element narrow;
#if DTYPE == 1
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow) : "f"(x));
#else
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow) : "f"(x));
#endif
    return narrow;
#endif
}

extern "C" __global__ void rank_sum(const Element* const* terms, Element* into, long long count)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        float sum = as_float(terms[0][i]);
        #pragma unroll
        for (int rank = 1; rank < TERMS; ++rank) sum += as_float(terms[rank][i]);
        into[i] = rounded(sum);
    }
}
