// 18  Persistent blocks and clusters
// Idea:    as many blocks as there are SMs compute one tile of C after the other: tiles for the
//          next one come while this one is stored. The CLUSTER blocks of a cluster, whose tiles lie
//          below one another, bring a part of B each, and every part goes to all of them.
// Before:  17_warp_specialized.cu began anew with each tile, and each block brought all of B.
// Launch:  block (2 * BM + 128), grid: at most a block for each SM, whole clusters; dynamic shared
//          memory as 17. Rows off 16 bytes: any_width.cuh.
// Takes:   as 16_tma_wgmma.cu.

#ifndef CLUSTER
#define CLUSTER 2                                // blocks that share B
#endif

#include "warpgroup_tiles.cuh"
#include "send_tile.cuh"
#include "roles.cuh"
#include "cluster.cuh"
#include "early_launch.cuh"

struct Shared {
    Stage stages[STAGES];
    Room rooms[GROUPS][ROOMS];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) IN_CLUSTERS
persistent(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
           const __grid_constant__ TensorMap map_c, const OfC* C, int M, int N, int K, float alpha,
           float beta)
{
    extern __shared__ __align__(SWIZZLED_BYTES) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    const int rank = blockIdx.x % CLUSTER, clusters = gridDim.x / CLUSTER;
    const int down = tiles_of(M, BM * CLUSTER), across = tiles_of(N, BN), steps = tiles_of(K, BK);
    const int group = threadIdx.x / GROUP_THREADS, thread = threadIdx.x % GROUP_THREADS;

    // Where this block's part of a cluster's tile begins.
    const auto corner = [&](int tile) {
        const Corner place = tile_at(tile, down, across, tiles_of(GROUP, CLUSTER));
        return Corner{(place.row * CLUSTER + rank) * BM, place.col * BN};
    };

    int tile = blockIdx.x / CLUSTER;
    Corner to = corner(tile);
    let_next_begin();
    if (threadIdx.x == GROUPS * GROUP_THREADS) {
        announce(map_a);
        announce(map_b);
        announce(map_c);
        for (int s = 0; s < STAGES; ++s) {
            set_up(full + 8 * s, 1);             // the producer, and the bytes that it expects
            set_up(empty + 8 * s, GROUPS * CLUSTER);           // warpgroups of all blocks
        }
        publish_barriers();
    }
    meet_in_cluster();
    wait_for_launch_before();

    Place at;
    if (group == GROUPS) {                       // the producer
        give_registers_back();
        if (thread == 0) {
            for (; tile < down * across; to = corner(tile += clusters))
                for (int step = 0; step < steps; ++step, at.go_on()) {
                    const Stage& stage = shared.stages[at.stage];
                    const unsigned told = full + 8 * at.stage;
                    wait_for(empty + 8 * at.stage, at.parity ^ 1);
                    expect_bytes(told, sizeof(Stage));
                    bring(shared_address(stage.a), map_a, to.row, step * BK, told);
                    const int part = rank * (BN / CLUSTER);
                    bring_b<BN / CLUSTER>(shared_address(stage.b) + part * ROW_BYTES, step * BK,
                                          to.col + part, [&](unsigned place, int row, int col) {
                        if (CLUSTER == 1) bring(place, map_b, row, col, told);
                        else bring_to_all(place, map_b, row, col, told, (1 << CLUSTER) - 1);
                    });
                }
            if (CLUSTER > 1)                     // until no other block arrives here any more
                for (int s = 0; s < STAGES; ++s, at.go_on())
                    wait_for(empty + 8 * at.stage, at.parity ^ 1);
        }
    } else {                                     // a consumer
        take_registers();
        float sums[SUMS];
        for (; tile < down * across; to = corner(tile += clusters)) {
            for (int step = 0; step < steps; ++step) {
                wait_for(full + 8 * at.stage, at.parity);
                fence_sums();
                start_products(sums, shared.stages[at.stage], group, step > 0);
                commit_products();
                wait_for_products<1>();          // those of the step before
                if (step > 0) arrive_in_all(empty + 8 * at.before());
                at.go_on();
            }
            wait_for_products<0>();
            arrive_in_all(empty + 8 * at.before());

            const int row = to.row + group * GROUP_ROWS;
            if (alpha != 1.0f || beta != 0.0f) combine(sums, C, row, to.col, M, N, alpha, beta);
            send_sums(sums, shared.rooms[group], map_c, row, to.col, group);
        }
        if (thread == 0) wait_until_sent();
    }
}
