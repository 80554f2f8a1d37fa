// Histogram with atomics
// Idea:    each block counts in shared memory, where atomics are cheap, and adds its counts to the
//          whole ones at the end.
// Launch:  block (THREADS), any one-dimensional grid.
// Takes:   any count; bytes. bins[value] grows by how often the value occurs; bins start at 0.

#ifndef THREADS
#define THREADS 128
#endif
#define BINS 256

extern "C" __global__ void __launch_bounds__(THREADS)
histogram(const unsigned char* __restrict__ x, unsigned* __restrict__ bins, int count)
{
    __shared__ unsigned mine[BINS];

    for (int bin = threadIdx.x; bin < BINS; bin += THREADS)
        mine[bin] = 0;
    __syncthreads();
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < count; i += gridDim.x * THREADS)
        atomicAdd(&mine[x[i]], 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += THREADS)
        if (mine[bin] > 0)
            atomicAdd(&bins[bin], mine[bin]);
}
