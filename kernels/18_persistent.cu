// 18  Persistent blocks and clusters
// Idea:    as many blocks as there are SMs compute one tile of C after the other: tiles for the
//          next one come while this one is multiplied, and its sums go to C, piece by piece, while
//          the next is. The CLUSTER blocks of a cluster, whose tiles lie below one another, bring a
//          part of B each, and every part goes to all of them.
// Before:  17_warp_specialized.cu began anew with each tile, and each block brought all of B.
// Launch:  block (2 * BM + 128), grid: at most a block for each SM, whole clusters; dynamic shared
//          memory as 17. Rows off 16 bytes: any_width.cuh.
// Takes:   as 16_tma_wgmma.cu.

#ifndef CLUSTER
#define CLUSTER 2                                // blocks that share B
#endif
#ifndef SHARE_A
#define SHARE_A 0                                // 1: their tiles lie side by side, and share A
#endif
#ifndef SEND_LATER
#define SEND_LATER 1                             // 0: a tile is sent before the next is multiplied
#endif

#include "warpgroup_tiles.cuh"
#include "send_tile.cuh"
#include "roles.cuh"
#include "cluster.cuh"
#include "early_launch.cuh"

#define LATER (SEND_LATER && !OUT32)             // float32 would need too many registers
#define OF_A (SHARE_A ? BM / CLUSTER : BM)       // rows that a block brings
#define OF_B (SHARE_A ? BN : BN / CLUSTER)       // columns

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
    const int down = tiles_of(M, SHARE_A ? BM : BM * CLUSTER), steps = tiles_of(K, BK);
    const int across = tiles_of(N, SHARE_A ? BN * CLUSTER : BN);
    const int group = threadIdx.x / GROUP_THREADS, thread = threadIdx.x % GROUP_THREADS;

    // Where this block's part of a cluster's tile begins.
    const auto corner = [&](int tile) {
        const Corner place = tile_at(tile, down, across, tiles_of(GROUP, SHARE_A ? 1 : CLUSTER));
        if (SHARE_A) return Corner{place.row * BM, (place.col * CLUSTER + rank) * BN};
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
                    const auto copy = [&](bool shared, unsigned place, const TensorMap& map, int row,
                                          int col) {
                        if (CLUSTER > 1 && shared)
                            bring_to_all(place, map, row, col, told, (1 << CLUSTER) - 1);
                        else
                            bring(place, map, row, col, told);
                    };
                    const int a = SHARE_A ? rank * OF_A : 0, b = SHARE_A ? 0 : rank * OF_B;
                    copy(SHARE_A, shared_address(stage.a) + a * ROW_BYTES, map_a, to.row + a,
                         step * BK);
                    bring_b<OF_B>(shared_address(stage.b) + b * ROW_BYTES, step * BK, to.col + b,
                                  [&](unsigned place, int row, int col) {
                                      copy(!SHARE_A, place, map_b, row, col);
                                  });
                }
            if (CLUSTER > 1)                     // until no other block arrives here any more
                for (int s = 0; s < STAGES; ++s, at.go_on())
                    wait_for(empty + 8 * at.stage, at.parity ^ 1);
        }
    } else {                                     // a consumer
        take_registers();
        float sums[SUMS];
        Pairs kept;                              // of the tile before, rounded
        Corner from = {-1, 0};                   // where that tile begins; none yet
        for (; tile < down * across; to = corner(tile += clusters)) {
            int step = 0;
            const auto multiply = [&] {
                wait_for(full + 8 * at.stage, at.parity);
                fence_sums();
                start_products(sums, shared.stages[at.stage], group, step > 0);
                commit_products();
                wait_for_products<1>();          // those of the step before
                if (step > 0) arrive_in_all(empty + 8 * at.before());
                at.go_on();
                ++step;
            };
            #pragma unroll
            for (int piece = 0; piece < (LATER ? PIECES : 0); ++piece) {
                if (step < steps) multiply();    // a piece with every second step
                if (step < steps) multiply();
                if (from.row >= 0)
                    send_piece(kept, piece, shared.rooms[group], map_c, from.row, from.col, group);
            }
            while (step < steps) multiply();
            wait_for_products<0>();
            arrive_in_all(empty + 8 * at.before());

            from = {to.row + group * GROUP_ROWS, to.col};
            if (alpha != 1.0f || beta != 0.0f) combine(sums, C, from.row, from.col, M, N, alpha, beta);
            if (LATER) round_sums(kept, sums);
            else send_sums(sums, shared.rooms[group], map_c, from.row, from.col, group);
        }
        #pragma unroll
        for (int piece = 0; piece < (LATER ? PIECES : 0); ++piece)
            send_piece(kept, piece, shared.rooms[group], map_c, from.row, from.col, group);
        if (thread == 0) wait_until_sent();
    }
}
