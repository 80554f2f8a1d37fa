// Tiles of A and B in shared memory, and the asynchronous copies that fill them.
#pragma once

#include "cp_async.cuh"
#include "mma_operands.cuh"
#include "shared_address.cuh"

constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
constexpr int K_STEPS = BK / MMA_K;              // mma along K in one stage

// Chunks of a stage that a thread copies, a share of them with each k_step.
constexpr int A_COPIES = BM * A_CHUNKS / THREADS, B_COPIES = BK * B_CHUNKS / THREADS;
static_assert(BM % (THREADS / A_CHUNKS) == 0 && BK % (THREADS / B_CHUNKS) == 0 &&
              THREADS % A_CHUNKS == 0 && THREADS % B_CHUNKS == 0,
              "the block copies whole rows at a time, and all threads as many chunks");

struct Stage {
    uint4 a[BM * A_CHUNKS];
    uint4 b[BK * B_CHUNKS];
};

// The k tile that is copied next.
struct NextTiles {
    const Element *A, *B;                        // the whole matrices, for ragged copies
    int M, N, K, tile_m, tile_n, k;              // its first row of A, column of B, and k
    const Element *a, *b;                        // this thread's first chunks of it

    __device__ __forceinline__ void advance()
    {
        a += BK;
        b += (size_t)BK * N;
        k += BK;
    }
};

// The row of this thread's i-th copy in a tile of A or B, whose rows have so many CHUNKS. The two
// functions after it: where that copy goes in the stage.
template <int CHUNKS>
__device__ __forceinline__ int copy_row(int i)
{
    return threadIdx.x / CHUNKS + i * (THREADS / CHUNKS);
}

__device__ __forceinline__ uint4* stage_chunk_a(Stage& stage, int i)
{
    return stage.a + index_in_a(copy_row<A_CHUNKS>(i), threadIdx.x % A_CHUNKS);
}

__device__ __forceinline__ uint4* stage_chunk_b(Stage& stage, int i)
{
    return stage.b + index_in_b(copy_row<B_CHUNKS>(i), threadIdx.x % B_CHUNKS);
}

// Start to copy a chunk, or to fill it with zeros where it is not in bounds.
__device__ __forceinline__ void copy_chunk(uint4* to, const Element* from, bool in_bounds)
{
    cp_async<16>(shared_address(to), from, in_bounds ? 16 : 0);
}

// Start this thread's share of the copies that goes with this k_step. Rows of A and B begin at
// multiples of 16 bytes, so that each chunk is inside or outside as a whole.
__device__ __forceinline__ void copy_part(Stage& stage, const NextTiles& next, int k_step)
{
    const bool k_in_bounds = next.k + threadIdx.x % A_CHUNKS * CHUNK < next.K;
    const bool n_in_bounds = next.tile_n + threadIdx.x % B_CHUNKS * CHUNK < next.N;
    #pragma unroll
    for (int i = A_COPIES * k_step / K_STEPS; i < A_COPIES * (k_step + 1) / K_STEPS; ++i)
        copy_chunk(stage_chunk_a(stage, i),
                   next.a + (size_t)(i * (THREADS / A_CHUNKS)) * next.K,
                   k_in_bounds && next.tile_m + copy_row<A_CHUNKS>(i) < next.M);
    #pragma unroll
    for (int i = B_COPIES * k_step / K_STEPS; i < B_COPIES * (k_step + 1) / K_STEPS; ++i)
        copy_chunk(stage_chunk_b(stage, i),
                   next.b + (size_t)(i * (THREADS / B_CHUNKS)) * next.N,
                   n_in_bounds && next.k + copy_row<B_CHUNKS>(i) < next.K);
}
