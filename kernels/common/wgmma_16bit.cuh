// wgmma of float16, or of bfloat16 with DTYPE=1; accumulators are float32.
#pragma once

#include "wgmma.cuh"
#include "wgmma_operands.cuh"

#ifndef DTYPE
#define DTYPE 0
#endif

#if DTYPE == 1
#define WGMMA_TYPES "f32.bf16.bf16"
#define OUT_BFLOAT16 1
#else
#define WGMMA_TYPES "f32.f16.f16"
#endif

typedef unsigned short Element;                  // the bits of an element

constexpr int WGMMA_K = 16;                      // elements along K that an instruction takes
constexpr int ROW_ELEMENTS = ROW_BYTES / (int)sizeof(Element);

// The instruction for SUMS accumulators of a thread. In its text, a, b, `accumulate` and
// TRANSPOSE_B of the caller follow them, under the numbers A, B, ACCUMULATE and TRANSPOSE. p: add
// to the accumulators; 1, 1: neither A nor B is negated; 0: A is not transposed.
#define WGMMA(COLUMNS, SUMS, A, B, ACCUMULATE, TRANSPOSE) \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " ACCUMULATE ", 0; " \
                 "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16." WGMMA_TYPES \
                 " {" REGISTERS_##SUMS "}, " A ", " B ", p, 1, 1, 0, " TRANSPOSE "; }" \
                 : ACCUMULATORS_##SUMS : "l"(a), "l"(b), "r"(accumulate), "n"(TRANSPOSE_B))

// accumulators = A @ B, plus what they were with `accumulate`: 64 rows of A, 16 elements along K,
// and twice as many columns of B as a thread has accumulators. Rows of A lie along K; those of B,
// too, or with TRANSPOSE_B along N.
template <bool TRANSPOSE_B, int COUNT>
__device__ __forceinline__ void wgmma(float (&accumulators)[COUNT], Descriptor a, Descriptor b,
                                      int accumulate)
{
    if constexpr (COUNT == 32) WGMMA("64", 32, "%32", "%33", "%34", "%35");
    if constexpr (COUNT == 48) WGMMA("96", 48, "%48", "%49", "%50", "%51");
    if constexpr (COUNT == 64) WGMMA("128", 64, "%64", "%65", "%66", "%67");
    if constexpr (COUNT == 80) WGMMA("160", 80, "%80", "%81", "%82", "%83");
    if constexpr (COUNT == 96) WGMMA("192", 96, "%96", "%97", "%98", "%99");
    if constexpr (COUNT == 128) WGMMA("256", 128, "%128", "%129", "%130", "%131");
    static_assert(COUNT % 16 == 0 && COUNT != 16 && COUNT != 112 && COUNT <= 128,
                  "64, 96, 128, 160, 192 or 256 columns");
}
