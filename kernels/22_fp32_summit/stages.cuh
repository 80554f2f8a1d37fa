// The stages of rung 22 and their mbarriers, and which threads do what: the block's first ones are
// consumers, which multiply, and the others are producers, which fill the stages.
#pragma once

#include "mbarrier.cuh"
#include "register_tile_sizes.cuh"
#include "pipeline_state.cuh"                    // of STAGES stages

#define CONSUMER_THREADS ((BM / TM) * (BN / TN))
#define PRODUCER_THREADS 128
#define THREADS (CONSUMER_THREADS + PRODUCER_THREADS)          // of the block

// 10's Inputs, without a tile, as a block computes many. B is null where it has a tensor map.
struct Matrices {
    const float *A, *B;
    int M, N, K;
};

// In dynamic shared memory.
struct Shared {
    float b[STAGES][BK][BN];                     // b[stage][k][column]
    float a[STAGES][BK][BM + PAD];               // transposed: a[stage][k][row]
};

// The shared addresses of stage 0's mbarriers; those of the other stages follow. full: its copies
// are complete. empty: all consumer warps have read it.
struct Barriers {
    unsigned full, empty;
};

// By all threads of the block: initialize the mbarriers. `arrivals`: how many complete a phase of
// `full`.
__device__ __forceinline__ Barriers init_barriers(unsigned long long (&barriers)[2 * STAGES],
                                                  int arrivals)
{
    const unsigned full = shared_address(barriers), empty = shared_address(barriers + STAGES);
    if (threadIdx.x < STAGES) {
        mbarrier_init(full + MBARRIER_BYTES * threadIdx.x, arrivals);
        mbarrier_init(empty + MBARRIER_BYTES * threadIdx.x, CONSUMER_THREADS / 32);    // one a warp
    }
    mbarrier_fence_init();
    __syncthreads();
    return {full, empty};
}
