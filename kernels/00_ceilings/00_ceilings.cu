// 00  Ceilings
// Idea:    measure the two roofs of this GPU before any product: how fast memory can be copied, and
//          how fast FP32 multiply-adds can retire. No kernel of the ladder can be faster than both.
// Launch:  copy and fma_chain take any one-dimensional block and grid; the ladder chooses them.
// Takes:   copy: count float4 elements, 16-byte aligned, the two arrays apart.
//          fma_chain: one float of out per thread, and iterations >= 0.
// Counts:  copy moves 32 bytes per element, one read and one write.
//          fma_chain does 2 * CHAINS * UNROLL * iterations floating-point operations per thread.

#ifndef CHAINS
#define CHAINS 16
#endif
#ifndef UNROLL
#define UNROLL 32
#endif

// Memory roof: every thread moves 16 bytes, then jumps ahead by the whole grid.
extern "C" __global__ void
copy(const float4* __restrict__ from, float4* __restrict__ to, long long count)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        to[i] = from[i];
}

// Arithmetic roof: nothing but multiply-adds on registers. Each step of a chain waits for the one
// before, so a thread runs CHAINS of them side by side to keep the pipeline full.
extern "C" __global__ void
fma_chain(float* __restrict__ out, int iterations, float a, float b)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;

    // Every chain starts from another value, so that none can be shared.
    float x[CHAINS];
    #pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain)
        x[chain] = (float)(threadIdx.x + chain) * 0.0078125f;

    for (int i = 0; i < iterations; ++i) {
        #pragma unroll                           // UNROLL steps for one loop counter and one branch
        for (int step = 0; step < UNROLL; ++step) {
            #pragma unroll
            for (int chain = 0; chain < CHAINS; ++chain)
                x[chain] = fmaf(x[chain], a, b);
        }
    }

    // The sum needs every chain, and it is stored: the compiler may leave nothing out.
    float sum = 0.0f;
    #pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain)
        sum += x[chain];
    out[thread] = sum;
}
