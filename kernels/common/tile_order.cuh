// In which order blocks take the tiles of C.
#pragma once

__device__ __forceinline__ int ceil_div(int size, int tile)
{
    return (size + tile - 1) / tile;
}

// A tile of C, counted in tiles.
struct Tile {
    int row, col;
};

// Of tile_rows × tile_cols tiles the one of this number: `group` rows of tiles come first, column
// by column, so that tiles computed at a time share rows of A and columns of B in L2.
__device__ __forceinline__ Tile tile_at(int number, int tile_rows, int tile_cols, int group)
{
    const int first = number / (group * tile_cols) * group;
    const int rows = min(group, tile_rows - first), within = number % (group * tile_cols);
    return {first + within % rows, within / rows};
}
