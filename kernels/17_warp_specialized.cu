// 17  Warp specialization
// Idea:    one warp does nothing but start copies, the others nothing but multiply: no barrier of
//          the block holds them together, only two mbarriers for each pair of tiles, full and
//          empty. The registers that the first does not need go to the others.
// Before:  16_tma_wgmma.cu had thread 0 do both, and all threads meet with every step.
// Launch:  block (2 * BM + 128), grid (ceil(N / BN) * ceil(M / BM) * SPLIT): the parts of a tile
//          are a cluster. Dynamic shared memory for STAGES pairs of tiles, their mbarriers, and two
//          squares of C for each warpgroup. Rows off 16 bytes: any_width.cuh.
// Takes:   as 16_tma_wgmma.cu.

#ifndef SPLIT
#define SPLIT 1                                  // parts of K, a block for each
#endif
#define CLUSTER SPLIT

#include "warpgroup_tiles.cuh"
#include "send_tile.cuh"
#include "roles.cuh"
#include "early_launch.cuh"
#include "parts_of_k.cuh"

struct Shared {
    Stage stages[STAGES];
    Room rooms[GROUPS][ROOMS];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) IN_CLUSTERS
warp_specialized(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
                 const __grid_constant__ TensorMap map_c, OfC* C, int M, int N, int K, float alpha,
                 float beta)
{
    extern __shared__ __align__(SWIZZLED_BYTES) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    const Corner tile = tile_at(blockIdx.x / SPLIT, tiles_of(M, BM), tiles_of(N, BN), GROUP);
    const int top = tile.row * BM, left = tile.col * BN, part = blockIdx.x % SPLIT;
    const int first = tiles_of(K, BK) * part / SPLIT;
    const int steps = tiles_of(K, BK) * (part + 1) / SPLIT - first;
    const int group = threadIdx.x / GROUP_THREADS;
    const bool leads = threadIdx.x % GROUP_THREADS == 0;

    let_next_begin();
    if (threadIdx.x == GROUPS * GROUP_THREADS) {
        announce(map_a);
        announce(map_b);
        announce(map_c);
        for (int s = 0; s < STAGES; ++s) {
            set_up(full + 8 * s, 1);             // the producer, and the bytes that it expects
            set_up(empty + 8 * s, GROUPS);       // one thread of each warpgroup
        }
        publish_barriers();
    }
    __syncthreads();
    wait_for_launch_before();

    Place at;
    if (group == GROUPS) {                       // the producer
        give_registers_back();
        if (leads)
            for (int step = 0; step < steps; ++step, at.go_on()) {
                const Stage& stage = shared.stages[at.stage];
                const unsigned told = full + 8 * at.stage;
                const int k = (first + step) * BK;
                wait_for(empty + 8 * at.stage, at.parity ^ 1);
                expect_bytes(told, sizeof(Stage));
                bring(shared_address(stage.a), map_a, top, k, told);
                bring_b<BN>(shared_address(stage.b), k, left,
                            [&](unsigned to, int row, int col) { bring(to, map_b, row, col, told); });
            }
    } else {                                     // a consumer
        take_registers();
        float sums[SUMS] = {};
        for (int step = 0; step < steps; ++step) {
            wait_for(full + 8 * at.stage, at.parity);
            fence_sums();
            start_products(sums, shared.stages[at.stage], group, true);
            commit_products();
            wait_for_products<1>();              // those of the step before
            if (leads && step > 0) arrive(empty + 8 * at.before());
            at.go_on();
        }
        wait_for_products<0>();

        const int row = top + group * GROUP_ROWS;
        if (SPLIT > 1) {
            add_parts(sums, (float4*)shared.stages, part, C, row, left, M, N, alpha, beta);
        } else {
            if (alpha != 1.0f || beta != 0.0f) combine(sums, C, row, left, M, N, alpha, beta);
            send_sums(sums, shared.rooms[group], map_c, row, left, group);
            if (leads) wait_until_sent();
        }
    }
}
