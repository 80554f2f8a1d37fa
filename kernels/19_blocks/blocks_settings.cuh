// Settings of 19_blocks.cu, and the sizes that follow from them.
#pragma once

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 128                                   // columns
#endif
#ifndef STAGES
#define STAGES 6                                 // buffers for a tile of A and of B: the pipeline
#endif
#ifndef GROUP
#define GROUP 8                                  // rows of tiles that clusters take in turn, for L2
#endif
#ifndef CLUSTER
#define CLUSTER 2                                // blocks of a cluster
#endif
#ifndef SHARE
#define SHARE 0                                  // what they share. 0: A, tiles beside one another.
#endif                                           // 1: B, tiles below one another. 2: the tile of C,
                                                 // and each block multiplies a part of K

#define SHARES_A (SHARE == 0 && CLUSTER > 1)
#define SHARES_B (SHARE == 1 && CLUSTER > 1)
#define SPLITS_K (SHARE == 2 && CLUSTER > 1)

#define CONSUMERS (BM / 64)                      // warpgroups that multiply, 64 rows of C each

#include "wgmma_fp8.cuh"

#define BK ROW_BYTES                             // elements of 1 byte: as many as a scale is for
#define ACCUMULATORS (BN / 2)                    // of a thread, for 64 rows of C

constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP_THREADS;

static_assert(BM == WARPGROUP_ROWS * CONSUMERS && CONSUMERS <= 3, "each consumer has 64 rows");

// How many registers a thread of the producer keeps, and how many one of the consumers gets; 0: all
// have as many as they can use. A block begins with 65,536 / THREADS for each, in eights.
constexpr int PRODUCER_REGISTERS = CONSUMERS == 1 ? 0 : 24;
constexpr int CONSUMER_REGISTERS = CONSUMERS == 2 ? 240 : 160;

__device__ __forceinline__ void deallocate_registers()
{
    if constexpr (PRODUCER_REGISTERS > 0)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(PRODUCER_REGISTERS));
}

__device__ __forceinline__ void allocate_registers()
{
    if constexpr (PRODUCER_REGISTERS > 0)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(CONSUMER_REGISTERS));
}
