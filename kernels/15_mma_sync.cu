// 15  Tensor cores through mma.sync
// Idea:    a lane knows which elements of an operand it holds. So tiles lie in shared memory
//          swizzled, ldmatrix brings each lane its words without bank conflicts, those of the next
//          instruction come while one is multiplied, and the sums go to C from registers.
// Before:  14_wmma.cu left to WMMA which lane holds what, padded its tiles, and sent C through
//          shared memory.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)), with the dynamic
//          shared memory of STAGES times a Stage.
// Takes:   any M, N, K, row-major, of the types that DTYPE says; alpha, beta and bias float32, sums
//          float32 or, of INT8, int32. C = activation(alpha * A @ B + beta * C + bias), rounded
//          once at the end. With BIAS, `bias` has N elements or is null. A, B, C and bias begin at
//          multiples of 16 bytes. Where rows of A or B are no multiples of 16 bytes, they go
//          through registers. From sm_80 on, 8-bit floats from sm_89.

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 256                                   // columns
#endif
#ifndef BK
#define BK 64                                    // how far along K one stage goes
#endif
#ifndef WM
#define WM 64                                    // rows of C that a warp computes
#endif
#ifndef WN
#define WN 64                                    // columns
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef GROUP
#define GROUP 8                                  // rows of blocks that go through the grid together
#endif
#ifndef SETS
#define SETS 2                                   // of operands in registers: 2, one step ahead
#endif
#define THREADS (32 * (BM / WM) * (BN / WN))
#define DOWN (WM / 16)                           // pieces of 16×8 of a warp's part of C
#define ACROSS (WN / 8)

#include "async_copy.cuh"
#include "mma_epilogue.cuh"
#include "mma_tiles.cuh"

// What a warp multiplies in one step along K.
struct Operands {
    unsigned a[DOWN][4], b[ACROSS][2];
};

// In rows that snake, so that each instruction has an operand in common with the one before.
__device__ __forceinline__ void multiply(Sum (&sums)[DOWN][ACROSS][4], const Operands& mine)
{
    #pragma unroll
    for (int i = 0; i < DOWN; ++i)
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            const int across = i % 2 ? ACROSS - 1 - j : j;
            multiply_piece(sums[i][across], mine.a[i], mine.b[across]);
        }
}

// Those of one step of a stage.
__device__ __forceinline__ void load(Operands& mine, unsigned stage, int a, int b, int step)
{
    load_a(mine.a, stage, a, step);
    load_b(mine.b, stage + sizeof(Stage::a), b, step);
}

// sums += A @ B for my warp's part, which begins at row y and column x of the block's tile.
template <class Way>
__device__ __forceinline__ void add_product(Sum (&sums)[DOWN][ACROSS][4], Stage* stages,
                                            Source from, int y, int x)
{
    #pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        Way share;
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            share.start(stages[stage], from, step);
            share.finish(stages[stage], step);
        }
        commit_copies();
        from.next();
    }
    wait_for_copies<STAGES - 2>();
    __syncthreads();                             // the first stage is here

    const int lane = threadIdx.x % 32;
    const int a = my_place_in_a(y, lane), b = my_place_in_b(x, lane);
    const unsigned first = (unsigned)__cvta_generic_to_shared(stages);
    unsigned now = first;                        // the stage that is multiplied
    int free = STAGES - 1;                       // the stage that is filled
    Operands mine[SETS];                         // for one step, and for the next
    if (SETS == 2) load(mine[0], now, a, b, 0);
    #pragma unroll 1
    for (int left = from.K; left > 0; left -= BK) {
        Way share;                               // of what is brought meanwhile
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (SETS == 1) load(mine[0], now, a, b, step);
            if (step == STEPS - 1) {
                wait_for_copies<STAGES - 3>();
                __syncthreads();                 // the next stage is here, and all have read `now`
                now = now == first + (STAGES - 1) * sizeof(Stage) ? first : now + sizeof(Stage);
            }
            if (SETS == 2) load(mine[(step + 1) % 2], now, a, b, (step + 1) % STEPS);
            share.start(stages[free], from, step);
            multiply(sums, mine[step % SETS]);
            share.finish(stages[free], step);
        }
        commit_copies();
        from.next();
        free = free == STAGES - 1 ? 0 : free + 1;
    }
    wait_for_copies<0>();
}

extern "C" __global__ void __launch_bounds__(THREADS)
mma_product(const Element* __restrict__ A, const Element* __restrict__ B, Result* __restrict__ C,
            int M, int N, int K, float alpha, float beta, const float* __restrict__ bias)
{
    extern __shared__ __align__(128) char shared[];

    int top, left;                                             // the block's corner of C
    find_corner(top, left);
    const int warp = threadIdx.x / 32;
    const int y = warp / (BN / WN) * WM, x = warp % (BN / WN) * WN;    // my warp's, within

    Sum sums[DOWN][ACROSS][4] = {};
    const Source from(A, B, M, N, K, top, left);
    if (N % CHUNK == 0 && K % CHUNK == 0)
        add_product<Copies>(sums, (Stage*)shared, from, y, x);
    else
        add_product<ThroughRegisters>(sums, (Stage*)shared, from, y, x);

    if (beta == 0.0f && N % 4 == 0 && (DTYPE != 3 || alpha == 1.0f)) {
        store_fours(C, sums, top + y, left + x, M, N, alpha, bias);
    } else {                                     // the strips lie where the stages were
        __syncthreads();
        store_any(((Strip*)shared)[warp], C, sums, top + y, left + x, M, N, alpha, beta, bias);
    }
}
