#include "tile_order.cuh"

extern "C" __global__ void places(int* rows, int* columns, int count, int tile_rows, int tile_cols,
                                  int group)
{
    const int number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= count) return;
    const Tile tile = tile_at(number, tile_rows, tile_cols, group);
    rows[number] = tile.row;
    columns[number] = tile.col;
}
