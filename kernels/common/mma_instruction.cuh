// mma.sync, the tensor-core instruction of a warp: for a 16×8 piece of C it takes 32 bytes along K
// of A and B. FP16 with FP32 sums, unless DTYPE says another type. From sm_80 on, 8-bit floats from
// sm_89.
#pragma once

#ifndef DTYPE
#define DTYPE 0              // 0: FP16, 1: BF16, 2: TF32, 3: INT8, 4: FP8 E4M3, 5: FP8 E5M2
#endif

#if DTYPE == 0
typedef unsigned short Element;                  // the bits of a number
typedef float Accumulator;
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#define ACCUMULATOR "+f"                         // an operand of asm: read and written, float
#else
#include "mma_other_types.cuh"
#endif

constexpr int CHUNK = 16 / sizeof(Element);      // elements of 16 bytes, which are copied at a time
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 32 / sizeof(Element);

// c += a @ b. Of the MMA_M × MMA_K elements of A a lane has four words, of B two, of C four sums.
__device__ __forceinline__ void mma(Accumulator (&c)[4], const unsigned (&a)[4],
                                    const unsigned (&b)[2])
{
    asm volatile(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : ACCUMULATOR(c[0]), ACCUMULATOR(c[1]), ACCUMULATOR(c[2]), ACCUMULATOR(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
