// Copies of a stage of A and B into shared memory, by all threads of the block.
#pragma once

#include "register_tile_sizes.cuh"
#include "pipeline_cp_async.cuh"                 // of STAGES stages

#define THREADS ((BM / TM) * (BN / TN))          // of the block: all of them copy, and multiply
// MIN_BLOCKS must fit on one SM: as many as leave each thread enough registers for its
// accumulators.
#define RESIDENT_THREADS (TM * TN == 128 ? 256 : 512)
#define MIN_BLOCKS (RESIDENT_THREADS > THREADS ? RESIDENT_THREADS / THREADS : 1)

// The two matrices, and where the block's rows of A and columns of B begin.
struct Inputs {
    const float *A, *B;
    int M, N, K, tile_m, tile_n;
    bool in_bounds;                              // all of C's tile, and N is a multiple of 4
};

// Blocks of neighbouring numbers run at the same time, and should share rows of A and columns of B
// in L2. So tiles are numbered down the first column of GROUP tiles, down the next column, and so
// on to the right; then come the next GROUP rows.
__device__ __forceinline__ Inputs inputs_of_block(const float* A, const float* B,
                                                  int M, int N, int K)
{
    const int number = blockIdx.y * gridDim.x + blockIdx.x;
    const int first_row = number / (GROUP * gridDim.x) * GROUP;        // in tiles, of this group
    const int rows = min((int)gridDim.y - first_row, GROUP);   // the last group may have fewer
    const int in_group = number - first_row * gridDim.x;
    const int tile_m = (first_row + in_group % rows) * BM, tile_n = in_group / rows * BN;
    return {A, B, M, N, K, tile_m, tile_n, tile_m + BM <= M && tile_n + BN <= N && N % 4 == 0};
}

// Where this thread's copies of the next stage begin in A and in B, and how many rows, columns and
// steps of k there are from there to the end of the matrix.
struct CopySource {
    const float *a, *b;
    int rows_left, a_k_left, cols_left, b_k_left;
};

// Of A, 8 threads copy neighbours along K, and THREADS / 8 rows at a time. A row of B takes
// BN / width copies, each by another thread. Where N is no multiple of 4, they are of one element,
// as then not every row begins at a multiple of 16 bytes.
__device__ __forceinline__ CopySource first_copies(const Inputs& in)
{
    const int row = threadIdx.x / 8, a_k = threadIdx.x % 8, width = in.N % 4 ? 1 : 4;
    const int b_k = threadIdx.x * width / BN, col = threadIdx.x * width % BN;
    return {in.A + (size_t)(in.tile_m + row) * in.K + a_k,
            in.B + (size_t)b_k * in.N + in.tile_n + col,
            in.M - in.tile_m - row, in.K - a_k, in.N - in.tile_n - col, in.K - b_k};
}

// Start this thread's copies of one stage; each copy of B is of WIDTH elements. A is transposed on
// the way, so each copy of A is of one: cp.async writes what it reads to neighbouring addresses. A
// warp copies 8 neighbours along K of 4 rows: of different banks in shared memory and, where K is a
// multiple of 8, of whole sectors. Unless IN_BOUNDS, zeros are written for what is outside.
template <bool IN_BOUNDS, int WIDTH>
__device__ __forceinline__ void start_copies(unsigned address, const CopySource& source,
                                             const Inputs& in)
{
    static_assert(BM % (THREADS / 8) == 0 && BK % 8 == 0, "all threads copy as much of A");
    static_assert(THREADS * WIDTH % BN == 0 && BK % (THREADS * WIDTH / BN) == 0,
                  "the block copies whole rows of B at a time");
    const unsigned a = address + 4 * (threadIdx.x % 8 * (BM + PAD) + threadIdx.x / 8);
    #pragma unroll
    for (int row = 0; row < BM; row += THREADS / 8)
        #pragma unroll
        for (int k = 0; k < BK; k += 8)
            cp_async<4>(a + 4 * (k * (BM + PAD) + row), source.a + (size_t)row * in.K + k,
                        (IN_BOUNDS || (row < source.rows_left && k < source.a_k_left)) ? 4 : 0);
    const unsigned b = address + (unsigned)sizeof(Stage::a) + 4 * threadIdx.x * WIDTH;
    #pragma unroll
    for (int k = 0; k < BK; k += THREADS * WIDTH / BN)
        cp_async<4 * WIDTH>(b + 4 * k * BN, source.b + (size_t)k * in.N,
                            (IN_BOUNDS || (source.cols_left > 0 && k < source.b_k_left))
                                ? 4 * WIDTH : 0);          // 4 columns: all inside, or none
}

// What this thread needs to start copies.
struct Copies {
    Stage* stages;
    const Inputs& in;
    CopySource& source;
    Pipeline& pipeline;

    // Start the copies of the next k tile into a stage, as the shape allows. b_k_left counts
    // from this thread's own k: where BK or more are left, all of the k tile is inside, also of A.
    __device__ __forceinline__ void copy_stage(int stage) const
    {
        const unsigned address = shared_address(stages) + stage * (unsigned)sizeof(Stage);
        if (in.in_bounds && source.b_k_left >= BK)
            start_copies<true, 4>(address, source, in);
        else if (in.N % 4 == 0)
            start_copies<false, 4>(address, source, in);
        else
            start_copies<false, 1>(address, source, in);
        source.a += BK;
        source.b += (size_t)BK * in.N;
        source.a_k_left -= BK;
        source.b_k_left -= BK;
        pipeline.commit(stage);
    }
};
