// How blocks meet: by counters in global memory, or in a cluster.
#pragma once

#include "pipeline.cuh"

// ---- counters ------------------------------------------------------------------------------------

// One thread counts for its block, between two barriers of the block: what all its threads wrote
// before is seen by whoever reads after it has seen the count.

__device__ __forceinline__ unsigned count_up(unsigned* counter)
{
    unsigned before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
                 : "=r"(before) : "l"(counter) : "memory");
    return before;
}

__device__ __forceinline__ unsigned look(const unsigned* counter)
{
    unsigned count;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(counter) : "memory");
    return count;
}

// Whether my block is the last of so many that come here. It clears the counter.
__device__ __forceinline__ bool is_last(unsigned* counter, int blocks)
{
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        last = count_up(counter) == blocks - 1;
        if (last) *counter = 0;
    }
    __syncthreads();
    return last;
}

// Wait until so many blocks have come here.
__device__ __forceinline__ void wait_for_all(unsigned* counter, int blocks)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        count_up(counter);
        while (look(counter) < blocks) {}
    }
    __syncthreads();
}

// The last of those that waited clears the counter.
__device__ __forceinline__ void leave(unsigned* counter, int blocks)
{
    if (threadIdx.x == 0 && count_up(counter) == 2 * blocks - 1) *counter = 0;
}

// What my block has written is there: for the one that waits, and clears the flag.
__device__ __forceinline__ void tell(unsigned* flag)
{
    __syncthreads();
    if (threadIdx.x == 0) count_up(flag);
}

__device__ __forceinline__ void wait_for_one(unsigned* flag)
{
    if (threadIdx.x == 0) {
        while (look(flag) == 0) {}
        *flag = 0;
    }
    __syncthreads();
}

// ---- a cluster -----------------------------------------------------------------------------------

__device__ __forceinline__ void arrive_in_cluster()
{
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
}

__device__ __forceinline__ void wait_in_cluster()
{
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

// The same place as an address of my own shared memory, in that of the block of this rank.
__device__ __forceinline__ unsigned in_block(const void* mine, int rank)
{
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there) : "r"(shared_address(mine)), "r"(rank));
    return there;
}

__device__ __forceinline__ float of_block(const float* mine, int rank)
{
    float one;
    asm volatile("ld.shared::cluster.f32 %0, [%1];"
                 : "=f"(one) : "r"(in_block(mine, rank)) : "memory");
    return one;
}

__device__ __forceinline__ float4 of_block(const float4* mine, int rank)
{
    float4 four;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                 : "r"(in_block(mine, rank)) : "memory");
    return four;
}
