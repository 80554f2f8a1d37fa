// 14  Tensor cores through WMMA
// Idea:    the lanes of a warp hold fragments of 16×16 together, and one call multiplies two.
//          STAGES 0, the plain kernel: a block is one warp, and loads its fragments straight from
//          global memory.
//          STAGES 3 and more: the warps of a block share tiles. Asynchronous copies fill so many
//          stages in turn, a part with each step along K, and a warp loads its next fragments while
//          it multiplies others.
// Before:  09_double_buffering.cu multiplied in FP32, each lane for itself.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)), with the dynamic
//          shared memory of STAGES times a Stage, or of a Strip for each warp if that is more.
//          STAGES 0: BM = WM, BN = WN, BK = 16.
// Takes:   any M, N, K; A, B and C float16, row-major; alpha, beta and all sums float32.
//          C = alpha * A @ B + beta * C, rounded to float16 once, at the end. A, B and C begin at
//          multiples of 32 bytes. Where N or K is no multiple of 8, single elements are loaded
//          instead of eight copied at a time. From sm_70 on, STAGES 3 and more from sm_80 on.

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 256                                   // columns
#endif
#ifndef BK
#define BK 64                                    // how far along K one stage goes
#endif
#ifndef WM
#define WM 64                                    // rows of C that a warp computes
#endif
#ifndef WN
#define WN 64                                    // columns
#endif
#ifndef STAGES
#define STAGES 3                                 // tiles of A and B in shared memory
#endif
#ifndef PAD
#define PAD 8                                    // elements at a row's end, against bank conflicts
#endif

#include <mma.h>
#include "cp_async.cuh"
#include "shared_address.cuh"
#include "wmma_fragments.cuh"

constexpr int THREADS = 32 * (BM / WM) * (BN / WN);

#if STAGES == 0  // ------------------------------------------------------------ the plain kernel

// The fragment from (row, col) on of a matrix X of rows × cols. WMMA loads whole fragments whose
// rows begin at multiples of 16 bytes. Any other is stored to `patch` first, with zeros outside X.
template <class Fragment>
__device__ __forceinline__ void load_fragment(Fragment& fragment, half (*patch)[SIDE + PAD],
                                              const half* X, int row, int col, int rows, int cols)
{
    if (row + SIDE <= rows && col + SIDE <= cols && cols % 8 == 0) {
        wmma::load_matrix_sync(fragment, X + (size_t)row * cols + col, cols);
        return;
    }
    for (int i = threadIdx.x; i < SIDE * SIDE; i += 32) {
        const int r = row + i / SIDE, c = col + i % SIDE;
        patch[i / SIDE][i % SIDE] =
            r < rows && c < cols ? X[(size_t)r * cols + c] : __float2half(0.0f);
    }
    __syncwarp();
    wmma::load_matrix_sync(fragment, &patch[0][0], SIDE + PAD);
    __syncwarp();                                // all have read it before it is filled again
}

extern "C" __global__ void __launch_bounds__(THREADS)
wmma_product(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C,
             int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(128) char shared[];
    half (*patch)[SIDE + PAD] = (half (*)[SIDE + PAD])shared;
    const int tile_m = blockIdx.y * BM, tile_n = blockIdx.x * BN;

    Accumulators accumulators;
    clear(accumulators);
    for (int k = 0; k < K; k += SIDE) {
        Fragments fragments;
        #pragma unroll
        for (int i = 0; i < TILES_M; ++i)
            load_fragment(fragments.a[i], patch, A, tile_m + i * SIDE, k, M, K);
        #pragma unroll
        for (int j = 0; j < TILES_N; ++j)
            load_fragment(fragments.b[j], patch, B, k, tile_n + j * SIDE, K, N);
        multiply(accumulators, fragments);
    }
    store_accumulators(*(Strip*)shared, accumulators, C, tile_m, tile_n, M, N, alpha, beta);
}

#else  // ---------------------------------------------------------------------- the staged kernel

static_assert(STAGES >= 3, "one is multiplied, the next one is complete, another is filled");
constexpr int K_STEPS = BK / SIDE;               // of a stage; a part of the next copies with each

struct Stage {
    half a[BM][BK + PAD];
    half b[BK][BN + PAD];
};

// The k tile that is copied next: where it begins, and this thread's first eight elements of it.
struct NextTiles {
    const half *A, *B;
    int M, N, K, tile_m, tile_n, k;
    const half *a, *b;
};

// Of a tile with so many columns, this thread's first eight elements: their row, and the column of
// the first.
__device__ __forceinline__ int thread_row(int columns) { return threadIdx.x / (columns / 8); }
__device__ __forceinline__ int thread_col(int columns) { return threadIdx.x % (columns / 8) * 8; }

// Start to copy eight elements, or to fill them with zeros where they are not in bounds.
__device__ __forceinline__ void copy_eight(half* to, const half* from, bool in_bounds)
{
    cp_async<16>(shared_address(to), from, in_bounds ? 16 : 0);
}

// Start this thread's copies of one part of a tile, a few of its rows. Its first eight elements of
// the tile come from `first`, where `rows` rows of the matrix remain.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void copy_eights(half (&tile)[ROWS][COLUMNS + PAD], int k_step,
                                            const half* first, int stride, int rows, bool in_row)
{
    constexpr int ROWS_AT_ONCE = THREADS / (COLUMNS / 8);      // eight elements for each thread
    static_assert(ROWS / K_STEPS % ROWS_AT_ONCE == 0, "all threads copy the same number of rows");
    half* to = &tile[thread_row(COLUMNS)][thread_col(COLUMNS)];
    #pragma unroll
    for (int below = 0; below < ROWS / K_STEPS; below += ROWS_AT_ONCE) {
        const int row = k_step * (ROWS / K_STEPS) + below;
        copy_eight(to + row * (COLUMNS + PAD), first + (size_t)row * stride, in_row && row < rows);
    }
}

// The same of any matrix X of rows × cols, element by element. The tile begins at (row, col).
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void load_elements(half (&tile)[ROWS][COLUMNS + PAD], int k_step,
                                              const half* X, int row, int col, int rows, int cols)
{
    constexpr int COUNT = ROWS / K_STEPS * COLUMNS;
    #pragma unroll 1
    for (int i = k_step * COUNT + threadIdx.x; i < (k_step + 1) * COUNT; i += THREADS) {
        const int r = row + i / COLUMNS, c = col + i % COLUMNS;
        tile[i / COLUMNS][i % COLUMNS] =
            r < rows && c < cols ? X[(size_t)r * cols + c] : __float2half(0.0f);
    }
}

// Start the copies of one part of the next k tile, and after the last part advance to the k tile
// after it. Elements outside of A and B are zero. ALIGNED: rows of A and B have a multiple of eight
// elements, so that each eight are inside or outside together.
template <bool ALIGNED>
__device__ __forceinline__ void copy_part(Stage& stage, int k_step, NextTiles& next)
{
    if (ALIGNED) {
        copy_eights<BM, BK>(stage.a, k_step, next.a, next.K, next.M - next.tile_m - thread_row(BK),
                            next.k + thread_col(BK) < next.K);
        copy_eights<BK, BN>(stage.b, k_step, next.b, next.N, next.K - next.k - thread_row(BN),
                            next.tile_n + thread_col(BN) < next.N);
    } else {
        load_elements<BM, BK>(stage.a, k_step, next.A, next.tile_m, next.k, next.M, next.K);
        load_elements<BK, BN>(stage.b, k_step, next.B, next.k, next.tile_n, next.K, next.N);
    }
    if (k_step < K_STEPS - 1) return;
    cp_async_commit();
    next.a += BK;
    next.b += (size_t)BK * next.N;
    next.k += BK;
}

// A warp's fragments at depth k of a stage.
__device__ __forceinline__ void load_fragments(Fragments& fragments, const Stage& stage, int k,
                                               int warp_m, int warp_n)
{
    #pragma unroll
    for (int i = 0; i < TILES_M; ++i)
        wmma::load_matrix_sync(fragments.a[i], &stage.a[warp_m + i * SIDE][k], BK + PAD);
    #pragma unroll
    for (int j = 0; j < TILES_N; ++j)
        wmma::load_matrix_sync(fragments.b[j], &stage.b[k][warp_n + j * SIDE], BN + PAD);
}

// accumulators += A @ B for a warp's part of the block's tile.
template <bool ALIGNED>
__device__ __forceinline__ void mainloop(Accumulators& accumulators, Stage* stages,
                                         NextTiles& next, int warp_m, int warp_n)
{
    for (int stage = 0; stage < STAGES - 1; ++stage)           // the prologue
        #pragma unroll
        for (int k_step = 0; k_step < K_STEPS; ++k_step)
            copy_part<ALIGNED>(stages[stage], k_step, next);
    cp_async_wait<STAGES - 2>();
    __syncthreads();                             // the first stage is complete

    Fragments fragments[2];                      // of this k_step, and of the next
    load_fragments(fragments[0], stages[0], 0, warp_m, warp_n);
    int read_stage = 0, write_stage = STAGES - 1;              // which is multiplied, and filled
    for (int k = 0, K = next.K; k < K; k += BK) {
        const int next_stage = read_stage + 1 < STAGES ? read_stage + 1 : 0;
        #pragma unroll
        for (int k_step = 0; k_step < K_STEPS; ++k_step) {
            if (k_step < K_STEPS - 1) {
                load_fragments(fragments[(k_step + 1) % 2], stages[read_stage],
                               (k_step + 1) * SIDE, warp_m, warp_n);
            } else {
                cp_async_wait<STAGES - 3>();
                __syncthreads();                 // the next stage is complete, this one is read
                load_fragments(fragments[0], stages[next_stage], 0, warp_m, warp_n);
            }
            copy_part<ALIGNED>(stages[write_stage], k_step, next);
            multiply(accumulators, fragments[k_step % 2]);
        }
        write_stage = read_stage;
        read_stage = next_stage;
    }
    cp_async_wait<0>();
    __syncthreads();                             // the stages are free
}

extern "C" __global__ void __launch_bounds__(THREADS)
wmma_product(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C,
             int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(128) char shared[];

    const int tile_m = blockIdx.y * BM, tile_n = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / (BN / WN) * WM;
    const int warp_n = warp % (BN / WN) * WN;

    NextTiles next = {A, B, M, N, K, tile_m, tile_n, 0,
                      A + (size_t)(tile_m + thread_row(BK)) * K + thread_col(BK),
                      B + (size_t)thread_row(BN) * N + tile_n + thread_col(BN)};
    Accumulators accumulators;
    clear(accumulators);
    if (N % 8 == 0 && K % 8 == 0)
        mainloop<true>(accumulators, (Stage*)shared, next, warp_m, warp_n);
    else
        mainloop<false>(accumulators, (Stage*)shared, next, warp_m, warp_n);

    // Strips lie where the stages were.
    store_accumulators(((Strip*)shared)[warp], accumulators, C, tile_m + warp_m, tile_n + warp_n,
                       M, N, alpha, beta);
}

#endif
