// 13  Batched products
// Idea:    many small products are one launch, and one stream of stages: while a tile of one product
//          is multiplied, copies of the next product's are already on their way. Blocks stay and
//          go from product to product; their rings are never empty in between.
// Before:  10_register_banks.cu launched a block for each tile of one product. Each began with an
//          empty ring, and a small product was over before it was full.
// Launch:  block ((BM / TM) * (BN / TN)), grid (RESIDENT * SMs, or the number of tiles of the batch
//          if it is less); the ring lies in dynamic shared memory.
// Takes:   any M, N, K and batch; float32, row-major, from one row to the next lda, ldb and ldc
//          elements. C = alpha * op(A) @ op(B) + beta * C for each product. OP_A, OP_B: 0 as it is,
//          1 stored transposed. From one matrix of the batch to the next it is stride_a, stride_b
//          and stride_c elements; with POINTERS, A, B and C are arrays of their addresses instead.
//          Rows that do not all begin at multiples of 16 bytes are moved by single elements. From
//          sm_80 on.
// tile_product.cuh has the sizes, the copies and the outer product, pipeline.cuh has Ring.

#include "tile_product.cuh"
#include "tile_sizes.cuh"

#ifndef RESIDENT
#define RESIDENT 6                               // blocks that shall run on an SM at a time
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
struct Tile {
    int product, row, column;
};

// The tiles of all products, one product after the other. Blocks take them in turn.
struct Batch {
    int down, across;                            // tiles of one product
    Tile step;                                   // from a block's tile to its next one

    __device__ __forceinline__ Batch(int M, int N)
        : down(max(1, (M + BM - 1) / BM)), across(max(1, (N + BN - 1) / BN)), step(at(gridDim.x))
    {}

    __device__ __forceinline__ Tile at(int number) const
    {
        return {number / across / down, number / across % down, number % across};
    }

    __device__ __forceinline__ void advance(Tile& tile) const
    {
        tile.product += step.product;
        tile.row += step.row;
        tile.column += step.column;
        if (tile.column >= across) { tile.column -= across; ++tile.row; }
        if (tile.row >= down) { tile.row -= down; ++tile.product; }
    }
};

// A place of the ring is filled anew when all warps have read it. With a LAG it is the one that was
// read before this: so a warp need not wait until all are done with this one.
constexpr int LAG = THREADS > 32 && STAGES > 2;
__device__ __forceinline__ int freed(const Ring<STAGES>& ring)
{
    if (LAG) return ring.acquire();
    if (THREADS > 32) wait_for(ring.empty + 8 * ring.place, ring.parity);
    return ring.place;
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
batched(Inputs A, Inputs B, Outputs C, int M, int N, int K, int lda, int ldb, int ldc,
        long long stride_a, long long stride_b, long long stride_c, int batch,
        float alpha, float beta)
{
    extern __shared__ __align__(128) float shared[];           // the ring, at whole sectors
    __shared__ unsigned long long barriers[2 * STAGES];
    Ring<STAGES> ring = make_ring(barriers);

    const Batch all(M, N);
    Tile tile = all.at(blockIdx.x), next = tile;               // to be computed, to be fetched
    Factors factors = {nullptr, nullptr, M, N, K, lda, ldb};
    Sources from(factors, true, 0, 0, 0, 0);
    factors.A = matrix(A, stride_a, 0);
    factors.B = matrix(B, stride_b, 0);
    // Of a batch by strides, for all products.
    const bool by_four = moves_by_four(factors) && ((A_ALONG_K && !A_IN_LINES) || stride_a % 4 == 0) &&
                         (B_ALONG_K || stride_b % 4 == 0);
    int fetched = K;                             // of K, of the tile that is fetched
    const auto fill = [&](int place) {           // with my part of the next stage
        if (fetched >= K) {                      // which is of the next tile, or the next product
            if (next.product >= batch) return;
            factors.A = matrix(A, stride_a, next.product);
            factors.B = matrix(B, stride_b, next.product);
            from = Sources(factors, POINTERS ? moves_by_four(factors) : by_four, next.row * BM,
                           next.column * BN, 0, K);
            all.advance(next);
            fetched = 0;
        }
        from.fetch(shared_address(shared) + 4 * TILES_FLOATS * place, fetched + BK <= K);
        ring.commit(place);
        fetched += BK;
    };
    #pragma unroll 1
    for (int place = 0; place < STAGES - LAG; ++place) fill(place);

    const Stage mine = my_stage(shared);
    #pragma unroll 1
    for (; tile.product < batch; all.advance(tile)) {
        float sums[TM][TN] = {};
        int left = K;                            // of K
        multiply_stages(sums, mine, ring.wait() * TILES_FLOATS, [&] {
            ring.release(threadIdx.x % 32);
            fill(freed(ring));
            left -= BK;
            return left <= 0 ? -1 : ring.wait() * TILES_FLOATS;
        });
        store_tile(matrix(C, stride_c, tile.product), ldc, M, N, tile.row * BM, tile.column * BN,
                   sums, alpha, beta);
    }
}
