// TMA from an array of matrices: its map has three axes, so that a box ends where its matrix does.
#pragma once

#include "operand_b.cuh"

// Start to load the box that begins at (row, col) of a matrix. What is beyond the matrix is filled
// with zeros, though in memory the next matrix begins there.
__device__ __forceinline__ void tma_load_of_matrix(unsigned to, const TensorMap& map, int matrix,
                                                   int row, int col, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4}], [%5];"
                 :: "r"(to), "l"(&map), "r"(col), "r"(row), "r"(matrix), "r"(barrier) : "memory");
}

// As copy_b of operand_b.cuh, from one of the matrices B.
template <int COLUMNS>
__device__ __forceinline__ void copy_b_of_matrix(unsigned to, const TensorMap& map_b, int matrix,
                                                 int k, int n, unsigned full)
{
#if OP_B
    tma_load_of_matrix(to, map_b, matrix, n, k, full);         // one box
#else
    #pragma unroll
    for (int c = 0; c < COLUMNS; c += ROW_ELEMENTS)            // a square box for 64 columns
        tma_load_of_matrix(to + c * ROW_BYTES, map_b, matrix, k, n + c, full);
#endif
}
