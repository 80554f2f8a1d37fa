// 13  Batched products
// Idea:    many small products are one launch, and one stream of stages: while a tile of one
//          product is multiplied, copies of the next product's are already under way. Blocks stay
//          and go from product to product; their pipelines are never empty in between.
// Before:  10_register_banks.cu launched a block for each tile of one product. Each began with an
//          empty pipeline, and a small product was over before it was full.
// Launch:  block ((BM / TM) * (BN / TN)), grid (RESIDENT * SMs, or the number of tiles of the batch
//          if it is less); the stages are in dynamic shared memory.
// Takes:   any M, N, K and batch; float32, row-major, from one row to the next lda, ldb and ldc
//          elements. C = alpha * op(A) @ op(B) + beta * C for each product. OP_A, OP_B: 0 as it is,
//          1 stored transposed. From one matrix of the batch to the next it is stride_a, stride_b
//          and stride_c elements; with POINTERS, A, B and C are arrays of their addresses instead.
//          Rows that do not all begin at multiples of 16 bytes are copied by single elements. From
//          sm_80 on.
// tile_product.cuh has the copies, the mainloop and the epilogue of a tile.

#include "tile_product.cuh"

#ifndef RESIDENT
#define RESIDENT 6                               // blocks that run on an SM at a time
#endif
#ifndef POINTERS
#define POINTERS 0                               // 1: A, B and C are arrays of addresses
#endif

#if POINTERS
typedef const float* const* Inputs;
typedef float* const* Outputs;
#else
typedef const float* Inputs;
typedef float* Outputs;
#endif

// One matrix of a batch: `stride` elements after the one before, or where its address says.
template <typename Element>
__device__ __forceinline__ Element* matrix(Element* first, long long stride, int product)
{
    return first + product * stride;
}

template <typename Element>
__device__ __forceinline__ Element* matrix(Element* const* all, long long, int product)
{
    return all[product];
}

// A tile of C: of which product, and where in it, counted in tiles.
struct BatchTile {
    int product, row, col;
};

// The tiles of all products, one product after the other. Blocks take them in turn.
struct Batch {
    int tile_rows, tile_cols;                    // of one product
    BatchTile step;                              // from a block's tile to its next one

    __device__ __forceinline__ Batch(int M, int N)
        : tile_rows(max(1, ceil_div(M, BM))), tile_cols(max(1, ceil_div(N, BN))),
          step(at(gridDim.x))
    {}

    __device__ __forceinline__ BatchTile at(int number) const
    {
        return {number / tile_cols / tile_rows, number / tile_cols % tile_rows, number % tile_cols};
    }

    __device__ __forceinline__ void advance(BatchTile& tile) const
    {
        tile.product += step.product;
        tile.row += step.row;
        tile.col += step.col;
        if (tile.col >= tile_cols) { tile.col -= tile_cols; ++tile.row; }
        if (tile.row >= tile_rows) { tile.row -= tile_rows; ++tile.product; }
    }
};

// A stage is filled anew when all warps have read it. With a LAG it is the one that was read before
// this: so a warp need not wait until all are done with this one.
constexpr int LAG = THREADS > 32 && STAGES > 2;

// The stages of all tiles of a block, one tile after the other. Copies are STAGES - LAG stages
// ahead of the mainloop, and so often in the next tile, of the next product.
struct Stream {
    int copied;                                  // of K, of the tile that is copied
    BatchTile& next;                             // the tile to copy then
    int products;
    Matrices& matrices;                          // of the tile that is copied
    Inputs A, B;
    long long stride_a, stride_b;
    Copies& copies;
    bool aligned;                                // all matrices of a batch by strides
    const Batch& batch;
    unsigned stages;                             // the shared address of stage 0
    Pipeline<STAGES>& pipeline;
    int k_left;                                  // of K, of the tile that is multiplied
    int offset;                                  // floats from stage 0 to the one to read; or -1

    // Start this thread's copies of the next stage, if there is one.
    __device__ __forceinline__ void copy_stage(int stage)
    {
        if (copied >= matrices.K) {              // it is of the block's next tile
            if (next.product >= products) return;
            matrices.A = matrix(A, stride_a, next.product);
            matrices.B = matrix(B, stride_b, next.product);
            copies = Copies(matrices, POINTERS ? is_aligned(matrices) : aligned, next.row * BM,
                            next.col * BN, 0, matrices.K);
            batch.advance(next);
            copied = 0;
        }
        copies.copy_stage(stages + 4 * STAGE_FLOATS * stage, copied + BK <= matrices.K);
        pipeline.commit(stage);
        copied += BK;
    }

    // The stage to fill next, when all warps have read it.
    __device__ __forceinline__ int acquire() const
    {
        if (LAG) return pipeline.acquire();
        if (THREADS > 32)
            mbarrier_wait(pipeline.empty + MBARRIER_BYTES * pipeline.stage, pipeline.parity);
        return pipeline.stage;
    }

    // The mainloop has read a stage: go on to the tile's next one, and wait for it. Behind the last
    // one, copies of the next tile are under way.
    __device__ __forceinline__ void next_stage()
    {
        pipeline.release(threadIdx.x % 32);
        copy_stage(acquire());
        k_left -= BK;
        offset = k_left <= 0 ? -1 : pipeline.wait() * STAGE_FLOATS;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
batched(Inputs A, Inputs B, Outputs C, int M, int N, int K, int lda, int ldb, int ldc,
        long long stride_a, long long stride_b, long long stride_c, int batch,
        float alpha, float beta)
{
    extern __shared__ __align__(128) Stage stages[];           // at whole sectors
    __shared__ unsigned long long barriers[2 * STAGES];
    Pipeline<STAGES> pipeline = make_pipeline(barriers);

    const Batch all(M, N);
    BatchTile tile = all.at(blockIdx.x), next = tile;
    Matrices matrices = {nullptr, nullptr, M, N, K, lda, ldb};
    Copies copies(matrices, true, 0, 0, 0, 0);   // copy_stage begins with the first tile
    matrices.A = matrix(A, stride_a, 0);
    matrices.B = matrix(B, stride_b, 0);
    const bool aligned = is_aligned(matrices) && (!CopyA::BY_FOUR || stride_a % 4 == 0) &&
                         (!CopyB::BY_FOUR || stride_b % 4 == 0);
    Stream stream = {K, next, batch, matrices, A, B, stride_a, stride_b, copies, aligned, all,
                     shared_address(stages), pipeline, 0, 0};
    #pragma unroll 1
    for (int stage = 0; stage < STAGES - LAG; ++stage) stream.copy_stage(stage);

    const StageView first = view_of_thread(stages);
    #pragma unroll 1
    for (; tile.product < batch; all.advance(tile)) {
        float accumulators[TM][TN] = {};
        stream.k_left = K;
        mainloop(accumulators, first, pipeline.wait(), stream);
        epilogue(matrix(C, stride_c, tile.product), ldc, M, N, tile.row * BM, tile.col * BN,
                 accumulators, alpha, beta);
    }
}
