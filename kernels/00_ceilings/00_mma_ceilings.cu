// 00  The ceilings of mma.sync
// Idea:    as 00_tensor_ceiling.cu, for each type that 15_mma_sync multiplies: nothing but the
//          instruction, on registers.
//          Of FP8 it shows no roof on Hopper: an instruction becomes two of FP16 and additions
//          there, and products that do not change are computed once for several steps.
// Launch:  blocks of whole warps along x; the ladder chooses the grid.
// Takes:   a: 4 registers for each lane, 4×32; b: 2 for each chain and lane, CHAINS×2×32; one
//          element of out per thread, float32 or, of INT8, int32; iterations >= 0; zero, which is
//          0. From sm_80 on, 8-bit floats from sm_89.
// Counts:  2 * 16 * 8 * MMA_K * CHAINS * UNROLL * iterations operations per warp.

#ifndef CHAINS
#define CHAINS 8
#endif
#ifndef UNROLL
#define UNROLL 16
#endif

#include "mma_instruction.cuh"

// Each step of a chain waits for the one before, so a warp runs CHAINS of them side by side.
extern "C" __global__ void
mma_chain(Accumulator* __restrict__ out, const unsigned* __restrict__ a_lanes,
          const unsigned* __restrict__ b_lanes, int iterations, unsigned zero)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;

    unsigned a[4], b[CHAINS][2];
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        a[i] = a_lanes[i * 32 + lane];
    #pragma unroll
    for (int i = 0; i < CHAINS * 2; ++i)
        b[i / 2][i % 2] = b_lanes[i * 32 + lane];

    Accumulator accumulators[CHAINS][4] = {};
    for (int i = 0; i < iterations; ++i) {
        #pragma unroll                           // UNROLL steps for one loop counter and one branch
        for (int step = 0; step < UNROLL; ++step) {
            #pragma unroll                       // for all that the compiler knows a changes: it
            for (int word = 0; word < 4; ++word) // computes nothing of a product for all steps
                a[word] ^= zero;
            #pragma unroll
            for (int chain = 0; chain < CHAINS; ++chain)
                mma(accumulators[chain], a, b[chain]);
        }
    }

    // The total needs every chain, and it is stored: the compiler may leave nothing out.
    Accumulator total = 0;
    #pragma unroll
    for (int i = 0; i < CHAINS * 4; ++i)
        total += accumulators[i / 4][i % 4];
    out[thread] = total;
}
