// Tiles in two steps: all threads of a block load a tile from global memory into registers, and
// store it to shared memory later. Between the two a kernel can wait, or work on something else.
#pragma once

#include "float4.cuh"

// A tile that is COLUMNS wide, from (row, col) on of a matrix X of rows × cols, row by row: each
// thread loads COUNT float4. IN_BOUNDS as in float4.cuh.
template <bool IN_BOUNDS, int BLOCK_THREADS, int COLUMNS, int COUNT>
__device__ __forceinline__ void load_rows(float4 (&values)[COUNT], const float* X,
                                          int row, int col, int rows, int cols)
{
    #pragma unroll
    for (int v = 0; v < COUNT; ++v) {
        const int i = threadIdx.x + v * BLOCK_THREADS;
        const int r = i / (COLUMNS / 4), c = i % (COLUMNS / 4) * 4;
        values[v] = load_float4<IN_BOUNDS>(X, row + r, col + c, rows, cols);
    }
}

template <int BLOCK_THREADS, int ROWS, int COLUMNS, int COUNT>
__device__ __forceinline__ void store_rows(float (&tile)[ROWS][COLUMNS],
                                           const float4 (&values)[COUNT])
{
    #pragma unroll
    for (int v = 0; v < COUNT; ++v) {
        const int i = threadIdx.x + v * BLOCK_THREADS;
        *(float4*)&tile[i / (COLUMNS / 4)][i % (COLUMNS / 4) * 4] = values[v];
    }
}

// A tile of ROWS rows that is stored transposed. Two threads load 32 bytes of a row: whole sectors,
// and with a padding of 4 floats they store without bank conflicts.
template <bool IN_BOUNDS, int BLOCK_THREADS, int ROWS, int COUNT>
__device__ __forceinline__ void load_columns(float4 (&values)[COUNT], const float* X,
                                             int row, int col, int rows, int cols)
{
    #pragma unroll
    for (int v = 0; v < COUNT; ++v) {
        const int i = threadIdx.x + v * BLOCK_THREADS;
        const int r = i / 2 % ROWS, c = i % 2 * 4 + i / (2 * ROWS) * 8;
        values[v] = load_float4<IN_BOUNDS>(X, row + r, col + c, rows, cols);
    }
}

template <int BLOCK_THREADS, int ROWS, int COLUMNS, int PADDED, int COUNT>
__device__ __forceinline__ void store_columns(float (&tile)[COLUMNS][PADDED],
                                              const float4 (&values)[COUNT])
{
    #pragma unroll
    for (int v = 0; v < COUNT; ++v) {
        const int i = threadIdx.x + v * BLOCK_THREADS;
        const int r = i / 2 % ROWS, c = i % 2 * 4 + i / (2 * ROWS) * 8;
        tile[c + 0][r] = values[v].x;
        tile[c + 1][r] = values[v].y;
        tile[c + 2][r] = values[v].z;
        tile[c + 3][r] = values[v].w;
    }
}
