// The stages of rung 22 and their mbarriers: 256 consumers multiply, 128 producers behind them fill
// the stages.
#pragma once

#include "mbarrier.cuh"
#include "register_tile_sizes.cuh"
#include "pipeline_state.cuh"                    // of STAGES stages

#define PRODUCERS 128                            // threads, behind THREADS consumers

// B is null where it has a tensor map.
struct Matrices {
    const float *A, *B;
    int M, N, K;
};

struct Shared {
    float b[STAGES][BK][BN];
    float a[STAGES][BK][BM + PAD];               // transposed: a[stage][k][row]
};

// The mbarriers of stage 0; those of the others follow.
struct Barriers {
    unsigned full, empty;
};

// By all threads of the block. `arrivals`: of producers, for each stage.
__device__ __forceinline__ Barriers init_barriers(unsigned long long (&barriers)[2 * STAGES],
                                                  int arrivals)
{
    const unsigned full = shared_address(barriers), empty = shared_address(barriers + STAGES);
    if (threadIdx.x < STAGES) {
        mbarrier_init(full + MBARRIER_BYTES * threadIdx.x, arrivals);
        mbarrier_init(empty + MBARRIER_BYTES * threadIdx.x, THREADS / 32);  // consumer warps
    }
    mbarrier_fence_init();
    __syncthreads();
    return {full, empty};
}
