// 16  Tensor copies and warpgroup products
// Idea:    one thread asks the copy engine for a box of a matrix, and four warps start a product of
//          64×16 by 16×BN with one instruction, which reads both boxes from shared memory itself.
// Before:  15_mma_sync.cu had every thread copy its share, and every warp load what it multiplied.
// Launch:  block (2 * BM), grid (ceil(N / BN) * ceil(M / BM)), dynamic shared memory for STAGES
//          pairs of tiles and an mbarrier for each. Rows off 16 bytes: any_width.cuh.
// Takes:   any M, N, K; A and B float16 or bfloat16, as DTYPE says, row-major, B as OP_B says; C of
//          their type, or float32 by OUT32; sums float32. A, B and C begin at whole 16 bytes.
//          C = alpha * A @ op(B) + beta * C, rounded once, at the end. For sm_90a alone.

#include "warpgroup_tiles.cuh"

#define THREADS (GROUPS * GROUP_THREADS)
#define LAG (STAGES > 1)                         // products under way while others are started

struct Shared {
    Stage stages[STAGES];
    unsigned long long full[STAGES];             // mbarriers: the pair of tiles is there
};

extern "C" __global__ void __launch_bounds__(THREADS)
tma_wgmma(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
          OfC* __restrict__ C, int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(SWIZZLED_BYTES) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full);
    const Corner tile = tile_at(blockIdx.x, tiles_of(M, BM), tiles_of(N, BN), GROUP);
    const int top = tile.row * BM, left = tile.col * BN, steps = tiles_of(K, BK);
    const int group = threadIdx.x / GROUP_THREADS;

    // By one thread: start to bring the pair of tiles of a step.
    const auto fetch = [&](int step) {
        const Stage& stage = shared.stages[step % STAGES];
        const unsigned told = full + 8 * (step % STAGES);
        expect_bytes(told, sizeof(Stage));
        bring(shared_address(stage.a), map_a, top, step * BK, told);
        bring_b<BN>(shared_address(stage.b), step * BK, left, [&](unsigned to, int row, int col) {
            bring(to, map_b, row, col, told);
        });
    };

    if (threadIdx.x == 0) {
        announce(map_a);
        announce(map_b);
        for (int s = 0; s < STAGES; ++s) set_up(full + 8 * s, 1);
        publish_barriers();
        for (int step = 0; step < min(STAGES, steps); ++step) fetch(step);
    }
    __syncthreads();                             // the mbarriers are set up

    float sums[SUMS] = {};
    for (int step = 0; step < steps; ++step) {
        wait_for(full + 8 * (step % STAGES), step / STAGES % 2);
        fence_sums();
        start_products(sums, shared.stages[step % STAGES], group, true);
        commit_products();
        wait_for_products<LAG>();
        __syncthreads();                         // all have multiplied the pair before this one
        const int next = step - LAG + STAGES;
        if (threadIdx.x == 0 && next >= STAGES && next < steps) fetch(next);
    }
    wait_for_products<0>();

    const int row = top + group * GROUP_ROWS;
    if (alpha != 1.0f || beta != 0.0f) combine(sums, C, row, left, M, N, alpha, beta);
    store(sums, C, row, left, M, N);
}
