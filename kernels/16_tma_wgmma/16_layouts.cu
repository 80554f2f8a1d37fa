// 16  What lies where, and which thread has which accumulator
// Idea:    a box of numbered elements is loaded by tensor map, and its bytes are read as they lie;
//          and a product whose elements are their own numbers is written down by the threads that
//          have them.
// Launch:  one block of 128 threads; box with dynamic shared memory for the box.
// Takes:   box: a tensor map of 16-bit elements, `lies` for `bytes` bytes. sums: tensor maps of A,
//          64×64, and B, 64×64, float16, boxes of all of them with a swizzle of 128 bytes; `held`
//          128×32 floats, a row for each thread. For sm_90a alone.

#include "tma.cuh"
#include "wgmma_16bit.cuh"

// By all threads: load a box, and wait for it.
__device__ __forceinline__ void load_box(unsigned to, const TensorMap& map, int bytes)
{
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) {
        mbarrier_init(shared_address(&full), 1);
        mbarrier_fence_init();
        mbarrier_arrive_expect(shared_address(&full), bytes);
        tma_load(to, map, 0, 0, shared_address(&full));
    }
    __syncthreads();
    mbarrier_wait(shared_address(&full), 0);
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(WARPGROUP_THREADS)
box(const __grid_constant__ TensorMap map, Element* lies, int bytes)
{
    extern __shared__ __align__(SWIZZLE_PERIOD) Element memory[];
    load_box(shared_address(memory), map, bytes);
    for (int i = threadIdx.x; i < bytes / 2; i += WARPGROUP_THREADS) lies[i] = memory[i];
}

extern "C" __global__ void __launch_bounds__(WARPGROUP_THREADS)
sums(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, float* held)
{
    __shared__ __align__(SWIZZLE_PERIOD) char a[SQUARE_BYTES], b[SQUARE_BYTES];
    load_box(shared_address(a), map_a, SQUARE_BYTES);
    load_box(shared_address(b), map_b, SQUARE_BYTES);
    float accumulators[32] = {};
    wgmma_fence();
    #pragma unroll
    for (int k = 0; k < 64; k += WGMMA_K)
        wgmma<true>(accumulators, advance(make_descriptor(shared_address(a)), k * 2),
                    advance(make_descriptor(shared_address(b)), k * ROW_BYTES), 1);
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < 32; ++i) held[threadIdx.x * 32 + i] = accumulators[i];
}
