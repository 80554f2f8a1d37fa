// 14  Tensor cores through WMMA
// Idea:    the lanes of a warp hold pieces of 16×16 together, and one instruction multiplies two.
//          STAGES 0: a block is one warp, and its pieces come straight from global memory.
//          STAGES 1: the warps of a block share tiles, brought through registers to shared memory.
//          STAGES 2 and more: asynchronous copies fill so many pairs of tiles, as in rung 09.
// Before:  09_double_buffering.cu multiplied in FP32, each lane for itself.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)), with the dynamic
//          shared memory of STAGES times a Stage, or of a Strip for each warp if that is more.
//          STAGES 0: BM = WM, BN = WN, BK = 16.
// Takes:   any M, N, K; A, B and C float16, row-major; alpha, beta and all sums float32.
//          C = alpha * A @ B + beta * C, rounded to float16 once, at the end. A, B and C begin at
//          multiples of 32 bytes. Where N or K is no multiple of 8, single elements are brought
//          instead of eight at a time. From sm_70 on, STAGES 2 and more from sm_80 on.

#include <mma.h>
#include "async_copy.cuh"
using namespace nvcuda;

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 256                                   // columns
#endif
#ifndef BK
#define BK 64                                    // how far along K one step goes
#endif
#ifndef WM
#define WM 64                                    // rows of C that a warp computes
#endif
#ifndef WN
#define WN 64                                    // columns
#endif
#ifndef STAGES
#define STAGES 2
#endif
#define PIECE 16                                 // rows, columns and depth of one mma_sync
#define PAD 8                                    // elements at a row's end, against bank conflicts
#define DOWN (WM / PIECE)                        // pieces of C that a warp has, downwards
#define ACROSS (WN / PIECE)                      // and across
#define WARPS ((BM / WM) * (BN / WN))
#define THREADS (32 * WARPS)

typedef wmma::fragment<wmma::matrix_a, PIECE, PIECE, PIECE, half, wmma::row_major> PieceOfA;
typedef wmma::fragment<wmma::matrix_b, PIECE, PIECE, PIECE, half, wmma::row_major> PieceOfB;
typedef wmma::fragment<wmma::accumulator, PIECE, PIECE, PIECE, float> Sums;

// One row of a warp's pieces of C, on the way out: which element of a piece a lane has is not said
// anywhere, so they go through shared memory.
typedef float Strip[PIECE][WN + PAD];

struct Stage {
    half a[BM][BK + PAD];
    half b[BK][BN + PAD];
};

#if STAGES == 0

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

#else

// A tile of ROWS×COLUMNS from (row, col) on of a matrix X of rows × cols into shared memory, eight
// elements at a time. INSIDE: the caller knows that all of it lies in X. Otherwise eight lie inside
// or outside together, for cols is a multiple of eight, and what is outside counts as zero.
template <bool INSIDE, int ROWS, int COLUMNS>
__device__ __forceinline__ void bring_eights(half (&tile)[ROWS][COLUMNS + PAD], const half* X,
                                             int row, int col, int rows, int cols)
{
    constexpr int COUNT = ROWS * COLUMNS / 8 / THREADS;
    static_assert(ROWS * COLUMNS / 8 % THREADS == 0, "each thread brings as many as the others");
#if STAGES == 1
    uint4 eights[COUNT];                         // all loads are under way before the first store
#endif
    #pragma unroll
    for (int e = 0; e < COUNT; ++e) {
        const int i = threadIdx.x + e * THREADS;
        const int r = i / (COLUMNS / 8), c = i % (COLUMNS / 8) * 8;
        const half* from = X + (size_t)(row + r) * cols + col + c;
        const bool inside = INSIDE || (row + r < rows && col + c < cols);
#if STAGES == 1
        eights[e] = inside ? *(const uint4*)from : make_uint4(0, 0, 0, 0);
#else
        if (inside)
            copy_async<16>((float*)&tile[r][c], (const float*)from);
        else
            *(uint4*)&tile[r][c] = make_uint4(0, 0, 0, 0);
#endif
    }
#if STAGES == 1
    #pragma unroll
    for (int e = 0; e < COUNT; ++e) {
        const int i = threadIdx.x + e * THREADS;
        *(uint4*)&tile[i / (COLUMNS / 8)][i % (COLUMNS / 8) * 8] = eights[e];
    }
#endif
}

// The same of any matrix, element by element.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void bring_elements(half (&tile)[ROWS][COLUMNS + PAD], const half* X,
                                               int row, int col, int rows, int cols)
{
    for (int i = threadIdx.x; i < ROWS * COLUMNS; i += THREADS) {
        const int r = row + i / COLUMNS, c = col + i % COLUMNS;
        tile[i / COLUMNS][i % COLUMNS] =
            r < rows && c < cols ? X[(size_t)r * cols + c] : __float2half(0.0f);
    }
}

// Start to bring the pair of tiles that begins at tile_k. Past the end of K there is none.
__device__ __forceinline__ void bring(Stage& stage, const half* A, const half* B,
                                      int top, int left, int tile_k, int M, int N, int K)
{
    if (tile_k < K) {
        if (N % 8 != 0 || K % 8 != 0) {
            bring_elements<BM, BK>(stage.a, A, top, tile_k, M, K);
            bring_elements<BK, BN>(stage.b, B, tile_k, left, K, N);
        } else if (top + BM <= M && left + BN <= N && tile_k + BK <= K) {
            bring_eights<true, BM, BK>(stage.a, A, top, tile_k, M, K);
            bring_eights<true, BK, BN>(stage.b, B, tile_k, left, K, N);
        } else {
            bring_eights<false, BM, BK>(stage.a, A, top, tile_k, M, K);
            bring_eights<false, BK, BN>(stage.b, B, tile_k, left, K, N);
        }
    }
#if STAGES > 1
    commit_copies();
#endif
}

// My warp's pieces at depth k of a pair of tiles, from row y and column x of the block's tile on.
__device__ __forceinline__ void load_pieces(PieceOfA (&a)[DOWN], PieceOfB (&b)[ACROSS],
                                            const Stage& stage, int k, int y, int x)
{
    #pragma unroll
    for (int i = 0; i < DOWN; ++i)
        wmma::load_matrix_sync(a[i], &stage.a[y + i * PIECE][k], BK + PAD);
    #pragma unroll
    for (int j = 0; j < ACROSS; ++j)
        wmma::load_matrix_sync(b[j], &stage.b[k][x + j * PIECE], BN + PAD);
}

#endif

// Each piece of A with each piece of B.
__device__ __forceinline__ void multiply(Sums (&sums)[DOWN][ACROSS],
                                         const PieceOfA (&a)[DOWN], const PieceOfB (&b)[ACROSS])
{
    #pragma unroll
    for (int i = 0; i < DOWN; ++i)
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j)
            wmma::mma_sync(sums[i][j], a[i], b[j], sums[i][j]);
}

__device__ __forceinline__ half combined(float sum, const half* c, float alpha, float beta)
{
    return __float2half(beta == 0.0f ? alpha * sum : alpha * sum + beta * __half2float(*c));
}

// C = alpha * sums + beta * C for the four elements from (row, col) on of C, M × N; those outside
// are left out. Where beta is 0, C is not read: it may hold anything, NaN included.
__device__ __forceinline__ void store_four(half* C, int row, int col, int M, int N,
                                           const float* sums, float alpha, float beta)
{
    half* here = C + (size_t)row * N + col;
    if (N % 4 != 0) {
        for (int v = 0; v < 4; ++v)
            if (row < M && col + v < N)
                here[v] = combined(sums[v], here + v, alpha, beta);
    } else if (row < M && col < N) {             // all four, or none of them
        const float4 sum = *(const float4*)sums;
        uint2 four = make_uint2(0, 0);
        if (beta != 0.0f) four = *(const uint2*)here;
        half* c = (half*)&four;
        c[0] = combined(sum.x, c + 0, alpha, beta);
        c[1] = combined(sum.y, c + 1, alpha, beta);
        c[2] = combined(sum.z, c + 2, alpha, beta);
        c[3] = combined(sum.w, c + 3, alpha, beta);
        *(uint2*)here = four;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
wmma_product(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C,
             int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(128) char shared[];

    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the block's corner of C
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int y = warp / (BN / WN) * WM;                       // my warp's first row of its tile
    const int x = warp % (BN / WN) * WN;                       // and its first column

    Sums sums[DOWN][ACROSS];
    #pragma unroll
    for (int i = 0; i < DOWN; ++i)
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j)
            wmma::fill_fragment(sums[i][j], 0.0f);

#if STAGES == 0
    half (*patch)[PIECE + PAD] = (half (*)[PIECE + PAD])shared;
    PieceOfA a[DOWN];
    PieceOfB b[ACROSS];
    for (int k = 0; k < K; k += PIECE) {
        #pragma unroll
        for (int i = 0; i < DOWN; ++i)
            load_piece(a[i], patch, A, top + i * PIECE, k, M, K);
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j)
            load_piece(b[j], patch, B, k, left + j * PIECE, K, N);
        multiply(sums, a, b);
    }
#elif STAGES == 1
    Stage& stage = *(Stage*)shared;
    PieceOfA a[DOWN];
    PieceOfB b[ACROSS];
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        bring(stage, A, B, top, left, tile_k, M, N, K);
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; k += PIECE) {
            load_pieces(a, b, stage, k, y, x);
            multiply(sums, a, b);
        }
        __syncthreads();                         // all have read it before it is filled anew
    }
#else
    Stage* stages = (Stage*)shared;
    for (int s = 0; s < STAGES - 1; ++s)
        bring(stages[s], A, B, top, left, s * BK, M, N, K);

    PieceOfA a[DOWN];
    PieceOfB b[ACROSS];
    int now = 0, last = STAGES - 1;              // what is multiplied, and what was before
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();                         // this stage is here, and the last one is read
        #pragma unroll
        for (int k = 0; k < BK; k += PIECE) {
            load_pieces(a, b, stages[now], k, y, x);
            if (k == 0)                          // the copies have the whole stage's time
                bring(stages[last], A, B, top, left, tile_k + (STAGES - 1) * BK, M, N, K);
            multiply(sums, a, b);
        }
        last = now;
        now = now + 1 == STAGES ? 0 : now + 1;
    }
    __syncthreads();                             // the stages are free: the strips lie there too
#endif

    Strip& strip = ((Strip*)shared)[warp];
    #pragma unroll
    for (int i = 0; i < DOWN; ++i) {
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j)
            wmma::store_matrix_sync(&strip[0][j * PIECE], sums[i][j], WN + PAD,
                                    wmma::mem_row_major);
        __syncwarp();
        #pragma unroll 4
        for (int f = lane; f < PIECE * WN / 4; f += 32) {
            const int r = f / (WN / 4), c = f % (WN / 4) * 4;
            store_four(C, top + y + i * PIECE + r, left + x + c, M, N, &strip[r][c], alpha, beta);
        }
        __syncwarp();                            // all have read it before it is filled anew
    }
}
