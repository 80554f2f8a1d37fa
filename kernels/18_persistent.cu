// 18  Persistent blocks and clusters
// Idea:    as many blocks as there are SMs compute one tile of C after the other: stages for the
//          next one are copied while this one is multiplied, and its results are stored, piece by
//          piece, while the next one is multiplied. The CLUSTER blocks of a cluster, whose tiles
//          lie below one another, copy a part of B each, and every part goes to all of them: so
//          each loads less of B from L2.
// Before:  17_warp_specialized.cu began anew with each tile, and each block copied all of B.
// Launch:  block (2 * BM + 128), grid: whole clusters, at most a block for each SM, and no more
//          clusters than there are tiles for them; dynamic shared memory as 17. Rows off 16 bytes:
//          any_width.cuh.
// Takes:   as 16_tma_wgmma.cu.

#ifndef SEND_LATER
#define SEND_LATER 1                 // 0: a tile is stored before the next is multiplied
#endif

#include "stage.cuh"
#include "pipeline_state.cuh"
#include "warp_roles.cuh"
#include "programmatic_launch.cuh"
#include "cluster_tiles.cuh"
#include "tma_epilogue.cuh"
#include "alpha_beta.cuh"

static_assert(STAGES >= 2, "as in 17, a stage is released when the next one's products started");
static_assert(BN % PIECE_COLUMNS == 0, "C is stored in whole pieces");

#define LATER (SEND_LATER && !OUT32)             // float32 would need too many registers

struct Shared {
    Stage stages[STAGES];
    StoreBuffer store_buffers[CONSUMERS][STORE_BUFFERS];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) IN_CLUSTERS
persistent(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
           const __grid_constant__ TensorMap map_c, const ElementC* C, int M, int N, int K,
           float alpha, float beta)
{
    extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    const int rank = blockIdx.x % CLUSTER, clusters = gridDim.x / CLUSTER;
    const int tile_rows = ceil_div(M, BM * CLUSTER_M), k_tiles = ceil_div(K, BK);
    const int tile_cols = ceil_div(N, BN * CLUSTER_N);
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS, thread = threadIdx.x % WARPGROUP_THREADS;

    // Number of the cluster's tile; its next one is `clusters` further.
    int number = blockIdx.x / CLUSTER;
    TileStart tile = tile_start(number, tile_rows, tile_cols, rank);

    trigger_next_launch();
    if (threadIdx.x == CONSUMERS * WARPGROUP_THREADS) {
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
        prefetch_tensor_map(map_c);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(full + MBARRIER_BYTES * s, 1);       // the producer, and its bytes
            // The consumers of all blocks: this block copies into the stages of all of them.
            mbarrier_init(empty + MBARRIER_BYTES * s, CONSUMERS * CLUSTER);
        }
        mbarrier_fence_init();
    }
    cluster_sync_relaxed();                      // the mbarriers of all blocks are initialized
    wait_for_previous_launch();

    PipelineState state;
    if (warpgroup == CONSUMERS) {                // the producer
        deallocate_registers();
        if (thread == 0) {
            while (number < tile_rows * tile_cols) {
                for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
                    const Stage& stage = shared.stages[state.stage];
                    const unsigned stage_full = full + MBARRIER_BYTES * state.stage;
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
                    // All of the stage: this block's copies, and other blocks' parts of B. These
                    // may come first, but the phase cannot complete without this arrival.
                    mbarrier_arrive_expect(stage_full, sizeof(Stage));
                    copy_stage(stage, map_a, map_b, tile, k_tile * BK, rank, stage_full);
                }
                number += clusters;
                tile = tile_start(number, tile_rows, tile_cols, rank);
            }
            // Other blocks arrive at this one's mbarriers: it must not end before they are done.
            if (CLUSTER > 1)
                for (int s = 0; s < STAGES; ++s, state.advance())
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
        }
    } else {                                     // a consumer
        allocate_registers();
        float accumulators[ACCUMULATORS];
        RoundedPairs previous;                   // results of the tile before, not yet stored
        TileStart previous_tile = {-1, 0};       // where they belong in C; none yet
        while (number < tile_rows * tile_cols) {
            int k_tile = 0;
            const auto multiply_next = [&] {     // multiply k_tile, and release the stage before
                mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
                wgmma_fence();
                multiply_stage(accumulators, shared.stages[state.stage], warpgroup, k_tile > 0);
                wgmma_commit();
                wgmma_wait<1>();                 // the products of the stage before have ended
                if (k_tile > 0)
                    mbarrier_arrive_in_cluster(empty + MBARRIER_BYTES * state.previous());
                state.advance();
                ++k_tile;
            };
            // A piece of the tile before is stored after every second k_tile, which spreads the
            // stores; meanwhile the tensor cores work on the newest stage. Unrolled, as registers
            // of `previous` have no index.
            #pragma unroll
            for (int piece = 0; piece < (LATER ? PIECES : 0); ++piece) {
                if (k_tile < k_tiles) multiply_next();
                if (k_tile < k_tiles) multiply_next();
                if (previous_tile.m >= 0)
                    store_piece(previous, piece, shared.store_buffers[warpgroup], map_c,
                                previous_tile.m, previous_tile.n, warpgroup);
            }
            while (k_tile < k_tiles) multiply_next();
            wgmma_wait<0>();                     // the last stage is going to be refilled
            mbarrier_arrive_in_cluster(empty + MBARRIER_BYTES * state.previous());

            previous_tile = {tile.m + warpgroup * WARPGROUP_ROWS, tile.n};
            const int m = previous_tile.m, n = previous_tile.n;
            if (alpha != 1.0f || beta != 0.0f)
                apply_alpha_beta(accumulators, C, m, n, M, N, alpha, beta);
#if LATER
            round_accumulators(previous, accumulators);
#else
            store_accumulators(accumulators, shared.store_buffers[warpgroup], map_c, m, n,
                               warpgroup);
#endif
            number += clusters;
            tile = tile_start(number, tile_rows, tile_cols, rank);
        }
        // The last tile; every block has had one.
        #pragma unroll
        for (int piece = 0; piece < (LATER ? PIECES : 0); ++piece)
            store_piece(previous, piece, shared.store_buffers[warpgroup], map_c, previous_tile.m,
                        previous_tile.n, warpgroup);
        if (thread == 0) tma_store_wait();       // the block's shared memory must last that long
    }
}

// The kernel for matrices that cannot have tensor maps.
#include "any_width.cuh"
