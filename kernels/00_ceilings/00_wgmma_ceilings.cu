// 00  The ceilings of wgmma
// Idea:    two warpgroups start nothing but products of 64 rows and COLUMNS columns: B lies in
//          shared memory from the start, A beside it or in registers. Nothing is copied meanwhile.
// Launch:  block (256), one on each SM; the ladder chooses the grid.
// Takes:   a: 128 rows, b: COLUMNS rows, of 128 bytes each along K, as words; one float of out per
//          thread; tiles and steps from 1 on: sums begin anew with each tile, and a step is a
//          product of whole rows. DTYPE 0 is FP16, 1 BF16, 4 E4M3. For sm_90a alone.
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

#include "pipeline.cuh"
#include "tensor_copy.cuh"
#include "warpgroup.cuh"

#define GROUPS 2
#define ROW_WORDS (ROW_BYTES / 4)
#define PRODUCTS (ROW_BYTES / 32)                // an instruction takes 32 bytes of a row
#define SUMS (COLUMNS / 2)                       // of a thread

#if DTYPE == 4
#define KIND "k32.f32.e4m3.e4m3 "
#define BY_ROWS ""
#else
#define KIND "k16." TYPES " "
#define BY_ROWS ", 0"                            // rows of a factor are along K
#endif

#if COLUMNS == 256
#define START "{ .reg .pred p; setp.ne.b32 p, %128, 0; wgmma.mma_async.sync.aligned.m64n256" KIND \
    "{" LIST_128 "}, "
#define OF_A_AND_B "%130, %129, p, 1, 1" BY_ROWS BY_ROWS "; }"
#define OF_WORDS_AND_B "{%130, %131, %132, %133}, %129, p, 1, 1" BY_ROWS "; }"
#define ALL_SUMS ALL_128
#else
#define START "{ .reg .pred p; setp.ne.b32 p, %64, 0; wgmma.mma_async.sync.aligned.m64n128" KIND \
    "{" LIST_64 "}, "
#define OF_A_AND_B "%66, %65, p, 1, 1" BY_ROWS BY_ROWS "; }"
#define OF_WORDS_AND_B "{%66, %67, %68, %69}, %65, p, 1, 1" BY_ROWS "; }"
#define ALL_SUMS ALL_64
#endif

// sums = A @ B, plus the sums before where `add` says so; A in shared memory.
__device__ __forceinline__ void start_from(float (&sums)[SUMS], Descriptor a, Descriptor b, int add)
{
    asm volatile(START OF_A_AND_B : ALL_SUMS : "r"(add), "l"(b), "l"(a));
}

// The same with my warpgroup's A in its registers.
__device__ __forceinline__ void start_from(float (&sums)[SUMS], const unsigned (&a)[4],
                                           Descriptor b, int add)
{
    asm volatile(START OF_WORDS_AND_B
                 : ALL_SUMS : "r"(add), "l"(b), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
}

// Rows of words into shared memory, swizzled in chunks of four.
__device__ __forceinline__ void put_rows(unsigned* to, const unsigned* from, int rows)
{
    for (int i = threadIdx.x; i < rows * ROW_WORDS; i += GROUPS * GROUP_THREADS)
        to[i ^ i / ROW_WORDS % 8 * 4] = from[i];
}

extern "C" __global__ void __launch_bounds__(GROUPS * GROUP_THREADS, 1)
wgmma_chain(float* __restrict__ out, const unsigned* __restrict__ a_rows,
            const unsigned* __restrict__ b_rows, int tiles, int steps)
{
    __shared__ __align__(SWIZZLED_BYTES) unsigned a_tile[GROUPS * GROUP_ROWS * ROW_WORDS];
    __shared__ __align__(SWIZZLED_BYTES) unsigned b_tile[COLUMNS * ROW_WORDS];
    put_rows(a_tile, a_rows, GROUPS * GROUP_ROWS);
    put_rows(b_tile, b_rows, COLUMNS);
    publish_stores();
    __syncthreads();

    const int group = threadIdx.x / GROUP_THREADS, row = group * GROUP_ROWS + row_of(0);
    const Descriptor b = describe(shared_address(b_tile));
#if A_IN_REGISTERS
    unsigned a[PRODUCTS][4];                     // rows r and r + 8, words w and w + 4 of each
    #pragma unroll
    for (int i = 0; i < PRODUCTS * 4; ++i)
        a[i / 4][i % 4] = a_rows[(row + i % 2 * 8) * ROW_WORDS + i / 4 * 8 + i / 2 % 2 * 4
                                 + threadIdx.x % 4];
#else
    const Descriptor a = describe(shared_address(a_tile + group * GROUP_ROWS * ROW_WORDS));
#endif

    float sums[SUMS] = {};
    for (int tile = 0; tile < tiles; ++tile)
        for (int step = 0; step < steps; ++step) {
            fence_sums();
            #pragma unroll
            for (int k = 0; k < PRODUCTS; ++k)
#if A_IN_REGISTERS
                start_from(sums, a[k], behind(b, k * 32), step > 0 || k > 0);
#else
                start_from(sums, behind(a, k * 32), behind(b, k * 32), step > 0 || k > 0);
#endif
            commit_products();
            wait_for_products<1>();              // those of the step before
        }
    wait_for_products<0>();

    // The total needs every sum, and it is stored: the compiler may leave nothing out.
    float total = 0;
    #pragma unroll
    for (int i = 0; i < SUMS; ++i) total += sums[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
