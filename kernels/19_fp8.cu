// 19  FP8 with scales
// Idea:    elements of 8 bits, and scales that bring back what they stand for. The tensor cores' sums
//          keep 13 bits of the fraction, so a warpgroup has two sets of them: while the products of
//          one go on, the other, of PROMOTE products, is added to totals in float32.
// Before:  18_persistent.cu multiplied 16 bits, and its sums stayed with the tensor cores to the end.
// Launch:  block (2 * BM + 128), grid: at most a block for each SM, whole clusters; dynamic shared
//          memory as 18. Rows off 16 bytes: any_width_fp8.cuh.
// Takes:   any M, N, K; A (M×K) and B (N×K), both along K, of 8-bit floats as DTYPE says; scales in
//          float32 as SCALES says: one for A and one for B; one for each row of A and each row of
//          B; or one for each 1×128 of A and each 128×128 of B. C in bfloat16, or float32 by OUT32.
//          C = alpha * (scaled A) @ (scaled B).T + beta * C, rounded once, at the end. For sm_90a
//          alone.

#ifndef CLUSTER
#define CLUSTER 1                                // blocks that share B
#endif

#include "fp8_tiles.cuh"
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
fp8(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
    const __grid_constant__ TensorMap map_c, const OfC* C, const float* __restrict__ scale_a,
    const float* __restrict__ scale_b, int M, int N, int K, float alpha, float beta)
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
                    const unsigned place = shared_address(stage.b) + part * ROW_BYTES;
                    if (CLUSTER == 1) bring(place, map_b, to.col, step * BK, told);
                    else bring_to_all(place, map_b, to.col + part, step * BK, told,
                                      (1 << CLUSTER) - 1);
                }
            if (CLUSTER > 1)                     // until no other block arrives here any more
                for (int s = 0; s < STAGES; ++s, at.go_on())
                    wait_for(empty + 8 * at.stage, at.parity ^ 1);
        }
    } else {                                     // a consumer
        take_registers();
        const Scales scales{scale_a, scale_b, M, N, steps};
        for (; tile < down * across; to = corner(tile += clusters)) {
            const int row = to.row + group * GROUP_ROWS;
            float totals[SUMS] = {};
#if PROMOTE
            float one[SUMS], two[SUMS];          // what the tensor cores add, in turn
            Factors of_one, of_two;
            Place behind = at;                   // the next stage that they have read

            const auto begin = [&](float (&sums)[SUMS], Factors& factors, int unit) {
                factors = scales.along_k(row + row_of(0), to.col, unit);
                for (int i = 0; i < steps_of(unit, steps); ++i, at.go_on()) {
                    wait_for(full + 8 * at.stage, at.parity);
                    fence_sums();
                    start_products(sums, shared.stages[at.stage], group, i > 0);
                }
                commit_products();
            };
            const auto end = [&](const float (&sums)[SUMS], const Factors& factors, int unit) {
                for (int i = 0; i < steps_of(unit, steps); ++i, behind.go_on())
                    arrive_in_all(empty + 8 * behind.stage);
                promote(totals, sums, factors);
            };

            const int units = tiles_of(steps, INTERVAL);
            int unit = 0;
            begin(one, of_one, 0);
            for (; unit + 2 < units; unit += 2) {
                begin(two, of_two, unit + 1);
                wait_for_products<1>();          // those of `one`: the others go on meanwhile
                end(one, of_one, unit);
                begin(one, of_one, unit + 2);
                wait_for_products<1>();
                end(two, of_two, unit + 1);
            }
            if (unit + 1 < units) {
                begin(two, of_two, unit + 1);
                wait_for_products<1>();
                end(one, of_one, unit);
                wait_for_products<0>();
                end(two, of_two, unit + 1);
            } else {
                wait_for_products<0>();
                end(one, of_one, unit);
            }
#else
            for (int step = 0; step < steps; ++step, at.go_on()) {
                wait_for(full + 8 * at.stage, at.parity);
                fence_sums();
                start_products(totals, shared.stages[at.stage], group, step > 0);
                commit_products();
                wait_for_products<1>();          // those of the step before
                if (step > 0) arrive_in_all(empty + 8 * at.before());
            }
            wait_for_products<0>();
            arrive_in_all(empty + 8 * at.before());
#endif
            combine(totals, C, row, to.col, scales, alpha, beta);
            send_sums(totals, shared.rooms[group], map_c, row, to.col, group);
        }
        if (thread == 0) wait_until_sent();
    }
}
