// 13  Batched products
// Idea:    many small products in one launch. A block computes tile after tile, and its pipeline
//          does not stop between them: while one tile is multiplied and stored, the copies of the
//          next one, often of the next product, are under way.
// Before:  10_register_banks.cu launched a block for each tile of one product. Each began with an
//          empty pipeline, and a small product was over before it was full. The product of a tile
//          (tile_product.cuh) is 12's: 10's kernel, where a Stream says what follows a stage.
// Steps:   start the copies into all stages but one; for each tile of the block, multiply and store
//          it, while the stream goes on to the next tile's copies.
// Launch:  block ((BM / TM) * (BN / TN)), grid (RESIDENT * SMs, or the number of tiles of the batch
//          if it is less); the stages are in dynamic shared memory.
// Takes:   any M, N, K and batch; float32, row-major. C = alpha * op(A) @ op(B) + beta * C for each
//          product. Rows are lda, ldb, ldc elements apart, the matrices of a batch stride_a,
//          stride_b, stride_c; with POINTERS, A, B and C are arrays of their addresses instead.
//          OP_A, OP_B: 0 as it is, 1 stored transposed. Rows that do not all begin at multiples of
//          16 bytes are copied by single elements. From sm_80 on.

#include "tile_product.cuh"

#ifndef RESIDENT
#define RESIDENT 6                               // blocks on an SM at a time, by their registers
#endif
#ifndef POINTERS
#define POINTERS 0                               // 1: A, B and C are arrays of addresses
#endif

#if POINTERS
typedef const float* const* InputBatch;
typedef float* const* OutputBatch;
#else
typedef const float* InputBatch;
typedef float* OutputBatch;
#endif

// The matrix of this product: matrices of a batch are `stride` elements apart.
template <typename Element>
__device__ __forceinline__ Element* matrix(Element* first, long long stride, int product)
{
    return first + product * stride;
}

// The same where `all` has the address of each.
template <typename Element>
__device__ __forceinline__ Element* matrix(Element* const* all, long long, int product)
{
    return all[product];
}

// A tile of C: of which product, and where in it, counted in tiles.
struct BatchTile {
    int product, row, col;
};

// The tiles of all products, one product after the other. Blocks take them in turn: block b those
// of numbers b, b + gridDim.x, and so on.
struct TileOrder {
    int tile_rows, tile_cols;                    // of one product
    BatchTile step;                              // gridDim.x tiles, as products, rows and columns

    __device__ __forceinline__ TileOrder(int M, int N)
        : tile_rows(max(1, ceil_div(M, BM))), tile_cols(max(1, ceil_div(N, BN))),
          step(at(gridDim.x))                    // at least 1, as at() divides by them
    {}

    __device__ __forceinline__ BatchTile at(int number) const
    {
        return {number / tile_cols / tile_rows, number / tile_cols % tile_rows, number % tile_cols};
    }

    // To the block's next tile: an addition with carries instead of divisions. One carry is enough,
    // as a sum is less than twice the size.
    __device__ __forceinline__ void advance(BatchTile& tile) const
    {
        tile.product += step.product;
        tile.row += step.row;
        tile.col += step.col;
        if (tile.col >= tile_cols) { tile.col -= tile_cols; ++tile.row; }
        if (tile.row >= tile_rows) { tile.row -= tile_rows; ++tile.product; }
    }
};

// Copies are STAGES - LAG stages ahead of the mainloop: with LAG, the stage that is filled next is
// the one that was read before this one, so that a warp need not wait until all have read this one.
constexpr int LAG = THREADS > 32 && STAGES > 2;

// The stages of all tiles of a block, one tile after the other. The tile that is copied is ahead of
// the one that is multiplied, and so often of the next product.
struct Stream {
    int copied_k;                                // how much of K of the copied tile is started
    BatchTile& next_tile;                        // to copy after that
    int products;
    Matrices& copied_matrices;                   // of the copied tile
    InputBatch A, B;
    long long stride_a, stride_b;
    Copies& copies;
    bool aligned;                                // all rows of the batch are, where it has strides
    const TileOrder& tile_order;
    unsigned stages_address;                     // of stage 0
    Pipeline& pipeline;
    int k_left;                                  // of the tile that is multiplied

    // Start this thread's copies of the next stage, after a tile's last one of the block's next
    // tile. After the last tile there is nothing left to start.
    __device__ __forceinline__ void copy_stage(int stage)
    {
        if (copied_k >= copied_matrices.K) {     // the copied tile is through, or none was begun
            if (next_tile.product >= products) return;
            copied_matrices.A = matrix(A, stride_a, next_tile.product);
            copied_matrices.B = matrix(B, stride_b, next_tile.product);
            copies = Copies(copied_matrices, POINTERS ? is_aligned(copied_matrices) : aligned,
                            next_tile.row * BM, next_tile.col * BN, 0, copied_matrices.K);
            tile_order.advance(next_tile);
            copied_k = 0;
        }
        copies.copy_stage(stages_address + 4 * STAGE_FLOATS * stage,
                          copied_k + BK <= copied_matrices.K);
        pipeline.commit(stage);
        copied_k += BK;
    }

    // The stage to fill next, when all warps have read it.
    __device__ __forceinline__ int acquire() const
    {
        if (LAG) {
            return pipeline.acquire();
        } else {
            if (THREADS > 32)
                mbarrier_wait(pipeline.empty + MBARRIER_BYTES * pipeline.stage, pipeline.parity);
            return pipeline.stage;
        }
    }

    // The mainloop has read a stage: release it, start copies into a free one, and wait for the
    // tile's next one. After the last one, the kernel waits for the first one of the next tile.
    __device__ __forceinline__ int next_stage()
    {
        pipeline.release(threadIdx.x % 32);
        copy_stage(acquire());
        k_left -= BK;
        return k_left <= 0 ? -1 : pipeline.wait() * STAGE_FLOATS;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
batched(InputBatch A, InputBatch B, OutputBatch C, int M, int N, int K, int lda, int ldb, int ldc,
        long long stride_a, long long stride_b, long long stride_c, int batch,
        float alpha, float beta)
{
    extern __shared__ __align__(128) Stage stages[];           // 128 bytes of B: 4 sectors
    __shared__ unsigned long long barriers[2 * STAGES];
    Pipeline pipeline = make_pipeline(barriers);

    const TileOrder tile_order(M, N);
    BatchTile tile = tile_order.at(blockIdx.x), next_tile = tile;
    // Placeholders: the first copy_stage() sets both, as the stream begins with copied_k = K.
    Matrices matrices = {nullptr, nullptr, M, N, K, lda, ldb};
    Copies copies(matrices, true, 0, 0, 0, 0);
    matrices.A = matrix(A, stride_a, 0);         // for is_aligned alone
    matrices.B = matrix(B, stride_b, 0);
    const bool aligned = is_aligned(matrices) && (!CopyA::BY_FOUR || stride_a % 4 == 0) &&
                         (!CopyB::BY_FOUR || stride_b % 4 == 0);
    Stream stream = {K, next_tile, batch, matrices, A, B, stride_a, stride_b, copies, aligned,
                     tile_order, shared_address(stages), pipeline, 0};
    #pragma unroll 1
    for (int stage = 0; stage < STAGES - LAG; ++stage) stream.copy_stage(stage);

    // Copies are up to STAGES - LAG stages ahead. No barrier between tiles: the epilogue uses
    // registers alone, while the next tile's copies are under way.
    const StageView first = view_of_thread(stages);
    #pragma unroll 1
    for (; tile.product < batch; tile_order.advance(tile)) {
        float accumulators[TM][TN] = {};
        stream.k_left = K;
        mainloop(accumulators, first, pipeline.wait(), stream);
        epilogue(matrix(C, stride_c, tile.product), ldc, M, N, tile.row * BM, tile.col * BN,
                 accumulators, alpha, beta);
    }
}
