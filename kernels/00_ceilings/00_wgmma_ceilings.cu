// 00  The ceilings of wgmma
// Idea:    two warpgroups start nothing but products of 64 rows and COLUMNS columns: B lies in
//          shared memory from the start, A beside it or in registers. Nothing is copied meanwhile.
// Launch:  block (256), one on each SM; the ladder chooses the grid.
// Takes:   a: 128 rows, b: COLUMNS rows, of 128 bytes each along K, as words; one float of out per
//          thread; tiles and steps from 1 on: accumulators begin anew with each tile, and a step
//          is a product of whole rows. DTYPE 0 is FP16, 1 BF16, 4 E4M3. For sm_90a alone.
// Counts:  2 * 128 * COLUMNS * (128 / bytes of an element) * steps * tiles operations per block.

#ifndef DTYPE
#define DTYPE 0
#endif
#ifndef COLUMNS
#define COLUMNS 256                              // of B: 128 or 256
#endif
#ifndef A_IN_REGISTERS
#define A_IN_REGISTERS 0
#endif

#include "tma.cuh"
#include "wgmma_16bit.cuh"

constexpr int WARPGROUPS = 2;
constexpr int ROW_WORDS = ROW_BYTES / 4;
constexpr int PRODUCTS = ROW_BYTES / 32;         // an instruction takes 32 bytes of a row
constexpr int ACCUMULATORS = COLUMNS / 2;        // of a thread

#if DTYPE == 4
#define K_AND_TYPES "k32.f32.e4m3.e4m3 "
#define TRANSPOSE ""
#else
#define K_AND_TYPES "k16." WGMMA_TYPES " "
#define TRANSPOSE ", 0"                          // no: rows of an operand lie along K
#endif

#if COLUMNS == 256
#define WGMMA "{ .reg .pred p; setp.ne.b32 p, %128, 0; wgmma.mma_async.sync.aligned.m64n256" \
    K_AND_TYPES "{" REGISTERS_128 "}, "
#define A_AND_B "%130, %129, p, 1, 1" TRANSPOSE TRANSPOSE "; }"
#define REGISTERS_AND_B "{%130, %131, %132, %133}, %129, p, 1, 1" TRANSPOSE "; }"
#define ALL_ACCUMULATORS ACCUMULATORS_128
#else
#define WGMMA "{ .reg .pred p; setp.ne.b32 p, %64, 0; wgmma.mma_async.sync.aligned.m64n128" \
    K_AND_TYPES "{" REGISTERS_64 "}, "
#define A_AND_B "%66, %65, p, 1, 1" TRANSPOSE TRANSPOSE "; }"
#define REGISTERS_AND_B "{%66, %67, %68, %69}, %65, p, 1, 1" TRANSPOSE "; }"
#define ALL_ACCUMULATORS ACCUMULATORS_64
#endif

// accumulators = A @ B, plus what they were with `accumulate`; A in shared memory.
__device__ __forceinline__ void multiply(float (&accumulators)[ACCUMULATORS], Descriptor a,
                                         Descriptor b, int accumulate)
{
    asm volatile(WGMMA A_AND_B : ALL_ACCUMULATORS : "r"(accumulate), "l"(b), "l"(a));
}

// The same with the warpgroup's A in its registers.
__device__ __forceinline__ void multiply(float (&accumulators)[ACCUMULATORS],
                                         const unsigned (&a)[4], Descriptor b, int accumulate)
{
    asm volatile(WGMMA REGISTERS_AND_B
                 : ALL_ACCUMULATORS
                 : "r"(accumulate), "l"(b), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
}

// Rows of words into shared memory, swizzled in chunks of four.
__device__ __forceinline__ void store_rows(unsigned* to, const unsigned* from, int rows)
{
    for (int i = threadIdx.x; i < rows * ROW_WORDS; i += WARPGROUPS * WARPGROUP_THREADS)
        to[i ^ i / ROW_WORDS % 8 * 4] = from[i];
}

extern "C" __global__ void __launch_bounds__(WARPGROUPS * WARPGROUP_THREADS, 1)
wgmma_chain(float* __restrict__ out, const unsigned* __restrict__ a_rows,
            const unsigned* __restrict__ b_rows, int tiles, int steps)
{
    __shared__ __align__(SWIZZLE_PERIOD) unsigned a_tile[WARPGROUPS * WARPGROUP_ROWS * ROW_WORDS];
    __shared__ __align__(SWIZZLE_PERIOD) unsigned b_tile[COLUMNS * ROW_WORDS];
    store_rows(a_tile, a_rows, WARPGROUPS * WARPGROUP_ROWS);
    store_rows(b_tile, b_rows, COLUMNS);
    fence_async_proxy();
    __syncthreads();

    const int warpgroup = threadIdx.x / WARPGROUP_THREADS;
    const int row = warpgroup * WARPGROUP_ROWS + accumulator_row(0);
    const Descriptor b = make_descriptor(shared_address(b_tile));
#if A_IN_REGISTERS
    unsigned a[PRODUCTS][4];                     // rows r and r + 8, words w and w + 4 of each
    #pragma unroll
    for (int i = 0; i < PRODUCTS * 4; ++i)
        a[i / 4][i % 4] = a_rows[(row + i % 2 * 8) * ROW_WORDS + i / 4 * 8 + i / 2 % 2 * 4
                                 + threadIdx.x % 4];
#else
    const Descriptor a =
        make_descriptor(shared_address(a_tile + warpgroup * WARPGROUP_ROWS * ROW_WORDS));
#endif

    float accumulators[ACCUMULATORS] = {};
    for (int tile = 0; tile < tiles; ++tile)
        for (int step = 0; step < steps; ++step) {
            wgmma_fence();
            #pragma unroll
            for (int k = 0; k < PRODUCTS; ++k)
#if A_IN_REGISTERS
                multiply(accumulators, a[k], advance(b, k * 32), step > 0 || k > 0);
#else
                multiply(accumulators, advance(a, k * 32), advance(b, k * 32), step > 0 || k > 0);
#endif
            wgmma_commit();
            wgmma_wait<1>();                     // the products of the step before have ended
        }
    wgmma_wait<0>();

    // The total needs every accumulator, and it is stored: the compiler may leave nothing out.
    float total = 0;
    #pragma unroll
    for (int i = 0; i < ACCUMULATORS; ++i) total += accumulators[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
