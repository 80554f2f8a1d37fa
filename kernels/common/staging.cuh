// Bringing a tile in two steps: from global memory into registers, and later from there into shared
// memory. Between the two a kernel can wait, or work on something else.
#pragma once

#include "tiles.cuh"

// Groups of four floats that each thread brings of a tile with so many elements.
#define FOURS(elements) ((elements) / 4 / THREADS)

// A tile of ROWS×COLUMNS from (row, col) on of a matrix X of rows × cols, row by row.
template <bool INSIDE, int BLOCK_THREADS, int COLUMNS, int COUNT>
__device__ __forceinline__ void fetch_rows(float4 (&fours)[COUNT], const float* X,
                                           int row, int col, int rows, int cols)
{
    #pragma unroll
    for (int f = 0; f < COUNT; ++f) {
        const int i = threadIdx.x + f * BLOCK_THREADS;
        const int r = i / (COLUMNS / 4), c = i % (COLUMNS / 4) * 4;
        fours[f] = load_four<INSIDE>(X, row + r, col + c, rows, cols);
    }
}

template <int BLOCK_THREADS, int ROWS, int COLUMNS, int COUNT>
__device__ __forceinline__ void keep_rows(float (&tile)[ROWS][COLUMNS],
                                          const float4 (&fours)[COUNT])
{
    #pragma unroll
    for (int f = 0; f < COUNT; ++f) {
        const int i = threadIdx.x + f * BLOCK_THREADS;
        *(float4*)&tile[i / (COLUMNS / 4)][i % (COLUMNS / 4) * 4] = fours[f];
    }
}

// A tile of ROWS rows that is kept transposed. Two threads bring 32 bytes of a row: whole sectors,
// and with a padding of 4 floats they store without bank conflicts.
template <bool INSIDE, int BLOCK_THREADS, int ROWS, int COUNT>
__device__ __forceinline__ void fetch_columns(float4 (&fours)[COUNT], const float* X,
                                              int row, int col, int rows, int cols)
{
    #pragma unroll
    for (int f = 0; f < COUNT; ++f) {
        const int i = threadIdx.x + f * BLOCK_THREADS;
        const int r = i / 2 % ROWS, c = i % 2 * 4 + i / (2 * ROWS) * 8;
        fours[f] = load_four<INSIDE>(X, row + r, col + c, rows, cols);
    }
}

template <int BLOCK_THREADS, int ROWS, int COLUMNS, int PADDED, int COUNT>
__device__ __forceinline__ void keep_columns(float (&tile)[COLUMNS][PADDED],
                                             const float4 (&fours)[COUNT])
{
    #pragma unroll
    for (int f = 0; f < COUNT; ++f) {
        const int i = threadIdx.x + f * BLOCK_THREADS;
        const int r = i / 2 % ROWS, c = i % 2 * 4 + i / (2 * ROWS) * 8;
        tile[c + 0][r] = fours[f].x;
        tile[c + 1][r] = fours[f].y;
        tile[c + 2][r] = fours[f].z;
        tile[c + 3][r] = fours[f].w;
    }
}
