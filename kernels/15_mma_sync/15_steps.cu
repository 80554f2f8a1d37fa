// 15  Steps to it: a measurement beside 15_mma_sync.cu, no rung of the ladder
// Idea:    the ideas of 15_mma_sync.cu apart, in FP16. As the macros are set here, it is that kernel.
//          PADDING 1: tiles are not swizzled; a row has 16 bytes more, as in 14. 2: 32 bytes more, so
//          that all rows begin at multiples of 32 bytes.
//          STRIPS 1: C is stored by way of strips of shared memory, as in 14.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)), with the dynamic
//          shared memory of STAGES times a PaddedStage.
// Takes:   what 15_mma_sync.cu takes in FP16 without a bias. From sm_80 on.

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
#define STAGES 4                                 // tiles of A and B in shared memory
#endif
#ifndef GROUP
#define GROUP 8                                  // rows of blocks that go through the grid together
#endif
#ifndef PADDING
#define PADDING 0                                // of a row of a tile, in chunks of 16 bytes
#endif
#ifndef STRIPS
#define STRIPS 0                                 // 1: C is stored through shared memory
#endif

#include "cp_async.cuh"
#include "mma_operands.cuh"
#include "mma_store_any.cuh"
#include "mma_tiles.cuh"
#include "shared_address.cuh"

// ---- tiles --------------------------------------------------------------------------------------

constexpr int A_ROW = A_CHUNKS + PADDING, B_ROW = B_CHUNKS + PADDING;      // chunks

struct PaddedStage {
    uint4 a[BM * A_ROW];
    uint4 b[BK * B_ROW];
};

__device__ __forceinline__ int padded_index_a(int row, int chunk)
{
    return PADDING ? row * A_ROW + chunk : index_in_a(row, chunk);
}

__device__ __forceinline__ int padded_index_b(int k, int chunk)
{
    return PADDING ? k * B_ROW + chunk : index_in_b(k, chunk);
}

// The index of a chunk so many chunks further in the same row.
__device__ __forceinline__ int further(int index, int chunks)
{
    return PADDING ? index + chunks : index ^ chunks;
}

// Start this thread's copies of a k_step.
__device__ __forceinline__ void copy_padded(PaddedStage& stage, const NextTiles& next, int k_step)
{
    const int a_chunk = threadIdx.x % A_CHUNKS, b_chunk = threadIdx.x % B_CHUNKS;
    #pragma unroll
    for (int i = A_COPIES * k_step / K_STEPS; i < A_COPIES * (k_step + 1) / K_STEPS; ++i)
        copy_chunk(stage.a + padded_index_a(copy_row<A_CHUNKS>(i), a_chunk),
                   next.a + (size_t)(i * (THREADS / A_CHUNKS)) * next.K,
                   next.k + a_chunk * CHUNK < next.K &&
                   next.tile_m + copy_row<A_CHUNKS>(i) < next.M);
    #pragma unroll
    for (int i = B_COPIES * k_step / K_STEPS; i < B_COPIES * (k_step + 1) / K_STEPS; ++i)
        copy_chunk(stage.b + padded_index_b(copy_row<B_CHUNKS>(i), b_chunk),
                   next.b + (size_t)(i * (THREADS / B_CHUNKS)) * next.N,
                   next.tile_n + b_chunk * CHUNK < next.N &&
                   next.k + copy_row<B_CHUNKS>(i) < next.K);
}

// The same of any matrix, element by element: for edges, not for speed.
__device__ __forceinline__ void load_elements(PaddedStage& stage, const NextTiles& next, int k_step)
{
    Element *a = (Element*)stage.a, *b = (Element*)stage.b;
    #pragma unroll 1
    for (int i = BM * BK * k_step / K_STEPS + threadIdx.x; i < BM * BK * (k_step + 1) / K_STEPS;
         i += THREADS) {
        const int row = i / BK, k = i % BK;
        const bool in_bounds = next.tile_m + row < next.M && next.k + k < next.K;
        a[padded_index_a(row, k / CHUNK) * CHUNK + k % CHUNK] =
            in_bounds ? next.A[(size_t)(next.tile_m + row) * next.K + next.k + k] : 0;
    }
    #pragma unroll 1
    for (int i = BK * BN * k_step / K_STEPS + threadIdx.x; i < BK * BN * (k_step + 1) / K_STEPS;
         i += THREADS) {
        const int k = i / BN, column = i % BN;
        const bool in_bounds = next.k + k < next.K && next.tile_n + column < next.N;
        b[padded_index_b(k, column / CHUNK) * CHUNK + column % CHUNK] =
            in_bounds ? next.B[(size_t)(next.k + k) * next.N + next.tile_n + column] : 0;
    }
}

// ---- products -----------------------------------------------------------------------------------

// What a warp multiplies in a k_step of a stage, from its lane's first chunks on.
__device__ __forceinline__ void load_padded(Fragments& fragments, unsigned stage, int index_a,
                                            int index_b, int k_step)
{
    #pragma unroll
    for (int i = 0; i < TILES_M; ++i)
        ldmatrix(fragments.a[i], stage + 16 * (further(index_a, 2 * k_step) + MMA_M * i * A_ROW));
    const unsigned tile = stage + sizeof(PaddedStage::a) + 16 * k_step * MMA_K * B_ROW;
    #pragma unroll
    for (int j = 0; j < TILES_N; j += 2)
        ldmatrix_trans(fragments.b[j], fragments.b[j + 1], tile + 16 * further(index_b, j));
}

__device__ __forceinline__ void multiply(Accumulators& accumulators, const Fragments& fragments)
{
    #pragma unroll
    for (int i = 0; i < TILES_M; ++i)
        #pragma unroll
        for (int turn = 0; turn < TILES_N; ++turn) {
            const int j = i % 2 ? TILES_N - 1 - turn : turn;
            mma(accumulators[i][j], fragments.a[i], fragments.b[j]);
        }
}

// accumulators += A @ B for a warp's part of the block's tile. ALIGNED: rows of A and B begin at
// multiples of 16 bytes.
template <bool ALIGNED>
__device__ __forceinline__ void mainloop(Accumulators& accumulators, PaddedStage* stages,
                                         NextTiles next, int warp_m, int warp_n)
{
    #pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int k_step = 0; k_step < K_STEPS; ++k_step) {
            if (ALIGNED) copy_padded(stages[stage], next, k_step);
            else load_elements(stages[stage], next, k_step);
        }
        cp_async_commit();
        next.advance();
    }
    cp_async_wait<STAGES - 2>();
    __syncthreads();                             // the first stage is complete

    const int lane = threadIdx.x % 32;
    const int index_a = padded_index_a(warp_m + lane % 16, lane / 16);
    const int index_b = padded_index_b(lane % 16, warp_n / CHUNK + lane / 16);
    const unsigned first_address = shared_address(stages);
    unsigned read_address = first_address;       // of the stage that is multiplied
    int write_stage = STAGES - 1;                // the stage that is filled
    Fragments fragments[2];                      // of this k_step, and of the next
    load_padded(fragments[0], read_address, index_a, index_b, 0);
    #pragma unroll 1
    for (int k_left = next.K; k_left > 0; k_left -= BK) {
        #pragma unroll
        for (int k_step = 0; k_step < K_STEPS; ++k_step) {
            if (k_step == K_STEPS - 1) {
                cp_async_wait<STAGES - 3>();
                __syncthreads();                 // the next stage is complete, this one is read
                read_address = read_address == first_address + (STAGES - 1) * sizeof(PaddedStage)
                             ? first_address : read_address + sizeof(PaddedStage);
            }
            load_padded(fragments[(k_step + 1) % 2], read_address, index_a, index_b,
                        (k_step + 1) % K_STEPS);
            if (ALIGNED) copy_padded(stages[write_stage], next, k_step);
            multiply(accumulators, fragments[k_step % 2]);
            if (!ALIGNED) load_elements(stages[write_stage], next, k_step);
        }
        cp_async_commit();
        next.advance();
        write_stage = write_stage == STAGES - 1 ? 0 : write_stage + 1;
    }
    cp_async_wait<0>();
}

// ---- C ------------------------------------------------------------------------------------------

// 16 rows of a warp's part of C, with the padding of 14.
typedef float PaddedStrip[16][WN + 8];

// A warp's part of C as in 14, four neighbours at a time, where beta is 0 and N a multiple of 4.
__device__ __forceinline__ void store_strips(PaddedStrip& strip, Result* C,
                                             const Accumulators& accumulators, int row, int col,
                                             int M, int N, float alpha)
{
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < TILES_M; ++i) {
        #pragma unroll
        for (int j = 0; j < TILES_N; ++j)
            #pragma unroll
            for (int lower = 0; lower < 2; ++lower)
                *(float2*)&strip[8 * lower + lane / 4][8 * j + lane % 4 * 2] =
                    make_float2(accumulators[i][j][2 * lower], accumulators[i][j][2 * lower + 1]);
        __syncwarp();
        #pragma unroll 4
        for (int f = lane; f < 16 * WN / 4; f += 32) {
            const int strip_row = f / (WN / 4), strip_col = f % (WN / 4) * 4;
            const float4 four = *(const float4*)&strip[strip_row][strip_col];
            Result4 result;
            combine(result.c[0], four.x, alpha, 0.0f, 0.0f);
            combine(result.c[1], four.y, alpha, 0.0f, 0.0f);
            combine(result.c[2], four.z, alpha, 0.0f, 0.0f);
            combine(result.c[3], four.w, alpha, 0.0f, 0.0f);
            const int r = row + 16 * i + strip_row, c = col + strip_col;
            if (r < M && c < N) *(Result4*)(C + (size_t)r * N + c) = result;
        }
        __syncwarp();                            // all have read it before it is filled again
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
mma_product(const Element* __restrict__ A, const Element* __restrict__ B, Result* __restrict__ C,
            int M, int N, int K, float alpha, float beta, const float* __restrict__ bias)
{
    extern __shared__ __align__(128) char shared[];

    // Tiles are numbered as in 10, so that blocks that run at a time share rows of A and columns of
    // B in L2.
    const int number = blockIdx.y * gridDim.x + blockIdx.x;
    const int first_row = number / (GROUP * gridDim.x) * GROUP;        // in tiles, of this group
    const int rows = min((int)gridDim.y - first_row, GROUP);   // the last group may have fewer
    const int in_group = number - first_row * gridDim.x;
    const int tile_m = (first_row + in_group % rows) * BM, tile_n = in_group / rows * BN;
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;

    Accumulators accumulators = {};
    const NextTiles next = {A, B, M, N, K, tile_m, tile_n, 0,
        A + (size_t)(tile_m + threadIdx.x / A_CHUNKS) * K + threadIdx.x % A_CHUNKS * CHUNK,
        B + (size_t)(threadIdx.x / B_CHUNKS) * N + tile_n + threadIdx.x % B_CHUNKS * CHUNK};
    if (N % CHUNK == 0 && K % CHUNK == 0)
        mainloop<true>(accumulators, (PaddedStage*)shared, next, warp_m, warp_n);
    else
        mainloop<false>(accumulators, (PaddedStage*)shared, next, warp_m, warp_n);

    const bool in_fours = beta == 0.0f && N % 4 == 0;
    if (in_fours && !STRIPS) {
        store_fours(C, accumulators, tile_m + warp_m, tile_n + warp_n, M, N, alpha, bias);
    } else {                                     // strips lie where the stages were
        __syncthreads();
        if (in_fours)
            store_strips(((PaddedStrip*)shared)[warp], C, accumulators, tile_m + warp_m,
                         tile_n + warp_n, M, N, alpha);
        else
            store_any(((Strip*)shared)[warp], C, accumulators, tile_m + warp_m, tile_n + warp_n,
                      M, N, alpha, beta, bias);
    }
}
