// Warp specialization: CONSUMERS warpgroups multiply, and one more, the last of the block, copies.
// Before it: BM and BN, the tile of C.
#pragma once

#include "wgmma.cuh"

#ifndef CONSUMERS                                // warpgroups
#define CONSUMERS (BM / WARPGROUP_ROWS)
#endif

constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP_THREADS;

static_assert(BM % WARPGROUP_ROWS == 0, "a consumer has 64 rows of the tile, or all of it");

// Two blocks fit on an SM only where a thread has few accumulators.
constexpr int BLOCKS_PER_SM = CONSUMERS == 1 && BN <= 128 ? 2 : 1;

// A block begins with equally many registers for each thread: with three warpgroups 65,536 / 384,
// rounded down to 168. The producer keeps 40, and the consumers have 232 each: 40 + 2 * 232 = 3 *
// 168. The instruction is for a whole warpgroup; so the producer is one, though one thread of it
// works. With two warpgroups, each has as many as it can use.
constexpr bool MOVE_REGISTERS = CONSUMERS == 2;

__device__ __forceinline__ void deallocate_registers()
{
    if (MOVE_REGISTERS) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
}

__device__ __forceinline__ void allocate_registers()
{
    if (MOVE_REGISTERS) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
}
