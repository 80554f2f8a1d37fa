// 10  The first step: a measurement beside 10_register_banks.cu, no rung of the ladder
// Idea:    10_register_banks.cu without its pipeline, with STAGES 1: the next fragments are loaded
//          ahead, and the FMAs have its order. Tiles go through registers into two buffers, and all
//          warps of the block wait at a barrier after each, as in 09. Any other value of STAGES is
//          10_register_banks.cu itself.
//          ORDER 0: the FMAs of an outer product go row by row.
//          PAIRS 1: a warp's lanes lie as in 08 and 09, where neighbours read the same in pairs.
// Launch:  as 10_register_banks.cu, and it takes what that takes. STAGES 1: from any GPU on.

#ifndef ORDER
#define ORDER 1                                  // of the FMAs. 0: row by row. 1: snaking columns
#endif
#ifndef PAIRS
#define PAIRS 0                                  // 1: bits 0, 2, 3 of the lane count columns
#endif

#if !defined(STAGES) || STAGES != 1
#include "10_register_banks.cu"
#else
#include "register_tile_sizes.cuh"
#include "register_tile_copies.cuh"              // for Inputs alone: nothing is copied here
#include "register_tile_fragments.cuh"
#include "register_tile_epilogue.cuh"
#include "staging.cuh"

// This thread's part of a tile of A and of B, in registers.
struct Staged {
    float4 a[BM * BK / 4 / THREADS], b[BK * BN / 4 / THREADS];
};

template <bool IN_BOUNDS>
__device__ __forceinline__ void load_tiles(Staged& staged, const Inputs& in, int tile_k)
{
    load_columns<IN_BOUNDS, THREADS, BM>(staged.a, in.A, in.tile_m, tile_k, in.M, in.K);
    load_rows<IN_BOUNDS, THREADS, BN>(staged.b, in.B, tile_k, in.tile_n, in.K, in.N);
}

__device__ __forceinline__ void load_tiles(Staged& staged, const Inputs& in, int tile_k)
{
    if (in.in_bounds && in.K % 4 == 0 && tile_k + BK <= in.K)
        load_tiles<true>(staged, in, tile_k);
    else
        load_tiles<false>(staged, in, tile_k);
}

__device__ __forceinline__ void store_tiles(Stage& buffer, const Staged& staged)
{
    store_columns<THREADS, BM>(buffer.a, staged.a);
    store_rows<THREADS>(buffer.b, staged.b);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
register_banks(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(128) Stage buffers[];
    const Inputs in = inputs_of_block(A, B, M, N, K);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int thread_n = warp % (BN / WN) * WN + lane_col(lane) * 4;
    const int thread_m = warp / (BN / WN) * WM + lane_row(lane) * 4;

    const int k_tiles = max(1, (K + BK - 1) / BK);
    int buffer = 0;                              // the one that is multiplied
    Staged staged;
    load_tiles(staged, in, 0);
    store_tiles(buffers[0], staged);
    __syncthreads();
    if (k_tiles > 1) load_tiles(staged, in, BK);

    float accumulators[TM][TN] = {};
    Fragments fragments[2];                      // for one k, and for the next
    const float *first_a = &buffers[0].a[0][thread_m], *first_b = &buffers[0].b[0][thread_n];
    const float *a = first_a, *b = first_b;
    load_fragments(fragments[0], a, b);
    multiply_columns<0, 1>(accumulators, fragments[0]);

    int k_tile = 0, chunks = BK / CHUNK;         // chunks that are due in this buffer
    #pragma unroll 1
    while (true) {
        multiply_chunk(accumulators, fragments, a, b);
        a += CHUNK * (BM + PAD);
        b += CHUNK * BN;
        if (--chunks == 0) {
            if (++k_tile == k_tiles) break;
            chunks = BK / CHUNK;
            // The other buffer was read before the last barrier: it may be overwritten now.
            buffer ^= 1;
            store_tiles(buffers[buffer], staged);
            __syncthreads();
            if (k_tile + 1 < k_tiles) load_tiles(staged, in, (k_tile + 1) * BK);
            a = first_a + buffer * STAGE_FLOATS;
            b = first_b + buffer * STAGE_FLOATS;
        }
        load_fragments(fragments[0], a, b);
        multiply_columns<1, TN>(accumulators, fragments[1]);
        multiply_columns<0, 1>(accumulators, fragments[0]);
    }
    multiply_columns<1, TN>(accumulators, fragments[1]);

    const int row = in.tile_m + thread_m, col = in.tile_n + thread_n;
    store_accumulators(C, row, col, M, N, accumulators, alpha, beta, in.in_bounds);
}
#endif
