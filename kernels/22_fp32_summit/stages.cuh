// The stages of rung 22, and which threads do what: the block's first ones are consumers, which
// multiply, and the others are producers, which fill the stages.
#pragma once

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
