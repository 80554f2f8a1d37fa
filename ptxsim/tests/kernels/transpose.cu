// Transpose through shared memory
// Idea:    a block reads a TILE×TILE piece row by row and writes it column by column; in shared
//          memory the two cross, so both go along rows of global memory.
// Launch:  block (TILE, ROWS), grid (ceil(cols / TILE), ceil(rows / TILE)).
// Takes:   any rows and cols; float32, row-major. out[col][row] = x[row][col].

#ifndef TILE
#define TILE 32
#endif
#ifndef ROWS
#define ROWS 8
#endif
#ifndef PAD
#define PAD 1
#endif

extern "C" __global__ void __launch_bounds__(TILE * ROWS)
transpose(const float* __restrict__ x, float* __restrict__ out, int rows, int cols)
{
    __shared__ float tile[TILE][TILE + PAD];

    const int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
    for (int i = threadIdx.y; i < TILE; i += ROWS)
        if (top + i < rows && left + threadIdx.x < cols)
            tile[i][threadIdx.x] = x[(size_t)(top + i) * cols + left + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < TILE; i += ROWS)
        if (left + i < cols && top + threadIdx.x < rows)
            out[(size_t)(left + i) * rows + top + threadIdx.x] = tile[threadIdx.x][i];
}
