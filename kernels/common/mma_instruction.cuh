// mma.sync, the tensor-core instruction of a warp: for a 16×8 tile of C it takes 32 bytes along K
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

constexpr int CHUNK = 16 / sizeof(Element);      // elements in a chunk: the 16 bytes of a copy
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 32 / sizeof(Element);

// c += a @ b. With FP16, two elements in a word, lane 4g + t has of A: in a[0] row g, k 2t and 2t +
// 1; in a[1] the same k of row g + 8; in a[2] and a[3] the same rows, k 8 further. Of B: in b[0]
// column g, k 2t and 2t + 1; in b[1] k 8 further. Of C: in c[0] and c[1] row g, columns 2t and 2t +
// 1; in c[2] and c[3] the same of row g + 8.
__device__ __forceinline__ void mma(Accumulator (&c)[4], const unsigned (&a)[4],
                                    const unsigned (&b)[2])
{
    asm volatile(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : ACCUMULATOR(c[0]), ACCUMULATOR(c[1]), ACCUMULATOR(c[2]), ACCUMULATOR(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
