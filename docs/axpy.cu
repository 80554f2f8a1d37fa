// y = a * x + y: a whole program in CUDA C++. First the kernel, which runs on the GPU.

extern "C" __global__ void axpy(float a, const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;   // which element is mine?
    if (i < n) y[i] = a * x[i] + y[i];                     // the last block has threads to spare
}

#ifndef __CUDACC_RTC__   // from here on the host's part
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t result)
{
    if (result == cudaSuccess) return;
    std::fprintf(stderr, "%s\n", cudaGetErrorString(result));
    std::exit(1);
}

int main()
{
    const int n = 1000, threads = 256, blocks = (n + threads - 1) / threads;
    std::vector<float> x(n), y(n, 1.0f);
    for (int i = 0; i < n; ++i) x[i] = i;

    float *on_device_x, *on_device_y;
    const size_t bytes = n * sizeof(float);
    check(cudaMalloc(&on_device_x, bytes));
    check(cudaMalloc(&on_device_y, bytes));
    check(cudaMemcpy(on_device_x, x.data(), bytes, cudaMemcpyHostToDevice));
    check(cudaMemcpy(on_device_y, y.data(), bytes, cudaMemcpyHostToDevice));

    axpy<<<blocks, threads>>>(2.0f, on_device_x, on_device_y, n);
    check(cudaGetLastError());          // was the launch accepted?
    check(cudaDeviceSynchronize());     // wait: did the kernel run without an error?

    check(cudaMemcpy(y.data(), on_device_y, bytes, cudaMemcpyDeviceToHost));
    std::printf("y[3] = %g, y[999] = %g\n", y[3], y[999]);
    check(cudaFree(on_device_x));
    check(cudaFree(on_device_y));
}
#endif
