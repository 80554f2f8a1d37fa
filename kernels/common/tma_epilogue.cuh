// The epilogue by TMA: a warpgroup's 64 × BN accumulators go to a buffer in shared memory by
// stmatrix, and from there to C by tensor map, in pieces of 128 bytes a row. map_c has boxes of 64
// such rows, swizzled by 128 bytes.
// Before it: ACCUMULATORS, how many a thread has, and BN.
#pragma once

#include "named_barrier.cuh"
#include "output_type.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

constexpr int PIECE_COLUMNS = ROW_BYTES / (int)sizeof(ElementC);
constexpr int PIECE_PAIRS = PIECE_COLUMNS / 4;   // of a thread: two for every 8 columns
constexpr int PIECES = BN / PIECE_COLUMNS;
// One is filled while another is stored, where the pieces alternate and there is room for two.
constexpr int STORE_BUFFERS = PIECES % 2 == 0 && BM <= 128 ? 2 : 1;

typedef char StoreBuffer[SQUARE_BYTES];
typedef PairC RoundedPairs[ACCUMULATORS / 2];

__device__ __forceinline__ void round_accumulators(RoundedPairs& rounded,
                                                   const float (&accumulators)[ACCUMULATORS])
{
    #pragma unroll
    for (int i = 0; i < ACCUMULATORS / 2; ++i)
        rounded[i] = round_pair(accumulators[2 * i], accumulators[2 * i + 1]);
}

// A thread's pairs of one piece into the buffer, swizzled. stmatrix is ldmatrix (15) the other way:
// lane l gives the address of row l % 8 of matrix l / 8. The four matrices are rows 0 to 7 and 8 to
// 15 of a warp's chunk i / 2, then the same of the next chunk, as the accumulators lie.
__device__ __forceinline__ void store_to_buffer(unsigned buffer, const PairC* pairs)
{
    const int thread = threadIdx.x % WARPGROUP_THREADS;
#if OUT32
    #pragma unroll
    for (int i = 0; i < PIECE_PAIRS; ++i) {
        const int row = accumulator_row(2 * i), chunk = i / 2 * 2 + thread % 4 / 2;
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
                     :: "r"(buffer + row * ROW_BYTES + (chunk ^ row % 8) * 16 + thread % 2 * 8),
                        "f"(pairs[i].x), "f"(pairs[i].y) : "memory");
    }
#else
    const int row = thread / 32 * 16 + thread % 16;
    #pragma unroll
    for (int i = 0; i < PIECE_PAIRS; i += 4) {   // four matrices of 8×8 at a time
        const int chunk = i / 2 + thread % 32 / 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(buffer + row * ROW_BYTES + (chunk ^ row % 8) * 16), "r"(pairs[i]),
                        "r"(pairs[i + 1]), "r"(pairs[i + 2]), "r"(pairs[i + 3]) : "memory");
    }
#endif
}

// By a warpgroup: store one of the PIECES of its part of C, which begins at (m, n). The copy to C
// may still be under way at the end.
__device__ __forceinline__ void store_piece(const RoundedPairs& rounded, int piece,
                                            StoreBuffer (&buffers)[STORE_BUFFERS],
                                            const TensorMap& map_c, int m, int n, int warpgroup)
{
    const bool leader = threadIdx.x % WARPGROUP_THREADS == 0;
    const unsigned buffer = shared_address(buffers[piece % STORE_BUFFERS]);
    // Wait until the last store from this buffer has read it. Barrier 0 is __syncthreads()'s.
    if (leader) tma_store_wait_read<STORE_BUFFERS - 1>();
    named_barrier_sync<WARPGROUP_THREADS>(warpgroup + 1);          // the buffer is free
    store_to_buffer(buffer, rounded + piece * PIECE_PAIRS);
    fence_async_proxy();                                           // before TMA reads the buffer
    named_barrier_sync<WARPGROUP_THREADS>(warpgroup + 1);          // all threads have stored
    if (leader) tma_store(map_c, m, n + piece * PIECE_COLUMNS, buffer);
}

// By a warpgroup: store its accumulators to C, from (m, n) on.
__device__ __forceinline__ void store_accumulators(const float (&accumulators)[ACCUMULATORS],
                                                   StoreBuffer (&buffers)[STORE_BUFFERS],
                                                   const TensorMap& map_c, int m, int n,
                                                   int warpgroup)
{
    RoundedPairs rounded;
    round_accumulators(rounded, accumulators);
    #pragma unroll
    for (int piece = 0; piece < PIECES; ++piece)
        store_piece(rounded, piece, buffers, map_c, m, n, warpgroup);
}
