// Blocks in clusters of CLUSTER, a setting. With 1 each block is by itself.
#pragma once

#include "cluster_barrier.cuh"
#include "mbarrier.cuh"
#include "wgmma.cuh"

#if CLUSTER > 1
#define IN_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
#else
#define IN_CLUSTERS
#endif

// All threads of the cluster wait for one another. Of what they stored before, only initialized
// mbarriers, after their fence, are visible to other blocks.
__device__ __forceinline__ void cluster_sync_relaxed()
{
#if CLUSTER > 1
    cluster_arrive_relaxed();
    cluster_wait();
#else
    __syncthreads();
#endif
}

// By a warpgroup: arrive at this mbarrier of every block of the cluster, a thread for each. It says
// that tensor cores have read a stage; no stores have to be visible with it, so it needs no fence.
__device__ __forceinline__ void mbarrier_arrive_in_cluster(unsigned barrier)
{
    const int rank = threadIdx.x % WARPGROUP_THREADS;
    if (rank >= CLUSTER) return;
#if CLUSTER > 1
    mbarrier_arrive_remote(barrier, rank);
#else
    mbarrier_arrive(barrier);
#endif
}
