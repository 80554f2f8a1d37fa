// 24  Grouped products
// Idea:    many products C = A @ B in one launch, each with a B of its own and any number of rows,
//          as the experts of a mixture have. Only the device knows how many rows each has: so each
//          block numbers the tiles of all products by itself, and takes every gridDim.x-th.
// Before:  18_persistent.cu multiplied one product, of a shape that the host knows; a launch for
//          each of many small ones leaves most SMs idle, and the host must wait for their sizes.
// Launch:  block (2 * BM + 128), grid: MIN_BLOCKS for each SM, or any other; dynamic shared memory:
//          Shared, an int for each product, and one more.
// Takes:   A: the rows of all products one below the other, × K; `rows`: where those of each begin,
//          and at last where they end. With MASKED=1 A is products × capacity × K, and `rows` says
//          how many each uses. C is like A, × N; rows that no product uses are not written.
//          B: products × K × N, or with OP_B=1 products × N × K. N and K: multiples of 8, not 0.
//          Maps, swizzled by 128 bytes: A and C as matrices of all rows, in boxes of BM × 64 and of
//          64 rows of 128 bytes; B in boxes of 1 × 64 × 64, with OP_B=1 of 1 × BN × 64.

#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1                             // that must fit on one SM
#endif
#ifndef SEND_LATER
#define SEND_LATER 1                 // 0: a tile is stored before the next is multiplied
#endif

#include "stage.cuh"
#include "pipeline_state.cuh"
#include "warp_roles.cuh"
#include "programmatic_launch.cuh"
#include "products.cuh"
#include "tma_3d.cuh"
#include "store_rows.cuh"

#define LATER (SEND_LATER && !OUT32)             // float32 would need too many registers

static_assert(STAGES >= 2, "as in 17, a stage is released when the next one's products started");
static_assert(BN % PIECE_COLUMNS == 0, "C is stored in whole pieces");
static_assert(MIN_BLOCKS == 1 || !MOVE_REGISTERS, "registers are moved in a block alone on its SM");

struct Shared {
    Stage stages[STAGES];
    StoreBuffer store_buffers[CONSUMERS][STORE_BUFFERS];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers
};                                               // then first_tiles of Products

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
grouped(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
        const __grid_constant__ TensorMap map_c, ElementC* C, const int* rows, int product_count,
        int capacity, int N, int K)
{
    extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];
    Shared& shared = *(Shared*)memory;
    int* first_tiles = (int*)(&shared + 1);
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    const Products products = {rows, product_count, capacity, ceil_div(N, BN)};
    const int k_tiles = ceil_div(K, BK);
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS, thread = threadIdx.x % WARPGROUP_THREADS;

    trigger_next_launch();
    if (threadIdx.x == CONSUMERS * WARPGROUP_THREADS) {
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
        prefetch_tensor_map(map_c);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(full + MBARRIER_BYTES * s, 1);       // the producer, and its bytes
            mbarrier_init(empty + MBARRIER_BYTES * s, CONSUMERS);      // one thread of each
        }
        mbarrier_fence_init();
    }
    wait_for_previous_launch();                  // which may have written `rows`
    if (threadIdx.x < 32) products.number_tiles(first_tiles);
    __syncthreads();                             // all know the tiles, and the mbarriers are there
    const int tiles = first_tiles[product_count];

    PipelineState state;
    if (warpgroup == CONSUMERS) {                // the producer
        deallocate_registers();
        if (thread == 0)
            for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
                const ProductTile tile = products.tile(number, first_tiles);
                for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
                    const Stage& stage = shared.stages[state.stage];
                    const unsigned stage_full = full + MBARRIER_BYTES * state.stage;
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
                    mbarrier_arrive_expect(stage_full, sizeof(Stage));
                    // Rows of A beyond the product's are of the next one: they only yield rows of C
                    // that are not stored. All of B counts in each sum, so its boxes must not reach
                    // into the next B: zeros of A beyond K times what stands there may be NaN.
                    tma_load(shared_address(stage.a), map_a, tile.m, k_tile * BK, stage_full);
                    copy_b_of_matrix<BN>(shared_address(stage.b), map_b, tile.product, k_tile * BK,
                                         tile.n, stage_full);
                }
            }
    } else {                                     // a consumer
        allocate_registers();
        float accumulators[ACCUMULATORS];
        RoundedPairs previous;                   // results of the tile before, not yet stored
        ProductTile previous_tile = {0, 0, 0, 0};              // where they belong: 0 rows as yet
        const auto store = [&](int piece) {
            store_rows(previous, piece, shared.store_buffers[warpgroup], map_c, C, N,
                       previous_tile.m, previous_tile.n, previous_tile.rows, warpgroup);
        };
        for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
            int k_tile = 0;
            const auto multiply_next = [&] {     // multiply k_tile, and release the stage before
                mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
                wgmma_fence();
                multiply_stage(accumulators, shared.stages[state.stage], warpgroup, k_tile > 0);
                wgmma_commit();
                wgmma_wait<1>();                 // the products of the stage before have ended
                if (thread == 0 && k_tile > 0)
                    mbarrier_arrive(empty + MBARRIER_BYTES * state.previous());
                state.advance();
                ++k_tile;
            };
            // As in 18: a piece of the tile before with every second k_tile, while the tensor cores
            // work on the newest stage. This tile is looked up in their time, too.
            multiply_next();
            #pragma unroll
            for (int piece = 0; piece < (LATER ? PIECES : 0); ++piece) {
                store(piece);
                if (k_tile < k_tiles) multiply_next();
                if (k_tile < k_tiles) multiply_next();
            }
            previous_tile = products.tile(number, first_tiles);
            previous_tile.m += warpgroup * WARPGROUP_ROWS;
            previous_tile.rows -= warpgroup * WARPGROUP_ROWS;
            while (k_tile < k_tiles) multiply_next();
            wgmma_wait<0>();                     // the last stage is going to be refilled
            if (thread == 0) mbarrier_arrive(empty + MBARRIER_BYTES * state.previous());

            round_accumulators(previous, accumulators);
            #pragma unroll
            for (int piece = 0; piece < (LATER ? 0 : PIECES); ++piece) store(piece);
        }
        #pragma unroll
        for (int piece = 0; piece < (LATER ? PIECES : 0); ++piece) store(piece);   // the last tile
        if (thread == 0) tma_store_wait();
    }
}
