// 18  Ping-pong, a road not taken
// Idea:    each of two warpgroups computes a tile of its own, of 64 rows, and while one sends its
//          sums to C the other multiplies.
// Before:  18_persistent.cu has both compute one tile of 128 rows, and both send at a time.
// Launch:  block (384), grid: at most a block for each SM.
// Takes:   as 18_persistent.cu, with BM=64 and CLUSTER=1.

#include "warpgroup_tiles.cuh"
#undef GROUPS
#define GROUPS 2                                 // each with a tile of its own
#include "send_tile.cuh"
#include "roles.cuh"
#include "early_launch.cuh"

struct Shared {
    Stage stages[STAGES];
    Room rooms[GROUPS][ROOMS];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers
};

// The warpgroups multiply in turn: an mbarrier tells of one phase alone, and who lags two behind
// would take an old one for its own.
__device__ __forceinline__ void wait_for_turn(int group)
{
    asm volatile("bar.sync %0, %1;" :: "r"(group + GROUPS + 1), "n"(GROUPS * GROUP_THREADS) : "memory");
}

__device__ __forceinline__ void give_turn(int group)
{
    asm volatile("bar.arrive %0, %1;" :: "r"(group + GROUPS + 1), "n"(GROUPS * GROUP_THREADS) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
persistent(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
           const __grid_constant__ TensorMap map_c, const OfC* C, int M, int N, int K, float alpha,
           float beta)
{
    extern __shared__ __align__(SWIZZLED_BYTES) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    const int down = tiles_of(M, BM), across = tiles_of(N, BN), steps = tiles_of(K, BK);
    const int group = threadIdx.x / GROUP_THREADS, thread = threadIdx.x % GROUP_THREADS;
    const auto corner = [&](int tile) {
        const Corner place = tile_at(tile, down, across, GROUP);
        return Corner{place.row * BM, place.col * BN};
    };

    let_next_begin();
    if (threadIdx.x == GROUPS * GROUP_THREADS) {
        announce(map_a);
        announce(map_b);
        announce(map_c);
        for (int s = 0; s < STAGES; ++s) {
            set_up(full + 8 * s, 1);
            set_up(empty + 8 * s, 1);            // the warpgroup whose tile it is
        }
        publish_barriers();
    }
    __syncthreads();
    wait_for_launch_before();

    Place at;
    if (group == GROUPS) {                       // the producer
        give_registers_back();
        if (thread == 0)
            for (int tile = blockIdx.x; tile < down * across; tile += gridDim.x) {
                const Corner to = corner(tile);
                for (int step = 0; step < steps; ++step, at.go_on()) {
                    const Stage& stage = shared.stages[at.stage];
                    const unsigned told = full + 8 * at.stage;
                    wait_for(empty + 8 * at.stage, at.parity ^ 1);
                    expect_bytes(told, sizeof(Stage));
                    bring(shared_address(stage.a), map_a, to.row, step * BK, told);
                    bring_b<BN>(shared_address(stage.b), step * BK, to.col,
                        [&](unsigned place, int row, int col) { bring(place, map_b, row, col, told); });
                }
            }
    } else {                                     // a consumer
        take_registers();
        float sums[SUMS];
        const auto skip = [&] {                  // the stages of the other warpgroup's tile
            for (int step = 0; step < steps % (2 * STAGES); ++step) at.go_on();
        };
        if (group == 1) skip();
        for (int tile = blockIdx.x + group * gridDim.x; tile < down * across; tile += 2 * gridDim.x) {
            const Corner to = corner(tile);
            if (tile != blockIdx.x) wait_for_turn(group);
            for (int step = 0; step < steps; ++step) {
                wait_for(full + 8 * at.stage, at.parity);
                fence_sums();
                start_products(sums, shared.stages[at.stage], 0, step > 0);
                commit_products();
                wait_for_products<1>();          // those of the step before
                if (thread == 0 && step > 0) arrive(empty + 8 * at.before());
                at.go_on();
            }
            if (tile + gridDim.x < down * across) give_turn(1 - group);
            wait_for_products<0>();
            if (thread == 0) arrive(empty + 8 * at.before());
            skip();
            if (alpha != 1.0f || beta != 0.0f) combine(sums, C, to.row, to.col, M, N, alpha, beta);
            send_sums(sums, shared.rooms[group], map_c, to.row, to.col, group);
        }
        if (thread == 0) wait_until_sent();
    }
}
