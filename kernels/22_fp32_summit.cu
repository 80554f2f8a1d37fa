// 22  FP32 summit
// Idea:    rung 10's mainloop, and nothing beside it. Four producer warps with few registers fill
//          the stages; eight consumer warps with many do nothing but multiply; persistent blocks
//          share all the work evenly.
// Before:  10_register_banks.cu started copies between its FMAs, and in the last wave of blocks
//          some SMs had nothing to do.
// Launch:  block ((BM / TM) * (BN / TN) + 128), grid: at most a block for each SM, for they wait
//          for one another; STAGES stages of A and B in dynamic shared memory.
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes. Where N is no multiple of 4, B has no tensor map, and the kernel
//          is fp32_summit_unmapped. `parts`: BM * BN floats for each block; `flags`: one for each
//          of its consumer warps, 0 before and after. For sm_90a.
// PTXAS as in 10: 1 keeps the order of the FMAs.

#ifndef BK
#define BK 64                                    // length of a stage along K
#endif
#ifndef STAGES
#define STAGES 2                                 // of the pipeline
#endif

#include "register_tile_sizes.cuh"
#include "stages.cuh"
#include "stream_k.cuh"
#include "copy_a.cuh"
#include "register_tile_fragments.cuh"
#include "register_tile_epilogue.cuh"
#include "tma.cuh"
#include "unmapped.cuh"

// What both kernels do. BY_MAP: B has a tensor map, and the copy engine loads it; else the producers
// copy it as they copy A.
template <bool BY_MAP>
__device__ __forceinline__ void compute(const TensorMap* map_b, const Matrices& in, float* C,
                                        float alpha, float beta, float* parts, unsigned* flags)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ unsigned long long mbarriers[2 * STAGES];
    Shared& shared = *(Shared*)memory;
    Barriers barriers = init_barriers(mbarriers, PRODUCERS + BY_MAP);    // 1: for the bytes of B
    PipelineState at;
    Work work(in.M, in.N, in.K);
    if (threadIdx.x >= THREADS) {                // a producer
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        #pragma unroll 1
        while (work.next()) {
            const Origin tile = work.origin();
            #pragma unroll 1
            for (int k_tile = work.begin; k_tile < work.end; ++k_tile, at.advance()) {
                const unsigned full = barriers.full + MBARRIER_BYTES * at.stage;
                const unsigned b = shared_address(shared.b[at.stage]);
                mbarrier_wait(barriers.empty + MBARRIER_BYTES * at.stage, at.parity ^ 1);
                if (BY_MAP && threadIdx.x == THREADS) {
                    mbarrier_arrive_expect(full, sizeof(shared.b[0]));
                    tma_load(b, *map_b, k_tile * BK, tile.n, full);
                }
                copy_a(shared_address(shared.a[at.stage]), in, tile.m, k_tile * BK);
                if (!BY_MAP) copy_b(b, in, tile.n, k_tile * BK);
                cp_async_arrive(full);
            }
        }
        return;
    }

    // A consumer.
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    // The assembler keeps what it cannot compute again; otherwise it loads the address of shared
    // memory before each wait.
    asm volatile("" : "+r"(barriers.full), "+r"(barriers.empty));
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int thread_m = first_row_of_thread(warp, lane);
    const int thread_n = first_col_of_thread(warp, lane);

    #pragma unroll 1
    while (work.next()) {
        float accumulators[TM][TN] = {};
        Fragments fragments[2];                  // for one k, and for the next
        mbarrier_wait(barriers.full + MBARRIER_BYTES * at.stage, at.parity);
        const float* a = &shared.a[at.stage][0][thread_m];
        const float* b = &shared.b[at.stage][0][thread_n];
        load_fragments(fragments[0], a, b);
        multiply_first(accumulators, fragments[0]);

        int k_tiles = work.end - work.begin, chunks = BK / CHUNK;  // due, and chunks of this one
        #pragma unroll 1
        while (true) {
            multiply_chunk(accumulators, fragments, a, b);
            a += CHUNK * (BM + PAD);
            b += CHUNK * BN;
            if (--chunks == 0) {                 // this stage has been read
                __syncwarp();
                if (lane == 0) mbarrier_arrive(barriers.empty + MBARRIER_BYTES * at.stage);
                at.advance();
                if (--k_tiles == 0) break;
                chunks = BK / CHUNK;
                mbarrier_wait(barriers.full + MBARRIER_BYTES * at.stage, at.parity);
                a = &shared.a[at.stage][0][thread_m];
                b = &shared.b[at.stage][0][thread_n];
            }
            load_fragments(fragments[0], a, b);
            multiply_rest(accumulators, fragments[LAST]);
            multiply_first(accumulators, fragments[0]);
        }
        multiply_rest(accumulators, fragments[LAST]);

        if (work.begin > 0) {                    // the block with the tile's beginning adds it
            store_part(accumulators, parts, flags);
            continue;
        }
        if (work.end < work.k_tiles)
            for (int block = work.next_of_tile(blockIdx.x); block < gridDim.x;
                 block = work.next_of_tile(block))
                add_part(accumulators, parts, flags, block);
        const Origin tile = work.origin();
        const bool in_bounds = tile.m + BM <= in.M && tile.n + BN <= in.N && in.N % 4 == 0;
        store_accumulators(C, tile.m + thread_m, tile.n + thread_n, in.M, in.N, accumulators,
                           alpha, beta, in_bounds);
    }

}
extern "C" __global__ void __launch_bounds__(THREADS + PRODUCERS, 1)
fp32_summit(const __grid_constant__ TensorMap map_b, const float* __restrict__ A,
            float* __restrict__ C, int M, int N, int K, float alpha, float beta, float* parts,
            unsigned* flags)
{
    compute<true>(&map_b, {A, nullptr, M, N, K}, C, alpha, beta, parts, flags);
}

extern "C" __global__ void __launch_bounds__(THREADS + PRODUCERS, 1)
fp32_summit_unmapped(const float* __restrict__ A, const float* __restrict__ B,
                     float* __restrict__ C, int M, int N, int K, float alpha, float beta,
                     float* parts, unsigned* flags)
{
    compute<false>(nullptr, {A, B, M, N, K}, C, alpha, beta, parts, flags);
}
