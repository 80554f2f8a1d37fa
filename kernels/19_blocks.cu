// 19  FP8 with scales of blocks
// Idea:    scales of blocks have to be applied after every 128 of K, and that is much work beside
//          the tensor cores'. Here three warpgroups take turns: while one promotes its sums, the
//          tensor cores multiply for the others. An idle warp of the producer copies the scales to
//          each stage, and each warp stores its rows of a tile by TMA while the first products of
//          the next tile are under way.
// Before:  19_fp8.cu takes all kinds of scales. Its consumers load them, and have two sets of
//          accumulators for 64 rows. So it is here, too, in tiles of up to 128 rows: there are
//          fewer warpgroups to take turns.
// Launch:  block (THREADS), grid: whole clusters, at most a block for each SM, or, where a cluster
//          splits K, a cluster for each tile; dynamic shared memory: a Shared. A box of the tensor
//          maps has 128 bytes of each row, swizzled: BM rows of A and BN of B, of what a cluster
//          shares its CLUSTER-th part; 16 rows of C.
// Takes:   any M, N, K whose rows begin at multiples of 16 bytes, K > 0; A (M×K) and B (N×K), both
//          along K, of 8-bit floats as DTYPE says; scales in float32, one for each 1×128 of A, as
//          ceil(K / 128) × M, and each 128×128 of B. C in bfloat16, or float32 by OUT32. C = alpha
//          * (scaled A) @ (scaled B).T + beta * C, rounded once, at the end. For sm_90a alone.

#include "blocks_settings.cuh"
#include "blocks_scales.cuh"
#include "blocks_mainloop.cuh"
#include "blocks_epilogue.cuh"
#include "blocks_split_k.cuh"
#include "programmatic_launch.cuh"
#include "tile_order.cuh"
#include "tma.cuh"

struct Shared {
    Stage stages[STAGES];
#if SPLITS_K
    ReceivedSums received;
#else
    StoreBuffers store_buffers[CONSUMERS * 4];   // of each warp
#endif
    StageScales scales[STAGES];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers
};

// Where a part of Shared is, in bytes from its beginning: a constant.
template <typename Part>
__device__ __forceinline__ unsigned offset_of(const Part& part, const char* memory)
{
    return shared_address(&part) - shared_address(memory);
}

// The same number, but the compiler does not know that it is: what follows is computed here.
__device__ __forceinline__ int opaque(int number)
{
    int same;
    asm volatile("mov.b32 %0, %1;" : "=r"(same) : "r"(number));
    return same;
}

// First row and column of a block's tile of C.
struct TileStart {
    int m, n;
};

// By the producer: start to copy what this block copies of a stage, from k on.
__device__ __forceinline__ void copy_stage(const Stage& stage, const TensorMap& map_a,
                                           const TensorMap& map_b, TileStart tile, int k, int rank,
                                           unsigned full)
{
    [[maybe_unused]] constexpr unsigned short ALL = (1 << CLUSTER) - 1;
    const unsigned a = shared_address(stage.a), b = shared_address(stage.b);
#if SHARES_A
    const int part_a = rank * (BM / CLUSTER);    // first row of this block's part of A
    tma_load_multicast(a + part_a * ROW_BYTES, map_a, tile.m + part_a, k, full, ALL);
#else
    tma_load(a, map_a, tile.m, k, full);
#endif
#if SHARES_B
    const int part_b = rank * (BN / CLUSTER);
    tma_load_multicast(b + part_b * ROW_BYTES, map_b, tile.n + part_b, k, full, ALL);
#else
    tma_load(b, map_b, tile.n, k, full);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) IN_CLUSTERS
fp8_blocks(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
           const __grid_constant__ TensorMap map_c, ElementC* C,
           const float* __restrict__ scale_a, const float* __restrict__ scale_b, int M, int N,
           int K, float alpha, float beta)
{
    extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    // By a shuffle, so that the compiler keeps what follows from it in uniform registers.
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / WARPGROUP_THREADS, 0);
    const int thread = threadIdx.x % WARPGROUP_THREADS;
    const int rank = blockIdx.x % CLUSTER, clusters = gridDim.x / CLUSTER;
    // Tiles of a cluster.
    constexpr int CLUSTER_M = SHARES_B ? CLUSTER : 1, CLUSTER_N = SHARES_A ? CLUSTER : 1;
    const int k_tiles = ceil_div(K, BK);

    // This block's part of K, in k tiles.
    const int first = SPLITS_K ? rank * k_tiles / CLUSTER : 0;
    const int end = SPLITS_K ? (rank + 1) * k_tiles / CLUSTER : k_tiles;

    // Clusters' tiles of C, counted anew where they are needed: consumers have no registers left.
    const auto tile_rows = [&] { return ceil_div(opaque(M), BM * CLUSTER_M); };
    const auto tile_cols = [&] { return ceil_div(opaque(N), BN * CLUSTER_N); };
    const auto tiles = [&] { return tile_rows() * tile_cols(); };

    // Where this block's tile begins, in the cluster's tile of this number.
    const auto tile_start = [&](int number) {
        const Tile tile = tile_at(number, tile_rows(), tile_cols(), ceil_div(GROUP, CLUSTER_M));
        return TileStart{(tile.row * CLUSTER_M + (SHARES_B ? rank : 0)) * BM,
                         (tile.col * CLUSTER_N + (SHARES_A ? rank : 0)) * BN};
    };

    trigger_next_launch();
    if (threadIdx.x == CONSUMERS * WARPGROUP_THREADS) {
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(full + MBARRIER_BYTES * s, FILLS);
            mbarrier_init(empty + MBARRIER_BYTES * s, RELEASES);
        }
        mbarrier_fence_init();
    }
    cluster_sync_relaxed();
    wait_for_previous_launch();

    PipelineState state;
    if (warpgroup == CONSUMERS) {                // the producer
        deallocate_registers();
        if (thread == 0) {
            for (int number = blockIdx.x / CLUSTER; number < tiles(); number += clusters) {
                const TileStart tile = tile_start(number);
                for (int k_tile = first; k_tile < end; ++k_tile, state.advance()) {
                    const Stage& stage = shared.stages[state.stage];
                    const unsigned stage_full = full + MBARRIER_BYTES * state.stage;
                    // At once in the first round: of a new mbarrier, parity 1 counts as complete.
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
                    mbarrier_arrive_expect(stage_full, sizeof(Stage));
                    copy_stage(stage, map_a, map_b, tile, k_tile * BK, rank, stage_full);
                }
            }
            // Other blocks arrive at this one's mbarriers: it must not end before they are done.
            if (CLUSTER > 1 && !SPLITS_K)
                for (int s = 0; s < STAGES; ++s, state.advance())
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
        } else if (thread >= FIRST_SCALE_THREAD) {
            for (int number = blockIdx.x / CLUSTER; number < tiles(); number += clusters) {
                const TileStart tile = tile_start(number);
                const ScalesOfTile scales{scale_a, scale_b, tile.m, tile.n, M, N, k_tiles, M};
                copy_scales(shared_address(shared.scales), scales, first, end, full, empty, state);
            }
        }
#if SPLITS_K
        __syncwarp();
        cluster_arrive();
        cluster_wait();
#endif
    } else {                                     // a consumer
        allocate_registers();
        // Otherwise the compiler finds out in each turn where shared memory begins.
        const unsigned base = __shfl_sync(~0u, shared_address(memory), 0);
        float totals[ACCUMULATORS];
        int number = blockIdx.x / CLUSTER;
        TileStart tile = {};
        // Of the tile that was multiplied last.
        [[maybe_unused]] const auto store_totals = [&] {
#if !SPLITS_K
            const int m = tile.m + warpgroup * WARPGROUP_ROWS;
            apply_alpha_beta(totals, C, m, tile.n, M, N, alpha, beta);
            store_rows_of_warp(totals, shared.store_buffers[threadIdx.x / 32], map_c, C,
                               m + thread / 32 * WARP_ROWS, tile.n, WARP_ROWS, N);
#endif
        };
        for (; number < tiles(); number += clusters)
            multiply_tile(totals, base + offset_of(shared.stages, memory),
                          base + offset_of(shared.scales, memory),
                          base + offset_of(shared.full, memory),
                          base + offset_of(shared.empty, memory), state, end - first, warpgroup,
                          [&] {
                              if (number >= clusters) store_totals();
                              tile = tile_start(number);
                          });
#if SPLITS_K
        // Once: there is a cluster for each tile.
        send_totals(totals, shared.received, rank, warpgroup);
        cluster_arrive();
        cluster_wait();
        float sums[SHARE_OF_TOTALS];
        add_totals(sums, totals, shared.received, rank, warpgroup);
        const int m = tile.m + warpgroup * WARPGROUP_ROWS, n = tile.n + rank * (BN / CLUSTER);
        apply_alpha_beta(sums, C, m, n, M, N, alpha, beta);
        store_share(sums, C, m, n, M, N);
#else
        store_totals();
        if (thread % 32 == 0) tma_store_wait();  // the block's shared memory must last that long
#endif
    }
}
