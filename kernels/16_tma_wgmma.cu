// 16  Tensor copies and warpgroup products
// Idea:    one thread starts the copy of a whole box of a matrix, and four warps start a product of
//          64×16 by 16×BN with one instruction, which reads both boxes from shared memory itself.
// Before:  15_mma_sync.cu had every thread copy its share, and every warp load what it multiplied.
// Launch:  block (2 * BM), grid (ceil(N / BN) * ceil(M / BM)), dynamic shared memory for STAGES
//          stages and an mbarrier for each. The host makes the tensor maps: boxes of BM × 64
//          elements of A and of 64 × 64 of B, swizzled by 128 bytes. Where rows do not all begin at
//          multiples of 16 bytes, or K is 0, any_width runs instead (any_width.cuh).
// Takes:   any M, N, K; A and B float16 or bfloat16, as DTYPE says, row-major, B as OP_B says; C of
//          their type, or float32 by OUT32. Accumulators are float32. A, B, C begin at 16 bytes.
//          C = alpha * A @ op(B) + beta * C, rounded once, at the end. For sm_90a alone.

#include "stage.cuh"
#include "tile_order.cuh"
#include "register_epilogue.cuh"
#include "alpha_beta.cuh"

constexpr int THREADS = BM / WARPGROUP_ROWS * WARPGROUP_THREADS;
// Stages whose products are still running when the next stage's are started: so the tensor cores
// always have work. With a single stage, none.
constexpr int PENDING = STAGES > 1;

struct Shared {
    Stage stages[STAGES];
    unsigned long long full[STAGES];             // mbarriers: the stage is filled
};

// By one thread: start to copy the tiles of A and of B of this k_tile into its stage.
__device__ __forceinline__ void copy_k_tile(const Shared& shared, const TensorMap& map_a,
                                            const TensorMap& map_b, int tile_m, int tile_n,
                                            int k_tile)
{
    const Stage& stage = shared.stages[k_tile % STAGES];
    const unsigned full = shared_address(shared.full) + MBARRIER_BYTES * (k_tile % STAGES);
    mbarrier_arrive_expect(full, sizeof(Stage));
    tma_load(shared_address(stage.a), map_a, tile_m, k_tile * BK, full);       // one box
    copy_b(shared_address(stage.b), map_b, k_tile * BK, tile_n, full);
}

// __grid_constant__: TMA takes the address of the map itself, not of a thread's copy.
extern "C" __global__ void __launch_bounds__(THREADS)
tma_wgmma(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
          ElementC* __restrict__ C, int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full);
    const Tile tile = tile_at(blockIdx.x, ceil_div(M, BM), ceil_div(N, BN), GROUP);
    const int tile_m = tile.row * BM, tile_n = tile.col * BN, k_tiles = ceil_div(K, BK);
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS;

    // Prologue: fill all stages.
    if (threadIdx.x == 0) {
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
        for (int s = 0; s < STAGES; ++s)
            mbarrier_init(full + MBARRIER_BYTES * s, 1);       // this thread, and the stage's bytes
        mbarrier_fence_init();
        for (int k_tile = 0; k_tile < min(STAGES, k_tiles); ++k_tile)
            copy_k_tile(shared, map_a, map_b, tile_m, tile_n, k_tile);
    }
    __syncthreads();                             // the mbarriers are initialized

    // Mainloop: multiply a stage, and refill the one whose products have ended.
    float accumulators[ACCUMULATORS] = {};
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        mbarrier_wait(full + MBARRIER_BYTES * (k_tile % STAGES), k_tile / STAGES % 2);
        wgmma_fence();
        multiply_stage(accumulators, shared.stages[k_tile % STAGES], warpgroup, true);
        wgmma_commit();
        wgmma_wait<PENDING>();                   // the products of the stage before have ended
        __syncthreads();                         // in all warpgroups: it may be overwritten
        const int next = k_tile - PENDING + STAGES;            // at k_tile 0 no stage is free yet
        if (threadIdx.x == 0 && next >= STAGES && next < k_tiles)
            copy_k_tile(shared, map_a, map_b, tile_m, tile_n, next);
    }
    wgmma_wait<0>();

    // Epilogue
    const int m = tile_m + warpgroup * WARPGROUP_ROWS;
    if (alpha != 1.0f || beta != 0.0f)
        apply_alpha_beta(accumulators, C, m, tile_n, M, N, alpha, beta);
    store_pairs(accumulators, C, m, tile_n, M, N);
}

// The kernel for matrices that cannot have tensor maps.
#include "any_width.cuh"
