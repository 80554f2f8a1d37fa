// 26  Accumulators in tensor memory
// Idea:    on Blackwell one thread starts the tensor cores, and they add up in a memory of their
//          own. So no warp holds accumulators in registers: a warp copies, a warp multiplies, and
//          four store a tile of C from one half of tensor memory while the other half takes the
//          sums of the next tile. With CTAS=2 two SMs compute a tile of 256 rows together, and each
//          keeps half of B.
// Before:  18_persistent.cu kept accumulators in the registers of the warpgroups that multiply, and
//          stored a tile piece by piece between the products of the next one.
// Launch:  block (192), grid: whole pairs (CTAS=2), at most a block for each SM, and no more than
//          there are tiles for them; dynamic shared memory: a Shared. Rows off 16 bytes:
//          any_width_blackwell.cuh.
// Takes:   any M, N, K; float16, row-major, sums in float32. C = alpha * A @ B + beta * C. For
//          sm_100a.

#include "pair_stage.cuh"
#include "tensor_epilogue.cuh"
#include "pipeline_state.cuh"
#include "programmatic_launch.cuh"

constexpr int PRODUCER = EPILOGUE_WARPS, MULTIPLIER = EPILOGUE_WARPS + 1;      // warps
constexpr int THREADS = 32 * (EPILOGUE_WARPS + 2);
constexpr int HALVES = 2;                        // of tensor memory, for the sums of a tile each

struct Shared {
    Stage stages[STAGES];
    StoreBuffer store_buffers[EPILOGUE_WARPS][STORE_BUFFERS];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers of the stages,
    unsigned long long sums_full[HALVES], sums_empty[HALVES];  // and of the halves
    unsigned tensor_memory;                      // address of the block's columns
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) IN_PAIRS
blackwell(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
          const __grid_constant__ TensorMap map_c, const ElementC* C, int M, int N, int K,
          float alpha, float beta)
{
    extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    const unsigned sums_full = shared_address(shared.sums_full);
    const unsigned sums_empty = shared_address(shared.sums_empty);
    const int rank = blockIdx.x % CTAS, pairs = gridDim.x / CTAS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int tile_rows = ceil_div(M, BM * CTAS), tile_cols = ceil_div(N, BN);
    const int tiles = tile_rows * tile_cols, k_tiles = ceil_div(K, BK);
    const int first = blockIdx.x / CTAS;         // number of the pair's first tile; next: + pairs

    trigger_next_launch();
    if (warp == MULTIPLIER) tensor_allocate<HALVES * BN>(shared_address(&shared.tensor_memory));
    if (threadIdx.x == PRODUCER * 32) {
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
        prefetch_tensor_map(map_c);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(full + MBARRIER_BYTES * s, 1);       // the first producer, and all bytes
            mbarrier_init(empty + MBARRIER_BYTES * s, 1);      // a commit
        }
        for (int half = 0; half < HALVES; ++half) {
            mbarrier_init(sums_full + MBARRIER_BYTES * half, 1);   // a commit
            mbarrier_init(sums_empty + MBARRIER_BYTES * half, EPILOGUE_WARPS * CTAS);
        }
        mbarrier_fence_init();
    }
    __syncwarp();
    tcgen05_fence_before();
    pair_sync();                                 // mbarriers are initialized, columns allocated
    tcgen05_fence_after();
    const unsigned tensor_memory = shared.tensor_memory;
    wait_for_previous_launch();

    PipelineState state;
    if (warp == PRODUCER) {
        if (lane == 0) {
            for (int number = first; number < tiles; number += pairs) {
                const TileStart tile = tile_start(number, tile_rows, tile_cols, rank);
                for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
                    const unsigned stage_full = full + MBARRIER_BYTES * state.stage;
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
                    // The copies of both blocks: those of the second may come first, but the phase
                    // cannot complete without this arrival.
                    if (rank == 0) mbarrier_arrive_expect(stage_full, CTAS * sizeof(Stage));
                    copy_stage(shared.stages[state.stage], map_a, map_b, tile, k_tile * BK, rank,
                               stage_full);
                }
            }
            // Commits arrive at this block's mbarriers: it must not end before they are done.
            for (int s = 0; s < STAGES; ++s, state.advance())
                mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
        }
    } else if (warp == MULTIPLIER) {
        if (lane == 0 && rank == 0) {
            for (int number = first, turn = 0; number < tiles; number += pairs, ++turn) {
                const int half = turn % HALVES, parity = turn / HALVES % 2;
                mbarrier_wait(sums_empty + MBARRIER_BYTES * half, parity ^ 1);
                for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
                    mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
                    tcgen05_fence_after();
                    multiply_stage(tensor_memory + half * BN, shared.stages[state.stage],
                                   k_tile > 0);
                    tcgen05_commit(empty + MBARRIER_BYTES * state.stage);
                }
                tcgen05_commit(sums_full + MBARRIER_BYTES * half);
            }
        }
    } else {                                     // the epilogue
        const int row = warp * 32;               // of the tile; its lane of tensor memory, too
        for (int number = first, turn = 0; number < tiles; number += pairs, ++turn) {
            const int half = turn % HALVES, parity = turn / HALVES % 2;
            const TileStart tile = tile_start(number, tile_rows, tile_cols, rank);
            mbarrier_wait(sums_full + MBARRIER_BYTES * half, parity);
            tcgen05_fence_after();
            store_sums(tensor_memory + (row << 16) + half * BN, shared.store_buffers[warp], map_c,
                       C, tile.m + row, tile.n, M, N, alpha, beta,
                       sums_empty + MBARRIER_BYTES * half);
        }
        if (lane == 0) tma_store_wait();         // the block's shared memory must last that long
    }
    __syncwarp();
    tcgen05_fence_before();
    pair_sync();                                 // no warp of the pair needs its columns any more
    tcgen05_fence_after();
    if (warp == MULTIPLIER) tensor_free<HALVES * BN>(tensor_memory);
}

// The kernel for matrices that cannot have tensor maps.
#include "any_width_blackwell.cuh"
