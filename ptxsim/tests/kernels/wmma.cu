// Tensor cores through nvcuda::wmma
// Idea:    a warp holds 16×16 pieces of A and B in its registers together and multiplies them with
//          one instruction. wmma_plain loads them from global memory; in wmma_staged the warps of a
//          block load the tiles that they share into shared memory first.
// Before:  08_warp_tiling.cu gave each warp a tile, and each thread of it a part to compute alone.
// Launch:  wmma_plain: block (32), grid (N / 16, M / 16).
//          wmma_staged: block (128), grid (ceil(N / 32), ceil(M / 32)): 2×2 warps of 16×16.
// Takes:   A and B float16, C float32, row-major. C = alpha * A @ B + beta * C. wmma_plain:
//          M, N and K multiples of 16; wmma_staged: any.

#include <mma.h>
using namespace nvcuda;

#define TILE 16
#define BLOCK 32                    // rows and columns of C per block of wmma_staged
#define PAD 8                       // halves at the end of a row, so that rows begin in other banks

typedef wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, half, wmma::row_major> FragmentA;
typedef wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, half, wmma::row_major> FragmentB;
typedef wmma::fragment<wmma::accumulator, TILE, TILE, TILE, float> FragmentC;

extern "C" __global__ void __launch_bounds__(32)
wmma_plain(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C,
           int M, int N, int K, float alpha, float beta)
{
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    FragmentA a;
    FragmentB b;
    FragmentC sum, before;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < K; k += TILE) {
        wmma::load_matrix_sync(a, A + (size_t)row * K + k, K);
        wmma::load_matrix_sync(b, B + (size_t)k * N + col, N);
        wmma::mma_sync(sum, a, b, sum);
    }

    float* corner = C + (size_t)row * N + col;
    if (beta != 0.0f) wmma::load_matrix_sync(before, corner, N, wmma::mem_row_major);
    for (int i = 0; i < sum.num_elements; i++) {
        sum.x[i] *= alpha;
        if (beta != 0.0f) sum.x[i] += beta * before.x[i];
    }
    wmma::store_matrix_sync(corner, sum, N, wmma::mem_row_major);
}

extern "C" __global__ void __launch_bounds__(128)
wmma_staged(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C,
            int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(32) half a_tile[BLOCK][TILE + PAD];
    __shared__ __align__(32) half b_tile[TILE][BLOCK + PAD];
    __shared__ __align__(32) float c_tile[BLOCK][BLOCK + PAD];

    const int warp = threadIdx.x / 32;
    const int warp_row = warp / 2 * TILE, warp_col = warp % 2 * TILE;
    const int top = blockIdx.y * BLOCK, left = blockIdx.x * BLOCK;
    FragmentA a;
    FragmentB b;
    FragmentC sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int tile_k = 0; tile_k < K; tile_k += TILE) {
        for (int i = threadIdx.x; i < BLOCK * TILE; i += 128) {
            const int row = i / TILE, k = i % TILE;
            const bool inside = top + row < M && tile_k + k < K;
            a_tile[row][k] = inside ? A[(size_t)(top + row) * K + tile_k + k] : half(0.0f);
        }
        for (int i = threadIdx.x; i < TILE * BLOCK; i += 128) {
            const int k = i / BLOCK, col = i % BLOCK;
            const bool inside = tile_k + k < K && left + col < N;
            b_tile[k][col] = inside ? B[(size_t)(tile_k + k) * N + left + col] : half(0.0f);
        }
        __syncthreads();
        wmma::load_matrix_sync(a, &a_tile[warp_row][0], TILE + PAD);
        wmma::load_matrix_sync(b, &b_tile[0][warp_col], BLOCK + PAD);
        wmma::mma_sync(sum, a, b, sum);
        __syncthreads();
    }

    wmma::store_matrix_sync(&c_tile[warp_row][warp_col], sum, BLOCK + PAD, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < BLOCK * BLOCK; i += 128) {
        const int row = i / BLOCK, col = i % BLOCK;
        if (top + row >= M || left + col >= N) continue;
        float* c = C + (size_t)(top + row) * N + left + col;
        *c = beta == 0.0f ? alpha * c_tile[row][col] : alpha * c_tile[row][col] + beta * *c;
    }
}
