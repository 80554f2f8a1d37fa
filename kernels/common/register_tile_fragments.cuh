// What a thread multiplies: for one k, a column of A and a row of B. It loads them from shared
// memory into registers, and adds their outer product to its accumulators.
#pragma once

#include "register_tile_sizes.cuh"

// Where a lane is in its warp, LANES_M rows of LANES_N lanes. They are in row order, so the eight
// of a row read 128 neighbouring bytes of B.
#if PAIRS
#include "lanes_in_pairs.cuh"                    // a road not taken
#else
__device__ __forceinline__ int lane_row(int lane) { return lane / LANES_N; }
__device__ __forceinline__ int lane_col(int lane) { return lane % LANES_N; }
#endif

// a and b: the thread's first row and first column in shared memory, at the same k. Its rows come
// in groups of four neighbours, and so do its columns; between its groups lie those of other lanes.
__device__ __forceinline__ void load_fragments(Fragments& fragments, const float* a, const float* b)
{
    #pragma unroll
    for (int p = 0; p < TM / 4; ++p)
        *(float4*)&fragments.a[4 * p] = *(const float4*)&a[p * LANES_M * 4];
    #pragma unroll
    for (int q = 0; q < TN / 4; ++q)
        *(float4*)&fragments.b[4 * q] = *(const float4*)&b[q * LANES_N * 4];
}

// Columns FIRST to END - 1 of the outer product. An FMA reads three registers: of A, of B, and the
// accumulator. The register file has two banks, of even and of odd numbers, and each delivers one
// register a cycle; a third comes from the reuse cache, if the FMA before has read it too. So the
// columns snake, the even ones from the last row to the first, the odd ones back: within a column
// each FMA has the same b as the one before, and at a turn the same a.
//
// An outer product comes in two parts, its first column, <0, 1>, and the others, <1, TN>, and a
// loop turns between them. At its branch the assembler waits for all loads under way; the first
// column is multiplied before, as it needs only the first of them. The others are multiplied after
// the branch, while the fragments of the next k are loaded.
#if defined(ORDER) && ORDER == 0
#include "fma_by_rows.cuh"                       // a road not taken
#else
template <int FIRST, int END>
__device__ __forceinline__ void multiply_columns(float (&accumulators)[TM][TN],
                                                 const Fragments& fragments)
{
    #pragma unroll
    for (int j = FIRST; j < END; ++j)
        #pragma unroll
        for (int n = 0; n < TM; ++n) {
            const int i = j % 2 ? n : TM - 1 - n;
            accumulators[i][j] += fragments.a[i] * fragments.b[j];
        }
}
#endif

// CHUNK steps of k from a and b on: for each, load the fragments of the next k, then multiply those
// of this one. Before the call, fragments[0] is loaded and its first column multiplied. After it,
// the first column of fragments[1] is multiplied, as CHUNK is even; the caller multiplies the rest,
// while it loads the fragments of the next chunk.
__device__ __forceinline__ void multiply_chunk(float (&accumulators)[TM][TN],
                                               Fragments (&fragments)[2], const float* a,
                                               const float* b)
{
    #pragma unroll
    for (int k = 0; k < CHUNK - 1; ++k) {
        load_fragments(fragments[(k + 1) % 2], a + (k + 1) * (BM + PAD), b + (k + 1) * BN);
        if (k > 0) multiply_columns<0, 1>(accumulators, fragments[k % 2]);
        multiply_columns<1, TN>(accumulators, fragments[k % 2]);
    }
    multiply_columns<0, 1>(accumulators, fragments[1]);
}
