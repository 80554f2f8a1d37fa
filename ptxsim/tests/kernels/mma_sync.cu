// Tensor cores through mma.sync
// Idea:    ldmatrix brings pieces of 8 rows of 16 bytes from shared memory into the registers of a
//          warp as mma.sync wants them. With SWIZZLE the 16-byte chunks of a row change places by
//          the row's number, so that eight rows lie in different banks.
// Before:  wmma.cu left the places of elements, in registers and in shared memory, to the compiler.
// Launch:  block (128), grid (ceil(N / 64), ceil(M / 64)): 2×2 warps of 32×32.
// Takes:   any M, N, K; A and B float16, or bfloat16 with BF16, 16-byte aligned; C float32;
//          row-major. C = alpha * A @ B + beta * C.

#ifndef SWIZZLE
#define SWIZZLE 1
#endif
#ifndef BF16
#define BF16 0
#endif
#define TILE 64                     // rows, columns and steps of k of a block's tile
#define CHUNK 8                     // elements of 16 bytes
#define THREADS 128
#if BF16
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#endif

typedef unsigned short Bits;        // of a float16 or bfloat16

// Where a chunk of a row of a tile lies.
__device__ int place(int row, int chunk)
{
    return (row * (TILE / CHUNK) + (SWIZZLE ? chunk ^ row % 8 : chunk)) * CHUNK;
}

// The tile of `from` (rows × cols) whose corner is (top, left), zeros outside.
__device__ void load_tile(Bits* tile, const Bits* from, int top, int left, int rows, int cols)
{
    for (int i = threadIdx.x; i < TILE * TILE / CHUNK; i += THREADS) {
        const int row = i / (TILE / CHUNK), chunk = i % (TILE / CHUNK);
        const int y = top + row, x = left + chunk * CHUNK;
        const Bits* source = from + (size_t)y * cols + x;
        uint4 eight = make_uint4(0, 0, 0, 0);
        if (y < rows && x + CHUNK <= cols && cols % CHUNK == 0) {
            eight = *(const uint4*)source;
        } else if (y < rows) {
            unsigned words[4] = {};
            for (int j = 0; j < CHUNK; j++)
                if (x + j < cols) words[j / 2] |= (unsigned)source[j] << 16 * (j % 2);
            eight = make_uint4(words[0], words[1], words[2], words[3]);
        }
        *(uint4*)(tile + place(row, chunk)) = eight;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
mma_sync(const Bits* __restrict__ A, const Bits* __restrict__ B, float* __restrict__ C,
         int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(128) Bits a_tile[TILE * TILE];    // [row][k]
    __shared__ __align__(128) Bits b_tile[TILE * TILE];    // [k][col]

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp / 2 * 32, warp_col = warp % 2 * 32;
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE;

    float sums[2][4][4] = {};       // [tile of 16 rows][tile of 8 columns][register]
    for (int tile_k = 0; tile_k < K; tile_k += TILE) {
        load_tile(a_tile, A, top, tile_k, M, K);
        load_tile(b_tile, B, tile_k, left, K, N);
        __syncthreads();
        for (int k = 0; k < TILE; k += 16) {
            unsigned a[2][4], b[4][2];
            for (int i = 0; i < 2; i++) {           // lanes 0-15 name rows, 16-31 the next 8 of k
                const int row = warp_row + 16 * i + lane % 16, chunk = k / CHUNK + lane / 16;
                const unsigned at = __cvta_generic_to_shared(a_tile + place(row, chunk));
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3])
                             : "r"(at) : "memory");
            }
            for (int j = 0; j < 4; j += 2) {        // two tiles of columns, transposed on the way
                const int row = k + lane % 16, chunk = (warp_col + 8 * j) / CHUNK + lane / 16;
                const unsigned at = __cvta_generic_to_shared(b_tile + place(row, chunk));
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(b[j][0]), "=r"(b[j][1]), "=r"(b[j + 1][0]), "=r"(b[j + 1][1])
                             : "r"(at) : "memory");
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++)
                    asm volatile(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                                     "{%0, %1, %2, %3};"
                                 : "+f"(sums[i][j][0]), "+f"(sums[i][j][1]),
                                   "+f"(sums[i][j][2]), "+f"(sums[i][j][3])
                                 : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]),
                                   "r"(b[j][0]), "r"(b[j][1]));
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            for (int r = 0; r < 4; r++) {           // rows lane / 4 and 8 below, two columns
                const int row = top + warp_row + 16 * i + 8 * (r / 2) + lane / 4;
                const int col = left + warp_col + 8 * j + 2 * (lane % 4) + r % 2;
                if (row >= M || col >= N) continue;
                float* c = C + (size_t)row * N + col;
                *c = beta == 0.0f ? alpha * sums[i][j][r] : alpha * sums[i][j][r] + beta * *c;
            }
}
