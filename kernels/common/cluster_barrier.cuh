// The barrier of a cluster, and the shared memory of its other blocks. From sm_90 on.
#pragma once

#include "shared_address.cuh"

__device__ __forceinline__ void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
}

// The same, but stores before it need not be visible to the other blocks after the wait.
__device__ __forceinline__ void cluster_arrive_relaxed()
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait()
{
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

// A shared address of this block, as the address of the same place in the block of this rank.
__device__ __forceinline__ unsigned remote_address(unsigned address, int rank)
{
    unsigned remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    return remote;
}

__device__ __forceinline__ float load_remote(const float* local, int rank)
{
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];"
                 : "=f"(value) : "r"(remote_address(shared_address(local), rank)) : "memory");
    return value;
}

__device__ __forceinline__ float4 load_remote(const float4* local, int rank)
{
    float4 value;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(remote_address(shared_address(local), rank)) : "memory");
    return value;
}

// Arrive at an mbarrier of the block of this rank, given by this block's address of its own.
__device__ __forceinline__ void mbarrier_arrive_remote(unsigned barrier, int rank)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];"
                 :: "r"(remote_address(barrier, rank)) : "memory");
}
