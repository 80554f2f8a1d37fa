// Pieces of 16×16 elements, as WMMA of <mma.h> multiplies them, and the way of a warp's sums to C. A
// warp has DOWN × ACROSS pieces of C, WM × WN elements.
#pragma once

using namespace nvcuda;

#define PIECE 16                                 // rows, columns and depth of one mma_sync
#define PAD 8                                    // elements at a row's end, against bank conflicts
#define DOWN (WM / PIECE)
#define ACROSS (WN / PIECE)

typedef wmma::fragment<wmma::matrix_a, PIECE, PIECE, PIECE, half, wmma::row_major> PieceOfA;
typedef wmma::fragment<wmma::matrix_b, PIECE, PIECE, PIECE, half, wmma::row_major> PieceOfB;
typedef wmma::fragment<wmma::accumulator, PIECE, PIECE, PIECE, float> PieceOfC;

// What a warp multiplies at a time, and its sums.
struct Pieces {
    PieceOfA a[DOWN];
    PieceOfB b[ACROSS];
};

struct Sums {
    PieceOfC c[DOWN][ACROSS];
};

// One row of a warp's pieces of C, on the way out.
typedef float Strip[PIECE][WN + PAD];

__device__ __forceinline__ void set_to_zero(Sums& sums)
{
    #pragma unroll
    for (int i = 0; i < DOWN; ++i)
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j)
            wmma::fill_fragment(sums.c[i][j], 0.0f);
}

// Each piece of A with each piece of B.
__device__ __forceinline__ void multiply(Sums& sums, const Pieces& mine)
{
    #pragma unroll
    for (int i = 0; i < DOWN; ++i)
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j)
            wmma::mma_sync(sums.c[i][j], mine.a[i], mine.b[j], sums.c[i][j]);
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

// My warp's sums to C, the first of them to (row, col). Which element of a piece a lane has is not
// said anywhere, so they go through a strip of shared memory, and are rounded once on the way.
__device__ __forceinline__ void store(Strip& strip, const Sums& sums, half* C, int row, int col,
                                      int M, int N, float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < DOWN; ++i) {
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j)
            wmma::store_matrix_sync(&strip[0][j * PIECE], sums.c[i][j], WN + PAD,
                                    wmma::mem_row_major);
        __syncwarp();
        #pragma unroll 4
        for (int f = threadIdx.x % 32; f < PIECE * WN / 4; f += 32) {
            const int r = f / (WN / 4), c = f % (WN / 4) * 4;
            store_four(C, row + i * PIECE + r, col + c, M, N, &strip[r][c], alpha, beta);
        }
        __syncwarp();                            // all have read it before it is filled anew
    }
}
