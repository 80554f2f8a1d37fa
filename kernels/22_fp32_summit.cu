// 22  FP32 summit
// Idea:    rung 10's loop, and nothing beside it. Four warps with few registers bring the tiles;
//          eight with many do nothing but multiply; blocks stay, and share all the work evenly.
// Before:  10_register_banks.cu started copies between its FMAs, and in the last round of blocks
//          some SMs had nothing to do.
// Launch:  block ((BM / TM) * (BN / TN) + 128), grid: at most a block for each SM, for they wait
//          for one another; STAGES pairs of tiles in dynamic shared memory.
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes. Where N is no multiple of 4, B has no tensor map, and it is
//          fp32_summit_unmapped. `parts`: BM * BN floats for each block; `flags`: one for each of
//          its warps that multiply, 0 before and after. For sm_90a.
// register_tiles.cuh has the sizes and the outer product, stream_k.cuh shares the work. PTXAS as in
// 10: 1 keeps the order of the FMAs.

#ifndef BK
#define BK 64                                    // how far along K one stage goes
#endif
#ifndef STAGES
#define STAGES 2                                 // pairs of tiles in shared memory
#endif

#include "register_tiles.cuh"
#include "tensor_copy.cuh"
#include "stream_k.cuh"

#define PRODUCERS 128                            // threads, behind THREADS that multiply

struct Shared {
    float b[STAGES][BK][BN];
    float a[STAGES][BK][BM + PAD];               // transposed: a[stage][k][row]
};

// Where a role is in the ring of stages, and the mbarriers at which it waits and tells.
struct Place {
    unsigned full, empty;
    int stage = 0, parity = 0;

    __device__ __forceinline__ void go_on()
    {
        if (++stage == STAGES) { stage = 0; parity ^= 1; }
    }
};

// What a producer brings of A, and where there is no tensor map of B: one element, or four, a copy.
struct Factors {
    const float *A, *B;
    int M, N, K;
};

// Start my copies of A's part of a stage, transposed on the way: 8 neighbours along K of 4 rows by
// a warp, which are whole sectors and different banks.
__device__ __forceinline__ void bring_a(unsigned tile, const Factors& from, int top, int k)
{
    const int t = threadIdx.x - THREADS, row = top + t / 8, col = k + t % 8;
    const float* here = from.A + (size_t)row * from.K + col;
    const unsigned to = tile + 4 * (t % 8 * (BM + PAD) + t / 8);
    if (top + BM <= from.M && k + BK <= from.K) {
        #pragma unroll
        for (int r = 0; r < BM; r += PRODUCERS / 8)
            #pragma unroll
            for (int d = 0; d < BK; d += 8)
                start_copy<true, 4>(to + 4 * (d * (BM + PAD) + r),
                                    here + (size_t)r * from.K + d, true);
    } else {
        #pragma unroll 1
        for (int r = 0; r < BM; r += PRODUCERS / 8)
            #pragma unroll 1
            for (int d = 0; d < BK; d += 8)
                start_copy<false, 4>(to + 4 * (d * (BM + PAD) + r), here + (size_t)r * from.K + d,
                                     row + r < from.M && col + d < from.K);
    }
}

// The same of B as it is, WIDTH elements a copy. INSIDE: all of it is in the matrix.
template <bool INSIDE, int WIDTH>
__device__ __forceinline__ void bring_b(unsigned tile, const Factors& from, int left, int k)
{
    constexpr int TOGETHER = PRODUCERS * WIDTH;  // elements: rows of the tile, or a part of one
    constexpr int ROWS = TOGETHER > BN ? TOGETHER / BN : 1;
    const int first = (threadIdx.x - THREADS) * WIDTH;
    const int row = k + first / BN, col = left + first % BN;
    const float* here = from.B + (size_t)row * from.N + col;
    unsigned to = tile + 4 * first;
    #pragma unroll 8
    for (int r = 0; r < BK; r += ROWS) {
        #pragma unroll
        for (int c = 0; c < BN; c += TOGETHER)
            start_copy<INSIDE, 4 * WIDTH>(to + 4 * c, here + c,
                                          row + r < from.K && col + c < from.N);
        here += (size_t)ROWS * from.N;
        to += 4 * ROWS * BN;
    }
}

// The same, whatever the shape.
__device__ __forceinline__ void bring_b(unsigned tile, const Factors& from, int left, int k)
{
    const bool inside = left + BN <= from.N && k + BK <= from.K;
    if (from.N % 4) {
        if (inside) bring_b<true, 1>(tile, from, left, k);
        else bring_b<false, 1>(tile, from, left, k);
    } else {
        if (inside) bring_b<true, 4>(tile, from, left, k);
        else bring_b<false, 4>(tile, from, left, k);
    }
}

// What both kernels do. BY_MAP: B comes by tensor map.
template <bool BY_MAP>
__device__ __forceinline__ void compute(const TensorMap* map_b, const Factors& from, float* C,
                                        float alpha, float beta, float* parts, unsigned* flags)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ unsigned long long barriers[2 * STAGES];
    Shared& shared = *(Shared*)memory;
    Place at = {shared_address(barriers), shared_address(barriers + STAGES)};
    if (threadIdx.x < STAGES) {
        set_up(at.full + 8 * threadIdx.x, PRODUCERS + BY_MAP);     // and the bytes that one expects
        set_up(at.empty + 8 * threadIdx.x, THREADS / 32);          // warps that multiply
    }
    publish_barriers();
    __syncthreads();

    Work work(from.M, from.N, from.K);
    if (threadIdx.x >= THREADS) {                // a producer
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        #pragma unroll 1
        while (work.next()) {
            const Corner tile = work.corner();
            #pragma unroll 1
            for (int n = work.begin; n < work.end; ++n, at.go_on()) {
                const unsigned told = at.full + 8 * at.stage;
                const unsigned b = shared_address(shared.b[at.stage]);
                wait_for(at.empty + 8 * at.stage, at.parity ^ 1);
                if (BY_MAP && threadIdx.x == THREADS) {
                    expect_bytes(told, sizeof(shared.b[0]));
                    bring(b, *map_b, n * BK, tile.left, told);
                }
                bring_a(shared_address(shared.a[at.stage]), from, tile.top, n * BK);
                if (!BY_MAP) bring_b(b, from, tile.left, n * BK);
                arrive_when_copied(told);
            }
        }
        return;
    }

    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    // The assembler keeps what it cannot compute again; else every wait begins with reading where
    // shared memory lies.
    asm volatile("" : "+r"(at.full), "+r"(at.empty));
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int y = warp / (BN / WN) * WM + lane / 8 * 4;        // my first row of the block's tile
    const int x = warp % (BN / WN) * WN + lane % 8 * 4;        // my first column of it

    #pragma unroll 1
    while (work.next()) {
        float sums[TM][TN] = {};
        Operands mine[2];                        // for one k, and for the next
        wait_for(at.full + 8 * at.stage, at.parity);
        const float *a = &shared.a[at.stage][0][y], *b = &shared.b[at.stage][0][x];
        read(mine[0], a, b);
        multiply<0, 1>(sums, mine[0]);

        int left = work.end - work.begin, chunks = BK / CHUNK; // stages, and chunks of this one
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
            if (--chunks == 0) {                 // this stage is read
                __syncwarp();
                if (lane == 0) arrive(at.empty + 8 * at.stage);
                at.go_on();
                if (--left == 0) break;
                chunks = BK / CHUNK;
                wait_for(at.full + 8 * at.stage, at.parity);
                a = &shared.a[at.stage][0][y];
                b = &shared.b[at.stage][0][x];
            }
            read(mine[0], a, b);
            multiply<1, TN>(sums, mine[(CHUNK - 1) % 2]);
            multiply<0, 1>(sums, mine[0]);
        }
        multiply<1, TN>(sums, mine[(CHUNK - 1) % 2]);

        if (work.begin > 0) {                    // who has the tile's beginning adds mine
            leave_part(sums, parts, flags);
            continue;
        }
        if (work.end < work.stages)
            for (int block = work.next_of_tile(blockIdx.x); block < gridDim.x;
                 block = work.next_of_tile(block))
                add_part(sums, parts, flags, block);
        const Corner tile = work.corner();
        const bool inside = tile.top + BM <= from.M && tile.left + BN <= from.N && from.N % 4 == 0;
        #pragma unroll
        for (int i = 0; i < TM; ++i)
            #pragma unroll
            for (int q = 0; q < TN / 4; ++q)
                store_four(C, row_of(tile.top + y, i), col_of(tile.left + x, q), from.M, from.N,
                           &sums[i][4 * q], alpha, beta, inside);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS + PRODUCERS, 1)
fp32_summit(const __grid_constant__ TensorMap map_b, const float* __restrict__ A,
            float* __restrict__ C, int M, int N, int K, float alpha, float beta, float* parts,
            unsigned* flags)
{
    compute<true>(&map_b, {A, nullptr, M, N, K}, C, alpha, beta, parts, flags);
}

extern "C" __global__ void __launch_bounds__(THREADS + PRODUCERS, 1)
fp32_summit_unmapped(const float* __restrict__ A, const float* __restrict__ B,
                     float* __restrict__ C, int M, int N, int K, float alpha, float beta,
                     float* parts, unsigned* flags)
{
    compute<false>(nullptr, {A, B, M, N, K}, C, alpha, beta, parts, flags);
}
