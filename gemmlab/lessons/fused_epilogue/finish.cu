// A bias and ReLU, four elements at a time.
__device__ float finished(float x) { return x < 0.0f ? 0.0f : x; }

// A block has 256 groups of four columns, a thread eight rows of its group; M is a multiple of 8.
extern "C" __global__ void finish(float4* C, const float4* bias, int fours)
{
    const int four = blockIdx.x * 256 + threadIdx.x;
    if (four >= fours) return;
    const float4 add = bias[four];
    float4* mine = C + (size_t)blockIdx.y * 8 * fours + four;
    float4 x[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = mine[(size_t)i * fours];
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        mine[(size_t)i * fours] = make_float4(finished(x[i].x + add.x), finished(x[i].y + add.y),
                                              finished(x[i].z + add.z), finished(x[i].w + add.w));
}
