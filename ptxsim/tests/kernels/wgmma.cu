// Tensor cores through wgmma
// Idea:    a warpgroup, four warps, starts a product of 64×64 and goes on: the tensor cores read A
//          and B from shared memory by themselves, swizzled rows of 128 bytes that a descriptor
//          names. STAGES tiles are there, so that the next is being brought meanwhile. Stores are
//          made known to the tensor cores by fence.proxy.async, and a tile is written again only
//          when wgmma.wait_group says that it has been read. wgmma_registers has A in registers.
// Before:  mma_sync.cu had every warp load its own pieces, and wait for each product.
// Launch:  block (128), grid (ceil(N / 64), ceil(M / 64)).
// Takes:   any M, N, K; A and B float16; C float32; row-major. C = alpha * A @ B + beta * C.
//          From sm_90a on.

#ifndef STAGES
#define STAGES 2
#endif
#define TILE 64                     // rows, columns and steps of k of a block's tile
#define CHUNK 8                     // elements of 16 bytes
#define ROW_BYTES 128               // of a tile
#define TILE_BYTES (TILE * ROW_BYTES)
#define GROUP_BYTES (8 * ROW_BYTES) // rows of which the swizzle repeats
#define THREADS 128
#define SUMS 32                     // of a thread

typedef unsigned short Bits;        // of a float16
typedef unsigned long long Descriptor;

__device__ unsigned half_at(const Bits* from, int row, int col, int rows, int cols)
{
    return row < rows && col < cols ? from[(size_t)row * cols + col] : 0;
}

__device__ unsigned pair_at(const Bits* from, int row, int col, int rows, int cols)
{
    return half_at(from, row, col, rows, cols) | half_at(from, row, col + 1, rows, cols) << 16;
}

// The tile of `from` (rows × cols) whose corner is (top, left), zeros outside.
__device__ void load_tile(char* tile, const Bits* from, int top, int left, int rows, int cols)
{
    for (int i = threadIdx.x; i < TILE * TILE / CHUNK; i += THREADS) {
        const int row = i / (TILE / CHUNK), chunk = i % (TILE / CHUNK);
        unsigned words[4];
        for (int j = 0; j < 4; j++)
            words[j] = pair_at(from, top + row, left + chunk * CHUNK + 2 * j, rows, cols);
        const int place = row * ROW_BYTES + (chunk ^ row % 8) * 16;
        *(uint4*)(tile + place) = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

// Of a tile with a swizzle of 128 bytes, whose groups of 8 rows follow one another.
__device__ Descriptor descriptor(const char* tile)
{
    const Descriptor address = (unsigned)__cvta_generic_to_shared(tile);
    return address >> 4 | (Descriptor)(GROUP_BYTES >> 4) << 32 | 1ull << 62;
}

#define SUMS_ARE "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i) FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)
#define WGMMA "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " SUMS_ARE

// d += A B for 16 of k. A lies by rows, B by rows too: it is transposed.
__device__ void multiply(float (&d)[SUMS], Descriptor a, Descriptor b)
{
    asm volatile(WGMMA ", %32, %33, 1, 1, 1, 0, 1;"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16) : "l"(a), "l"(b));
}

__device__ void multiply(float (&d)[SUMS], const unsigned (&a)[4], Descriptor b)
{
    asm volatile(WGMMA ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : SIXTEEN(d, 0), SIXTEEN(d, 16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ void fence_registers() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void fence_stores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int MOST> __device__ void wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(MOST) : "memory");
}

// Row and column, in the tile, of a thread's sum i.
__device__ int row_of(int i) { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8; }
__device__ int col_of(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

__device__ void store(const float (&d)[SUMS], float* C, int top, int left, int M, int N,
                      float alpha, float beta)
{
    for (int i = 0; i < SUMS; i++) {
        const int row = top + row_of(i), col = left + col_of(i);
        if (row >= M || col >= N) continue;
        float* c = C + (size_t)row * N + col;
        *c = beta == 0.0f ? alpha * d[i] : alpha * d[i] + beta * *c;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
wgmma_shared(const Bits* __restrict__ A, const Bits* __restrict__ B, float* __restrict__ C,
             int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(1024) char a_tiles[STAGES][TILE_BYTES];   // [row][k]
    __shared__ __align__(1024) char b_tiles[STAGES][TILE_BYTES];   // [k][col]
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE;

    float sums[SUMS] = {};
    for (int tile_k = 0, stage = 0; tile_k < K; tile_k += TILE, stage = (stage + 1) % STAGES) {
        load_tile(a_tiles[stage], A, top, tile_k, M, K);
        load_tile(b_tiles[stage], B, tile_k, left, K, N);
        fence_stores();
        __syncthreads();
        const Descriptor a = descriptor(a_tiles[stage]), b = descriptor(b_tiles[stage]);
        fence_registers();
        for (int k = 0; k < TILE; k += 16)          // 32 bytes of a row of A, 16 rows of B
            multiply(sums, a + k * 2 / 16, b + k * ROW_BYTES / 16);
        commit();
        wait<STAGES - 1>();
    }
    wait<0>();
    store(sums, C, top, left, M, N, alpha, beta);
}

extern "C" __global__ void __launch_bounds__(THREADS)
wgmma_registers(const Bits* __restrict__ A, const Bits* __restrict__ B, float* __restrict__ C,
                int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(1024) char b_tile[TILE_BYTES];            // [k][col]
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE;

    float sums[SUMS] = {};
    for (int tile_k = 0; tile_k < K; tile_k += TILE) {
        load_tile(b_tile, B, tile_k, left, K, N);
        fence_stores();
        __syncthreads();
        unsigned a[4][4];                           // [step of 16][register]
        for (int i = 0; i < 4; i++)
            for (int r = 0; r < 4; r++) {           // two of k, in rows 8 apart, then 8 of k on
                const int row = row_of(0) + r % 2 * 8;
                const int k = tile_k + i * 16 + r / 2 * 8 + threadIdx.x % 4 * 2;
                a[i][r] = pair_at(A, top + row, k, M, K);
            }
        fence_registers();
        for (int i = 0; i < 4; i++)
            multiply(sums, a[i], descriptor(b_tile) + i * 16 * ROW_BYTES / 16);
        commit();
        wait<0>();
    }
    store(sums, C, top, left, M, N, alpha, beta);
}
