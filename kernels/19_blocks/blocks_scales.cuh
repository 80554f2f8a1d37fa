// The producer's scales: a warp copies those of A's rows, and of B's columns, beside each stage. A:
// float32, ceil(K / 128) × M, so that those of 32 rows are one line: each scale in a sector of its
// own delays the products by 1.5 cycles on an H200. B: ceil(N / 128) × ceil(K / 128).
#pragma once

#include "blocks_stage.cuh"
#include "cp_async.cuh"
#include "mbarrier.cuh"
#include "pipeline_state.cuh"

constexpr int FIRST_SCALE_THREAD = WARPGROUP_THREADS - 32; // of the producer's

// Arrivals that complete a stage: the producer's, with the bytes of TMA, and one of each thread
// that copies its scales, when its copies have landed.
constexpr int FILLS = 1 + 32;

struct ScalesOfTile {
    const float *a, *b;
    int m, n, M, N, k_tiles;                     // where the tile begins, and sizes
    int ld_a;                                    // from one k tile's scales of A to the next
};

// By the warp: the scales of the stages from k tile `first` to before `end`, as cp.async needs no
// registers, and only those who read them wait for them. Rows that do not exist have 0.
// `stage_scales`: the address of those of the first stage. `full`, `empty`: the first mbarrier of
// each.
__device__ __forceinline__ void copy_scales(unsigned stage_scales, const ScalesOfTile& scales,
                                            int first, int end, unsigned full, unsigned empty,
                                            PipelineState& state)
{
    const int lane = threadIdx.x % 32;
    const float* of_a = scales.a + (size_t)first * scales.ld_a + scales.m + lane;
    const int block = min(scales.n, scales.N - 1) / SCALE_BLOCK;
    const float* of_b = scales.b + (size_t)block * scales.k_tiles + first;
    for (int k_tile = first; k_tile < end; ++k_tile, state.advance()) {
        const unsigned stage = stage_scales + state.stage * sizeof(StageScales);
        mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
        #pragma unroll
        for (int row = 0; row < BM; row += 32)
            cp_async<4>(stage + (scale_place(lane) + row) * 4, of_a + row,
                        scales.m + row + lane < scales.M ? 4 : 0);
        if (lane == 0) cp_async<4>(stage + BM * 4, of_b);
        cp_async_arrive(full + MBARRIER_BYTES * state.stage);
        of_a += scales.ld_a;
        ++of_b;
    }
}
