// 21  The sum over ranks
// Idea:    a thread adds an element of all terms in the order of ranks, in float32, and rounds once.
//          So every run gives the same bits, whichever rank is first.
// Launch:  block (256), grid: as many blocks as the GPU holds at a time.
// Takes:   terms: TERMS addresses of `count` elements each, float32, float16 or bfloat16 as DTYPE
//          says. Stores their sum in `into`, which may be one of them.

#ifndef TERMS
#define TERMS 2
#endif
#ifndef DTYPE
#define DTYPE 0                                  // 0: float32, 1: float16, 2: bfloat16
#endif

#if DTYPE == 0
typedef float Element;
#else
typedef unsigned short Element;                  // the bits of 16-bit floats
#endif

__device__ __forceinline__ float to_float(Element element)
{
#if DTYPE == 0
    return element;
#elif DTYPE == 1
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(element));
    return value;
#else
    return __uint_as_float((unsigned)element << 16);
#endif
}

__device__ __forceinline__ Element round_to_element(float value)
{
#if DTYPE == 0
    return value;
#else
    Element element;
#if DTYPE == 1
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(element) : "f"(value));
#else
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(element) : "f"(value));
#endif
    return element;
#endif
}

extern "C" __global__ void rank_sum(const Element* const* terms, Element* into, long long count)
{
    const long long grid_threads = (long long)gridDim.x * blockDim.x;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (long long i = first; i < count; i += grid_threads) {
        float sum = to_float(terms[0][i]);
        #pragma unroll
        for (int rank = 1; rank < TERMS; ++rank) sum += to_float(terms[rank][i]);
        into[i] = round_to_element(sum);
    }
}
