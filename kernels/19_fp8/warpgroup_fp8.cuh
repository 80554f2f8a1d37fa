// wgmma of 8-bit floats: 64 rows, 32 of K with one instruction. Both factors are K-major, for that
// is the only way in which the instruction reads elements of 8 bits. What the tensor cores add keeps
// 13 bits of the fraction. For sm_90a alone.
#pragma once

#include "warpgroup.cuh"

#define FP8_DEPTH 32                             // along K of one instruction, 32 bytes of a row

#if DTYPE == 1
#define FP8_TYPES "f32.e5m2.e4m3"
#elif DTYPE == 2
#define FP8_TYPES "f32.e4m3.e5m2"
#else
#define FP8_TYPES "f32.e4m3.e4m3"
#endif

#define LIST_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"

// sums = A @ B.T, plus the sums before where `add` says so: twice as many columns as a thread has
// sums.
template <int COUNT>
__device__ __forceinline__ void start_fp8_product(float (&sums)[COUNT], Descriptor a, Descriptor b,
                                                  int add)
{
    static_assert(COUNT == 16 || COUNT == 32 || COUNT == 64 || COUNT == 128,
                  "32, 64, 128 or 256 columns");
    if constexpr (COUNT == 16)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %18, 0; wgmma.mma_async.sync.aligned.m64n32k32."
                     FP8_TYPES " {" LIST_16 "}, %16, %17, p, 1, 1; }"
                     : SIXTEEN(0) : "l"(a), "l"(b), "r"(add));
    if constexpr (COUNT == 32)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k32."
                     FP8_TYPES " {" LIST_32 "}, %32, %33, p, 1, 1; }"
                     : ALL_32 : "l"(a), "l"(b), "r"(add));
    if constexpr (COUNT == 64)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k32."
                     FP8_TYPES " {" LIST_64 "}, %64, %65, p, 1, 1; }"
                     : ALL_64 : "l"(a), "l"(b), "r"(add));
    if constexpr (COUNT == 128)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k32."
                     FP8_TYPES " {" LIST_128 "}, %128, %129, p, 1, 1; }"
                     : ALL_128 : "l"(a), "l"(b), "r"(add));
}
