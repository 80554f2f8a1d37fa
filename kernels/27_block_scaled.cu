// 27  Block scales in tensor memory
// Idea:    elements of 8 or 4 bits have a scale for each block of neighbours along K. The tensor
//          cores multiply by the scales of A and B themselves, and read them from tensor memory. So
//          no thread promotes sums, as in 19: a stage has scales beside its tiles, and the thread
//          that multiplies copies them to tensor memory first.
// Before:  26_blackwell.cu multiplied 16 bits without scales, B stored K×N.
// Launch:  block (192), grid: at most a block for each SM, and no more than there are tiles;
//          dynamic shared memory: a Shared.
// Takes:   any M, N; rows of A and B of K bytes, a multiple of 16, both along K (B is stored N×K);
//          C, float16, M×N, N a multiple of 8. C = alpha * A @ B + beta * C.
//          FORMAT=0, MXFP8: e4m3, a scale of ue8m0 for 32 elements. FORMAT=1, NVFP4: e2m1, two to a
//          byte, a scale of ue4m3 for 16. Scales lie in atoms (scaled_mma.cuh), for whole blocks of
//          128 rows and whole stages along K. For sm_100a.

#include "scaled_stage.cuh"
#include "tensor_epilogue.cuh"
#include "pipeline_state.cuh"
#include "programmatic_launch.cuh"
#include "tile_order.cuh"

constexpr int PRODUCER = EPILOGUE_WARPS, MULTIPLIER = EPILOGUE_WARPS + 1;      // warps
constexpr int THREADS = 32 * (EPILOGUE_WARPS + 2);
constexpr int HALVES = 2;                        // of the columns of sums, for a tile each

struct Shared {
    Stage stages[STAGES];
    StoreBuffer store_buffers[EPILOGUE_WARPS][STORE_BUFFERS];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers of the stages,
    unsigned long long sums_full[HALVES], sums_empty[HALVES];  // and of the halves
    unsigned tensor_memory;                      // address of the block's columns
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
block_scaled(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
             const __grid_constant__ TensorMap map_scales_a,
             const __grid_constant__ TensorMap map_scales_b, const __grid_constant__ TensorMap map_c,
             const ElementC* C, int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    const unsigned sums_full = shared_address(shared.sums_full);
    const unsigned sums_empty = shared_address(shared.sums_empty);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int tile_rows = ceil_div(M, BM), tile_cols = ceil_div(N, BN);
    const int tiles = tile_rows * tile_cols, k_tiles = ceil_div(K, ROW_BYTES);

    trigger_next_launch();
    if (warp == MULTIPLIER) tensor_allocate<COLUMNS>(shared_address(&shared.tensor_memory));
    if (threadIdx.x == PRODUCER * 32) {
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
        prefetch_tensor_map(map_c);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(full + MBARRIER_BYTES * s, 1);       // the producer, and its bytes
            mbarrier_init(empty + MBARRIER_BYTES * s, 1);      // a commit
        }
        for (int half = 0; half < HALVES; ++half) {
            mbarrier_init(sums_full + MBARRIER_BYTES * half, 1);   // a commit
            mbarrier_init(sums_empty + MBARRIER_BYTES * half, EPILOGUE_WARPS);
        }
        mbarrier_fence_init();
    }
    __syncwarp();
    tcgen05_fence_before();
    __syncthreads();                             // mbarriers are initialized, columns allocated
    tcgen05_fence_after();
    const unsigned tensor_memory = shared.tensor_memory;
    wait_for_previous_launch();

    PipelineState state;
    if (warp == PRODUCER) {
        if (lane == 0) {
            for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
                const Tile tile = tile_at(number, tile_rows, tile_cols, GROUP);
                for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
                    const unsigned stage_full = full + MBARRIER_BYTES * state.stage;
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
                    mbarrier_arrive_expect(stage_full, sizeof(Stage));
                    copy_stage(shared.stages[state.stage], map_a, map_b, map_scales_a, map_scales_b,
                               tile.row * BM, tile.col * BN, k_tile, k_tiles, stage_full);
                }
            }
            // Commits arrive at this block's mbarriers: it must not end before they are done.
            for (int s = 0; s < STAGES; ++s, state.advance())
                mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
        }
    } else if (warp == MULTIPLIER) {
        if (lane == 0) {
            for (int number = blockIdx.x, turn = 0; number < tiles; number += gridDim.x, ++turn) {
                const int half = turn % HALVES, parity = turn / HALVES % 2;
                mbarrier_wait(sums_empty + MBARRIER_BYTES * half, parity ^ 1);
                for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
                    mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
                    tcgen05_fence_after();
                    const int scales = SCALES_FROM + state.stage * 2 * SCALE_COLUMNS;
                    multiply_stage(tensor_memory + half * BN, tensor_memory + scales,
                                   shared.stages[state.stage], k_tile > 0);
                    tcgen05_commit(empty + MBARRIER_BYTES * state.stage);
                }
                tcgen05_commit(sums_full + MBARRIER_BYTES * half);
            }
        }
    } else {                                     // the epilogue
        const int row = warp * 32;               // of the tile; its lane of tensor memory, too
        for (int number = blockIdx.x, turn = 0; number < tiles; number += gridDim.x, ++turn) {
            const int half = turn % HALVES, parity = turn / HALVES % 2;
            const Tile tile = tile_at(number, tile_rows, tile_cols, GROUP);
            mbarrier_wait(sums_full + MBARRIER_BYTES * half, parity);
            tcgen05_fence_after();
            store_sums(tensor_memory + (row << 16) + half * BN, shared.store_buffers[warp], map_c,
                       C, tile.row * BM + row, tile.col * BN, M, N, alpha, beta,
                       sums_empty + MBARRIER_BYTES * half);
        }
        if (lane == 0) tma_store_wait();         // the block's shared memory must last that long
    }
    __syncwarp();
    tcgen05_fence_before();
    __syncthreads();                             // no warp needs its columns any more
    tcgen05_fence_after();
    if (warp == MULTIPLIER) tensor_free<COLUMNS>(tensor_memory);
}
