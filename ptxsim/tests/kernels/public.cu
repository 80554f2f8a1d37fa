// Small kernels of the kinds that public collections have, each by the name of its launch in
// public_kernels.py.

// Best alignment within a tile: along diagonals first to the longest one, then from it.
#define B 16
__device__ void fill(int (*cell)[B + 1], int (*match)[B], int row, int col, int penalty) {
    const int gap = max(cell[row][col - 1], cell[row - 1][col]) - penalty;
    cell[row][col] = max(cell[row - 1][col - 1] + match[row - 1][col - 1], gap);
}
extern "C" __global__ void needle(const int* score, int* best, int cols, int penalty) {
    __shared__ int cell[B + 1][B + 1], match[B][B];
    const int t = threadIdx.x;
    if (t == 0) cell[0][0] = best[0];
    cell[t + 1][0] = best[cols * (t + 1)];
    cell[0][t + 1] = best[t + 1];
    for (int row = 0; row < B; ++row) match[row][t] = score[cols * (row + 1) + t + 1];
    __syncthreads();
    for (int d = 0; d < B; ++d) {
        if (t <= d) fill(cell, match, d - t + 1, t + 1, penalty);
        __syncthreads();
    }
    for (int d = B - 2; d >= 0; --d) {
        if (t <= d) fill(cell, match, B - t, t + B - d, penalty);
        __syncthreads();
    }
    for (int row = 0; row < B; ++row) best[cols * (row + 1) + t + 1] = cell[row + 1][t + 1];
}
#undef B

// Several steps of heat in a tile whose border becomes wrong by one each step.
#define B 16
extern "C" __global__ void hotspot(const float* power, const float* from, float* to,
                             int rows, int cols, int steps, float rate) {
    __shared__ float now[B][B], heat[B][B];
    const int tx = threadIdx.x, ty = threadIdx.y, whole = B - 2 * steps;
    const int x = whole * blockIdx.x - steps + tx, y = whole * blockIdx.y - steps + ty;
    const bool inside = x >= 0 && x < cols && y >= 0 && y < rows;
    if (inside) { now[ty][tx] = from[y * cols + x]; heat[ty][tx] = power[y * cols + x]; }
    __syncthreads();
    const int up = y > 0 ? ty - 1 : ty, down = y < rows - 1 ? ty + 1 : ty;
    const int left = x > 0 ? tx - 1 : tx, right = x < cols - 1 ? tx + 1 : tx;
    for (int i = 0; i < steps; ++i) {
        const bool known = min(tx, ty) > i && max(tx, ty) < B - 1 - i && inside;
        float next;
        if (known) {
            const float here = now[ty][tx], sum = now[up][tx] + now[down][tx] - 2.0f * here;
            next = here + rate * (heat[ty][tx] + sum + now[ty][left] + now[ty][right] - 2.0f * here
                                  + (1.5f - here) / 7.0f);
        }
        __syncthreads();
        if (known) now[ty][tx] = next;
        __syncthreads();
    }
    if (inside && min(tx, ty) >= steps && max(tx, ty) < B - steps) to[y * cols + x] = now[ty][tx];
}
#undef B

extern "C" __global__ void pathfinder(const int* wall, const int* from, int* to, int cols, int steps) {
    __shared__ int before[64], after[64];
    const int t = threadIdx.x, x = (64 - 2 * steps) * blockIdx.x - steps + t;
    const bool inside = x >= 0 && x < cols;
    const int left = x > 0 ? t - 1 : t, right = x < cols - 1 ? t + 1 : t;
    if (inside) before[t] = from[x];
    __syncthreads();
    for (int i = 0; i < steps; ++i) {
        const bool known = t > i && t < 63 - i && inside;
        if (known)
            after[t] = min(before[t], min(before[left], before[right])) + wall[i * cols + x];
        __syncthreads();
        if (known) before[t] = after[t];
        __syncthreads();
    }
    if (inside && t >= steps && t < 64 - steps) to[x] = before[t];
}

extern "C" __global__ void lud(float* A) {
    __shared__ float m[16][16];
    const int t = threadIdx.x;
    A += 256 * blockIdx.x;
    for (int i = 0; i < 16; ++i) m[i][t] = A[16 * i + t];
    __syncthreads();
    for (int i = 0; i < 15; ++i) {
        if (t > i) m[t][i] /= m[i][i];
        __syncthreads();
        if (t > i) for (int row = i + 1; row < 16; ++row) m[row][t] -= m[row][i] * m[i][t];
        __syncthreads();
    }
    for (int i = 0; i < 16; ++i) A[16 * i + t] = m[i][t];
}

// Sums of a row and of its squares, from pairs to the whole; the last thread of a pair adds.
extern "C" __global__ void sums(const float* x, float* sums, float* squares, int n) {
    __shared__ float a[64], b[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    a[t] = i < n ? x[i] : 0.0f;
    b[t] = a[t] * a[t];
    for (int width = 2; width <= 64; width *= 2) {
        __syncthreads();
        if (t % width == width - 1) {
            a[t] += a[t - width / 2];
            b[t] += b[t - width / 2];
        }
    }
    if (t == 63) { sums[blockIdx.x] = a[t]; squares[blockIdx.x] = b[t]; }
}

extern "C" __global__ void bfs(const int* first, const int* edges, const char* frontier,
                             char* next, int* level, int nodes, int now) {
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || !frontier[node]) return;
    for (int i = first[node]; i < first[node + 1]; ++i) {
        const int other = edges[i];
        if (level[other] < 0) { level[other] = now; next[other] = 1; }
    }
}

extern "C" __global__ void scan(const uint4* x, uint4* out) {
    __shared__ volatile unsigned s[2 * 64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    uint4 v = x[i];
    v.y += v.x; v.z += v.y; v.w += v.z;
    s[t] = 0;
    s[64 + t] = v.w;
    for (int far = 1; far < 64; far *= 2) {
        __syncthreads();
        const unsigned sum = s[64 + t] + s[64 + t - far];
        __syncthreads();
        s[64 + t] = sum;
    }
    const unsigned before = s[64 + t] - v.w;
    out[i] = make_uint4(v.x + before, v.y + before, v.z + before, v.w + before);
}

// Up a tree and down again; places are spread so that banks do not meet.
#define AT(i) ((i) + (i) / 32)
extern "C" __global__ void tree(const int* x, int* out, int* totals) {
    __shared__ int s[AT(128)];
    const int t = threadIdx.x, n = 128;
    s[AT(t)] = x[blockIdx.x * n + t];
    s[AT(t + 64)] = x[blockIdx.x * n + t + 64];
    int far = 1;
    for (int pairs = n / 2; pairs > 0; pairs /= 2, far *= 2) {
        __syncthreads();
        if (t < pairs) s[AT(far * (2 * t + 2) - 1)] += s[AT(far * (2 * t + 1) - 1)];
    }
    if (t == 0) { totals[blockIdx.x] = s[AT(n - 1)]; s[AT(n - 1)] = 0; }
    for (int pairs = 1; pairs < n; pairs *= 2) {
        far /= 2;
        __syncthreads();
        if (t < pairs) {
            const int a = AT(far * (2 * t + 1) - 1), b = AT(far * (2 * t + 2) - 1), left = s[a];
            s[a] = s[b];
            s[b] += left;
        }
    }
    __syncthreads();
    out[blockIdx.x * n + t] = s[AT(t)];
    out[blockIdx.x * n + t + 64] = s[AT(t + 64)];
}
#undef AT

#define WARPS 3
extern "C" __global__ void histogram(const unsigned* x, unsigned* out, int n) {
    __shared__ unsigned bins[WARPS][256];
    unsigned* own = bins[threadIdx.x / 32];
    for (int i = threadIdx.x; i < WARPS * 256; i += blockDim.x) bins[0][i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        for (int byte = 0; byte < 4; ++byte) atomicAdd(own + (x[i] >> 8 * byte & 255), 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) {
        unsigned sum = 0;
        for (int w = 0; w < WARPS; ++w) sum += bins[w][bin];
        atomicAdd(out + bin, sum);
    }
}
#undef WARPS

// A block's tile lies on a diagonal; tiles of 16 by 16, padded.
extern "C" __global__ void diagonal(const float* x, float* out, int rows, int cols) {
    __shared__ float tile[16][17];
    const int by = blockIdx.x, bx = (blockIdx.x + blockIdx.y) % gridDim.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    for (int i = 0; i < 16; i += 4)
        tile[ty + i][tx] = x[(16 * by + ty + i) * cols + 16 * bx + tx];
    __syncthreads();
    for (int i = 0; i < 16; i += 4)
        out[(16 * bx + ty + i) * rows + 16 * by + tx] = tile[tx][ty + i];
}

// The last block to come adds what all have left.
__device__ int sum_of_block(int sum, int* s) {
    for (int far = 16; far > 0; far /= 2) sum += __shfl_down_sync(~0u, sum, far);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? s[threadIdx.x] : 0;
        for (int far = 16; far > 0; far /= 2) sum += __shfl_down_sync(~0u, sum, far);
    }
    __syncthreads();
    return sum;
}
extern "C" __global__ void last_block(const int* x, volatile int* parts, unsigned* ticket, int* out, int n) {
    __shared__ int s[4];
    __shared__ bool last;
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    sum = sum_of_block(sum, s);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    sum = sum_of_block(threadIdx.x < gridDim.x ? parts[threadIdx.x] : 0, s);
    if (threadIdx.x == 0) *out = sum;
}

// Scans in a warp, the positive ones moved to the front, and votes.
extern "C" __global__ void shuffles(const int* x, int* sums, int* packed, int* votes) {
    const int t = threadIdx.x, lane = t % 32, i = blockIdx.x * blockDim.x + t, v = x[i];
    int sum = v;
    for (int far = 1; far < 32; far *= 2) {
        const int other = __shfl_up_sync(~0u, sum, far);
        if (lane >= far) sum += other;
    }
    sums[i] = sum;
    const unsigned positive = __ballot_sync(~0u, v > 0);
    if (v > 0) packed[i - lane + __popc(positive & ((1u << lane) - 1))] = v;
    int most = v;
    for (int far = 16; far > 0; far /= 2) most = max(most, __shfl_xor_sync(~0u, most, far));
    const unsigned alike = __match_any_sync(~0u, v);
    votes[i] = most + 100 * __popc(alike) + 10000 * __all_sync(~0u, v > -9)
             + 20000 * __any_sync(~0u, v == 9) + 40000 * __reduce_min_sync(~0u, v + 9);
}

extern "C" __global__ void bitonic(unsigned* keys, unsigned* values) {
    __shared__ unsigned key[128], value[128];
    const int t = threadIdx.x, begin = blockIdx.x * 128;
    for (int i = t; i < 128; i += 64) { key[i] = keys[begin + i]; value[i] = values[begin + i]; }
    for (int size = 2; size <= 128; size *= 2)
        for (int far = size / 2; far > 0; far /= 2) {
            __syncthreads();
            const int at = 2 * t - (t & (far - 1));
            const bool up = (t & (size / 2)) == 0;
            if ((key[at] > key[at + far]) == up) {
                const unsigned a = key[at], b = value[at];
                key[at] = key[at + far]; key[at + far] = a;
                value[at] = value[at + far]; value[at + far] = b;
            }
        }
    __syncthreads();
    for (int i = t; i < 128; i += 64) { keys[begin + i] = key[i]; values[begin + i] = value[i]; }
}

#define R 4
__constant__ float filter[2 * R + 1] = {1, -2, 3, 4, 5, 4, 3, -2, 1};
extern "C" __global__ void convolution(const float* x, float* out, int cols) {
    __shared__ float s[4][32 + 2 * R];
    const int tx = threadIdx.x, ty = threadIdx.y, left = 32 * blockIdx.x;
    const int row = 4 * blockIdx.y + ty;
    for (int i = tx; i < 32 + 2 * R; i += 32) {
        const int col = left - R + i;
        s[ty][i] = col >= 0 && col < cols ? x[row * cols + col] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
    #pragma unroll
    for (int i = -R; i <= R; ++i) sum += filter[R - i] * s[ty][tx + R + i];
    if (left + tx < cols) out[row * cols + left + tx] = sum;
}
#undef R

extern "C" __global__ void walsh(float* x) {
    __shared__ float s[256];
    const int t = threadIdx.x;
    x += 256 * blockIdx.x;
    for (int i = t; i < 256; i += 64) s[i] = x[i];
    for (int far = 64; far > 0; far /= 4) {
        const int low = t & (far - 1), at = 4 * t - 3 * low;
        __syncthreads();
        const float a = s[at], b = s[at + far], c = s[at + 2 * far], d = s[at + 3 * far];
        s[at] = a + b + c + d;
        s[at + far] = a - b + c - d;
        s[at + 2 * far] = a + b - c - d;
        s[at + 3 * far] = a - b - c + d;
    }
    __syncthreads();
    for (int i = t; i < 256; i += 64) x[i] = s[i];
}

// The largest float by compare-and-swap, and what an atomic gives back.
extern "C" __global__ void atomics(const float* x, float* largest, int* numbers, int n) {
    __shared__ int most, least, count;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) { most = -1000; least = 1000; count = 0; }
    __syncthreads();
    if (i < n) {
        int* place = (int*)largest;
        int old = *place;
        while (__int_as_float(old) < x[i]) {
            const int seen = atomicCAS(place, old, __float_as_int(x[i]));
            if (seen == old) break;
            old = seen;
        }
        atomicMax(&most, (int)x[i]);
        atomicMin(&least, (int)x[i]);
        if (x[i] > 0.0f) atomicAdd(&count, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicMax(numbers, most);
        atomicMin(numbers + 1, least);
        atomicAdd(numbers + 2, count);
    }
}

extern "C" __global__ void dp4a(const int* A, const int* x, int* y, int n) {
    int sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) sum = __dp4a(A[blockIdx.x * n + i], x[i], sum);
    for (int far = 16; far > 0; far /= 2) sum += __shfl_down_sync(~0u, sum, far);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
