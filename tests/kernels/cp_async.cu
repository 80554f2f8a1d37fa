// Asynchronous copies in stages
// Idea:    cp.async brings tiles to shared memory past the registers. STAGES - 1 pairs of tiles are
//          on their way while one pair is multiplied.
// Before:  double_buffering.cu kept the next tiles in registers.
// Launch:  block (BM / TM * BN / 8), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes; where N is no multiple of 4, rows do not, and single elements are
//          moved instead. From sm_80 on.

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 128
#endif
#ifndef BK
#define BK 8
#endif
#ifndef TM
#define TM 8                                     // a multiple of 4
#endif
#ifndef STAGES
#define STAGES 3
#endif
#define TN 8
#define PAD 4                                    // of A's tile, against bank conflicts
#define THREADS ((BM / TM) * (BN / TN))

// BYTES bytes, 4 or 16, from global to shared memory; zeros instead where `wanted` is false.
template <int BYTES>
__device__ void copy(float* to, const float* from, bool wanted)
{
    const unsigned place = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :: "r"(place), "l"(from), "n"(BYTES), "r"(wanted ? BYTES : 0) : "memory");
}

// Start the copies of the tiles that begin at tile_k, A transposed, as one group.
__device__ void fetch(float (&a)[BK][BM + PAD], float (&b)[BK][BN],
                      const float* A, const float* B, int M, int N, int K,
                      int top, int left, int tile_k)
{
    for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
        const int row = i / BK, k = i % BK;      // transposing takes one copy per element
        const bool wanted = top + row < M && tile_k + k < K;
        copy<4>(&a[k][row], A + (wanted ? (size_t)(top + row) * K + tile_k + k : 0), wanted);
    }
    if (N % 4 == 0) {
        for (int i = threadIdx.x; i < BK * BN / 4; i += THREADS) {
            const int k = i / (BN / 4), col = i % (BN / 4) * 4;
            const bool wanted = tile_k + k < K && left + col < N;
            copy<16>(&b[k][col], B + (wanted ? (size_t)(tile_k + k) * N + left + col : 0), wanted);
        }
    } else {
        for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
            const int k = i / BN, col = i % BN;
            const bool wanted = tile_k + k < K && left + col < N;
            copy<4>(&b[k][col], B + (wanted ? (size_t)(tile_k + k) * N + left + col : 0), wanted);
        }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
cp_async(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
         int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) float a[STAGES][BK][BM + PAD];    // transposed: a[stage][k][row]
    __shared__ __align__(16) float b[STAGES][BK][BN];

    const int thread = threadIdx.x;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the block's corner of C
    const int x = thread % (BN / TN) * 4;        // my columns: x to x + 3, and BN / 2 further right
    const int y = thread / (BN / TN) * TM;       // my first row of the block's tile

    for (int stage = 0; stage < STAGES - 1; ++stage)
        fetch(a[stage], b[stage], A, B, M, N, K, top, left, stage * BK);

    float sums[TM][TN] = {};
    int now = 0;                                 // the stage that is multiplied
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        __syncthreads();                         // everybody's part of this stage has landed

        // The stage that was multiplied last takes the tiles furthest ahead; past K, only zeros.
        const int last = (now + STAGES - 1) % STAGES;
        fetch(a[last], b[last], A, B, M, N, K, top, left, tile_k + (STAGES - 1) * BK);

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_column[TM], b_row[TN];
            #pragma unroll
            for (int i = 0; i < TM; i += 4)
                *(float4*)&a_column[i] = *(const float4*)&a[now][k][y + i];
            #pragma unroll
            for (int half = 0; half < 2; ++half)
                *(float4*)&b_row[4 * half] = *(const float4*)&b[now][k][x + half * (BN / 2)];
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                #pragma unroll
                for (int j = 0; j < TN; ++j)
                    sums[i][j] += a_column[i] * b_row[j];
        }

        now = (now + 1) % STAGES;
    }

    const bool aligned = N % 4 == 0;
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int row = top + y + i;
        if (row >= M) return;
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int col = left + x + half * (BN / 2);
            const float* mine = &sums[i][4 * half];
            float* here = C + (size_t)row * N + col;
            if (aligned && col < N) {
                float4 four = beta == 0.0f ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : *(float4*)here;
                four.x = alpha * mine[0] + beta * four.x;
                four.y = alpha * mine[1] + beta * four.y;
                four.z = alpha * mine[2] + beta * four.z;
                four.w = alpha * mine[3] + beta * four.w;
                *(float4*)here = four;
            } else {
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    if (col + v >= N) break;
                    const float old = beta == 0.0f ? 0.0f : here[v];
                    here[v] = alpha * mine[v] + beta * old;
                }
            }
        }
    }
}
