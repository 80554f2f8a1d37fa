// A stage of the pipeline of 27: 128 bytes along K of A and of B, and their scales.
#pragma once

#ifndef STAGES
#define STAGES 5
#endif
#ifndef GROUP
#define GROUP 16                                 // rows of tiles that blocks take in turn, for L2
#endif

#define BN 128                                   // columns of C that a block computes

#include "scaled_mma.cuh"
#include "tma.cuh"

constexpr int BM = 128;                          // rows
constexpr int SCALE_BYTES = ATOMS * ATOM_BYTES;  // of 128 rows of A or B in a stage
constexpr int SCALE_COLUMNS = ATOMS * ATOM_COLUMNS;

struct Stage {
    char a[BM * ROW_BYTES], b[BN * ROW_BYTES];
    char scales_a[SCALE_BYTES], scales_b[SCALE_BYTES];
};

// The columns of tensor memory: those of two tiles of sums, then the scales of each stage. A stage
// has columns of its own for them, so that its scales are not overwritten before its products are
// complete: `empty` says so of both.
constexpr int SCALES_FROM = 2 * BN;
constexpr int COLUMNS = 512;
static_assert(SCALES_FROM + STAGES * 2 * SCALE_COLUMNS <= COLUMNS, "scales fit beside the sums");

// By the producer: start to copy a stage, for the tile of C at (m, n). The maps of scales have rows
// of half an atom: the atoms of 128 rows of A or B along K, then those of the next 128.
__device__ __forceinline__ void copy_stage(const Stage& stage, const TensorMap& map_a,
                                           const TensorMap& map_b, const TensorMap& map_scales_a,
                                           const TensorMap& map_scales_b, int m, int n, int k_tile,
                                           int k_tiles, unsigned full)
{
    tma_load(shared_address(stage.a), map_a, m, k_tile * ROW_BYTES, full);
    tma_load(shared_address(stage.b), map_b, n, k_tile * ROW_BYTES, full);
    tma_load(shared_address(stage.scales_a), map_scales_a, (m / BM * k_tiles + k_tile) * 2 * ATOMS,
             0, full);
    tma_load(shared_address(stage.scales_b), map_scales_b, (n / BN * k_tiles + k_tile) * 2 * ATOMS,
             0, full);
}

// By one thread: copy the stage's scales to these columns of tensor memory, and start to multiply.
__device__ __forceinline__ void multiply_stage(unsigned sums, unsigned scales, const Stage& stage,
                                               bool accumulate)
{
    const unsigned scales_b = scales + SCALE_COLUMNS;
    #pragma unroll
    for (int atom = 0; atom < ATOMS; ++atom) {
        const int bytes = atom * ATOM_BYTES, columns = atom * ATOM_COLUMNS;
        copy_scales(scales + columns, shared_address(stage.scales_a) + bytes);
        copy_scales(scales_b + columns, shared_address(stage.scales_b) + bytes);
    }
    const Descriptor a = make_descriptor(shared_address(stage.a));
    const Descriptor b = make_descriptor(shared_address(stage.b));
    #pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        const int columns = ATOMS == 1 ? 0 : step * ATOM_COLUMNS;
        scaled_mma(sums, advance(a, 32 * step), advance(b, 32 * step),
                   scaled_descriptor(BM, BN, step), scales + columns, scales_b + columns,
                   accumulate || step > 0);
    }
}
