// The prologue and the mainloop of rungs 10 and 11.
#pragma once

#include "pipeline_cp_async.cuh"
#include "register_tile_copies.cuh"
#include "register_tile_fragments.cuh"

// Start this thread's copies of its next part of A and B into a stage.
__device__ __forceinline__ void copy_next(Stage* stages, int stage, const Inputs& in,
                                          CopySource& source, const Pipeline<STAGES>& pipeline)
{
    copy_stage(stages, stage, source, in);
    pipeline.commit(stage);
}

// Fill all stages but one, and wait for the first.
__device__ __forceinline__ void prologue(Stage* stages, int k_tiles, const Inputs& in,
                                         CopySource& source, Pipeline<STAGES>& pipeline)
{
    #pragma unroll 1
    for (int stage = 0; stage < STAGES - 1 && stage < k_tiles; ++stage)
        copy_next(stages, stage, in, source, pipeline);
    pipeline.wait();
}

// accumulators += the block's rows of A times its columns of B.
__device__ __forceinline__ void mainloop(float (&accumulators)[TM][TN],
                                         Fragments (&fragments)[2], Stage* stages, int k_tiles,
                                         const Inputs& in, CopySource& source,
                                         Pipeline<STAGES>& pipeline,
                                         int lane, int thread_m, int thread_n)
{
    const float *first_a = &stages[0].a[0][thread_m], *first_b = &stages[0].b[0][thread_n];
    const float *a = first_a, *b = first_b;
    load_fragments(fragments[0], a, b);
    multiply_first(accumulators, fragments[0]);

    int k_tile = 0, chunks = BK / CHUNK;         // chunks of this stage that are left
    #pragma unroll 1
    while (true) {
        multiply_chunk(accumulators, fragments, a, b);
        a += CHUNK * (BM + PAD);
        b += CHUNK * BN;
        if (--chunks == 0) {
            if (++k_tile == k_tiles) break;
            chunks = BK / CHUNK;
            pipeline.release(lane);
            if (k_tile + STAGES - 2 < k_tiles)
                copy_next(stages, pipeline.acquire(), in, source, pipeline);
            const int stage = pipeline.wait();
            a = first_a + stage * (int)(sizeof(Stage) / 4);
            b = first_b + stage * (int)(sizeof(Stage) / 4);
        }
        load_fragments(fragments[0], a, b);
        multiply_rest(accumulators, fragments[LAST]);
        multiply_first(accumulators, fragments[0]);
    }
    multiply_rest(accumulators, fragments[LAST]);
}
