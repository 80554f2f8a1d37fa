// Sizes in tiles, and in which order blocks take the tiles of C.
#pragma once

__device__ __forceinline__ int ceil_div(int size, int tile)
{
    return (size + tile - 1) / tile;
}

// A tile of C, counted in tiles.
struct Tile {
    int row, col;
};

// Tile number `number` of tile_rows × tile_cols. They are numbered as in 10: down the first column
// of `group` rows of tiles, down the next column, and so on to the right; then come the next rows.
// So tiles that are computed at a time share rows of A and columns of B in L2.
__device__ __forceinline__ Tile tile_at(int number, int tile_rows, int tile_cols, int group)
{
    const int first_row = number / (group * tile_cols) * group;        // of this group
    const int rows = min(group, tile_rows - first_row);        // the last group may have fewer
    const int in_group = number % (group * tile_cols);
    return {first_row + in_group % rows, in_group / rows};
}
