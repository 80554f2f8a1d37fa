// Tiles in the order of a Hilbert curve. No kernel file includes it: the experiment 18_steps puts
// it into a copy of 18_persistent.cu.
#pragma once

#include "tile_order.cuh"

// As tile_at, where tile_rows and tile_cols are powers of two, or have squares of such; else
// tile_at itself.
__device__ __forceinline__ Tile hilbert_at(int number, int tile_rows, int tile_cols, int group)
{
    const int side = min(tile_rows, tile_cols);
    if (side & (side - 1) || tile_rows % side || tile_cols % side)
        return tile_at(number, tile_rows, tile_cols, group);
    const int square = number / (side * side);
    int rest = number % (side * side), row = 0, col = 0;
    for (int s = 1; s < side; s *= 2, rest /= 4) {             // a quarter of each size
        const int second = rest / 2 & 1, other = (rest ^ second) & 1;
        if (!other) {                            // turned, and mirrored in the last quarter
            if (second) { row = s - 1 - row; col = s - 1 - col; }
            const int old_row = row;
            row = col;
            col = old_row;
        }
        row += s * second;
        col += s * other;
    }
    return tile_rows > tile_cols ? Tile{square * side + row, col} : Tile{row, square * side + col};
}
