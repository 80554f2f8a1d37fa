// What mma.sync multiplies, by the macro DTYPE: the elements as they are stored, and one
// instruction. From sm_80 on, 8-bit floats from sm_89.
//
// Whatever the type, one instruction goes 32 bytes along K: a lane has four words of A, two of B
// and four sums of a 16×8 piece of C.
#pragma once

#ifndef DTYPE
#define DTYPE 0              // 0: FP16, 1: BF16, 2: TF32, 3: INT8, 4: FP8 E4M3, 5: FP8 E5M2
#endif

#if DTYPE == 0
typedef unsigned short Element;                  // the bits of a number
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#elif DTYPE == 1
typedef unsigned short Element;
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#elif DTYPE == 2
typedef float Element;                           // of which its last 13 bits are not looked at
#define MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#elif DTYPE == 3
typedef signed char Element;
#define MMA "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
#elif DTYPE == 4
typedef unsigned char Element;
#define MMA "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
#else
typedef unsigned char Element;
#define MMA "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32"
#endif

#if DTYPE == 3
typedef int Sum;
#define SUM "+r"
#else
typedef float Sum;
#define SUM "+f"
#endif

constexpr int SIZE = sizeof(Element);
constexpr int CHUNK = 16 / SIZE;                 // elements of 16 bytes, which are copied at a time
constexpr int DEPTH = 32 / SIZE;                 // elements of K that one instruction takes

// sums += a @ b: one 16×8 piece of C.
__device__ __forceinline__ void multiply_piece(Sum (&sums)[4], const unsigned (&a)[4],
                                               const unsigned (&b)[2])
{
    asm volatile(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : SUM(sums[0]), SUM(sums[1]), SUM(sums[2]), SUM(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
