// 15  Tensor cores through mma.sync
// Idea:    a lane knows which elements of a fragment it holds. So tiles lie swizzled in shared
//          memory, ldmatrix loads each lane's words without bank conflicts, the next fragments are
//          loaded while these are multiplied, and accumulators go to C from registers.
// Before:  14_wmma.cu left the layout of fragments to WMMA, padded its tiles, and stored C through
//          shared memory.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)), with the dynamic
//          shared memory of STAGES times a Stage.
// Takes:   any M, N, K, row-major; A, B and C float16, or of the types that DTYPE says; alpha, beta
//          and bias float32, sums float32 or, of INT8, int32. C = activation(alpha * A @ B +
//          beta * C + bias), rounded once at the end. With BIAS, `bias` has N elements or is null.
//          A, B, C and bias begin at multiples of 16 bytes. Where rows of A or B are no multiples
//          of 16 bytes, they go through registers. From sm_80 on, 8-bit floats from sm_89.

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
#define GROUP 8                                  // rows of tiles that blocks take in turn, for L2
#endif

#include "cp_async.cuh"
#include "mma_operands.cuh"
#include "mma_tiles.cuh"
#include "mma_ragged.cuh"
#include "mma_store_any.cuh"
#include "shared_address.cuh"

static_assert(STAGES >= 3, "one is multiplied, the next one is complete, another is filled");
static_assert(K_STEPS % 2 == 0, "two sets of fragments take turns");

// Rows of mma tiles snake, so that each mma has a fragment in common with the one before.
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
__device__ __forceinline__ void mainloop(Accumulators& accumulators, Stage* stages, NextTiles next,
                                         int warp_m, int warp_n)
{
    #pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; ++stage) {         // the prologue
        RaggedChunks ragged;
        #pragma unroll
        for (int k_step = 0; k_step < K_STEPS; ++k_step) {
            if (ALIGNED) copy_part(stages[stage], next, k_step);
            if (!ALIGNED) ragged.load_part(next, k_step);
            if (!ALIGNED) ragged.store_part(stages[stage], k_step);
        }
        cp_async_commit();
        next.advance();
    }
    cp_async_wait<STAGES - 2>();
    __syncthreads();                             // the first stage is complete

    const int lane = threadIdx.x % 32;
    const int index_a = lane_index_a(warp_m, lane), index_b = lane_index_b(warp_n, lane);
    const unsigned first_address = shared_address(stages);
    unsigned read_address = first_address;       // of the stage that is multiplied
    int write_stage = STAGES - 1;                // the stage that is filled
    Fragments fragments[2];                      // of this k_step, and of the next
    load_fragments(fragments[0], read_address, index_a, index_b, 0);
    #pragma unroll 1
    for (int k_left = next.K; k_left > 0; k_left -= BK) {
        RaggedChunks ragged;
        #pragma unroll
        for (int k_step = 0; k_step < K_STEPS; ++k_step) {
            if (k_step == K_STEPS - 1) {
                cp_async_wait<STAGES - 3>();     // this turn's copies do not count yet
                __syncthreads();                 // the next stage is complete, this one read by all
                read_address = read_address == first_address + (STAGES - 1) * sizeof(Stage)
                             ? first_address : read_address + sizeof(Stage);
            }
            load_fragments(fragments[(k_step + 1) % 2], read_address, index_a, index_b,
                           (k_step + 1) % K_STEPS);
            if (ALIGNED) copy_part(stages[write_stage], next, k_step);
            if (!ALIGNED) ragged.load_part(next, k_step);
            multiply(accumulators, fragments[k_step % 2]);
            if (!ALIGNED) ragged.store_part(stages[write_stage], k_step);
        }
        cp_async_commit();
        next.advance();
        write_stage = write_stage == STAGES - 1 ? 0 : write_stage + 1;
    }
    cp_async_wait<0>();                          // none may land where the epilogue has its strips
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
        mainloop<true>(accumulators, (Stage*)shared, next, warp_m, warp_n);
    else
        mainloop<false>(accumulators, (Stage*)shared, next, warp_m, warp_n);

    if (beta == 0.0f && N % 4 == 0 && (!INTEGER || alpha == 1.0f)) {
        store_fours(C, accumulators, tile_m + warp_m, tile_n + warp_n, M, N, alpha, bias);
    } else {
        __syncthreads();                         // strips lie where the stages were
        store_any(((Strip*)shared)[warp], C, accumulators, tile_m + warp_m, tile_n + warp_n,
                  M, N, alpha, beta, bias);
    }
}
