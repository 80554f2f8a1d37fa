// 00  The ceiling of tensor cores
// Idea:    measure a roof for products of FP16 matrices with FP32 sums: nothing but the instruction
//          that WMMA is made of, mma.sync, on registers. sm_90 also has a faster one, wgmma, which
//          WMMA does not use: this roof is that of mma.sync.
// Launch:  blocks of whole warps along x; the ladder chooses the grid.
// Takes:   a: 4 registers for each lane, 4×32, two halves each; b: 2 for each chain and lane,
//          CHAINS×2×32; one float of out per thread, and iterations >= 0. From sm_80 on.
// Counts:  2 * 16 * 8 * 16 * CHAINS * UNROLL * iterations floating-point operations per warp.

#ifndef CHAINS
#define CHAINS 8
#endif
#ifndef UNROLL
#define UNROLL 16
#endif

#include "mma_instruction.cuh"

// Each step of a chain waits for the one before, so a warp runs CHAINS of them side by side.
extern "C" __global__ void
mma_chain(float* __restrict__ out, const unsigned* __restrict__ a_lanes,
          const unsigned* __restrict__ b_lanes, int iterations)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;

    unsigned a[4], b[CHAINS][2];
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        a[i] = a_lanes[i * 32 + lane];
    #pragma unroll
    for (int i = 0; i < CHAINS * 2; ++i)
        b[i / 2][i % 2] = b_lanes[i * 32 + lane];

    float accumulators[CHAINS][4] = {};
    for (int i = 0; i < iterations; ++i) {
        #pragma unroll                           // UNROLL steps for one loop counter and one branch
        for (int step = 0; step < UNROLL; ++step) {
            #pragma unroll
            for (int chain = 0; chain < CHAINS; ++chain)
                mma(accumulators[chain], a, b[chain]);
        }
    }

    // The total needs every chain, and it is stored: the compiler may leave nothing out.
    float total = 0.0f;
    #pragma unroll
    for (int i = 0; i < CHAINS * 4; ++i)
        total += accumulators[i / 4][i % 4];
    out[thread] = total;
}
