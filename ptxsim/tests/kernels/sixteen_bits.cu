// T, a 16-bit type; T2, two of them. All kernels of a type are compiled together.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#ifdef BF16
typedef __nv_bfloat16 T;
typedef __nv_bfloat162 T2;
__device__ float number(T x) { return __bfloat162float(x); }
__device__ float2 numbers(T2 x) { return __bfloat1622float2(x); }
__device__ T rounded(float x) { return __float2bfloat16(x); }
__device__ T2 pair(float x, float y) { return __floats2bfloat162_rn(x, y); }
__device__ T2 twice(T x) { return __bfloat162bfloat162(x); }
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#else
typedef half T;
typedef half2 T2;
__device__ float number(T x) { return __half2float(x); }
__device__ float2 numbers(T2 x) { return __half22float2(x); }
__device__ T rounded(float x) { return __float2half(x); }
__device__ T2 pair(float x, float y) { return __floats2half2_rn(x, y); }
__device__ T2 twice(T x) { return __half2half2(x); }
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#endif
#define KERNEL extern "C" __global__ void

template <typename N> __device__ N warp_sum(N v) {
    for (int far = 16; far > 0; far /= 2) v = v + __shfl_xor_sync(~0u, v, far);
    return v;
}
__device__ float warp_max(float v) {
    for (int far = 16; far > 0; far /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, far));
    return v;
}

// The first number is one for all threads.
KERNEL scaled(const T* x, T* y, int n) {
    const T s = x[0];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hfma(x[i], s * s, s + s);
}
KERNEL gelu(const T* x, T* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const T v = x[i], one = rounded(1.0f), a = rounded(1.59576912f), b = rounded(0.07135481f);
    y[i] = v * (one / (one + hexp(-(a * v + b * v * v * v))));
}
KERNEL pairs(const T2* x, const T2* z, T2* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hmax2(__hfma2(x[i], z[i], twice(rounded(0.5f))), twice(rounded(0.0f)));
}
// Eight numbers for each thread, by one load and one store.
KERNEL packs(const T* x, const T* z, T* y, int n) {
    const int i = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    uint4 a = *(const uint4*)(x + i), b = *(const uint4*)(z + i), sums;
    #pragma unroll
    for (int j = 0; j < 4; ++j) ((T2*)&sums)[j] = __hadd2(((T2*)&a)[j], ((T2*)&b)[j]);
    *(uint4*)(y + i) = sums;
}
// A warp for each row: softmax with the largest taken off, sums in float32.
KERNEL softmax(const T* x, T* y, int n) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    x += row * n, y += row * n;
    float most = -1e30f, sum = 0.0f;
    for (int i = lane; i < n; i += 32) most = fmaxf(most, number(x[i]));
    most = warp_max(most);
    for (int i = lane; i < n; i += 32) sum += __expf(number(x[i]) - most);
    sum = warp_sum(sum);
    for (int i = lane; i < n; i += 32) y[i] = rounded(__expf(number(x[i]) - most) / sum);
}
// The same in one pass: two results are joined by what the smaller maximum is off.
KERNEL online(const T* x, float* y, int n) {
    __shared__ float2 s[2];
    const int t = threadIdx.x;
    x += blockIdx.x * n, y += blockIdx.x * n;
    float most = -1e30f, sum = 0.0f;
    for (int i = t; i < n; i += 64) {
        const float v = number(x[i]), more = fmaxf(most, v);
        sum = sum * __expf(most - more) + __expf(v - more);
        most = more;
    }
    for (int far = 16; far > 0; far /= 2) {
        const float m = __shfl_xor_sync(~0u, most, far), d = __shfl_xor_sync(~0u, sum, far);
        const float more = fmaxf(most, m);
        sum = sum * __expf(most - more) + d * __expf(m - more);
        most = more;
    }
    if (t % 32 == 0) s[t / 32] = make_float2(most, sum);
    __syncthreads();
    const float2 a = s[0], b = s[1];
    most = fmaxf(a.x, b.x);
    sum = a.y * __expf(a.x - most) + b.y * __expf(b.x - most);
    for (int i = t; i < n; i += 64) y[i] = __expf(number(x[i]) - most) * __frcp_rn(sum);
}
// A block for each row of 64 numbers; sums in the type itself.
KERNEL layer_norm(const T* x, T* y, T gain, T bias) {
    __shared__ T s[2];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    const T v = x[i], parts = rounded(1.0f / 64.0f);
    const T sum = warp_sum(v);
    if (t % 32 == 0) s[t / 32] = sum;
    __syncthreads();
    const T centred = v - (s[0] + s[1]) * parts;
    __syncthreads();
    const T squares = warp_sum(centred * centred);
    if (t % 32 == 0) s[t / 32] = squares;
    __syncthreads();
    const T scale = hrsqrt(__hfma(s[0] + s[1], parts, rounded(1e-3f)));
    y[i] = __hfma(centred * scale, gain, bias);
}
KERNEL rms_norm(const T2* x, T2* y, int n) {
    const int lane = threadIdx.x;
    x += blockIdx.x * n, y += blockIdx.x * n;
    float sum = 0.0f;
    for (int i = lane; i < n; i += 32) {
        const float2 v = numbers(x[i]);
        sum += v.x * v.x + v.y * v.y;
    }
    const float scale = rsqrtf(warp_sum(sum) / (2 * n) + 1e-5f);
    for (int i = lane; i < n; i += 32) {
        const float2 v = numbers(x[i]);
        y[i] = pair(v.x * scale, v.y * scale);
    }
}
KERNEL rope(const T2* x, T2* y, int pairs) {
    const int i = threadIdx.x, position = blockIdx.x;
    const float angle = position * powf(10000.0f, -(float)i / pairs);
    float sine, cosine;
    sincosf(angle, &sine, &cosine);
    const float2 v = numbers(x[position * pairs + i]);
    y[position * pairs + i] = pair(v.x * cosine - v.y * sine, v.x * sine + v.y * cosine);
}
KERNEL dot(const T2* x, const T2* z, float* out, int n) {
    __shared__ float s[2];
    const int i = blockIdx.x * 64 + threadIdx.x;
    float sum = 0.0f;
    if (i < n) {
        const float2 product = numbers(__hmul2(x[i], z[i]));
        sum = product.x + product.y;
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(out, s[0] + s[1]);
}
KERNEL gemv(const T2* A, const T2* x, T* y, int n) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    float sum = 0.0f;
    for (int i = lane; i < n; i += 32) {
        const float2 a = numbers(A[row * n + i]), b = numbers(x[i]);
        sum += a.x * b.x + a.y * b.y;
    }
    sum = warp_sum(sum);
    if (lane == 0) y[row] = rounded(sum);
}
// Tiles of 16 by 16 in shared memory; a thread adds up two columns, in the type itself.
KERNEL gemm(const T* A, const T* B, T2* C, int n, int depth) {
    __shared__ T a[16][16];
    __shared__ T2 b[16][8];
    const int x = threadIdx.x, y = threadIdx.y, row = 16 * blockIdx.y + y;
    T2 sums = pair(0.0f, 0.0f);
    for (int k = 0; k < depth; k += 16) {
        a[y][x] = A[row * depth + k + x];
        a[y][x + 8] = A[row * depth + k + x + 8];
        b[y][x] = ((const T2*)B)[((k + y) * n + 16 * blockIdx.x) / 2 + x];
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 16; ++i) sums = __hfma2(twice(a[y][i]), b[i][x], sums);
        __syncthreads();
    }
    C[(row * n + 16 * blockIdx.x) / 2 + x] = sums;
}
// A warp for each 16 by 8 of C, by tensor cores.
KERNEL mma(const T* A, const T* B, float* C, int n, int depth) {
    __shared__ __align__(16) T a[16][16], b[16][8];
    const int lane = threadIdx.x, top = 16 * blockIdx.y, left = 8 * blockIdx.x;
    float c[4] = {};
    for (int k = 0; k < depth; k += 16) {
        for (int i = lane; i < 256; i += 32)
            a[i / 16][i % 16] = A[(top + i / 16) * depth + k + i % 16];
        for (int i = lane; i < 128; i += 32) b[i / 8][i % 8] = B[(k + i / 8) * n + left + i % 8];
        __syncwarp();
        unsigned x[4], y[2];
        const unsigned of_a = (unsigned)__cvta_generic_to_shared(&a[lane % 16][lane / 16 * 8]);
        const unsigned of_b = (unsigned)__cvta_generic_to_shared(&b[lane % 16][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(of_a) : "memory");
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(y[0]), "=r"(y[1]) : "r"(of_b) : "memory");
        asm volatile(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
        __syncwarp();
    }
    float* to = C + (top + lane / 4) * n + left + 2 * (lane % 4);
    to[0] = c[0], to[1] = c[1], to[8 * n] = c[2], to[8 * n + 1] = c[3];
}
