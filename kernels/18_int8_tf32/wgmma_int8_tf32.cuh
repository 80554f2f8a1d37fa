// wgmma of INT8, with sums in int32, and of TF32, with sums in float32. In shared memory the rows
// of both operands lie along K: the instruction cannot read these types otherwise. For sm_90a.
#pragma once

#include "types_settings.cuh"
#include "wgmma.cuh"
#include "wgmma_operands.cuh"

constexpr int K_STEP_BYTES = 32;                 // along K of an instruction, for every type

#if DTYPE == 3
typedef signed char Element;
typedef int Accumulator;
#define WGMMA_TYPES "k32.s32.s8.s8"
#define WGMMA_SIGNS ""
// Accumulators as operands are integers here.
#undef EIGHT_FROM
#define EIGHT_FROM(i) "+r"(accumulators[i]), "+r"(accumulators[i + 1]), \
    "+r"(accumulators[i + 2]), "+r"(accumulators[i + 3]), "+r"(accumulators[i + 4]), \
    "+r"(accumulators[i + 5]), "+r"(accumulators[i + 6]), "+r"(accumulators[i + 7])
#else
typedef float Element;                           // whose last 13 bits are ignored
typedef float Accumulator;
#define WGMMA_TYPES "k8.f32.tf32.tf32"
#define WGMMA_SIGNS ", 1, 1"                     // neither operand is negated
#endif

typedef Accumulator Result;                      // an element of C

constexpr int BK = ROW_BYTES / (int)sizeof(Element);           // elements along K of a stage
constexpr int K_STEPS = ROW_BYTES / K_STEP_BYTES;              // instructions for them

// The instruction for SUMS accumulators of a thread. In its text the operands A, B and `accumulate`
// of the caller follow them, under these numbers. p: add to the accumulators.
#define WGMMA(COLUMNS, SUMS, A, B, ACCUMULATE, ...) \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " ACCUMULATE ", 0; " \
                 "wgmma.mma_async.sync.aligned.m64n" COLUMNS WGMMA_TYPES \
                 " {" REGISTERS_##SUMS "}, " A ", " B ", p" WGMMA_SIGNS "; }" \
                 : ACCUMULATORS_##SUMS : __VA_ARGS__, "l"(b), "r"(accumulate))

// accumulators = A @ B.T, plus what they were with `accumulate`: 64 rows of A, 32 bytes along K,
// and twice as many rows of B as a thread has accumulators.
template <int COUNT>
__device__ __forceinline__ void wgmma(Accumulator (&accumulators)[COUNT], Descriptor a,
                                      Descriptor b, int accumulate)
{
    static_assert(COUNT == 32 || COUNT == 64 || COUNT == 96 || COUNT == 128,
                  "64, 128, 192 or 256 rows of B");
    if constexpr (COUNT == 32) WGMMA("64", 32, "%32", "%33", "%34", "l"(a));
    if constexpr (COUNT == 64) WGMMA("128", 64, "%64", "%65", "%66", "l"(a));
    if constexpr (COUNT == 96) WGMMA("192", 96, "%96", "%97", "%98", "l"(a));
    if constexpr (COUNT == 128) WGMMA("256", 128, "%128", "%129", "%130", "l"(a));
}

#if DTYPE != 3

// The same with A in registers, a thread's four numbers of it, as those of mma.sync (15): lane
// 4g + t has k = t of rows g and g + 8 of its warp's 16, then k = t + 4 of these. They must not
// change until the product has ended.
#define WGMMA_REGISTERS(COLUMNS, SUMS, A, B, ACCUMULATE) \
    WGMMA(COLUMNS, SUMS, "{" A "}", B, ACCUMULATE, "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]))

template <int COUNT>
__device__ __forceinline__ void wgmma(Accumulator (&accumulators)[COUNT], const unsigned (&a)[4],
                                      Descriptor b, int accumulate)
{
    static_assert(COUNT == 32 || COUNT == 64 || COUNT == 96 || COUNT == 128,
                  "64, 128, 192 or 256 rows of B");
    if constexpr (COUNT == 32) WGMMA_REGISTERS("64", 32, "%32,%33,%34,%35", "%36", "%37");
    if constexpr (COUNT == 64) WGMMA_REGISTERS("128", 64, "%64,%65,%66,%67", "%68", "%69");
    if constexpr (COUNT == 96) WGMMA_REGISTERS("192", 96, "%96,%97,%98,%99", "%100", "%101");
    if constexpr (COUNT == 128) WGMMA_REGISTERS("256", 128, "%128,%129,%130,%131", "%132", "%133");
}

#endif

// After the last wait for products: no use of the accumulators is moved above it. Without this the
// compiler may see a use of a register that is being written, and serialize all products.
template <int COUNT>
__device__ __forceinline__ void keep_behind(Accumulator (&accumulators)[COUNT])
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i)
#if DTYPE == 3
        asm volatile("" : "+r"(accumulators[i]) :: "memory");
#else
        asm volatile("" : "+f"(accumulators[i]) :: "memory");
#endif
}
