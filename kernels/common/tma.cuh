// TMA: the copy engine moves boxes of a matrix between global and shared memory by itself, as a
// tensor map describes them. From sm_90 on.
#pragma once

#include "mbarrier.cuh"

// How a matrix lies in global memory, the box of it that one copy moves, and the box's swizzle.
struct __align__(64) TensorMap {
    char bits[128];
};

// Bring the map to the copy engine's cache, ahead of the first copy.
__device__ __forceinline__ void prefetch_tensor_map(const TensorMap& map)
{
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}

// Start to load the box that begins at (row, col). As its bytes arrive they are counted at
// `barrier`; what is outside of the matrix is filled with zeros, and counts too. The instruction
// takes the fastest coordinate first. Its shared::cluster means any block of a cluster; a block's
// own addresses are valid there, and without clusters a block is a cluster by itself.
__device__ __forceinline__ void tma_load(unsigned to, const TensorMap& map, int row, int col,
                                         unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(to), "l"(&map), "r"(col), "r"(row), "r"(barrier) : "memory");
}

// The same into each block of the cluster whose bit is set in `blocks`: to the same address of its
// shared memory, counted at its own barrier.
__device__ __forceinline__ void tma_load_multicast(unsigned to, const TensorMap& map, int row,
                                                   int col, unsigned barrier, unsigned short blocks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(to), "l"(&map), "r"(col), "r"(row), "r"(barrier), "h"(blocks) : "memory");
}

// The copy engine and the tensor cores read shared memory by another path, the async proxy. After
// this fence and a barrier they see what this thread has stored.
__device__ __forceinline__ void fence_async_proxy()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Start to store a box at (row, col), as a group of its own. What is outside of the matrix is left
// out.
__device__ __forceinline__ void tma_store(const TensorMap& map, int row, int col, unsigned from)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&map), "r"(col), "r"(row), "r"(from) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Wait until shared memory has been read for all but the last PENDING of this thread's stores.
template <int PENDING>
__device__ __forceinline__ void tma_store_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(PENDING) : "memory");
}

// Wait until all of this thread's stores are complete: they have read shared memory, and what they
// wrote is in global memory.
__device__ __forceinline__ void tma_store_wait()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
