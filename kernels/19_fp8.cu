// 19  FP8 with scales
// Idea:    elements of 8 bits, and scales that bring back what they stand for. The tensor cores' sums
//          keep 13 bits of the fraction, so each of PROMOTE products is added to one in float32,
//          which other registers hold: while one warpgroup adds, the other's products go on.
// Before:  18_persistent.cu multiplied 16 bits, and its sums stayed where the tensor cores add.
// Launch:  block (2 * BM + 128), grid: at most a block for each SM, whole clusters; dynamic shared
//          memory as 18. Rows off 16 bytes: any_width_fp8.cuh.
// Takes:   any M, N, K; A (M×K) and B (N×K), both along K, of 8-bit floats as DTYPE says; scales in
//          float32 as SCALES says: one for A and one for B; one for each row of A and each row of
//          B; or one for each 1×128 of A and each 128×128 of B. C in bfloat16, or float32 by OUT32.
//          C = alpha * (scaled A) @ (scaled B).T + beta * C, rounded once, at the end. For sm_90a
//          alone.

#ifndef CLUSTER
#define CLUSTER 2                                // blocks that share B
#endif

#include "fp8_tiles.cuh"
#include "send_tile.cuh"
#include "roles.cuh"
#include "cluster.cuh"

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

    Place at;
    if (group == GROUPS) {                       // the producer
        give_registers_back();
        if (thread == 0)
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
        __syncwarp();
    } else {                                     // a consumer
        take_registers();
        const Scales scales{scale_a, scale_b, M, N, steps};
        for (; tile < down * across; to = corner(tile += clusters)) {
            const int row = to.row + group * GROUP_ROWS;
            float totals[SUMS] = {}, second[PART / 2];
            float (&sums)[PART / 2] = where_products_add(totals, second);
            for (int step = 0; step < steps; ++step) {
                const float2 of_rows = scales.of_rows(row + row_of(0), step);
                const Stage& stage = shared.stages[at.stage];
                wait_for(full + 8 * at.stage, at.parity);
                #pragma unroll
                for (int part = 0; part < BN; part += PART) {
                    const float of_columns = scales.of_columns(to.col + part, step);
                    fence_sums();
                    start_products(sums, stage.a + group * SQUARE_BYTES,
                                   stage.b + part * ROW_BYTES, step % INTERVAL > 0);
                    commit_products();
                    wait_for_products<LAG>();
                    if (part + PART == BN && step >= LAG)
                        arrive_in_all(empty + 8 * (LAG ? at.before() : at.stage));
                    if (PROMOTE && (step + 1) % INTERVAL == 0)
                        promote(totals + part / 2, sums, of_rows, of_columns);
                }
                at.go_on();
            }
            if (LAG) {
                wait_for_products<0>();
                arrive_in_all(empty + 8 * at.before());
            }
            if (PROMOTE && steps % INTERVAL) promote(totals, sums, make_float2(1.0f, 1.0f), 1.0f);
            combine(totals, C, row, to.col, scales, alpha, beta);
            send_sums(totals, shared.rooms[group], map_c, row, to.col, group);
        }
        if (thread == 0) wait_until_sent();
        __syncwarp();
    }
    leave_cluster();                             // when nobody arrives here any more
}
