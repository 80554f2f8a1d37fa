// Four neighbouring floats of a row at once, where they may reach beyond the matrix.
#pragma once

// Elements (row, col) to (row, col + 3) of a matrix X of rows × cols; zeros outside. IN_BOUNDS: the
// caller knows that all are inside and begin at a multiple of 16 bytes, so nothing is checked.
template <bool IN_BOUNDS>
__device__ __forceinline__ float4 load_float4(const float* X, int row, int col, int rows, int cols)
{
    const float* from = X + (size_t)row * cols + col;
    if (IN_BOUNDS) return *(const float4*)from;
    float values[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v)
        values[v] = row < rows && col + v < cols ? from[v] : 0.0f;
    return make_float4(values[0], values[1], values[2], values[3]);
}

// to = alpha * accumulators + beta * to, for four neighbours at a multiple of 16 bytes. Where beta
// is 0, they are not read: they may hold anything, NaN included.
__device__ __forceinline__ void store_aligned(float* to, const float* accumulators, float alpha,
                                              float beta)
{
    float4 result = make_float4(alpha * accumulators[0], alpha * accumulators[1],
                                alpha * accumulators[2], alpha * accumulators[3]);
    if (beta != 0.0f) {
        const float4 old = *(const float4*)to;
        result.x += beta * old.x;
        result.y += beta * old.y;
        result.z += beta * old.z;
        result.w += beta * old.w;
    }
    *(float4*)to = result;
}

// The same for the elements (row, col) to (row, col + 3) of C, M × N. Unless all are known to be in
// bounds, each is checked, and those outside are left out.
__device__ __forceinline__ void store_float4(float* C, int row, int col, int M, int N,
                                             const float* accumulators, float alpha, float beta,
                                             bool in_bounds)
{
    float* to = C + (size_t)row * N + col;
    if (in_bounds) {
        store_aligned(to, accumulators, alpha, beta);
        return;
    }
    #pragma unroll
    for (int v = 0; v < 4; ++v)
        if (row < M && col + v < N)
            to[v] = beta == 0.0f ? alpha * accumulators[v] : alpha * accumulators[v] + beta * to[v];
}
