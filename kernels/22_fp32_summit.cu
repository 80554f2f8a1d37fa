// 22  FP32 summit
// Idea:    rung 10's mainloop, and nothing beside it. Four producer warps with few registers fill
//          the stages; eight consumer warps with many do nothing but multiply. Persistent blocks
//          share all the work evenly: the last tiles are cut along K.
// Before:  10_register_banks.cu started copies between its FMAs, and in the last wave of blocks
//          some SMs had nothing to do.
// Launch:  block ((BM / TM) * (BN / TN) + 128), grid: at most a block for each SM, as blocks wait
//          for one another and all must run at the same time; STAGES stages of A and B in dynamic
//          shared memory. The tensor map of B has boxes of BK × BN, not swizzled.
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes. Where N is no multiple of 4, or K is 0, B has no tensor map, and
//          the kernel is fp32_summit_unmapped. `parts`: BM * BN floats for each block; `flags`: one
//          for each of its consumer warps, 0 before and after. For sm_90a.
// As 10, it is assembled with ptxas -O1 (the setting PTXAS), which keeps the order of the FMAs.

// A stage is twice as long as 10's, so consumers wait half as often.
#ifndef BK
#define BK 64                                    // how far along K one stage goes
#endif
#ifndef STAGES
#define STAGES 2                                 // buffers for a tile of A and of B: the pipeline
#endif

#include "register_tile_sizes.cuh"
#include "mbarrier.cuh"
#include "stages.cuh"
#include "stream_k.cuh"
#include "copy_a.cuh"
#include "register_tile_fragments.cuh"
#include "register_tile_epilogue.cuh"
#include "tma.cuh"
#include "unmapped.cuh"

// What both kernels do. BY_MAP: B has a tensor map, and the copy engine loads it; otherwise the
// producers copy it. A is always copied by producers: it is transposed, which TMA cannot do.
template <bool BY_MAP>
__device__ __forceinline__ void compute(const TensorMap* map_b, const Matrices& in, float* C,
                                        float alpha, float beta, float* parts, unsigned* flags)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ unsigned long long mbarriers[2 * STAGES];
    Shared& shared = *(Shared*)memory;
    // The mbarriers of stage 0; the others follow. full: its copies are complete; empty: all
    // consumer warps have read it. Expected at full: one arrival of each producer thread, when
    // its copies are complete, and with BY_MAP one that announces the bytes of B.
    unsigned full = shared_address(mbarriers), empty = shared_address(mbarriers + STAGES);
    if (threadIdx.x < STAGES) {
        mbarrier_init(full + MBARRIER_BYTES * threadIdx.x, PRODUCER_THREADS + BY_MAP);
        mbarrier_init(empty + MBARRIER_BYTES * threadIdx.x, CONSUMER_THREADS / 32);    // one a warp
    }
    mbarrier_fence_init();
    __syncthreads();
    PipelineState state;                         // producers and consumers count for themselves
    Work work(in.M, in.N, in.K);                 // each of them goes through the same tiles
    if (threadIdx.x >= CONSUMER_THREADS) {       // a producer
        static_assert(CONSUMER_THREADS == 8 * 32 && PRODUCER_THREADS == 4 * 32,
                      "the registers that change hands are counted for 8 and 4 warps");
        // Each of 12 warps began with 168 registers for a thread: 4 * 40 + 8 * 232 = 12 * 168.
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        #pragma unroll 1
        while (work.next()) {
            const TileStart tile = work.tile_start();
            #pragma unroll 1
            for (int k_tile = work.begin; k_tile < work.end; ++k_tile, state.advance()) {
                const unsigned stage_full = full + MBARRIER_BYTES * state.stage;
                const unsigned b = shared_address(shared.b[state.stage]);
                // This ends at once in the first round: at a new mbarrier, parity 1 is complete.
                mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
                if (BY_MAP && threadIdx.x == CONSUMER_THREADS) {
                    mbarrier_arrive_expect(stage_full, sizeof(shared.b[0]));
                    tma_load(b, *map_b, k_tile * BK, tile.n, stage_full);
                }
                copy_a(shared_address(shared.a[state.stage]), in, tile.m, k_tile * BK);
                if (!BY_MAP) copy_b(b, in, tile.n, k_tile * BK);
                cp_async_arrive(stage_full);     // when this thread's copies are complete
            }
        }
        return;
    }

    // A consumer.
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    // An empty asm hides where the addresses come from, so the assembler keeps them in registers;
    // otherwise it would compute them anew before each wait.
    asm volatile("" : "+r"(full), "+r"(empty));
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int thread_m = warp / (BN / WN) * WM + lane_row(lane) * 4;
    const int thread_n = warp % (BN / WN) * WN + lane_col(lane) * 4;

    #pragma unroll 1
    while (work.next()) {
        float accumulators[TM][TN] = {};
        Fragments fragments[2];                  // for one k, and for the next
        mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
        const float* a = &shared.a[state.stage][0][thread_m];
        const float* b = &shared.b[state.stage][0][thread_n];
        load_fragments(fragments[0], a, b);
        multiply_columns<0, 1>(accumulators, fragments[0]);

        // 10's mainloop (register_tile_mainloop.cuh), but without copies. It branches back after
        // the first column of a product: why, says multiply_columns().
        int k_tiles = work.end - work.begin;     // still to multiply
        int chunks = BK / CHUNK;                 // of this stage, still to multiply
        #pragma unroll 1
        while (true) {
            multiply_chunk(accumulators, fragments, a, b);
            a += CHUNK * (BM + PAD);
            b += CHUNK * BN;
            if (--chunks == 0) {                 // this stage's last fragments are in registers
                __syncwarp();                    // of all lanes: lane 0 speaks for its warp
                if (lane == 0) mbarrier_arrive(empty + MBARRIER_BYTES * state.stage);
                state.advance();
                if (--k_tiles == 0) break;
                chunks = BK / CHUNK;
                mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
                a = &shared.a[state.stage][0][thread_m];
                b = &shared.b[state.stage][0][thread_n];
            }
            load_fragments(fragments[0], a, b);  // the rest of this product hides these loads
            multiply_columns<1, TN>(accumulators, fragments[1]);
            multiply_columns<0, 1>(accumulators, fragments[0]);
        }
        multiply_columns<1, TN>(accumulators, fragments[1]);

        // If the tile was cut, the block that has its beginning adds the other parts and stores C.
        if (work.begin > 0) {
            store_part(accumulators, parts, flags);
            continue;
        }
        if (work.end < work.k_tiles)
            for (int block = work.next_of_tile(blockIdx.x); block < gridDim.x;
                 block = work.next_of_tile(block))
                add_part(accumulators, parts, flags, block);
        const TileStart tile = work.tile_start();
        const bool in_bounds = tile.m + BM <= in.M && tile.n + BN <= in.N && in.N % 4 == 0;
        store_accumulators(C, tile.m + thread_m, tile.n + thread_n, in.M, in.N, accumulators,
                           alpha, beta, in_bounds);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
fp32_summit(const __grid_constant__ TensorMap map_b, const float* __restrict__ A,
            float* __restrict__ C, int M, int N, int K, float alpha, float beta, float* parts,
            unsigned* flags)
{
    compute<true>(&map_b, {A, nullptr, M, N, K}, C, alpha, beta, parts, flags);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
fp32_summit_unmapped(const float* __restrict__ A, const float* __restrict__ B,
                     float* __restrict__ C, int M, int N, int K, float alpha, float beta,
                     float* parts, unsigned* flags)
{
    compute<false>(nullptr, {A, B, M, N, K}, C, alpha, beta, parts, flags);
}
