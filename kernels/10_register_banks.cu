// 10  Register banks
// Idea:    spend nearly every issue slot on an FMA, and let few wait for operands. The order of the
//          FMAs reuses one operand from each to the next, so that register banks suffice; the next
//          column of A and row of B are in registers before they are needed; and a pipeline of
//          stages replaces the barriers of the block. A thread has 8×16 accumulators, and blocks
//          take their tiles in an order that shares A and B in L2.
// Before:  09_double_buffering.cu waited at a barrier of the whole block after each step, and left
//          the order of the FMAs to the assembler.
// Steps:   find the block's tile of C; start the copies into all stages but one; for each stage,
//          multiply, release it, start copies into a free one, wait for the next; store.
// Launch:  block ((BM / TM) * (BN / TN)), grid (ceil(N / BN), ceil(M / BM)); the stages are in
//          dynamic shared memory.
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes. Where N is no multiple of 4, B is copied by single elements. From
//          sm_80 on.
// It is assembled with ptxas -O1 (the option PTXAS): higher levels reorder the FMAs that are
// written here. 10_steps.cu is half of it: these FMAs and fragments loaded ahead, but 09's
// barriers.

#include "register_tile_sizes.cuh"
#include "register_tile_copies.cuh"
#include "register_tile_fragments.cuh"
#include "register_tile_mainloop.cuh"
#include "register_tile_epilogue.cuh"

#ifndef RING_ALIGN
#define RING_ALIGN 128           // bytes, of the stages: so no sector of B is copied in halves
#endif

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
register_banks(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(RING_ALIGN) Stage stages[];
    __shared__ unsigned long long barriers[2 * STAGES];
    const Inputs in = inputs_of_block(A, B, M, N, K);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int thread_m = warp / (BN / WN) * WM + lane_row(lane) * 4;
    const int thread_n = warp % (BN / WN) * WN + lane_col(lane) * 4;

    const int k_tiles = max(1, (K + BK - 1) / BK);             // where K is 0, one of zeros
    Pipeline pipeline(barriers, THREADS);
    CopySource source = first_copies(in);
    const Copies copies = {stages, in, source, pipeline};
    #pragma unroll 1                             // the prologue: the mainloop fills the last stage
    for (int stage = 0; stage < STAGES - 1 && stage < k_tiles; ++stage) copies.copy_stage(stage);
    pipeline.wait();

    float accumulators[TM][TN] = {};
    Fragments fragments[2];                      // for one k, and for the next
    mainloop(accumulators, fragments, copies, k_tiles, lane, thread_m, thread_n);

    const int row = in.tile_m + thread_m, col = in.tile_n + thread_n;
    store_accumulators(C, row, col, M, N, accumulators, alpha, beta, in.in_bounds);
}
