// 16  What lies where, and who holds what
// Idea:    a box of numbered elements comes by tensor map, and its bytes are read as they lie; and
//          the sums of a product that is its own numbering are written down by those who hold them.
// Launch:  one block of 128 threads; box with dynamic shared memory for the box.
// Takes:   box: a tensor map of 16-bit elements, `lies` for `bytes` bytes. sums: tensor maps of A,
//          64×64, and B, 64×64, float16, boxes of all of them with a swizzle of 128 bytes; `held`
//          128×32 floats, a row for each thread. For sm_90a alone.

#include "warpgroup_tiles.cuh"

// By all threads: bring a box to this place, and wait for it.
__device__ __forceinline__ void bring_and_wait(unsigned to, const TensorMap& map, int bytes)
{
    __shared__ unsigned long long told;
    if (threadIdx.x == 0) {
        set_up(shared_address(&told), 1);
        publish_barriers();
        expect_bytes(shared_address(&told), bytes);
        bring(to, map, 0, 0, shared_address(&told));
    }
    __syncthreads();
    wait_for(shared_address(&told), 0);
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(GROUP_THREADS)
box(const __grid_constant__ TensorMap map, Bits* lies, int bytes)
{
    extern __shared__ __align__(SWIZZLED_BYTES) Bits memory[];
    bring_and_wait(shared_address(memory), map, bytes);
    for (int i = threadIdx.x; i < bytes / 2; i += GROUP_THREADS) lies[i] = memory[i];
}

extern "C" __global__ void __launch_bounds__(GROUP_THREADS)
sums(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, float* held)
{
    __shared__ __align__(SWIZZLED_BYTES) char a[SQUARE_BYTES], b[SQUARE_BYTES];
    bring_and_wait(shared_address(a), map_a, SQUARE_BYTES);
    bring_and_wait(shared_address(b), map_b, SQUARE_BYTES);
    float mine[32] = {};
    fence_sums();
    #pragma unroll
    for (int k = 0; k < BK; k += DEPTH)
        start_product<true>(mine, behind(describe(shared_address(a)), k * 2),
                            behind(describe(shared_address(b)), k * ROW_BYTES), 1);
    commit_products();
    wait_for_products<0>();
    for (int i = 0; i < 32; ++i) held[threadIdx.x * 32 + i] = mine[i];
}
