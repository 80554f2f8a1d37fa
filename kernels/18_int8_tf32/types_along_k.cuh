// B stored N×K: the tensor cores read both operands from shared memory. A consumer computes 64 rows
// of the tile and all its columns.
#pragma once

#include "types_stage.cuh"
#include "warp_roles.cuh"

constexpr int ACCUMULATORS = BN / 2;             // of a thread
constexpr int ARRIVALS = 1;                      // of a consumer, when it has read a stage
constexpr int ROWS_APART = WARPGROUP_ROWS, COLUMNS_APART = 0;  // parts of consumers

// Where accumulator i belongs in the warpgroup's part of C, and the step to the accumulator of the
// next column.
constexpr int NEXT_COLUMN = 1;
__device__ __forceinline__ int row_in_part(int i) { return accumulator_row(i); }
__device__ __forceinline__ int column_in_part(int i) { return accumulator_column(i); }

// By a consumer: accumulators = its part of the tile of C. One group of products is under way while
// the next one is started. Meanwhile `store_piece` stores STORED pieces of the tile before, one
// after every second stage, which spreads the stores.
template <int STORED, class StorePiece>
__device__ __forceinline__ void multiply_tile(Accumulator (&accumulators)[ACCUMULATORS],
                                              const Stage (&stages)[STAGES], unsigned full,
                                              unsigned empty, PipelineState& state, int warpgroup,
                                              int k_tiles, const StorePiece& store_piece)
{
    int k_tile = 0;
    const auto multiply_next = [&] {             // multiply k_tile, and release the stage before
        mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
        const Stage& stage = stages[state.stage];
        const Descriptor a = make_descriptor(shared_address(stage.a) + warpgroup * SQUARE_BYTES);
        const Descriptor b = make_descriptor(shared_address(stage.b));
        wgmma_fence();
        #pragma unroll
        for (int step = 0; step < K_STEPS; ++step)
            wgmma(accumulators, advance(a, step * K_STEP_BYTES), advance(b, step * K_STEP_BYTES),
                  k_tile > 0 || step > 0);
        wgmma_commit();
        wgmma_wait<1>();                         // the products of the stage before have ended
        if (k_tile > 0) mbarrier_arrive_in_cluster(empty + MBARRIER_BYTES * state.previous());
        state.advance();
        ++k_tile;
    };
    #pragma unroll                               // as registers have no index
    for (int piece = 0; piece < STORED; ++piece) {
        if (k_tile < k_tiles) multiply_next();
        if (k_tile < k_tiles) multiply_next();
        store_piece(piece);
    }
    while (k_tile < k_tiles) multiply_next();
    wgmma_wait<0>();
    keep_behind(accumulators);
    mbarrier_arrive_in_cluster(empty + MBARRIER_BYTES * state.previous());
}
