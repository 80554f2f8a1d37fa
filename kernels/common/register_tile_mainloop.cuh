// The mainloop of rungs 10 and 11: all warps fill the stages of a pipeline, and multiply from them.
#pragma once

#include "register_tile_copies.cuh"
#include "register_tile_fragments.cuh"

// accumulators += the block's rows of A times its columns of B. Stage 0 is full, and copies into
// all others but the last are under way. The fragments are for one k and for the next; they are
// declared by the caller: if they were local, ptxas would assign other registers.
__device__ __forceinline__ void mainloop(float (&accumulators)[TM][TN], Fragments (&fragments)[2],
                                         const Copies& copies, int k_tiles, int lane,
                                         int thread_m, int thread_n)
{
    static_assert(STAGES >= 2, "with one stage the prologue would fill none, and wait for it");
    const float* first_a = &copies.stages[0].a[0][thread_m];
    const float* first_b = &copies.stages[0].b[0][thread_n];
    const float *a = first_a, *b = first_b;      // at the first k of this chunk
    load_fragments(fragments[0], a, b);
    multiply_columns<0, 1>(accumulators, fragments[0]);

    int k_tile = 0, chunks = BK / CHUNK;         // k tiles done; chunks left of this stage
    #pragma unroll 1
    while (true) {
        multiply_chunk(accumulators, fragments, a, b);
        a += CHUNK * (BM + PAD);
        b += CHUNK * BN;
        if (--chunks == 0) {
            if (++k_tile == k_tiles) break;
            chunks = BK / CHUNK;
            copies.pipeline.release(lane);       // its last fragments are in registers
            // Started so far: STAGES - 1 k tiles by the prologue, and one with each stage since.
            if (k_tile + STAGES - 2 < k_tiles) copies.copy_stage(copies.pipeline.acquire());
            const int stage = copies.pipeline.wait();
            a = first_a + stage * STAGE_FLOATS;
            b = first_b + stage * STAGE_FLOATS;
        }
        load_fragments(fragments[0], a, b);      // the rest of this product hides these loads
        multiply_columns<1, TN>(accumulators, fragments[1]);
        multiply_columns<0, 1>(accumulators, fragments[0]);
    }
    multiply_columns<1, TN>(accumulators, fragments[1]);
}
