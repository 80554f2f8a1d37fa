// tcgen05, the tensor-core instructions of Blackwell: one thread starts a product of two tiles in
// shared memory, and its sums are added up in tensor memory. From sm_100a on.
//
// Tensor memory is a fourth kind of memory, of an SM: 128 lanes (rows) × 512 columns of 32 bits. An
// address is lane << 16 | column. Columns are allocated by a warp, and belong to its block.
#pragma once

#include "cluster_barrier.cuh"
#include "mbarrier.cuh"

#ifndef CTAS
#define CTAS 1                                   // SMs that multiply together: a pair with 2
#endif

#if CTAS == 2
#define CTA_GROUP ".cta_group::2"
#else
#define CTA_GROUP ".cta_group::1"
#endif

// Operands lie in rows of 128 bytes with a swizzle of 128 bytes, as for wgmma.
constexpr int ROW_BYTES = 128;
constexpr int SWIZZLE_PERIOD = 8 * ROW_BYTES;
constexpr int SQUARE_BYTES = 64 * ROW_BYTES;

// A matrix descriptor says where an operand lies. Beside wgmma's it has a version, and the mode of
// the swizzle has three bits.
typedef unsigned long long Descriptor;

constexpr int START_ADDRESS = 0, LEADING_OFFSET = 16, STRIDE_OFFSET = 32, VERSION = 46;
constexpr int SWIZZLE_MODE = 61;
constexpr Descriptor BLACKWELL = 1, SWIZZLE_128_BYTES = 2;

// An address has 18 bits here: above them stands, in a cluster, the rank of the block. The hardware
// reads from this place of both blocks of a pair. `leading_offset`: as in wgmma.cuh.
__device__ __forceinline__ Descriptor make_descriptor(unsigned address, int leading_offset = 0)
{
    return (Descriptor)((address & 0x3FFFF) / 16) << START_ADDRESS
         | (Descriptor)(leading_offset / 16) << LEADING_OFFSET
         | (Descriptor)(SWIZZLE_PERIOD / 16) << STRIDE_OFFSET      // from 8 rows to the next 8
         | BLACKWELL << VERSION
         | SWIZZLE_128_BYTES << SWIZZLE_MODE;
}

// To `bytes` bytes further along K.
__device__ __forceinline__ Descriptor advance(Descriptor descriptor, int bytes)
{
    return descriptor + (bytes / 16 << START_ADDRESS);
}

// An instruction descriptor says the types, layouts and sizes that wgmma had in its name: here
// float16, sums in float32, rows of A along K and those of B along N.
__device__ constexpr unsigned instruction_descriptor(int rows, int columns)
{
    return 1u << 4                               // sums: float32; A and B: 0, float16
         | 1u << 16                              // rows of B lie along N
         | (unsigned)columns / 8 << 17
         | (unsigned)rows / 16 << 24;
}

// By one thread: start sums = A @ B, plus what they were with `accumulate`, for 16 elements along
// K. Products that one thread starts are computed in order.
__device__ __forceinline__ void tcgen05_mma(unsigned sums, Descriptor a, Descriptor b,
                                            unsigned instruction, int accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;"
                 " tcgen05.mma" CTA_GROUP ".kind::f16 [%0], %1, %2, %3, p; }"
                 :: "r"(sums), "l"(a), "l"(b), "r"(instruction), "r"(accumulate) : "memory");
}

// By the same thread: once all products that it has started are complete, arrive at this mbarrier,
// of both blocks in a pair.
__device__ __forceinline__ void tcgen05_commit(unsigned barrier)
{
#if CTAS == 2
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
                 ".multicast::cluster.b64 [%0], %1;"
                 :: "r"(barrier), "h"((unsigned short)3) : "memory");
#else
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                 :: "r"(barrier) : "memory");
#endif
}

// tcgen05 instructions run asynchronously to all others, so a barrier alone does not order them.
// Before a thread says at a barrier that it is done, and after it has waited at one:
__device__ __forceinline__ void tcgen05_fence_before()
{
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

__device__ __forceinline__ void tcgen05_fence_after()
{
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// By a warp, of each block in a pair: allocate columns, 32, 64, 128, 256 or 512, and store their
// address to shared memory. It waits until they are free. Then let other blocks of the SM allocate.
template <int COLUMNS>
__device__ __forceinline__ void tensor_allocate(unsigned to)
{
    asm volatile("tcgen05.alloc" CTA_GROUP ".sync.aligned.shared::cta.b32 [%0], %1;"
                 :: "r"(to), "n"(COLUMNS) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit" CTA_GROUP ".sync.aligned;" ::: "memory");
}

// By the same warp: free them. A block must do so before it ends.
template <int COLUMNS>
__device__ __forceinline__ void tensor_free(unsigned address)
{
    asm volatile("tcgen05.dealloc" CTA_GROUP ".sync.aligned.b32 %0, %1;"
                 :: "r"(address), "n"(COLUMNS) : "memory");
}

// By a warp: start to load 32 columns, a lane of tensor memory for each lane of the warp. Warp w of
// a block reaches lanes 32 * (w % 4) to 32 * (w % 4) + 31, no others.
__device__ __forceinline__ void tensor_load(float* sums, unsigned address)
{
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32"
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16,"
                 " %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31},"
                 " [%32];"
                 : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3]), "=f"(sums[4]),
                   "=f"(sums[5]), "=f"(sums[6]), "=f"(sums[7]), "=f"(sums[8]), "=f"(sums[9]),
                   "=f"(sums[10]), "=f"(sums[11]), "=f"(sums[12]), "=f"(sums[13]), "=f"(sums[14]),
                   "=f"(sums[15]), "=f"(sums[16]), "=f"(sums[17]), "=f"(sums[18]), "=f"(sums[19]),
                   "=f"(sums[20]), "=f"(sums[21]), "=f"(sums[22]), "=f"(sums[23]), "=f"(sums[24]),
                   "=f"(sums[25]), "=f"(sums[26]), "=f"(sums[27]), "=f"(sums[28]), "=f"(sums[29]),
                   "=f"(sums[30]), "=f"(sums[31])
                 : "r"(address) : "memory");
}

// Wait until this warp's loads are in registers.
__device__ __forceinline__ void tensor_load_wait()
{
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}
