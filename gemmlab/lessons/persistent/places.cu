#include "warpgroup_tiles.cuh"

extern "C" __global__ void places(int* rows, int* columns, int count, int down, int across,
                                  int group)
{
    const int number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= count) return;
    const Corner place = tile_at(number, down, across, group);
    rows[number] = place.row;
    columns[number] = place.col;
}
