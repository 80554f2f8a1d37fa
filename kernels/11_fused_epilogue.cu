// 11  Fused epilogue
// Idea:    what is done to every element of C afterwards, such as a bias and an activation, is done
//          before it is stored, while it is in a register. That saves whole passes over C.
// Before:  10_register_banks.cu stored alpha * A @ B + beta * C. The product is the same here, line
//          for line; what is new comes before it, and is called at its end.
// Launch:  as rung 10: block ((BM / TM) * (BN / TN)), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = activation(alpha * A @ B + beta * C + bias). `bias`
//          has N elements, one for each column of C, and may be null: no bias. A, B, C and bias
//          begin at multiples of 16 bytes.

#include "register_tiles.cuh"

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

__device__ __forceinline__ float4 load_four(const float* X, int row, int col, int rows, int cols,
                                            bool inside)
{
    return inside ? load_four<true>(X, row, col, rows, cols)
                  : load_four<false>(X, row, col, rows, cols);
}

// sums += factor * four, element by element.
__device__ __forceinline__ void add(float* sums, float factor, const float4& four)
{
    sums[0] += factor * four.x;
    sums[1] += factor * four.y;
    sums[2] += factor * four.z;
    sums[3] += factor * four.w;
}

// A thread's sums become its elements of C. First all of them in registers, then all are stored: for
// all that the compiler knows a load may be from where a store goes, so it moves none ahead of one.
__device__ __forceinline__ void finish(float (&sums)[TM][TN], float* C, const float* bias,
                                       int row, int col, int M, int N,
                                       float alpha, float beta, bool inside)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] *= alpha;
    if (beta != 0.0f) {                          // otherwise C is not read
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int q = 0; q < TN / 4; ++q)
                add(&sums[i][4 * q], beta,
                    load_four(C, row_of(row, i), col_of(col, q), M, N, inside));
            asm volatile("" ::: "memory");       // no more loads ahead: registers are short
        }
    }
    if (bias) {
        #pragma unroll
        for (int q = 0; q < TN / 4; ++q) {
            const float4 four = load_four(bias, 0, col_of(col, q), 1, N, inside);
            #pragma unroll
            for (int i = 0; i < TM; ++i) add(&sums[i][4 * q], 1.0f, four);
        }
    }
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] = activation(sums[i][j]);
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int q = 0; q < TN / 4; ++q)
            store_four(C, row_of(row, i), col_of(col, q), M, N, &sums[i][4 * q],
                       1.0f, 0.0f, inside);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
fused_epilogue(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta, const float* __restrict__ bias)
{
    extern __shared__ __align__(128) Tiles tiles[];            // the ring, at whole sectors
    __shared__ unsigned long long barriers[2 * STAGES];
    const Inputs in = of_this_block(A, B, M, N, K);

    // Block to warp to lane. Lanes lie row by row: eight neighbours read 128 bytes of B.
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int y = warp / (BN / WN) * WM + lane / 8 * 4;        // my first row of the block's tile
    const int x = warp % (BN / WN) * WN + lane % 8 * 4;        // my first column of it

    const int stages = max(1, (K + BK - 1) / BK);
    Ring<STAGES> ring(barriers, THREADS);
    Source from = source(in);
    const auto fill = [&](int place) {           // with my part of the next stage
        fetch(tiles, place, from, in);
        ring.commit(place);
    };
    #pragma unroll 1
    for (int place = 0; place < STAGES - 1 && place < stages; ++place) fill(place);
    ring.wait();

    float sums[TM][TN] = {};
    Operands mine[2];                            // for one k, and for the next
    const float *first_a = &tiles[0].a[0][y], *first_b = &tiles[0].b[0][x];
    const float *a = first_a, *b = first_b;
    read(mine[0], a, b);
    multiply<0, 1>(sums, mine[0]);

    // Where the loop branches, the assembler waits for what was read last, unless it was needed
    // before. So the first column of an outer product comes before the branch, the others after it.
    int stage = 0, chunks = BK / CHUNK;          // chunks of this stage that are left
    #pragma unroll 1
    while (true) {
        #pragma unroll
        for (int k = 0; k < CHUNK - 1; ++k) {
            read(mine[(k + 1) % 2], a + (k + 1) * (BM + PAD), b + (k + 1) * BN);
            if (k > 0) multiply<0, 1>(sums, mine[k % 2]);
            multiply<1, TN>(sums, mine[k % 2]);
        }
        multiply<0, 1>(sums, mine[(CHUNK - 1) % 2]);
        a += CHUNK * (BM + PAD);
        b += CHUNK * BN;
        if (--chunks == 0) {
            if (++stage == stages) break;
            chunks = BK / CHUNK;
            ring.release(lane);
            if (stage + STAGES - 2 < stages) fill(ring.acquire());
            const int place = ring.wait();
            a = first_a + place * TILES_FLOATS;
            b = first_b + place * TILES_FLOATS;
        }
        read(mine[0], a, b);
        multiply<1, TN>(sums, mine[(CHUNK - 1) % 2]);
        multiply<0, 1>(sums, mine[0]);
    }
    multiply<1, TN>(sums, mine[(CHUNK - 1) % 2]);

    finish(sums, C, bias, in.top + y, in.left + x, M, N, alpha, beta, in.whole);
}
