// 19  FP8 with scales
// Idea:    elements of 8 bits, and scales that bring them to their magnitude. The tensor cores keep
//          only 13 bits of the fraction of their sums, so a consumer has two sets of accumulators:
//          while one set takes its PROMOTE products along K, the other is added to totals in
//          float32.
// Before:  18_persistent.cu multiplied 16 bits, and a tile had one set of accumulators, to which
//          the tensor cores added from the first product to the last. Here three sets leave no
//          registers for a tile that is stored later, and clusters are left to the setting CLUSTER.
// Launch:  block (2 * BM + 128), grid: at most a block for each SM, whole clusters; dynamic shared
//          memory as 18. A block is a cluster of its own unless CLUSTER is set. A box of the tensor
//          maps has 128 bytes of each row, swizzled: BM rows of A, BN / CLUSTER of B, 64 of C.
//          Where rows do not all begin at multiples of 16 bytes, or K is 0, any_width runs instead
//          (any_width_fp8.cuh).
// Takes:   any M, N, K; A (M×K) and B (N×K), both along K, of 8-bit floats as DTYPE says; scales in
//          float32 as SCALES says: one for A and one for B; one for each row of A and each row of
//          B; or one for each 1×128 of A and each 128×128 of B. C in bfloat16, or float32 by OUT32.
//          C = alpha * (scaled A) @ (scaled B).T + beta * C, rounded once, at the end. For sm_90a
//          alone.

#include "fp8_stage.cuh"
#include "fp8_intervals.cuh"
#include "fp8_cluster.cuh"
#include "pipeline_state.cuh"
#include "warp_roles.cuh"
#include "programmatic_launch.cuh"
#include "fp8_epilogue.cuh"
#include "tma_epilogue.cuh"
#if PROMOTE == 0
#include "unpromoted.cuh"
#endif

static_assert(BN % PIECE_COLUMNS == 0, "C is stored in whole pieces");

struct Shared {
    Stage stages[STAGES];
    StoreBuffer store_buffers[CONSUMERS][STORE_BUFFERS];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) IN_CLUSTERS
fp8(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
    const __grid_constant__ TensorMap map_c, const ElementC* C, const float* __restrict__ scale_a,
    const float* __restrict__ scale_b, int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    const int rank = blockIdx.x % CLUSTER, clusters = gridDim.x / CLUSTER;
    const int tile_rows = ceil_div(M, BM * CLUSTER), tile_cols = ceil_div(N, BN);
    const int k_tiles = ceil_div(K, BK);
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS;
    const int thread = threadIdx.x % WARPGROUP_THREADS;

    // Where this block's tile begins, in the cluster's tile of this number. GROUP is in rows of
    // tiles, and a row of clusters' tiles has CLUSTER of them.
    const auto tile_start = [&](int number) {
        const Tile tile = tile_at(number, tile_rows, tile_cols, ceil_div(GROUP, CLUSTER));
        return TileStart{(tile.row * CLUSTER + rank) * BM, tile.col * BN};
    };

    // Number of the cluster's tile; its next one is `clusters` further.
    int number = blockIdx.x / CLUSTER;
    TileStart tile = tile_start(number);

    trigger_next_launch();
    if (threadIdx.x == CONSUMERS * WARPGROUP_THREADS) {
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
        prefetch_tensor_map(map_c);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(full + MBARRIER_BYTES * s, 1);       // the producer, and its bytes
            mbarrier_init(empty + MBARRIER_BYTES * s, CONSUMERS * CLUSTER);    // as in 18
        }
        mbarrier_fence_init();
    }
    cluster_sync_relaxed();
    wait_for_previous_launch();

    PipelineState state;
    if (warpgroup == CONSUMERS) {                // the producer
        deallocate_registers();
        if (thread == 0) {
            while (number < tile_rows * tile_cols) {
                for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
                    const Stage& stage = shared.stages[state.stage];
                    const unsigned stage_full = full + MBARRIER_BYTES * state.stage;
                    // At once in the first round: of a new mbarrier, parity 1 counts as complete.
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
                    mbarrier_arrive_expect(stage_full, sizeof(Stage));
                    copy_stage(stage, map_a, map_b, tile, k_tile * BK, rank, stage_full);
                }
                number += clusters;
                tile = tile_start(number);
            }
            // Other blocks arrive at this one's mbarriers: it must not end before they are done.
            if (CLUSTER > 1)
                for (int s = 0; s < STAGES; ++s, state.advance())
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
        }
    } else {                                     // a consumer
        allocate_registers();
        const Scales scales{scale_a, scale_b, M, N, k_tiles};
        while (number < tile_rows * tile_cols) {
            const int m = tile.m + warpgroup * WARPGROUP_ROWS;
            float totals[ACCUMULATORS] = {};     // in float32
#if PROMOTE
            float partial[2][ACCUMULATORS];      // the tensor cores' sums of two intervals, and the
            IntervalScales partial_scales[2];    // intervals' scales
            PipelineState next_release = state;  // the oldest stage that is not yet released

            // Start to multiply the stages of an interval, as one group.
            const auto start = [&](float (&accumulators)[ACCUMULATORS],
                                   IntervalScales& interval_scales, int interval) {
                interval_scales = load_interval_scales(scales, m + accumulator_row(0), tile.n,
                                                       interval);
                for (int i = 0; i < k_tiles_of(interval, k_tiles); ++i, state.advance()) {
                    mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
                    wgmma_fence();
                    multiply_stage(accumulators, shared.stages[state.stage], warpgroup, i > 0);
                }
                wgmma_commit();
            };

            // When an interval's products have ended: release its stages, and add its sums to the
            // totals.
            const auto finish = [&](const float (&accumulators)[ACCUMULATORS],
                                    const IntervalScales& interval_scales, int interval) {
                for (int i = 0; i < k_tiles_of(interval, k_tiles); ++i, next_release.advance())
                    mbarrier_arrive_in_cluster(empty + MBARRIER_BYTES * next_release.stage);
                promote(totals, accumulators, interval_scales);
            };

            // Mainloop: the tensor cores multiply one interval while this warpgroup adds the one
            // before to the totals. So stages of two intervals are held at a time. Two intervals a
            // turn: partial[interval % 2] would be an index, and registers have none. When a turn
            // begins, `interval` has been started, in partial[0], and those before are in the
            // totals.
            const int intervals = ceil_div(k_tiles, INTERVAL);     // K > 0, or any_width runs
            int interval = 0;
            start(partial[0], partial_scales[0], 0);
            for (; interval + 2 < intervals; interval += 2) {
                start(partial[1], partial_scales[1], interval + 1);
                wgmma_wait<1>();                 // partial[0] is complete; partial[1] goes on
                finish(partial[0], partial_scales[0], interval);
                start(partial[0], partial_scales[0], interval + 2);
                wgmma_wait<1>();
                finish(partial[1], partial_scales[1], interval + 1);
            }
            if (interval + 1 < intervals) {      // two are left, and the first has started
                start(partial[1], partial_scales[1], interval + 1);
                wgmma_wait<1>();
                finish(partial[0], partial_scales[0], interval);
                wgmma_wait<0>();
                finish(partial[1], partial_scales[1], interval + 1);
            } else {                             // one is left
                wgmma_wait<0>();
                finish(partial[0], partial_scales[0], interval);
            }
#else
            multiply_unpromoted(totals, shared.stages, full, empty, state, warpgroup, k_tiles);
#endif
            // Stored at once: 18's `previous` would be 32 registers more, beside these three sets.
            apply_scales(totals, C, scales, m, tile.n, alpha, beta);
            store_accumulators(totals, shared.store_buffers[warpgroup], map_c, m, tile.n,
                               warpgroup);
            number += clusters;
            tile = tile_start(number);
        }
        if (thread == 0) tma_store_wait();       // the block's shared memory must last that long
    }
}

// The kernel for matrices that cannot have tensor maps.
#include "any_width_fp8.cuh"
