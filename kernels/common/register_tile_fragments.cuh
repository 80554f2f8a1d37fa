// What a thread multiplies: for one k, a column of A and a row of B. It loads them from shared
// memory into registers, and adds their outer product to its accumulators.
#pragma once

#include "register_tile_sizes.cuh"

// The first row and the first column of the block's tile that this thread computes. Of both it has
// groups of four neighbours; the other lanes' groups lie between them. Lanes are in row order: the
// eight of a row read 128 bytes of B.
#if PAIRS
#include "lanes_in_pairs.cuh"                    // a road not taken
#else
__device__ __forceinline__ int first_row_of_thread(int warp, int lane)
{
    return warp / (BN / WN) * WM + lane / LANES_N * 4;
}

__device__ __forceinline__ int first_col_of_thread(int warp, int lane)
{
    return warp % (BN / WN) * WN + lane % LANES_N * 4;
}
#endif

// a and b: the thread's first row and first column in shared memory, at the same k.
__device__ __forceinline__ void load_fragments(Fragments& fragments, const float* a,
                                               const float* b)
{
    #pragma unroll
    for (int p = 0; p < TM / 4; ++p)
        *(float4*)&fragments.a[4 * p] = *(const float4*)&a[p * LANES_M * 4];
    #pragma unroll
    for (int q = 0; q < TN / 4; ++q)
        *(float4*)&fragments.b[4 * q] = *(const float4*)&b[q * LANES_N * 4];
}

// Columns FIRST to END - 1 of the outer product. They snake, up the even ones and down the odd
// ones, so every FMA shares an operand with the one before.
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

// At a branch, the assembler waits for the fragments loaded last, unless they were used before. So
// the first column of an outer product comes before the branch of a loop, the others after it.
#if defined(ORDER) && ORDER == 0
#include "fma_by_rows.cuh"                       // a road not taken
#else
__device__ __forceinline__ void multiply_first(float (&accumulators)[TM][TN],
                                               const Fragments& fragments)
{
    multiply_columns<0, 1>(accumulators, fragments);
}

__device__ __forceinline__ void multiply_rest(float (&accumulators)[TM][TN],
                                              const Fragments& fragments)
{
    multiply_columns<1, TN>(accumulators, fragments);
}
#endif

// CHUNK steps of k from a and b on, but for the end of the last outer product: while one pair of
// fragments is multiplied, the next one is loaded. fragments[0] was loaded, and multiply_first was
// called for it; afterwards, multiply_rest is due for fragments[LAST].
#define LAST ((CHUNK - 1) % 2)

__device__ __forceinline__ void multiply_chunk(float (&accumulators)[TM][TN],
                                               Fragments (&fragments)[2], const float* a,
                                               const float* b)
{
    #pragma unroll
    for (int k = 0; k < CHUNK - 1; ++k) {
        load_fragments(fragments[(k + 1) % 2], a + (k + 1) * (BM + PAD), b + (k + 1) * BN);
        if (k > 0) multiply_first(accumulators, fragments[k % 2]);
        multiply_rest(accumulators, fragments[k % 2]);
    }
    multiply_first(accumulators, fragments[LAST]);
}
