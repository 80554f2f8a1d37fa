// 09  A by rows: a measurement beside 09_double_buffering.cu, no rung of the ladder
// Idea:    A's tile lies in shared memory as it does in A, row by row, and is not transposed. Then
//          an asynchronous copy moves 16 bytes of A as it does of B. A thread reads four k of a
//          row with a load of 16 bytes: as many loads as from a transposed tile. Its rows are four
//          apart, so that the rows that a warp reads with one load lie in different banks.
//          BY_ROWS 0: transposed, as in 09.
// Before:  09_double_buffering.cu copied A 4 bytes at a time, and computed every address anew in
//          each step. Here a thread keeps the addresses of its copies.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes. Where N or K is no multiple of 4, and at the edges of A and B,
//          single elements are moved instead. STAGES 2 and more: from sm_80 on.

#include "cp_async.cuh"
#include "float4.cuh"
#include "shared_address.cuh"
#include "staging.cuh"

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 128                                   // columns
#endif
#ifndef BK
#define BK 8                                     // how far along K one step goes
#endif
#ifndef WM
#define WM 32                                    // rows of C that a warp computes
#endif
#ifndef WN
#define WN 64                                    // columns
#endif
#ifndef STAGES
#define STAGES 2                                 // 1: through registers; else buffers for cp.async
#endif
#ifndef BY_ROWS
#define BY_ROWS 1                                // 0: A's tile is transposed
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2                             // blocks that must fit on one SM
#endif
#define PAD 4                                    // of a transposed tile, against bank conflicts
#define TILES_M (WM / 16)                        // tiles of 4×4 of a thread: one below the other
#define TILES_N (WN / 32)                        // and side by side
#define THREADS (32 * (BM / WM) * (BN / WN))
#define A_FLOAT4 (BM * BK / 4 / THREADS)         // loads of 16 bytes by each thread, of A's tile
#define B_FLOAT4 (BK * BN / 4 / THREADS)         // and of B's
#define BUFFERS (STAGES == 1 ? 2 : STAGES)
#define ROW_STRIDE (BY_ROWS ? 4 : 1)             // rows from one of a thread's to the next

#if BY_ROWS
typedef float ATile[BM][BK];
#else
typedef float ATile[BK][BM + PAD];               // a[k][row]
#endif
typedef float BTile[BK][BN];

// The two matrices, and where the block's rows of A and columns of B begin.
struct Inputs {
    const float *A, *B;
    int M, N, K, tile_m, tile_n;
    bool in_bounds;
};

__device__ __forceinline__ float& element(ATile& a, int row, int k)
{
#if BY_ROWS
    return a[row][k];
#else
    return a[k][row];
#endif
}

// Row number i of a thread's TILES_M * 4, counted from its first.
__device__ constexpr int row_of(int i) { return i / 4 * 16 + i % 4 * ROW_STRIDE; }

// Load four k of each of the thread's rows of A, from k on.
__device__ __forceinline__ void load_fragment_a(float (&fragment_a)[TILES_M * 4][4], ATile& a,
                                                int thread_m, int k)
{
#if BY_ROWS
    #pragma unroll
    for (int i = 0; i < TILES_M * 4; ++i)
        *(float4*)fragment_a[i] = *(const float4*)&element(a, thread_m + row_of(i), k);
#else
    #pragma unroll
    for (int v = 0; v < 4; ++v)
        #pragma unroll
        for (int p = 0; p < TILES_M; ++p) {
            const float4 values = *(const float4*)&element(a, thread_m + 16 * p, k + v);
            fragment_a[4 * p + 0][v] = values.x;
            fragment_a[4 * p + 1][v] = values.y;
            fragment_a[4 * p + 2][v] = values.z;
            fragment_a[4 * p + 3][v] = values.w;
        }
#endif
}

// Multiply one pair of tiles: the thread's rows begin at thread_m, its columns at thread_n.
__device__ __forceinline__ void multiply(float (&accumulators)[TILES_M * 4][TILES_N * 4],
                                         ATile& a, const BTile& b, int thread_m, int thread_n)
{
    #pragma unroll
    for (int k = 0; k < BK; k += 4) {
        float fragment_a[TILES_M * 4][4];
        load_fragment_a(fragment_a, a, thread_m, k);
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            float fragment_b[TILES_N * 4];
            #pragma unroll
            for (int q = 0; q < TILES_N; ++q)
                *(float4*)&fragment_b[4 * q] = *(const float4*)&b[k + v][thread_n + 32 * q];
            #pragma unroll
            for (int i = 0; i < TILES_M * 4; ++i)
                #pragma unroll
                for (int j = 0; j < TILES_N * 4; ++j)
                    accumulators[i][j] += fragment_a[i][v] * fragment_b[j];
        }
    }
}

#if STAGES == 1

// Load this thread's part of the tiles that begin at tile_k into registers.
template <bool IN_BOUNDS>
__device__ __forceinline__ void load_tiles(float4 (&a_next)[A_FLOAT4], float4 (&b_next)[B_FLOAT4],
                                           const Inputs& in, int tile_k)
{
#if BY_ROWS
    load_rows<IN_BOUNDS, THREADS, BK>(a_next, in.A, in.tile_m, tile_k, in.M, in.K);
#else
    load_columns<IN_BOUNDS, THREADS, BM>(a_next, in.A, in.tile_m, tile_k, in.M, in.K);
#endif
    load_rows<IN_BOUNDS, THREADS, BN>(b_next, in.B, tile_k, in.tile_n, in.K, in.N);
}

__device__ __forceinline__ void load_tiles(float4 (&a_next)[A_FLOAT4], float4 (&b_next)[B_FLOAT4],
                                           const Inputs& in, int tile_k)
{
    if (in.in_bounds && tile_k + BK <= in.K)
        load_tiles<true>(a_next, b_next, in, tile_k);
    else
        load_tiles<false>(a_next, b_next, in, tile_k);
}

// Store the same part from registers to one buffer.
__device__ __forceinline__ void store_tiles(ATile& a, BTile& b, const float4 (&a_next)[A_FLOAT4],
                                            const float4 (&b_next)[B_FLOAT4])
{
#if BY_ROWS
    #pragma unroll
    for (int v = 0; v < A_FLOAT4; ++v) {
        const int i = threadIdx.x + v * THREADS;
        *(float4*)&element(a, i / (BK / 4), i % (BK / 4) * 4) = a_next[v];
    }
#else
    store_columns<THREADS, BM>(a, a_next);
#endif
    store_rows<THREADS>(b, b_next);
}

#else

// The addresses of a thread's first copies of A and B, where the tiles are in bounds: in global
// memory, which move along K, and in the first buffers.
struct Copies {
    const float *global_a, *global_b;
    unsigned shared_a, shared_b;
};

// The first element of A's tile that this thread copies.
#if BY_ROWS
#define COPY_ROW (threadIdx.x / (BK / 4))
#define COPY_K (threadIdx.x % (BK / 4) * 4)
#else
#define COPY_ROW (threadIdx.x / 8)
#define COPY_K (threadIdx.x % 8)
#endif

__device__ __forceinline__ Copies first_copies(ATile& a, BTile& b, const Inputs& in)
{
    const int k = threadIdx.x / (BN / 4), col = threadIdx.x % (BN / 4) * 4;
    return {in.A + (size_t)(in.tile_m + COPY_ROW) * in.K + COPY_K,
            in.B + (size_t)k * in.N + in.tile_n + col,
            shared_address(&element(a, COPY_ROW, COPY_K)), shared_address(&b[k][col])};
}

// Start to copy the tiles that begin at tile_k into the buffers of this number, as one group. Past
// the end of K there is nothing to copy, and the group is empty.
__device__ __forceinline__ void copy_tiles(ATile* a, BTile* b, Copies& copies, const Inputs& in,
                                           int buffer, int tile_k)
{
    if (in.in_bounds && tile_k + BK <= in.K) {
        const unsigned shared_a = copies.shared_a + buffer * sizeof(ATile);
        const unsigned shared_b = copies.shared_b + buffer * sizeof(BTile);
#if BY_ROWS
        #pragma unroll
        for (int v = 0; v < A_FLOAT4; ++v) {
            const int row = v * (THREADS / (BK / 4));
            cp_async<16>(shared_a + row * BK * 4, copies.global_a + (size_t)row * in.K);
        }
#else
        #pragma unroll
        for (int v = 0; v < 4 * A_FLOAT4; ++v) {
            const int row = v * THREADS / 8 % BM, k = v * THREADS / (8 * BM) * 8;
            cp_async<4>(shared_a + (k * (BM + PAD) + row) * 4,
                        copies.global_a + (size_t)row * in.K + k);
        }
#endif
        #pragma unroll
        for (int v = 0; v < B_FLOAT4; ++v) {
            const int k = v * (THREADS / (BN / 4));
            cp_async<16>(shared_b + k * BN * 4, copies.global_b + (size_t)k * in.N);
        }
        copies.global_a += BK;
        copies.global_b += (size_t)BK * in.N;
    } else if (tile_k < in.K) {
        for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
            const int row = i / 8 % BM, k = i % 8 + i / (8 * BM) * 8;
            cp_async<4>(shared_address(&element(a[buffer], row, k)),
                        in.A + (size_t)(in.tile_m + row) * in.K + tile_k + k,
                        in.tile_m + row < in.M && tile_k + k < in.K ? 4 : 0);
        }
        for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
            const int k = i / BN, col = i % BN;
            cp_async<4>(shared_address(&b[buffer][k][col]),
                        in.B + (size_t)(tile_k + k) * in.N + in.tile_n + col,
                        tile_k + k < in.K && in.tile_n + col < in.N ? 4 : 0);
        }
    }
    cp_async_commit();
}

#endif

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
double_buffering(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                 int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) ATile a[BUFFERS];
    __shared__ __align__(16) BTile b[BUFFERS];

    const int thread = threadIdx.x;
    const int tile_m = blockIdx.y * BM, tile_n = blockIdx.x * BN;  // the block's tile of C
    const bool in_bounds = tile_m + BM <= M && tile_n + BN <= N && N % 4 == 0 && K % 4 == 0;
    const Inputs in = {A, B, M, N, K, tile_m, tile_n, in_bounds};

    // Block to warp to lane. Bits 0, 2 and 3 of the lane count columns, bits 1 and 4 rows.
    const int warp = thread / 32, lane = thread % 32;
    const int lane_n = lane % 2 + lane / 4 % 4 * 2, lane_m = lane / 2 % 2 + lane / 16 * 2;
    const int thread_m = warp / (BN / WN) * WM + lane_m * (4 / ROW_STRIDE);  // the thread's first row
    const int thread_n = warp % (BN / WN) * WN + lane_n * 4;  // and column in the block's tile

    float accumulators[TILES_M * 4][TILES_N * 4] = {};
    int buffer = 0;                              // the one that is multiplied
#if STAGES == 1
    float4 a_next[A_FLOAT4], b_next[B_FLOAT4];
    load_tiles(a_next, b_next, in, 0);
    store_tiles(a[0], b[0], a_next, b_next);
    __syncthreads();

    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        const bool more = tile_k + BK < K;
        if (more) load_tiles(a_next, b_next, in, tile_k + BK);
        multiply(accumulators, a[buffer], b[buffer], thread_m, thread_n);

        // The other buffer was read before the last barrier: it may be overwritten now.
        buffer ^= 1;
        if (more) store_tiles(a[buffer], b[buffer], a_next, b_next);
        __syncthreads();
    }
#else
    Copies copies = first_copies(a[0], b[0], in);
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage)
        copy_tiles(a, b, copies, in, stage, stage * BK);

    int freed = STAGES - 1;                      // the buffer that was multiplied before
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();                         // the copies of all threads are complete
        copy_tiles(a, b, copies, in, freed, tile_k + (STAGES - 1) * BK);
        multiply(accumulators, a[buffer], b[buffer], thread_m, thread_n);
        freed = buffer;
        buffer = buffer + 1 == STAGES ? 0 : buffer + 1;
    }
#endif

    #pragma unroll
    for (int i = 0; i < TILES_M * 4; ++i)
        #pragma unroll
        for (int q = 0; q < TILES_N; ++q)
            store_float4(C, tile_m + thread_m + row_of(i), tile_n + thread_n + 32 * q,
                         M, N, &accumulators[i][4 * q], alpha, beta, in_bounds);
}
