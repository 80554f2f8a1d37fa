// Tiles in the order of a Hilbert curve. No kernel file includes it: the experiment 18_steps puts it
// into a copy of 18_persistent.cu.
#pragma once

// As tile_at, where down and across are powers of two, or have squares of such; else tile_at itself.
__device__ __forceinline__ Corner hilbert_at(int number, int down, int across, int group)
{
    const int side = min(down, across);
    if (side & (side - 1) || down % side || across % side)
        return tile_at(number, down, across, group);
    const int square = number / (side * side);
    int left = number % (side * side), row = 0, col = 0;
    for (int s = 1; s < side; s *= 2, left /= 4) {             // a quarter of each size
        const int second = left / 2 & 1, other = (left ^ second) & 1;
        if (!other) {                            // turned, and mirrored in the last quarter
            if (second) { row = s - 1 - row; col = s - 1 - col; }
            const int was = row;
            row = col;
            col = was;
        }
        row += s * second;
        col += s * other;
    }
    return down > across ? Corner{square * side + row, col} : Corner{row, square * side + col};
}
