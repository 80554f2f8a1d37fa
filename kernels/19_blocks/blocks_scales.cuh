// The producer's scales: a warp loads those of A and B ahead of their use, and stores their
// products beside the stage. A: float32, M × ceil(K / 128); B: ceil(N / 128) × ceil(K / 128).
#pragma once

#include "blocks_stage.cuh"
#include "mbarrier.cuh"
#include "pipeline_state.cuh"

constexpr int SCALE_WARPS = BM <= 128 ? 1 : BM == 192 ? 3 : 2;
constexpr int FIRST_SCALE_THREAD = WARPGROUP_THREADS - 32 * SCALE_WARPS;   // of the producer's
constexpr int SCALE_ROWS = BM / 32 / SCALE_WARPS;          // of a thread: r and r + 8, of every 64
constexpr int SCALES_AT_ONCE = BM > 64 ? 2 : 4;  // of a row, along K, where rows are aligned

// volatile, so that they are loaded here, before the wait that follows.
template <int COUNT>
__device__ __forceinline__ void load_scales(float (&scales)[COUNT], const float* from)
{
    if constexpr (COUNT == 4)
        asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(scales[0]), "=f"(scales[1]), "=f"(scales[2]), "=f"(scales[3])
                     : "l"(from));
    else if constexpr (COUNT == 2)
        asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];"
                     : "=f"(scales[0]), "=f"(scales[1]) : "l"(from));
    else
        asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(scales[0]) : "l"(from));
}

struct ScalesOfTile {
    const float *a, *b;
    int m, n, M, N, k_tiles;                     // where the tile begins, and sizes
};

// The scales of the stages from k tile `first` to before `end`. COUNT are loaded at a time, while
// the warp waits to store those before them. `full`, `empty`: the first mbarrier of each.
template <int COUNT>
__device__ __forceinline__ void store_scales(StageScales* stages, const ScalesOfTile& scales,
                                             int first, int end, unsigned full, unsigned empty,
                                             PipelineState& state)
{
    const int lane = threadIdx.x % 32;
    const int first_row = (threadIdx.x % WARPGROUP_THREADS - FIRST_SCALE_THREAD) / 32
                        * SCALE_ROWS * 32;       // of this warp
    unsigned rows_of_a[SCALE_ROWS];              // offsets, as pointers would need more registers
    #pragma unroll
    for (int i = 0; i < SCALE_ROWS; ++i) {
        const int row = first_row + i / 2 * 64 + lane / 8 * 16 + i % 2 * 8 + lane % 8;
        rows_of_a[i] = (unsigned)min(scales.m + row, scales.M - 1) * scales.k_tiles;
    }
    const int block = min(scales.n, scales.N - 1) / SCALE_BLOCK;
    const float* row_of_b = scales.b + (size_t)block * scales.k_tiles;

    float a[SCALE_ROWS][COUNT], b[COUNT];
    const auto load = [&](int k_tile) {
        #pragma unroll
        for (int i = 0; i < SCALE_ROWS; ++i) load_scales(a[i], scales.a + (rows_of_a[i] + k_tile));
        load_scales(b, row_of_b + k_tile);
    };
    // A part of K may begin between scales that are loaded together.
    int k_tile = first / COUNT * COUNT;
    load(k_tile);
    while (k_tile < end) {
        float2 products[SCALE_ROWS / 2][COUNT];
        #pragma unroll
        for (int i = 0; i < SCALE_ROWS; i += 2)
            #pragma unroll
            for (int j = 0; j < COUNT; ++j)
                products[i / 2][j] = {a[i][j] * b[j], a[i + 1][j] * b[j]};
        if (k_tile + COUNT < end) load(k_tile + COUNT);
        #pragma unroll
        for (int j = 0; j < COUNT; ++j, ++k_tile) {
            if (SPLITS_K && (k_tile < first || k_tile >= end)) continue;
            mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
            #pragma unroll
            for (int i = 0; i < SCALE_ROWS / 2; ++i)
                *(float2*)&stages[state.stage][first_row + i * 64 + lane * 2] = products[i][j];
            __syncwarp();
            if (lane == 0) mbarrier_arrive(full + MBARRIER_BYTES * state.stage);
            state.advance();
        }
    }
}
