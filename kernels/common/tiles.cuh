// What several rungs share: bringing a tile into shared memory, and four floats of a row at once.
//
// Loads come in two forms, told apart at compile time. INSIDE true: the caller knows that all of it
// lies in the matrix, so nothing is checked. INSIDE false: each element is looked at, and what lies
// outside counts as zero.
#pragma once

// The ROWS×COLUMNS elements from (row, col) on of a matrix X of rows × cols, one by one, by all
// threads of the block: neighbours of a row by neighbouring threads.
template <bool INSIDE, int BLOCK_THREADS, int ROWS, int COLUMNS>
__device__ __forceinline__ void load_tile(float (&tile)[ROWS][COLUMNS], const float* X,
                                          int row, int col, int rows, int cols)
{
    #pragma unroll
    for (int first = 0; first < ROWS * COLUMNS; first += BLOCK_THREADS) {
        const int i = first + threadIdx.x;
        if (ROWS * COLUMNS % BLOCK_THREADS != 0 && i >= ROWS * COLUMNS) break;
        const int r = row + i / COLUMNS, c = col + i % COLUMNS;
        tile[i / COLUMNS][i % COLUMNS] =
            INSIDE || (r < rows && c < cols) ? X[(size_t)r * cols + c] : 0.0f;
    }
}

// Elements (row, col) to (row, col + 3). INSIDE also promises that they begin at 16 bytes.
template <bool INSIDE>
__device__ __forceinline__ float4 load_four(const float* X, int row, int col, int rows, int cols)
{
    const float* here = X + (size_t)row * cols + col;
    if (INSIDE) return *(const float4*)here;
    float four[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v)
        four[v] = row < rows && col + v < cols ? here[v] : 0.0f;
    return make_float4(four[0], four[1], four[2], four[3]);
}

// As load_tile, but four neighbours of a row at a time.
template <bool INSIDE, int BLOCK_THREADS, int ROWS, int COLUMNS>
__device__ __forceinline__ void load_tile_by_four(float (&tile)[ROWS][COLUMNS], const float* X,
                                                  int row, int col, int rows, int cols)
{
    #pragma unroll
    for (int first = 0; first < ROWS * COLUMNS / 4; first += BLOCK_THREADS) {
        const int i = first + threadIdx.x;
        if (ROWS * COLUMNS / 4 % BLOCK_THREADS != 0 && i >= ROWS * COLUMNS / 4) break;
        const int r = i / (COLUMNS / 4), c = i % (COLUMNS / 4) * 4;
        *(float4*)&tile[r][c] = load_four<INSIDE>(X, row + r, col + c, rows, cols);
    }
}

// C = alpha * sums + beta * C for the elements (row, col) to (row, col + 3) of C, M × N. Unless all
// are known to be `inside` C, each is looked at, and those outside are left out. Where beta is 0, C
// is not read: it may hold anything, NaN included.
__device__ __forceinline__ void store_four(float* C, int row, int col, int M, int N,
                                           const float* sums, float alpha, float beta, bool inside)
{
    float* here = C + (size_t)row * N + col;
    if (inside) {
        float4 four = make_float4(alpha * sums[0], alpha * sums[1],
                                  alpha * sums[2], alpha * sums[3]);
        if (beta != 0.0f) {
            const float4 old = *(const float4*)here;
            four.x += beta * old.x;
            four.y += beta * old.y;
            four.z += beta * old.z;
            four.w += beta * old.w;
        }
        *(float4*)here = four;
        return;
    }
    #pragma unroll
    for (int v = 0; v < 4; ++v)
        if (row < M && col + v < N)
            here[v] = beta == 0.0f ? alpha * sums[v] : alpha * sums[v] + beta * here[v];
}
