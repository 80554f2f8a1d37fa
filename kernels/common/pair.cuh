// Two SMs that multiply together: the blocks of a pair, a cluster of 2, have the upper and the lower
// BM rows of a tile of C. Each has its own rows of A in shared memory and half of the columns of B,
// and its own rows of the sums in tensor memory; the tensor cores of each read both halves of B.
// With CTAS=1 a block is by itself.
#pragma once

#include "tcgen05.cuh"
#include "tma.cuh"

#if CTAS == 2
#define IN_PAIRS __cluster_dims__(2, 1, 1)
#else
#define IN_PAIRS
#endif

// All threads of the pair wait for one another.
__device__ __forceinline__ void pair_sync()
{
#if CTAS == 2
    cluster_arrive();
    cluster_wait();
#else
    __syncthreads();
#endif
}

// As tma_load, but the bytes count at this barrier of the pair's first block, whose thread starts
// all products.
__device__ __forceinline__ void tma_load_in_pair(unsigned to, const TensorMap& map, int row,
                                                 int col, unsigned barrier)
{
#if CTAS == 2
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".cta_group::2 [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(to), "l"(&map), "r"(col), "r"(row), "r"(remote_address(barrier, 0))
                 : "memory");
#else
    tma_load(to, map, row, col, barrier);
#endif
}

// Arrive at this barrier of the pair's first block.
__device__ __forceinline__ void mbarrier_arrive_in_pair(unsigned barrier)
{
#if CTAS == 2
    mbarrier_arrive_remote(barrier, 0);
#else
    mbarrier_arrive(barrier);
#endif
}
