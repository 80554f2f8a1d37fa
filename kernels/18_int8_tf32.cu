// 18  INT8 and TF32 by wgmma
// Idea:    persistent blocks, warp specialization and clusters as in 18_persistent.cu, for types of
//          which wgmma reads both operands along K alone. B stored N×K lies so already. Stored K×N,
//          as usual, B becomes the first operand, whose fragments may come from registers, and
//          threads load them from any layout: C.T = B.T @ A.T, and A's rows lie along K.
// Before:  18_persistent.cu multiplied 16 bits, which wgmma reads along N too. 15_mma_sync.cu
//          multiplied these types by the instruction of a warp.
// Launch:  block (THREADS): CONSUMERS + 1 warpgroups; grid: whole clusters, at most a block for
//          each SM, and no more clusters than there are tiles for them; dynamic shared memory: a
//          Shared. Boxes of the tensor maps, all swizzled by 128 bytes: of A, BM rows of 128 bytes;
//          of B stored N×K, BN / CLUSTER rows of 128 bytes, stored K×N, 32×32; of C, 32×32.
// Takes:   any M, N, K from 1 on whose rows of A, B and C are multiples of 16 bytes, all row-major.
//          DTYPE=3: A and B of int8, B stored N×K, C = A @ B of int32, exact modulo 2**32.
//          DTYPE=2: float32, of which the tensor cores ignore the last 13 bits, to which tensor
//          maps of TF32 have rounded; C = alpha * A @ B + beta * C. For sm_90a alone.

#include "types_settings.cuh"
#include "types_epilogue.cuh"
#include "programmatic_launch.cuh"

static_assert(DTYPE == 2 || DTYPE == 3, "2: TF32, 3: INT8");

// Whether a tile is stored while the next one is multiplied. Its results are 32 bits each, so they
// take as many registers as the accumulators; not enough are left beside 128 of these, nor in a
// block of more than two consumers.
constexpr bool LATER = SEND_LATER && ACCUMULATORS <= 96 && CONSUMERS <= 2;

struct Shared {
    Stage stages[STAGES];
    StoreBuffer store_buffers[CONSUMERS][STORE_BUFFERS];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) IN_CLUSTERS
int8_tf32(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
          const __grid_constant__ TensorMap map_c, const Result* C, int M, int N, int K
#if DTYPE == 2
          , float alpha, float beta
#endif
          )
{
    extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    const int rank = blockIdx.x % CLUSTER, clusters = gridDim.x / CLUSTER;
    const int tile_rows = ceil_div(M, BM * CLUSTER), tile_cols = ceil_div(N, BN);
    const int k_tiles = ceil_div(K, BK);
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS, thread = threadIdx.x % WARPGROUP_THREADS;

    int number = blockIdx.x / CLUSTER;           // of the cluster's tile; the next: + clusters
    TileStart tile = tile_start(number, tile_rows, tile_cols, rank);

    trigger_next_launch();
    if (threadIdx.x == CONSUMERS * WARPGROUP_THREADS) {
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
        prefetch_tensor_map(map_c);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(full + MBARRIER_BYTES * s, 1);       // the producer, and its bytes
            // The consumers of all blocks: this block copies into the stages of all of them.
            mbarrier_init(empty + MBARRIER_BYTES * s, ARRIVALS * CONSUMERS * CLUSTER);
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
                    mbarrier_arrive_expect(stage_full, sizeof(Stage));     // as in 18
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
        Accumulator previous[ACCUMULATORS];      // results of the tile before, not yet stored
        TileStart previous_part = {-1, 0};       // where they belong in C; none yet
        const auto store_previous = [&](int piece) {
            if (previous_part.m >= 0)
                store_piece(previous, piece, shared.store_buffers[warpgroup], map_c,
                            previous_part.m, previous_part.n, warpgroup);
        };
        while (number < tile_rows * tile_cols) {
            Accumulator accumulators[ACCUMULATORS];
            multiply_tile<LATER ? PIECES : 0>(accumulators, shared.stages, full, empty, state,
                                              warpgroup, k_tiles, store_previous);
            previous_part = {tile.m + warpgroup * ROWS_APART, tile.n + warpgroup * COLUMNS_APART};
#if DTYPE == 2
            apply_alpha_beta(accumulators, C, previous_part.m, previous_part.n, M, N, alpha, beta);
#endif
            #pragma unroll
            for (int i = 0; i < ACCUMULATORS; ++i) previous[i] = accumulators[i];
            #pragma unroll
            for (int piece = 0; piece < (LATER ? 0 : PIECES); ++piece) store_previous(piece);
            number += clusters;
            tile = tile_start(number, tile_rows, tile_cols, rank);
        }
        #pragma unroll                           // the last tile; every block has had one
        for (int piece = 0; piece < (LATER ? PIECES : 0); ++piece) store_previous(piece);
        if (thread == 0) tma_store_wait();       // shared memory must last until it was read
    }
}
