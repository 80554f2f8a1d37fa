// Fragments of 16×16 elements, as WMMA of <mma.h> multiplies them, and a warp's accumulators to C.
// A warp has TILES_M × TILES_N fragments of C, WM × WN elements.
#pragma once

#include <mma.h>

using namespace nvcuda;

constexpr int SIDE = 16;                         // rows, columns and depth of one mma_sync
constexpr int TILES_M = WM / SIDE, TILES_N = WN / SIDE;

typedef wmma::fragment<wmma::matrix_a, SIDE, SIDE, SIDE, half, wmma::row_major> FragmentA;
typedef wmma::fragment<wmma::matrix_b, SIDE, SIDE, SIDE, half, wmma::row_major> FragmentB;
typedef wmma::fragment<wmma::accumulator, SIDE, SIDE, SIDE, float> FragmentC;

// What a warp multiplies at a time: SIDE along K.
struct Fragments {
    FragmentA a[TILES_M];
    FragmentB b[TILES_N];
};

struct Accumulators {
    FragmentC c[TILES_M][TILES_N];
};

__device__ __forceinline__ void clear(Accumulators& accumulators)
{
    #pragma unroll
    for (int i = 0; i < TILES_M; ++i)
        #pragma unroll
        for (int j = 0; j < TILES_N; ++j)
            wmma::fill_fragment(accumulators.c[i][j], 0.0f);
}

// Each fragment of A with each fragment of B.
__device__ __forceinline__ void multiply(Accumulators& accumulators, const Fragments& fragments)
{
    #pragma unroll
    for (int i = 0; i < TILES_M; ++i)
        #pragma unroll
        for (int j = 0; j < TILES_N; ++j)
            wmma::mma_sync(accumulators.c[i][j], fragments.a[i], fragments.b[j],
                           accumulators.c[i][j]);
}

__device__ __forceinline__ half combined(float sum, const half* c, float alpha, float beta)
{
    return __float2half(beta == 0.0f ? alpha * sum : alpha * sum + beta * __half2float(*c));
}

// C = alpha * sums + beta * C for the four elements from (row, col) on of C, M × N; those outside
// are left out. Where beta is 0, C is not read: it may hold anything, NaN included.
__device__ __forceinline__ void store_half4(half* C, int row, int col, int M, int N,
                                            const float* sums, float alpha, float beta)
{
    half* to = C + (size_t)row * N + col;
    if (N % 4 != 0) {
        for (int v = 0; v < 4; ++v)
            if (row < M && col + v < N)
                to[v] = combined(sums[v], to + v, alpha, beta);
    } else if (row < M && col < N) {             // all four, or none of them
        const float4 sum = *(const float4*)sums;
        uint2 four = make_uint2(0, 0);
        if (beta != 0.0f) four = *(const uint2*)to;
        half* c = (half*)&four;
        c[0] = combined(sum.x, c + 0, alpha, beta);
        c[1] = combined(sum.y, c + 1, alpha, beta);
        c[2] = combined(sum.z, c + 2, alpha, beta);
        c[3] = combined(sum.w, c + 3, alpha, beta);
        *(uint2*)to = four;
    }
}

// One row of a warp's fragments of C, in shared memory.
typedef float Strip[SIDE][WN + 8];               // 8 against bank conflicts

// A warp's accumulators to C, the first of them to (row, col). WMMA does not say which element of a
// fragment a lane has, so they go through a strip of shared memory, and are rounded once.
__device__ __forceinline__ void store_accumulators(Strip& strip, const Accumulators& accumulators,
                                                   half* C, int row, int col, int M, int N,
                                                   float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < TILES_M; ++i) {
        #pragma unroll
        for (int j = 0; j < TILES_N; ++j)
            wmma::store_matrix_sync(&strip[0][j * SIDE], accumulators.c[i][j], WN + 8,
                                    wmma::mem_row_major);
        __syncwarp();
        #pragma unroll 4
        for (int f = threadIdx.x % 32; f < SIDE * WN / 4; f += 32) {
            const int r = f / (WN / 4), c = f % (WN / 4) * 4;
            store_half4(C, row + i * SIDE + r, col + c, M, N, &strip[r][c], alpha, beta);
        }
        __syncwarp();                            // all have read it before it is filled again
    }
}
