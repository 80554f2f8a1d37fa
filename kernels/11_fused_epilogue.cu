// 11  Fused epilogue
// Idea:    what is done to every element of C afterwards, such as a bias and an activation, is done
//          before it is stored, while it is in a register. That saves whole passes over C.
// Before:  10_register_banks.cu stored alpha * A @ B + beta * C. Here only the epilogue is new.
// Launch:  as rung 10: block ((BM / TM) * (BN / TN)), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = activation(alpha * A @ B + beta * C + bias). `bias`
//          has N elements, one for each column of C, and may be null: no bias. A, B, C and bias
//          begin at multiples of 16 bytes.

#include "register_tile_sizes.cuh"
#include "register_tile_copies.cuh"
#include "register_tile_fragments.cuh"
#include "register_tile_mainloop.cuh"
#include "register_tile_epilogue.cuh"

#ifndef ACTIVATION
#define ACTIVATION 1                             // 0: none, 1: ReLU, 2: GELU by tanh, 3: by erf
#endif

// erf within 1.5e-7, by formula 7.1.26 of M. Abramowitz, I. A. Stegun, "Handbook of Mathematical
// Functions" (1964). erff is nearer, and takes more than twice the instructions.
__device__ __forceinline__ float short_erf(float x)
{
    const float t = __fdividef(1.0f, 1.0f + 0.3275911f * fabsf(x));
    const float sum = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t
                        - 0.284496736f) * t + 0.254829592f) * t;
    return copysignf(1.0f - sum * __expf(-x * x), x);
}

// The last step, for one element. Put your own here.
__device__ __forceinline__ float activation(float x)
{
#if ACTIVATION == 1
    return x < 0.0f ? 0.0f : x;                  // NaN stays NaN: fmaxf(x, 0) would make it 0
#elif ACTIVATION == 2
    // 0.5 x (1 + tanh(y)) is x / (1 + exp(-2 y)), which takes fewer instructions than tanhf.
    return __fdividef(x, 1.0f + __expf(-1.59576912f * (x + 0.044715f * x * x * x)));
#elif ACTIVATION == 3
    return 0.5f * x * (1.0f + short_erf(0.707106781f * x));
#else
    return x;
#endif
}

__device__ __forceinline__ float4 load_float4(const float* X, int row, int col, int rows, int cols,
                                              bool in_bounds)
{
    return in_bounds ? load_float4<true>(X, row, col, rows, cols)
                     : load_float4<false>(X, row, col, rows, cols);
}

// accumulators += factor * values, element by element.
__device__ __forceinline__ void add(float* accumulators, float factor, const float4& values)
{
    accumulators[0] += factor * values.x;
    accumulators[1] += factor * values.y;
    accumulators[2] += factor * values.z;
    accumulators[3] += factor * values.w;
}

// The row of C of accumulators[i], and the first column of their q-th group of four, from the
// thread's first row and column on.
__device__ __forceinline__ int row_of(int first, int i)
{
    return first + i / 4 * LANES_M * 4 + i % 4;
}

__device__ __forceinline__ int col_of(int first, int q) { return first + q * LANES_N * 4; }

// From a thread's accumulators to its elements of C. All of them are finished in registers before
// the first is stored: the compiler must assume that a load reads what a store writes, so it moves
// no load ahead of a store.
__device__ __forceinline__ void epilogue(float (&accumulators)[TM][TN], float* C,
                                         const float* bias, int row, int col, int M, int N,
                                         float alpha, float beta, bool in_bounds)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) accumulators[i][j] *= alpha;
    if (beta != 0.0f) {                          // otherwise C is not read
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int q = 0; q < TN / 4; ++q)
                add(&accumulators[i][4 * q], beta,
                    load_float4(C, row_of(row, i), col_of(col, q), M, N, in_bounds));
            asm volatile("" ::: "memory");       // no more loads ahead: registers are short
        }
    }
    if (bias) {
        #pragma unroll
        for (int q = 0; q < TN / 4; ++q) {
            const float4 of_columns = load_float4(bias, 0, col_of(col, q), 1, N, in_bounds);
            #pragma unroll
            for (int i = 0; i < TM; ++i) add(&accumulators[i][4 * q], 1.0f, of_columns);
        }
    }
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) accumulators[i][j] = activation(accumulators[i][j]);
    store_accumulators(C, row, col, M, N, accumulators, 1.0f, 0.0f, in_bounds);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
fused_epilogue(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta, const float* __restrict__ bias)
{
    extern __shared__ __align__(128) Stage stages[];           // as in 10
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
    epilogue(accumulators, C, bias, in.tile_m + thread_m, in.tile_n + thread_n, M, N,
             alpha, beta, in.in_bounds);
}
