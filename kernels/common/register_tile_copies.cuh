// Copies of a stage of A and B into shared memory, by all threads of the block.
#pragma once

#include "cp_async.cuh"
#include "register_tile_sizes.cuh"
#include "shared_address.cuh"

// The two matrices, and where the block's rows of A and columns of B begin.
struct Inputs {
    const float *A, *B;
    int M, N, K, tile_m, tile_n;
    bool in_bounds;                              // all of C's tile, and N is a multiple of 4
};

// GROUP rows of tiles come first, column by column, so that blocks that run at the same time share
// rows of A and columns of B in L2.
__device__ __forceinline__ Inputs inputs_of_block(const float* A, const float* B,
                                                  int M, int N, int K)
{
    const int number = blockIdx.y * gridDim.x + blockIdx.x;
    const int first = number / (GROUP * gridDim.x) * GROUP;    // row of tiles of this group
    const int rows = min((int)gridDim.y - first, GROUP), within = number - first * gridDim.x;
    const int tile_m = (first + within % rows) * BM, tile_n = within / rows * BN;
    return {A, B, M, N, K, tile_m, tile_n, tile_m + BM <= M && tile_n + BN <= N && N % 4 == 0};
}

// Where this thread's copies of the next stage begin in A and in B, and how many rows, columns and
// k are from there to the end of the matrix.
struct CopySource {
    const float *a, *b;
    int rows, a_k, cols, b_k;
};

// How many neighbours in a row of B one copy has.
__device__ __forceinline__ int b_width(int N) { return N % 4 ? 1 : 4; }

__device__ __forceinline__ CopySource first_copies(const Inputs& in)
{
    const int row = threadIdx.x / 8, a_k = threadIdx.x % 8, width = b_width(in.N);
    const int b_k = threadIdx.x * width / BN, col = threadIdx.x * width % BN;
    return {in.A + (size_t)(in.tile_m + row) * in.K + a_k,
            in.B + (size_t)b_k * in.N + in.tile_n + col,
            in.M - in.tile_m - row, in.K - a_k, in.N - in.tile_n - col, in.K - b_k};
}

// Start this thread's copies of one stage, WIDTH elements of B each. A is transposed on the way, an
// element a copy: a warp copies 8 neighbours along K of 4 rows, which are whole sectors in global
// memory and different banks in shared memory. Unless IN_BOUNDS, zeros are what is outside.
template <bool IN_BOUNDS, int WIDTH>
__device__ __forceinline__ void copy_stage(unsigned stage, const CopySource& source,
                                           const Inputs& in)
{
    const unsigned a = stage + 4 * (threadIdx.x % 8 * (BM + PAD) + threadIdx.x / 8);
    #pragma unroll
    for (int row = 0; row < BM; row += THREADS / 8)
        #pragma unroll
        for (int k = 0; k < BK; k += 8)
            cp_async<4>(a + 4 * (k * (BM + PAD) + row), source.a + (size_t)row * in.K + k,
                        IN_BOUNDS || (row < source.rows && k < source.a_k) ? 4 : 0);
    const unsigned b = stage + (unsigned)sizeof(Stage::a) + 4 * threadIdx.x * WIDTH;
    #pragma unroll
    for (int k = 0; k < BK; k += THREADS * WIDTH / BN)
        cp_async<4 * WIDTH>(b + 4 * k * BN, source.b + (size_t)k * in.N,
                            IN_BOUNDS || (source.cols > 0 && k < source.b_k) ? 4 * WIDTH : 0);
}

// The same whatever the shape; the next call starts the next stage's.
__device__ __forceinline__ void copy_stage(Stage* stages, int stage, CopySource& source,
                                           const Inputs& in)
{
    const unsigned address = shared_address(stages) + stage * (unsigned)sizeof(Stage);
    if (in.in_bounds && source.b_k >= BK)
        copy_stage<true, 4>(address, source, in);
    else if (b_width(in.N) == 4)
        copy_stage<false, 4>(address, source, in);
    else
        copy_stage<false, 1>(address, source, in);
    source.a += BK;
    source.b += (size_t)BK * in.N;
    source.a_k -= BK;
    source.b_k -= BK;
}
