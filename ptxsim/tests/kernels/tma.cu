// Tiles by tensor map
// Idea:    one thread has whole tiles brought and taken away by the copy engine (TMA). A tensor map
//          tells it shape and strides of a matrix; what is outside is filled with zeros, or not
//          written. Two stages of tiles form a ring: mbarriers say which are full and which empty.
// Before:  09_double_buffering.cu had every thread copy some bytes of a tile, and look at the edges.
// Launch:  block (TILE, TILE), grid (ceil(N / TILE), ceil(M / TILE)).
// Takes:   any M and K, with rows that begin at multiples of 16 bytes. Maps of A, B (boxes of
//          TILE by TILE, swizzle as WIDTH says) and C (the same boxes, no swizzle). C = A @ B.
//          From sm_90 on.

#ifndef TILE
#define TILE 32
#endif
#ifndef WIDTH
#define WIDTH 0                                  // of the swizzle, bytes; 0 for none
#endif
#define STAGES 2
#define THREADS (TILE * TILE)
#define TILE_BYTES (4 * TILE * TILE)

typedef unsigned long long mbarrier;
struct __align__(64) TensorMap { char opaque[128]; };

__device__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void init(mbarrier* b, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(place(b)), "r"(count) : "memory");
}

__device__ void arrive(mbarrier* b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(place(b)) : "memory");
}

__device__ void arrive_and_expect(mbarrier* b, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(place(b)), "r"(bytes) : "memory");
}

__device__ void wait(mbarrier* b, int parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(place(b)), "r"(parity) : "memory");
}

__device__ void load_box(void* to, const TensorMap* map, int row, int col, mbarrier* b)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(place(to)), "l"(map), "r"(col), "r"(row), "r"(place(b)) : "memory");
}

__device__ void store_box(const TensorMap* map, int row, int col, const void* from)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(map), "r"(col), "r"(row), "r"(place(from)) : "memory");
}

__device__ void finish_stores()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Where an element of a swizzled tile is: bits 4 to 6 of its byte are exchanged by bits 7 to 9.
__device__ float element(const float* tile, int row, int col)
{
    const int byte = 4 * (row * TILE + col);
    return tile[(byte ^ (byte >> 3 & (WIDTH ? WIDTH - 16 : 0))) / 4];
}

extern "C" __global__ void __launch_bounds__(THREADS)
product(const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
        const __grid_constant__ TensorMap C, int K)
{
    __shared__ __align__(1024) float a[STAGES][TILE * TILE], b[STAGES][TILE * TILE];
    __shared__ __align__(128) float c[TILE * TILE];
    __shared__ mbarrier full[STAGES], empty[STAGES];

    const int x = threadIdx.x, y = threadIdx.y, leader = x + y == 0;
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE, tiles = (K + TILE - 1) / TILE;

    if (leader) {
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 1);
            init(&empty[s], THREADS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();                             // mbarriers are ready

    float sum = 0.0f;
    for (int i = 0; i < tiles + STAGES - 1; ++i) {
        if (leader && i < tiles) {               // bring tile i, STAGES - 1 ahead of its use
            const int s = i % STAGES, round = i / STAGES;
            wait(&empty[s], (round + 1) % 2);    // at once in the first round
            arrive_and_expect(&full[s], 2 * TILE_BYTES);
            load_box(a[s], &A, top, i * TILE, &full[s]);
            load_box(b[s], &B, i * TILE, left, &full[s]);
        }
        const int now = i - (STAGES - 1);
        if (now < 0) continue;
        const int s = now % STAGES;
        wait(&full[s], now / STAGES % 2);
        for (int k = 0; k < TILE; ++k)
            sum += element(a[s], y, k) * element(b[s], k, x);
        arrive(&empty[s]);
    }

    c[y * TILE + x] = sum;
    fence();                                     // the copy engine is to see what was written
    __syncthreads();
    if (leader) {
        store_box(&C, top, left, c);
        finish_stores();
    }
}

// Copies a matrix box by box, block by block; the two maps have the same box of `bytes`.
extern "C" __global__ void copy_boxes(const __grid_constant__ TensorMap from,
                                      const __grid_constant__ TensorMap to,
                                      int rows, int cols, int bytes)
{
    extern __shared__ __align__(1024) char box[];
    __shared__ mbarrier full;
    const int row = blockIdx.y * rows, col = blockIdx.x * cols;
    if (threadIdx.x == 0) {
        init(&full, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        arrive_and_expect(&full, bytes);
        load_box(box, &from, row, col, &full);
        wait(&full, 0);
        store_box(&to, row, col, box);
        finish_stores();
    }
}

// Rows of 256 floats, doubled: each block has one brought and stores it again as a stretch.
extern "C" __global__ void double_rows(const float* in, float* out)
{
    __shared__ __align__(128) float row[256];
    __shared__ mbarrier full;
    if (threadIdx.x == 0) {
        init(&full, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        arrive_and_expect(&full, sizeof(row));
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1], %2, [%3];"
                     :: "r"(place(row)), "l"(in + 256 * blockIdx.x), "r"((int)sizeof(row)),
                        "r"(place(&full)) : "memory");
    }
    wait(&full, 0);
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        row[i] *= 2.0f;
    fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                     :: "l"(out + 256 * blockIdx.x), "r"(place(row)), "r"((int)sizeof(row))
                     : "memory");
        finish_stores();
    }
}
