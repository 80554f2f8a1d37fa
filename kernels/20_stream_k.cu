// 20  Stream-K on tensor cores
// Idea:    all SMs are busy to the end, whatever the shape. Tiles of C that do not fill a whole
//          round of all SMs are laid end to end, each as long as K, and cut into equal lengths.
//          Blocks that share a tile store their sums, and each adds up a share of the tile at the
//          end. Cut tiles come first: others' sums arrive while whole tiles are multiplied. Stages
//          are copied on and on, across the borders of tiles.
// Before:  18_persistent.cu gave whole tiles to blocks, so that some had one more than others, or
//          there were fewer tiles than SMs.
// Launch:  block (2 * BM + 128), grid (workers * CLUSTER): all of them resident. A worker is a
//          cluster, and a tile of C here is CLUSTER blocks large. The first cut_tiles of them are
//          cut among the first cut_workers workers, cut_tiles * k_tiles / cut_workers k tiles for
//          each, or one more; the others are taken whole, in turn.
//          Dynamic shared memory as 17. Rows off 16 bytes: any_width.cuh.
// Takes:   as 16_tma_wgmma.cu. `parts`: room for two tiles of floats for each block that has cut
//          ones. `arrived`: a counter for each cut tile of each block of a cluster, 0 before and
//          after.

#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1                             // that must fit on one SM
#endif

#include "stage.cuh"
#include "pipeline_state.cuh"
#include "warp_roles.cuh"
#include "programmatic_launch.cuh"
#include "alpha_beta.cuh"
#include "tma_epilogue.cuh"
#include "cluster_tiles.cuh"
#include "grid_counters.cuh"

constexpr int CONSUMER_THREADS = CONSUMERS * WARPGROUP_THREADS;
constexpr int TILE_FLOAT4S = BM * BN / 4, CHUNKS = BN / 8; // of 8 columns: a float4 of each thread
constexpr int LOADS = 8;                         // of float4s that a thread has in flight

// Consumers borrow registers of the producer, as in 18, until they join.
constexpr int REGISTERS = 65536 / THREADS / MIN_BLOCKS / 8 * 8;
constexpr int PRODUCER_REGISTERS = 40;
constexpr int CONSUMER_REGISTERS =
    (REGISTERS * (CONSUMERS + 1) - PRODUCER_REGISTERS) / CONSUMERS / 8 * 8;
constexpr bool BORROW_REGISTERS = CONSUMERS > 1 && ACCUMULATORS > 64;

template <int COUNT>
__device__ __forceinline__ void raise_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(COUNT));
}

template <int COUNT>
__device__ __forceinline__ void lower_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(COUNT));
}

struct Shared {
    Stage stages[STAGES];
    StoreBuffer store_buffers[CONSUMERS][STORE_BUFFERS];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers
};
static_assert(sizeof(Stage) >= THREADS * sizeof(float4), "the sums of groups lie in a stage");

// The k tiles of the cut tiles, of which `extra` workers have one more than the others.
struct CutTiles {
    int tiles, k_tiles, workers, per_worker, extra;

    __device__ __forceinline__ int first_of(int worker) const
    {
        return worker < workers ? worker * per_worker + min(worker, extra) : tiles * k_tiles;
    }

    __device__ __forceinline__ int worker_of(unsigned k_tile) const
    {
        const unsigned longer = extra * (per_worker + 1u);
        return k_tile < longer ? k_tile / (per_worker + 1u)
                               : extra + (k_tile - longer) / (unsigned)per_worker;
    }
};

// What a worker does one after the other: its length of the cut tiles, and then whole ones. A span
// is what it multiplies of one tile: `count` k tiles from k_tile on.
struct Work {
    int at, end, whole;                          // k tiles; the number of its next whole tile
    int tile = 0, k_tile = 0, count = 0;         // the current span

    // To the next span, if there is one.
    __device__ __forceinline__ bool next(const CutTiles& cut, int tiles, int workers)
    {
        if (at < end) {
            tile = (unsigned)at / cut.k_tiles;
            k_tile = at - tile * cut.k_tiles;
            count = min(cut.k_tiles - k_tile, end - at);
            at += count;
            return true;
        }
        tile = whole;
        k_tile = 0;
        count = cut.k_tiles;
        whole += workers;
        return tile < tiles;
    }
};

struct Output {
    ElementC* C;
    int M, N;
    float alpha, beta;

    // Two neighbours of a row: N is even, as C has a tensor map.
    __device__ __forceinline__ void store_pair(int row, int col, float first, float second) const
    {
        if (row >= M || col >= N) return;
        ElementC* to = C + (size_t)row * N + col;
        first *= alpha;
        second *= alpha;
        if (beta != 0.0f) {
            first += beta * to_float(to[0]);
            second += beta * to_float(to[1]);
        }
        *(PairC*)to = round_pair(first, second);
    }
};

// How much of a tile lies in C: threads of the consumers with rows in C, in whole warps, and chunks
// of 8 columns.
struct Extent {
    int threads, chunks;

    __device__ __forceinline__ Extent(TileStart tile, int M, int N)
        : threads(32 * max(0, min(BM / 16, ceil_div(M - tile.m, 16)))),
          chunks(max(0, min(CHUNKS, ceil_div(N - tile.n, 8)))) {}
};

__device__ __forceinline__ void add(float4& sum, float4 summand)
{
    sum.x += summand.x;
    sum.y += summand.y;
    sum.z += summand.z;
    sum.w += summand.w;
}

// Store a consumer's accumulators, four at a time, neighbouring threads side by side.
__device__ __forceinline__ void store_part(const float (&accumulators)[ACCUMULATORS], float4* part,
                                           Extent extent)
{
    if (threadIdx.x >= extent.threads) return;
    #pragma unroll
    for (int i = 0; i < CHUNKS; ++i)
        if (i < extent.chunks)
            __stcg(part + i * extent.threads + threadIdx.x,
                   make_float4(accumulators[4 * i], accumulators[4 * i + 1],
                               accumulators[4 * i + 2], accumulators[4 * i + 3]));
}

// The float4 at this position of a part: two neighbours, and the two 8 rows below, of a tile.
__device__ __forceinline__ void store_sum(const Output& out, TileStart tile, Extent extent,
                                          int position, float4 sum)
{
    const int chunk = position / extent.threads, thread = position - chunk * extent.threads;
    const int row = tile.m + thread / 32 * 16 + thread % 32 / 4;       // four warps have 64 rows
    const int col = tile.n + chunk * 8 + thread % 4 * 2;
    out.store_pair(row, col, sum.x, sum.y);
    out.store_pair(row + 8, col, sum.z, sum.w);
}

// The parts of the workers that share a tile, from the first float4 of this block's share on.
struct Parts {
    const float4* first;                         // the first worker's first part
    int to_second;                               // float4s to its second, if that is meant
    int sharers, count;                          // workers; float4s of this share

    // Add the parts of every step-th worker from `begin` on, in this order, for POSITIONS float4s,
    // THREADS apart.
    template <int POSITIONS>
    __device__ __forceinline__ void add_up(float4 (&sums)[POSITIONS], int position, int begin,
                                           int step) const
    {
        constexpr int AT_A_TIME = LOADS / POSITIONS;
        #pragma unroll
        for (int p = 0; p < POSITIONS; ++p) sums[p] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        #pragma unroll 1
        for (int w = begin; w < sharers; w += AT_A_TIME * step) {
            float4 summands[AT_A_TIME][POSITIONS];
            #pragma unroll
            for (int i = 0; i < AT_A_TIME; ++i)
                #pragma unroll
                for (int p = 0; p < POSITIONS; ++p) {
                    const int worker = w + i * step, n = position + p * THREADS;
                    summands[i][p] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (worker < sharers && n < count)         // past L1: others have written it
                        summands[i][p] = __ldcg(first + (worker == 0 ? to_second : 0)
                                                + (size_t)worker * (2 * CLUSTER * TILE_FLOAT4S)
                                                + n);
                }
            #pragma unroll
            for (int i = 0; i < AT_A_TIME; ++i)
                #pragma unroll
                for (int p = 0; p < POSITIONS; ++p) add(sums[p], summands[i][p]);
        }
    }
};

// Where a block stores its sums: part 0 those of its first span, part 1 those of its last one.
__device__ __forceinline__ size_t part_of(int worker, bool second, int rank)
{
    return (size_t)((2 * worker + second) * CLUSTER + rank) * TILE_FLOAT4S;
}

// By all threads of a block: wait for the others that share this tile, add up a share of it, in the
// same order at every run, and store it. `scratch`: shared memory, a float4 for each thread.
__device__ __forceinline__ void join(const Output& out, const float4* parts, unsigned* arrived,
                                     const CutTiles& cut, int number, int rank, TileStart tile,
                                     float4* scratch)
{
    const int first_k_tile = number * cut.k_tiles, first_worker = cut.worker_of(first_k_tile);
    const int sharers = cut.worker_of(first_k_tile + cut.k_tiles - 1) - first_worker + 1;
    unsigned* counter = arrived + number * CLUSTER + rank;
    if (threadIdx.x == 0) {
        while (counter_load(counter) < sharers) {}
        // The last one that has seen them all clears the counter.
        if (counter_increment(counter) == 2 * sharers - 1) *counter = 0;
    }
    __syncthreads();

    const Extent extent(tile, out.M, out.N);
    const int float4s = extent.threads * extent.chunks, share = ceil_div(float4s, sharers);
    const int begin = (blockIdx.x / CLUSTER - first_worker) * share;
    const int count = min(share, float4s - begin);
    if (count <= 0) return;
    const Parts all = {parts + part_of(first_worker, false, rank) + begin,
                       cut.first_of(first_worker) < first_k_tile ? CLUSTER * TILE_FLOAT4S : 0,
                       sharers, count};
    if (count > THREADS / 2) {                   // each thread adds all parts of some float4s
        constexpr int POSITIONS = 4;
        #pragma unroll 1
        for (int n = threadIdx.x; n < count; n += POSITIONS * THREADS) {
            float4 totals[POSITIONS];
            all.add_up(totals, n, 0, 1);
            #pragma unroll
            for (int p = 0; p < POSITIONS; ++p)
                if (n + p * THREADS < count)
                    store_sum(out, tile, extent, begin + n + p * THREADS, totals[p]);
        }
        return;
    }
    // Few float4s, and many parts: groups of `count` threads add some of the parts each.
    const int groups = min(THREADS / count, sharers);
    const int group = threadIdx.x / count, n = threadIdx.x % count;
    float4 total[1];
    if (group < groups) {
        all.add_up(total, n, group, groups);
        scratch[threadIdx.x] = total[0];
    }
    __syncthreads();
    if (group == 0) {
        #pragma unroll 8
        for (int other = 1; other < groups; ++other) add(total[0], scratch[other * count + n]);
        store_sum(out, tile, extent, begin + n, total[0]);
    }
    __syncthreads();                             // the next tile may overwrite it
}

// By a consumer: store a whole tile's accumulators, the columns beyond the last whole piece of
// tma_epilogue.cuh by pairs.
__device__ __forceinline__ void store_tile(float (&accumulators)[ACCUMULATORS],
                                           StoreBuffer (&buffers)[STORE_BUFFERS],
                                           const TensorMap& map_c, const Output& out,
                                           TileStart tile, int warpgroup)
{
    const int m = tile.m + warpgroup * WARPGROUP_ROWS;
    #pragma unroll
    for (int i = PIECES * PIECE_COLUMNS / 2; i < ACCUMULATORS; i += 2)
        out.store_pair(m + accumulator_row(i), tile.n + accumulator_column(i), accumulators[i],
                       accumulators[i + 1]);
    if (out.alpha != 1.0f || out.beta != 0.0f)
        apply_alpha_beta(accumulators, out.C, m, tile.n, out.M, out.N, out.alpha, out.beta);
    store_accumulators(accumulators, buffers, map_c, m, tile.n, warpgroup);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) IN_CLUSTERS
stream_k(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
         const __grid_constant__ TensorMap map_c, ElementC* C, int M, int N, int K, float alpha,
         float beta, int cut_tiles, int cut_workers, float4* parts, unsigned* arrived)
{
    extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    const int rank = blockIdx.x % CLUSTER, worker = blockIdx.x / CLUSTER;
    const int workers = gridDim.x / CLUSTER, k_tiles = ceil_div(K, BK);
    const int tile_rows = ceil_div(M, BM * CLUSTER_M), tile_cols = ceil_div(N, BN * CLUSTER_N);
    const int tiles = tile_rows * tile_cols, cut_k_tiles = cut_tiles * k_tiles;
    const int per_worker = cut_k_tiles / max(1, cut_workers);
    const CutTiles cut = {cut_tiles, k_tiles, cut_workers, per_worker,
                          cut_k_tiles - per_worker * cut_workers};
    const int begin = cut.first_of(worker), end = cut.first_of(worker + 1);
    Work work = {begin, end, cut_tiles + worker};
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS;
    const bool leader = threadIdx.x % WARPGROUP_THREADS == 0;

    trigger_next_launch();
    if (threadIdx.x == CONSUMER_THREADS) {
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
        prefetch_tensor_map(map_c);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(full + MBARRIER_BYTES * s, 1);       // the producer, and its bytes
            // The consumers of all blocks: this block copies into the stages of all of them.
            mbarrier_init(empty + MBARRIER_BYTES * s, CONSUMERS * CLUSTER);
        }
        mbarrier_fence_init();
    }
    cluster_sync_relaxed();                      // the mbarriers of all blocks are initialized
    wait_for_previous_launch();

    PipelineState state;
    if (warpgroup == CONSUMERS) {                // the producer
        if (BORROW_REGISTERS) lower_registers<PRODUCER_REGISTERS>();
        if (leader) {
            while (work.next(cut, tiles, workers)) {
                const TileStart tile = tile_start(work.tile, tile_rows, tile_cols, rank);
                for (int i = 0; i < work.count; ++i, state.advance()) {
                    const Stage& stage = shared.stages[state.stage];
                    const unsigned stage_full = full + MBARRIER_BYTES * state.stage;
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
                    mbarrier_arrive_expect(stage_full, sizeof(Stage));
                    copy_stage(stage, map_a, map_b, tile, (work.k_tile + i) * BK, rank,
                               stage_full);
                }
            }
            // Other blocks arrive at this one's mbarriers: it must not end before they are done.
            if (CLUSTER > 1)
                for (int s = 0; s < STAGES; ++s, state.advance())
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
        }
        __syncwarp();                            // its other threads have waited here
        if (BORROW_REGISTERS) {
            named_barrier_sync<WARPGROUP_THREADS>(CONSUMERS + 2);  // its warps, once between two
            raise_registers<REGISTERS>();
        }
    } else {                                     // a consumer
        if (BORROW_REGISTERS) raise_registers<CONSUMER_REGISTERS>();
        float accumulators[ACCUMULATORS];
        const Output out = {C, M, N, alpha, beta};
        for (bool first_span = true; work.next(cut, tiles, workers); first_span = false) {
            for (int i = 0; i < work.count; ++i) {
                mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
                wgmma_fence();
                multiply_stage(accumulators, shared.stages[state.stage], warpgroup, i > 0);
                wgmma_commit();
                wgmma_wait<1>();                 // the products of the stage before have ended
                if (i > 0) mbarrier_arrive_in_cluster(empty + MBARRIER_BYTES * state.previous());
                state.advance();
            }
            wgmma_wait<0>();
            mbarrier_arrive_in_cluster(empty + MBARRIER_BYTES * state.previous());

            const TileStart tile = tile_start(work.tile, tile_rows, tile_cols, rank);
            if (work.count == k_tiles) {
                store_tile(accumulators, shared.store_buffers[warpgroup], map_c, out, tile,
                           warpgroup);
            } else {
                store_part(accumulators, parts + part_of(worker, !first_span, rank),
                           Extent(tile, M, N));
                named_barrier_sync<CONSUMER_THREADS>(CONSUMERS + 1);       // all have stored
                if (threadIdx.x == 0) counter_increment(arrived + work.tile * CLUSTER + rank);
            }
        }
        if (BORROW_REGISTERS) lower_registers<REGISTERS>();
    }

    // Now the tiles that others have parts of: of the cut ones at most the first and the last.
    __syncthreads();                             // all stages are read
    if (begin < end) {
        const Output out = {C, M, N, alpha, beta};
        const int first_tile = (unsigned)begin / k_tiles, last_tile = (unsigned)(end - 1) / k_tiles;
        #pragma unroll 1
        for (int number = first_tile; number <= last_tile;
             number += max(1, last_tile - first_tile)) {
            if (number * k_tiles >= begin && (number + 1) * k_tiles <= end) continue;
            join(out, parts, arrived, cut, number, rank,
                 tile_start(number, tile_rows, tile_cols, rank), (float4*)shared.stages);
        }
    }
    if (warpgroup < CONSUMERS && leader) tma_store_wait();
}

// The kernel for matrices that cannot have tensor maps.
#include "any_width.cuh"
