// How the blocks of a cluster meet, and tell one another.
#pragma once

#if CLUSTER > 1
#define IN_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
#else
#define IN_CLUSTERS
#endif

// All threads of all blocks of the cluster come here. Relaxed: it orders no stores, and waits for
// none.
__device__ __forceinline__ void meet_in_cluster()
{
#if CLUSTER > 1
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

// The same, and what they stored before is seen by all after.
__device__ __forceinline__ void tell_cluster()
{
#if CLUSTER > 1
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// My warpgroup arrives at this mbarrier of every block, one thread for each. It is the plain
// arrive: what it says to other blocks, that tensor cores have read a stage, needs no order of
// stores.
__device__ __forceinline__ void arrive_in_all(unsigned barrier)
{
    const int rank = threadIdx.x % GROUP_THREADS;
    if (rank >= CLUSTER) return;
#if CLUSTER > 1
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(barrier), "r"(rank));
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(there) : "memory");
#else
    arrive(barrier);
#endif
}
