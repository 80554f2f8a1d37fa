// All threads of a block load a tile of a matrix into shared memory.
//
// IN_BOUNDS true: the caller knows that the whole tile is inside the matrix, so nothing is checked.
// IN_BOUNDS false: each element is checked, and zeros stand for those outside.
#pragma once

#include "float4.cuh"

// The ROWS×COLUMNS elements from (row, col) on of a matrix X of rows × cols, one at a time:
// neighbouring threads load neighbours of a row.
template <bool IN_BOUNDS, int BLOCK_THREADS, int ROWS, int COLUMNS>
__device__ __forceinline__ void load_tile(float (&tile)[ROWS][COLUMNS], const float* X,
                                          int row, int col, int rows, int cols)
{
    #pragma unroll
    for (int first = 0; first < ROWS * COLUMNS; first += BLOCK_THREADS) {
        const int i = first + threadIdx.x;
        if (ROWS * COLUMNS % BLOCK_THREADS != 0 && i >= ROWS * COLUMNS) break;
        const int r = row + i / COLUMNS, c = col + i % COLUMNS;
        tile[i / COLUMNS][i % COLUMNS] =
            IN_BOUNDS || (r < rows && c < cols) ? X[(size_t)r * cols + c] : 0.0f;
    }
}

// The same, four neighbours of a row at a time.
template <bool IN_BOUNDS, int BLOCK_THREADS, int ROWS, int COLUMNS>
__device__ __forceinline__ void load_tile_float4(float (&tile)[ROWS][COLUMNS], const float* X,
                                                 int row, int col, int rows, int cols)
{
    #pragma unroll
    for (int first = 0; first < ROWS * COLUMNS / 4; first += BLOCK_THREADS) {
        const int i = first + threadIdx.x;
        if (ROWS * COLUMNS / 4 % BLOCK_THREADS != 0 && i >= ROWS * COLUMNS / 4) break;
        const int r = i / (COLUMNS / 4), c = i % (COLUMNS / 4) * 4;
        *(float4*)&tile[r][c] = load_float4<IN_BOUNDS>(X, row + r, col + c, rows, cols);
    }
}
