#include "stream_k.cuh"

extern "C" __global__ void schedule(int* parts, int* counts, int most, int M, int N, int K)
{
    Work work(M, N, K);
    int count = 0;
    for (; work.next(); ++count) {
        if (count >= most) continue;
        const TileStart start = work.tile_start();
        int* part = parts + 4 * (blockIdx.x * most + count);
        part[0] = start.m;
        part[1] = start.n;
        part[2] = work.begin;
        part[3] = work.end;
    }
    counts[blockIdx.x] = count;
}
