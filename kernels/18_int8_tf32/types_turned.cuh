// TF32 with B stored K×N: C.T = B.T @ A.T. The first operand is B.T, 64 columns of B for a
// consumer, in registers; the second is A, whose rows lie along K in shared memory. So a consumer
// computes 64 columns of the tile and all its rows.
#pragma once

#include "types_stage.cuh"

static_assert(DTYPE != 3, "fragments of INT8 would have four k in a word, which are rows of B");

#define CONSUMERS (BN / 64)
#include "warp_roles.cuh"

constexpr int ACCUMULATORS = BM / 2;             // of a thread
constexpr int ARRIVALS = WARPGROUP_THREADS / 32; // of a consumer's warps, when a stage was read
constexpr int ROWS_APART = 0, COLUMNS_APART = 64;              // parts of consumers

// Which 16 of its warpgroup's 64 columns a warp has, and which of them is row g of the instruction,
// is free, as long as C is stored accordingly. A lane has rows g and g + 8: two neighbours, so that
// it loads both at once. Lane 4g + t loads them from row t of a box. The swizzle moves chunk c of
// this row, of 16 bytes, to c ^ t, which for the four t and for chunks c and c + 4 is all eight
// chunks: so bit 0 of g chooses half of a chunk, bit 1 adds 4 to c, and each half of a warp reads
// all banks once. Bit 2 of g and the warp are what is left of c, and the box.
__device__ __forceinline__ int chunk_of_lane()
{
    const int g = threadIdx.x % 32 / 4, warp = threadIdx.x / 32;
    return g / 4 + warp % 2 * 2 + g / 2 % 2 * 4;
}

__device__ __forceinline__ int box_of_warp()     // of the warpgroup's two
{
    return threadIdx.x % WARPGROUP_THREADS / 64;
}

// Where accumulator i belongs in the warpgroup's part of C, and the step to the accumulator of the
// next column, which is row g + 8 of the instruction.
constexpr int NEXT_COLUMN = 2;
__device__ __forceinline__ int row_in_part(int i) { return accumulator_column(i); }
__device__ __forceinline__ int column_in_part(int i)
{
    return box_of_warp() * BOX + chunk_of_lane() * 4 + threadIdx.x % 32 / 4 % 2 * 2 + i / 2 % 2;
}

// Half of B.T of a stage, in registers, as the tensor cores take it.
constexpr int HALF_STEPS = K_STEPS / 2;
typedef unsigned Fragments[HALF_STEPS][4];

__device__ __forceinline__ void load_pair(unsigned& first, unsigned& second, unsigned address)
{
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                 : "=r"(first), "=r"(second) : "r"(address) : "memory");
}

// The swizzle of row t + 4 differs from that of row t by 4 chunks, 64 bytes.
__device__ __forceinline__ void load_fragments(Fragments& fragments, const Stage& stage, int half,
                                               int warpgroup)
{
    const int t = threadIdx.x % 4, g = threadIdx.x % 32 / 4;
    const unsigned box = shared_address(stage.b) + (warpgroup * 2 + box_of_warp()) * BOX_BYTES;
    const unsigned from = box + t * ROW_BYTES + (chunk_of_lane() ^ t) * 16 + g % 2 * 8;
    #pragma unroll
    for (int i = 0; i < HALF_STEPS; ++i) {
        const unsigned row = from + (half * HALF_STEPS + i) * 8 * ROW_BYTES;
        load_pair(fragments[i][0], fragments[i][1], row);
        load_pair(fragments[i][2], fragments[i][3], (row ^ 64) + 4 * ROW_BYTES);
    }
}

// By each warp: it has read the stage, its threads B, and the tensor cores A. They tell the
// producers of all blocks of the cluster, which copy into it.
__device__ __forceinline__ void release_stage(unsigned stage_empty)
{
    const int lane = threadIdx.x % 32;
    __syncwarp();
    if (lane >= CLUSTER) return;
#if CLUSTER > 1
    mbarrier_arrive_remote(stage_empty, lane);
#else
    mbarrier_arrive(stage_empty);
#endif
}

// Start to multiply half of a stage, as one group.
__device__ __forceinline__ void multiply_half(Accumulator (&accumulators)[ACCUMULATORS],
                                              const Fragments& fragments, const Stage& stage,
                                              int half, bool accumulate)
{
    const Descriptor a = make_descriptor(shared_address(stage.a));
    wgmma_fence();                               // the fragments come before the products
    #pragma unroll
    for (int i = 0; i < HALF_STEPS; ++i)
        wgmma(accumulators, fragments[i], advance(a, (half * HALF_STEPS + i) * K_STEP_BYTES),
              accumulate || i > 0);
    wgmma_commit();
}

// By a consumer: accumulators = its part of the tile of C. While the tensor cores multiply one half
// of a stage, the fragments of the next half are loaded into other registers. `store_piece` as in
// types_along_k.cuh.
template <int STORED, class StorePiece>
__device__ __forceinline__ void multiply_tile(Accumulator (&accumulators)[ACCUMULATORS],
                                              const Stage (&stages)[STAGES], unsigned full,
                                              unsigned empty, PipelineState& state, int warpgroup,
                                              int k_tiles, const StorePiece& store_piece)
{
    Fragments first, second;
    int k_tile = 0;
    const auto multiply_next = [&] {             // multiply k_tile, and release the stage before
        mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
        const Stage& stage = stages[state.stage];
        load_fragments(first, stage, 0, warpgroup);
        multiply_half(accumulators, first, stage, 0, k_tile > 0);
        wgmma_wait<1>();                         // the second half of the stage before has ended
        if (k_tile > 0) release_stage(empty + MBARRIER_BYTES * state.previous());
        load_fragments(second, stage, 1, warpgroup);
        multiply_half(accumulators, second, stage, 1, true);
        wgmma_wait<1>();                         // the first half, whose registers are loaded next
        state.advance();
        ++k_tile;
    };
    #pragma unroll                               // as registers have no index
    for (int piece = 0; piece < STORED; ++piece) {
        if (k_tile < k_tiles) multiply_next();
        if (k_tile < k_tiles) multiply_next();
        store_piece(piece);
    }
    while (k_tile < k_tiles) multiply_next();
    wgmma_wait<0>();
    keep_behind(accumulators);
    release_stage(empty + MBARRIER_BYTES * state.previous());
}
