// 14  Tensor cores through WMMA
// Idea:    the lanes of a warp hold pieces of 16×16 together, and one instruction multiplies two.
//          STAGES 0, the plain kernel: a block is one warp, and its pieces come straight from
//          global memory.
//          STAGES 3 and more: the warps of a block share tiles. Asynchronous copies fill so many
//          pairs of tiles in turn, some with each step, and a warp reads its next pieces while it
//          multiplies others.
// Before:  09_double_buffering.cu multiplied in FP32, each lane for itself.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)), with the dynamic
//          shared memory of STAGES times a Stage, or of a Strip for each warp if that is more.
//          STAGES 0: BM = WM, BN = WN, BK = 16.
// Takes:   any M, N, K; A, B and C float16, row-major; alpha, beta and all sums float32.
//          C = alpha * A @ B + beta * C, rounded to float16 once, at the end. A, B and C begin at
//          multiples of 32 bytes. Where N or K is no multiple of 8, single elements are brought
//          instead of eight at a time. From sm_70 on, STAGES 3 and more from sm_80 on.

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
#define STAGES 3
#endif
#define THREADS (32 * (BM / WM) * (BN / WN))

#include <mma.h>
#include "async_copy.cuh"
#include "pieces.cuh"

#if STAGES == 0  // ------------------------------------------------------------ the plain kernel

// The piece from (row, col) on of a matrix X of rows × cols. WMMA loads whole pieces with rows that
// begin at multiples of 16 bytes. Any other is copied to `patch` first, with zeros outside X.
template <class Piece>
__device__ __forceinline__ void load_piece(Piece& piece, half (*patch)[PIECE + PAD], const half* X,
                                           int row, int col, int rows, int cols)
{
    if (row + PIECE <= rows && col + PIECE <= cols && cols % 8 == 0) {
        wmma::load_matrix_sync(piece, X + (size_t)row * cols + col, cols);
        return;
    }
    for (int i = threadIdx.x; i < PIECE * PIECE; i += 32) {
        const int r = row + i / PIECE, c = col + i % PIECE;
        patch[i / PIECE][i % PIECE] =
            r < rows && c < cols ? X[(size_t)r * cols + c] : __float2half(0.0f);
    }
    __syncwarp();
    wmma::load_matrix_sync(piece, &patch[0][0], PIECE + PAD);
    __syncwarp();                                // all have read it before it is filled anew
}

extern "C" __global__ void __launch_bounds__(THREADS)
wmma_product(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C,
             int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(128) char shared[];
    half (*patch)[PIECE + PAD] = (half (*)[PIECE + PAD])shared;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the warp's corner of C

    Sums sums;
    set_to_zero(sums);
    for (int k = 0; k < K; k += PIECE) {
        Pieces mine;
        #pragma unroll
        for (int i = 0; i < DOWN; ++i)
            load_piece(mine.a[i], patch, A, top + i * PIECE, k, M, K);
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j)
            load_piece(mine.b[j], patch, B, k, left + j * PIECE, K, N);
        multiply(sums, mine);
    }
    store(*(Strip*)shared, sums, C, top, left, M, N, alpha, beta);
}

#else  // ---------------------------------------------------------------------- the staged kernel

static_assert(STAGES >= 3, "one is multiplied, the next one is there, another is filled");
#define PARTS (BK / PIECE)                       // a tile is brought in so many parts

// A pair of tiles.
struct Stage {
    half a[BM][BK + PAD];
    half b[BK][BN + PAD];
};

// The two matrices, the block's corner of C, and where the next pair of tiles begins.
struct Source {
    const half *A, *B;
    int M, N, K, top, left, tile_k;
    const half *a, *b;                           // my first eight elements of that pair
};

// Of a tile with so many columns, my first eight elements: their row, and the first one's column.
__device__ __forceinline__ int my_row(int columns) { return threadIdx.x / (columns / 8); }
__device__ __forceinline__ int my_col(int columns) { return threadIdx.x % (columns / 8) * 8; }

// Start to copy eight elements, or to put zeros in their place. They go past L1.
__device__ __forceinline__ void copy_eight(half* to, const half* from, bool inside)
{
    const unsigned place = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(place), "l"(from), "r"(inside ? 16 : 0) : "memory");
}

// Start my copies of one part of a tile, a few of its rows. My first eight elements of the tile come
// from `from`, and `rows` of the matrix are left from there on.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void bring_eights(half (&tile)[ROWS][COLUMNS + PAD], int part,
                                             const half* from, int stride, int rows, bool inside)
{
    constexpr int STEP = THREADS / (COLUMNS / 8);              // rows, an eight for each thread
    static_assert(ROWS / PARTS % STEP == 0, "each thread brings as many as the others");
    half* to = &tile[my_row(COLUMNS)][my_col(COLUMNS)];
    #pragma unroll
    for (int below = 0; below < ROWS / PARTS; below += STEP) {
        const int row = part * (ROWS / PARTS) + below;
        copy_eight(to + row * (COLUMNS + PAD), from + (size_t)row * stride, inside && row < rows);
    }
}

// The same of any matrix X of rows × cols, element by element. The tile begins at (row, col).
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void bring_elements(half (&tile)[ROWS][COLUMNS + PAD], int part,
                                               const half* X, int row, int col, int rows, int cols)
{
    constexpr int COUNT = ROWS / PARTS * COLUMNS;
    #pragma unroll 1
    for (int i = part * COUNT + threadIdx.x; i < (part + 1) * COUNT; i += THREADS) {
        const int r = row + i / COLUMNS, c = col + i % COLUMNS;
        tile[i / COLUMNS][i % COLUMNS] =
            r < rows && c < cols ? X[(size_t)r * cols + c] : __float2half(0.0f);
    }
}

// Start to bring one part of the next pair of tiles, and after the last part go on to the pair after
// it. What lies outside of A and B is zero. EIGHTS: rows of A and B have a multiple of eight
// elements, so that each eight lie inside or outside together.
template <bool EIGHTS>
__device__ __forceinline__ void bring(Stage& stage, int part, Source& from)
{
    if (EIGHTS) {
        bring_eights<BM, BK>(stage.a, part, from.a, from.K, from.M - from.top - my_row(BK),
                             from.tile_k + my_col(BK) < from.K);
        bring_eights<BK, BN>(stage.b, part, from.b, from.N, from.K - from.tile_k - my_row(BN),
                             from.left + my_col(BN) < from.N);
    } else {
        bring_elements<BM, BK>(stage.a, part, from.A, from.top, from.tile_k, from.M, from.K);
        bring_elements<BK, BN>(stage.b, part, from.B, from.tile_k, from.left, from.K, from.N);
    }
    if (part < PARTS - 1) return;
    commit_copies();
    from.a += BK;
    from.b += (size_t)BK * from.N;
    from.tile_k += BK;
}

// My warp's pieces at depth k of a pair of tiles, from row y and column x of the block's tile on.
__device__ __forceinline__ void load_pieces(Pieces& mine, const Stage& stage, int k, int y, int x)
{
    #pragma unroll
    for (int i = 0; i < DOWN; ++i)
        wmma::load_matrix_sync(mine.a[i], &stage.a[y + i * PIECE][k], BK + PAD);
    #pragma unroll
    for (int j = 0; j < ACROSS; ++j)
        wmma::load_matrix_sync(mine.b[j], &stage.b[k][x + j * PIECE], BN + PAD);
}

// sums += A @ B for my warp's part, which begins at row y and column x of the block's tile.
template <bool EIGHTS>
__device__ __forceinline__ void add_product(Sums& sums, Stage* stages, Source& from, int y, int x)
{
    for (int s = 0; s < STAGES - 1; ++s)
        #pragma unroll
        for (int part = 0; part < PARTS; ++part)
            bring<EIGHTS>(stages[s], part, from);
    wait_for_copies<STAGES - 2>();
    __syncthreads();                             // the first stage is here

    Pieces mine[2];                              // that are multiplied, and the next ones
    load_pieces(mine[0], stages[0], 0, y, x);
    int now = 0, free = STAGES - 1;              // which stage is multiplied, and which is filled
    for (int tile_k = 0, K = from.K; tile_k < K; tile_k += BK) {
        const int next = now + 1 < STAGES ? now + 1 : 0;
        #pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            if (part < PARTS - 1) {
                load_pieces(mine[(part + 1) % 2], stages[now], (part + 1) * PIECE, y, x);
            } else {
                wait_for_copies<STAGES - 3>();
                __syncthreads();                 // the next stage is here, and all have read `now`
                load_pieces(mine[0], stages[next], 0, y, x);
            }
            bring<EIGHTS>(stages[free], part, from);
            multiply(sums, mine[part % 2]);
        }
        free = now;
        now = next;
    }
    wait_for_copies<0>();
    __syncthreads();                             // the stages are free
}

extern "C" __global__ void __launch_bounds__(THREADS)
wmma_product(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C,
             int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(128) char shared[];

    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the block's corner of C
    const int warp = threadIdx.x / 32;
    const int y = warp / (BN / WN) * WM;                       // my warp's first row of its tile
    const int x = warp % (BN / WN) * WN;                       // and its first column

    Source from = {A, B, M, N, K, top, left, 0,
                   A + (size_t)(top + my_row(BK)) * K + my_col(BK),
                   B + (size_t)my_row(BN) * N + left + my_col(BN)};
    Sums sums;
    set_to_zero(sums);
    if (N % 8 == 0 && K % 8 == 0)
        add_product<true>(sums, (Stage*)shared, from, y, x);
    else
        add_product<false>(sums, (Stage*)shared, from, y, x);

    // The strips lie where the stages were.
    store(((Strip*)shared)[warp], sums, C, top + y, left + x, M, N, alpha, beta);
}

#endif
