// Sum of each row, with shuffles
// Idea:    the lanes of a warp add up through registers alone, half as many in each step; one value
//          per warp then goes through shared memory, and the first warp adds those.
// Launch:  block (THREADS), grid (rows).
// Takes:   any number of rows and columns; float32, row-major. sums[row] = the sum of its elements.

#ifndef THREADS
#define THREADS 128
#endif
#define WARPS (THREADS / 32)

__device__ float warp_sum(float value)
{
    #pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_down_sync(0xffffffff, value, distance);
    return value;                                // whole in lane 0
}

extern "C" __global__ void __launch_bounds__(THREADS)
block_reduction(const float* __restrict__ x, float* __restrict__ sums, int cols)
{
    __shared__ float of_warp[WARPS];

    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const float* row = x + (size_t)blockIdx.x * cols;
    float sum = 0.0f;
    for (int col = thread; col < cols; col += THREADS)
        sum += row[col];

    sum = warp_sum(sum);
    if (lane == 0) of_warp[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = warp_sum(lane < WARPS ? of_warp[lane] : 0.0f);
        if (lane == 0) sums[blockIdx.x] = sum;
    }
}
