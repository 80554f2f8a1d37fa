// Copies of boxes by tensor map, which the copy engine (TMA) does by itself, and the mbarriers that
// tell of them. From sm_90 on. Addresses in shared memory are 32 bits, as in pipeline.cuh.
#pragma once

#include "pipeline.cuh"

// How a matrix lies in global memory, which box of it one copy brings, and how the box is swizzled.
struct __align__(64) TensorMap {
    char bits[128];
};

// A copy will need this map soon: bring it to where the copy engine reads maps.
__device__ __forceinline__ void announce(const TensorMap& map)
{
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}

// The mbarriers that I set up: other threads, the copy engine and other blocks find them so.
__device__ __forceinline__ void publish_barriers()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// I arrive, and the phase is over when so many bytes have come too.
__device__ __forceinline__ void expect_bytes(unsigned barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(barrier), "r"(bytes) : "memory");
}

// Start to bring the box that begins at (row, col). Its bytes are counted at `barrier`, zeros in
// place of what lies outside of the matrix among them.
__device__ __forceinline__ void bring(unsigned to, const TensorMap& map, int row, int col,
                                      unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(to), "l"(&map), "r"(col), "r"(row), "r"(barrier) : "memory");
}

// The same to this place of each block of the cluster whose bit is set, and counted at its barrier.
__device__ __forceinline__ void bring_to_all(unsigned to, const TensorMap& map, int row, int col,
                                             unsigned barrier, unsigned short blocks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(to), "l"(&map), "r"(col), "r"(row), "r"(barrier), "h"(blocks) : "memory");
}

// What my threads have stored to shared memory: copies and tensor cores, which read by another way,
// see it after this and a barrier.
__device__ __forceinline__ void publish_stores()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Start to copy a box to (row, col), as a group of its own. What is outside of the matrix stays
// back.
__device__ __forceinline__ void send(const TensorMap& map, int row, int col, unsigned from)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&map), "r"(col), "r"(row), "r"(from) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Wait until no more than LEFT of the boxes that I sent are still to be read from shared memory.
template <int LEFT>
__device__ __forceinline__ void wait_until_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(LEFT) : "memory");
}

// Wait until all boxes that I sent are in global memory.
__device__ __forceinline__ void wait_until_sent()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
