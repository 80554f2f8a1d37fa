// PROMOTE=0: the tensor cores add all products of a tile, so their accumulators are the totals, and
// the mainloop is that of 18.
#pragma once

#include "fp8_cluster.cuh"
#include "fp8_stage.cuh"
#include "mbarrier.cuh"
#include "pipeline_state.cuh"

static_assert(STAGES >= 2, "as in 17, a stage is released when the next one's products started");

__device__ __forceinline__ void multiply_unpromoted(float (&totals)[ACCUMULATORS],
                                                    const Stage (&stages)[STAGES], unsigned full,
                                                    unsigned empty, PipelineState& state,
                                                    int warpgroup, int k_tiles)
{
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
        mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
        wgmma_fence();
        multiply_stage(totals, stages[state.stage], warpgroup, k_tile > 0);
        wgmma_commit();
        wgmma_wait<1>();                         // the products of the stage before have ended
        if (k_tile > 0) mbarrier_arrive_in_cluster(empty + MBARRIER_BYTES * state.previous());
    }
    wgmma_wait<0>();
    mbarrier_arrive_in_cluster(empty + MBARRIER_BYTES * state.previous());
}
