// wgmma of 8-bit floats. Accumulators are float32, but the tensor cores keep only 13 bits of the
// fraction of what they add. Rows of both operands lie along K: with 8 bits, the instruction cannot
// read them otherwise. For sm_90a alone.
#pragma once

#include "wgmma.cuh"
#include "wgmma_operands.cuh"

#ifndef DTYPE
#define DTYPE 0                                  // A and B: 0 both E4M3, 1 A is E5M2, 2 B is E5M2
#endif

#if DTYPE == 1
#define WGMMA_TYPES "f32.e5m2.e4m3"
#elif DTYPE == 2
#define WGMMA_TYPES "f32.e4m3.e5m2"
#else
#define WGMMA_TYPES "f32.e4m3.e4m3"
#endif

typedef unsigned char Element;                   // the bits of an element

constexpr int WGMMA_K = 32;                      // elements along K that an instruction takes

// The instruction for COUNT accumulators of a thread. In its text, a, b and `accumulate` of the
// caller follow them, as %COUNT, %B and %ACCUMULATE. p: add to the accumulators; 1, 1: neither A
// nor B is negated.
#define WGMMA_FP8(COLUMNS, COUNT, B, ACCUMULATE) \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #ACCUMULATE ", 0;" \
                 " wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k32." WGMMA_TYPES \
                 " {" REGISTERS_##COUNT "}, %" #COUNT ", %" #B ", p, 1, 1; }" \
                 : ACCUMULATORS_##COUNT : "l"(a), "l"(b), "r"(accumulate))

// accumulators = A @ B.T, plus what they were with `accumulate`: 64 rows of A, 32 elements along K,
// and twice as many rows of B as a thread has accumulators.
template <int COUNT>
__device__ __forceinline__ void wgmma(float (&accumulators)[COUNT], Descriptor a, Descriptor b,
                                      int accumulate)
{
    static_assert(COUNT == 16 || COUNT == 32 || COUNT == 64 || COUNT == 128,
                  "32, 64, 128 or 256 columns");
    if constexpr (COUNT == 16) WGMMA_FP8(32, 16, 17, 18);
    if constexpr (COUNT == 32) WGMMA_FP8(64, 32, 33, 34);
    if constexpr (COUNT == 64) WGMMA_FP8(128, 64, 65, 66);
    if constexpr (COUNT == 128) WGMMA_FP8(256, 128, 129, 130);
}
