// The consumers' mainloop: the tensor cores add 128 products along K by themselves, and their sums
// are promoted, which means multiplied by scales and added to totals in float32.
#pragma once

#include "blocks_stage.cuh"
#include "cluster_sync.cuh"
#include "mbarrier.cuh"
#include "pipeline_state.cuh"

// Of a thread: the scales of its rows r and r + 8, and of all its columns.
struct ThreadScales {
    float2 a;
    float b;
};

// `stage`: the address of the scales of a stage.
__device__ __forceinline__ ThreadScales read_scales(unsigned stage, int warpgroup)
{
    ThreadScales scales;
    const int place = scale_place(warpgroup * WARPGROUP_ROWS + accumulator_row(0));
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(scales.a.x), "=f"(scales.a.y)
                 : "r"(stage + place * (int)sizeof(float)) : "memory");
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(scales.b)
                 : "r"(stage + BM * (int)sizeof(float)) : "memory");
    return scales;
}

// totals += scales * sums, after a wait for the sums: the compiler must not read them before it,
// nor the scales, for which it would hold back the products. Of four accumulators, the first two
// are in row r, the others in r + 8. All of a row at a time, so that the register of its scale is
// read once for many.
__device__ __forceinline__ void promote(float (&totals)[ACCUMULATORS], float (&sums)[ACCUMULATORS],
                                        ThreadScales scales)
{
    #pragma unroll
    for (int i = 0; i < ACCUMULATORS; ++i) asm volatile("" : "+f"(sums[i]) :: "memory");
    asm volatile("" : "+f"(scales.b) :: "memory");
    #pragma unroll
    for (int row = 0; row < 2; ++row) {
        const float scale = (row ? scales.a.y : scales.a.x) * scales.b;
        #pragma unroll
        for (int i = 0; i < ACCUMULATORS / 2; ++i) {
            const int at = i / 2 * 4 + row * 2 + i % 2;
            totals[at] = fmaf(scale, sums[at], totals[at]);
        }
    }
}

// Arrivals that release a stage: one for each warp of this block, as its threads read the scales,
// and one for each warpgroup of another block, whose products read what this block has copied.
constexpr int RELEASES = CONSUMERS * (4 + (SPLITS_K ? 0 : CLUSTER - 1));

// By a warpgroup: this stage has been read.
__device__ __forceinline__ void release_stage(unsigned empty)
{
    const int thread = threadIdx.x % WARPGROUP_THREADS;
    __syncwarp();
    if (thread % 32 == 0) mbarrier_arrive(empty);
#if CLUSTER > 1 && !SPLITS_K
    if (thread % 32 > 0 && thread < CLUSTER)
        mbarrier_arrive_remote(empty, (blockIdx.x + thread) % CLUSTER);
#endif
}

// Whether the phase of this parity is complete, without waiting for it.
__device__ __forceinline__ bool mbarrier_complete(unsigned barrier, int parity)
{
    int complete;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;"
                 " selp.s32 %0, 1, 0, p; }"
                 : "=r"(complete) : "r"(barrier), "r"(parity) : "memory");
    return complete;
}

// Multiply so many stages, from where `state` is. When the first products have been started, and
// before totals are added to, store_previous() may store those of the tile before, which then
// become 0. Addresses of shared memory are given.
template <typename StorePrevious>
__device__ __forceinline__ void multiply_tile(float (&totals)[ACCUMULATORS], unsigned stages,
                                              unsigned stage_scales, unsigned full, unsigned empty,
                                              PipelineState& state, int k_tiles, int warpgroup,
                                              StorePrevious store_previous)
{
    constexpr unsigned STAGE_STRIDE = sizeof(Stage) / 16;
    const Operands first = first_operands(stages, warpgroup);
    const auto wait_for_stage = [&] {
        mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
    };
    // The scales are read while the tensor cores multiply.
    const auto start = [&](float (&sums)[ACCUMULATORS], ThreadScales& scales) {
        const unsigned offset = state.stage * STAGE_STRIDE;
        start_products(sums, {first.a + offset, first.b + offset});
        scales = read_scales(stage_scales + state.stage * sizeof(StageScales), warpgroup);
    };
    const auto begin_totals = [&] {
        store_previous();
        #pragma unroll
        for (int i = 0; i < ACCUMULATORS; ++i) totals[i] = 0.0f;
    };
#if CONSUMERS > 2
    // While one warpgroup promotes, the tensor cores multiply for the others. From the end of its
    // products to the start of the next there is little time, so the next stage is looked for
    // before.
    bool complete = false;
    const auto multiply_stage = [&](bool is_first, bool is_last) {
        if (!complete) wait_for_stage();
        const unsigned stage_empty = empty + MBARRIER_BYTES * state.stage;
        float sums[ACCUMULATORS];
        ThreadScales scales;
        start(sums, scales);
        if (is_first) begin_totals();
        state.advance();
        complete = !is_last
                && mbarrier_complete(full + MBARRIER_BYTES * state.stage, state.parity);
        wgmma_wait<0>();
        release_stage(stage_empty);
        promote(totals, sums, scales);
    };
    multiply_stage(true, k_tiles == 1);
    for (int k_tile = 1; k_tile < k_tiles; ++k_tile) multiply_stage(false, k_tile + 1 == k_tiles);
#else
    // One or two warpgroups have two sets of accumulators each: one is promoted while the tensor
    // cores add to the other.
    float sums[2][ACCUMULATORS];
    ThreadScales scales[2];
    PipelineState oldest = state;                // that is not yet released
    const auto start_stage = [&](int set) {
        wait_for_stage();
        start(sums[set], scales[set]);
        state.advance();
    };
    const auto finish = [&](int set) {
        release_stage(empty + MBARRIER_BYTES * oldest.stage);
        oldest.advance();
        promote(totals, sums[set], scales[set]);
    };

    if (k_tiles == 0) return begin_totals();
    start_stage(0);
    if (k_tiles == 1) {
        begin_totals();
        wgmma_wait<0>();
        return finish(0);
    }
    start_stage(1);
    begin_totals();
    wgmma_wait<1>();                             // sums[0] are complete
    finish(0);
    // Two stages a turn, as registers have no index. When a turn begins, sums[1] are under way.
    int k_tile = 1;
    for (; k_tile + 2 < k_tiles; k_tile += 2) {
        start_stage(0);
        wgmma_wait<1>();
        finish(1);
        start_stage(1);
        wgmma_wait<1>();
        finish(0);
    }
    if (k_tile + 1 < k_tiles) {                  // two are left
        start_stage(0);
        wgmma_wait<1>();
        finish(1);
        wgmma_wait<0>();
        finish(0);
    } else {
        wgmma_wait<0>();
        finish(1);
    }
#endif
}
