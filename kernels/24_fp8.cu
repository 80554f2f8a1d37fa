// 24  Grouped products in FP8, with scales of blocks
// Idea:    tiles are numbered on the device as in 24_grouped.cu, and multiplied as in 19_blocks.cu.
//          A warp that loads scales also looks up the tile, and tells the consumers where it is.
// Before:  24_grouped.cu takes 16 bits, and its consumers look their tiles up by themselves: here
//          their registers are full, and nothing may come between two tiles.
// Launch:  block (THREADS), grid: as many blocks as there are SMs, in whole clusters, or any other
//          number of clusters; dynamic shared memory: Shared, an int for each product, and one more.
// Takes:   A: the rows of all products one below the other, × K; `rows`: where those of each begin,
//          and at last where they end. With MASKED=1 A is products × capacity × K, and `rows` says
//          how many each uses. C is like A, × N, in bfloat16; rows that no product uses are not
//          written. B: products × N × K. A and B in E4M3; scales in float32, one for each 1×128 of
//          A, as ceil(K / 128) × all rows, and of each B one for each 128×128. N: a multiple of 8,
//          K: of 16, not 0.
//          Maps of A, B and C as matrices of all rows, swizzled: boxes of BN rows of B, BM of A, of
//          which each block of a cluster copies a part, and 16 of C, of 128 bytes each. For
//          sm_90a alone.

#include "blocks_settings.cuh"
#include "blocks_scales.cuh"
#include "blocks_mainloop.cuh"
#include "blocks_epilogue.cuh"
#include "programmatic_launch.cuh"
#include "products.cuh"
#include "tma.cuh"

static_assert(SHARE == 0, "the blocks of a cluster have the same rows of one product");

// A tile is found as soon as a stage is free for it, and its place read when the first stage of the
// next tile is multiplied, but not released. Then at most STAGES tiles have been found since.
constexpr int FOUND = STAGES + 1;

struct Shared {
    Stage stages[STAGES];
    StoreBuffers store_buffers[CONSUMERS * 4];   // of each warp
    StageScales scales[STAGES];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers
    ProductTile found[FOUND];                    // tiles of this block, in turn
};                                               // then first_tiles of Products

// Where a part of Shared is, in bytes from its beginning: a constant.
template <typename Part>
__device__ __forceinline__ unsigned offset_of(const Part& part, const char* memory)
{
    return shared_address(&part) - shared_address(memory);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) IN_CLUSTERS
grouped_fp8(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
            const __grid_constant__ TensorMap map_c, ElementC* C,
            const float* __restrict__ scale_a, const float* __restrict__ scale_b, const int* rows,
            int product_count, int capacity, int N, int K, int ld_scale_a)
{
    extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];
    Shared& shared = *(Shared*)memory;
    int* first_tiles = (int*)(&shared + 1);
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    // By a shuffle, so that the compiler keeps what follows from it in uniform registers.
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / WARPGROUP_THREADS, 0);
    const int thread = threadIdx.x % WARPGROUP_THREADS;
    const int rank = blockIdx.x % CLUSTER, clusters = gridDim.x / CLUSTER;
    const int k_tiles = ceil_div(K, BK);

    // Clusters take tiles of CLUSTER times as many columns, and a block BN of these.
    const Products products = {rows, product_count, capacity, ceil_div(N, BN * CLUSTER)};
    const auto find = [&](int number) {
        ProductTile tile = products.tile(number, first_tiles);
        tile.n = tile.n * CLUSTER + rank * BN;
        return tile;
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
    wait_for_previous_launch();                  // which may have written `rows`
    if (threadIdx.x < 32) products.number_tiles(first_tiles);
    __syncthreads();
    // Read anew where it is needed: consumers have no registers left.
    const auto tiles = [&] { return *(const volatile int*)(first_tiles + product_count); };

    PipelineState state;
    int place = 0;                               // in `found`
    const auto to_next_place = [&] { place = place == FOUND - 1 ? 0 : place + 1; };
    if (warpgroup == CONSUMERS) {                // the producer
        deallocate_registers();
        if (thread == 0) {
            for (int number = blockIdx.x / CLUSTER; number < tiles(); number += clusters) {
                const ProductTile tile = find(number);
                for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
                    const Stage& stage = shared.stages[state.stage];
                    const unsigned a = shared_address(stage.a), b = shared_address(stage.b);
                    const unsigned stage_full = full + MBARRIER_BYTES * state.stage;
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
                    mbarrier_arrive_expect(stage_full, sizeof(Stage));
                    // Boxes may reach into rows of the next product, which only yield rows and
                    // columns of C that are not stored.
#if SHARES_A
                    const int part = rank * (BM / CLUSTER);    // first row of this block's part
                    tma_load_multicast(a + part * ROW_BYTES, map_a, tile.m + part, k_tile * BK,
                                       stage_full, (1 << CLUSTER) - 1);
#else
                    tma_load(a, map_a, tile.m, k_tile * BK, stage_full);
#endif
                    tma_load(b, map_b, tile.product * N + tile.n, k_tile * BK, stage_full);
                }
            }
            // Other blocks arrive at this one's mbarriers: it must not end before they are done.
            if (CLUSTER > 1)
                for (int s = 0; s < STAGES; ++s, state.advance())
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
        } else if (thread >= FIRST_SCALE_THREAD) {
            for (int number = blockIdx.x / CLUSTER; number < tiles(); number += clusters) {
                const ProductTile tile = find(number);
                mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
                if (thread == FIRST_SCALE_THREAD) shared.found[place] = tile;
                to_next_place();
                const float* scale_of_b =
                    scale_b + (size_t)tile.product * ceil_div(N, SCALE_BLOCK) * k_tiles;
                const ScalesOfTile scales{scale_a, scale_of_b, tile.m, tile.n, tile.m + tile.rows,
                                          N, k_tiles, ld_scale_a};
                copy_scales(shared_address(shared.scales), scales, 0, k_tiles, full, empty, state);
            }
        }
    } else {                                     // a consumer
        allocate_registers();
        // Otherwise the compiler finds out in each turn where shared memory begins.
        const unsigned base = __shfl_sync(~0u, shared_address(memory), 0);
        float totals[ACCUMULATORS];
        bool multiplied = false;                 // a tile whose totals are not stored
        const auto store_previous = [&] {
            if (!multiplied) return;
            const ProductTile tile = shared.found[place];
            const int row = warpgroup * WARPGROUP_ROWS + thread / 32 * WARP_ROWS;
            store_rows_of_warp(totals, shared.store_buffers[threadIdx.x / 32], map_c, C,
                               tile.m + row, tile.n, tile.rows - row, N);
            to_next_place();
        };
        for (int number = blockIdx.x / CLUSTER; number < tiles(); number += clusters) {
            multiply_tile(totals, base + offset_of(shared.stages, memory),
                          base + offset_of(shared.scales, memory),
                          base + offset_of(shared.full, memory),
                          base + offset_of(shared.empty, memory), state, k_tiles, warpgroup,
                          store_previous);
            multiplied = true;
        }
        store_previous();
        if (thread % 32 == 0) tma_store_wait();  // the block's shared memory must last that long
    }
}
