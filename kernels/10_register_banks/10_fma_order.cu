// 10  The order of FMAs: a measurement beside 10_register_banks.cu, no rung of the ladder
// Idea:    what a thread of a fast kernel does most, and nothing else: outer products of a column of
//          TM numbers and a row of TN, added to TM×TN accumulators. ORDER is the order of the
//          TM * TN FMAs, LOADS how many 16-byte loads from shared memory bring operands of the next
//          outer product meanwhile, in the order a[0..3], a[4..7], ..., b[0..3], ...
// Launch:  block 256, grid: as many blocks as run at a time. No barrier is in the loop.
// Takes:   numbers: 2×STEPS rows of 4 * TM + 8 * TN floats, 16-byte aligned; iterations >= 0;
//          one float of out per thread. LOADS is 0 to (TM + TN) / 4.
// Counts:  2 * TM * TN * STEPS * iterations floating-point operations per thread.

#ifndef TM
#define TM 8                                     // rows of accumulators, a multiple of 4
#endif
#ifndef TN
#define TN 16                                    // columns, a multiple of 4
#endif
#ifndef ORDER
#define ORDER 0                                  // 0 row by row, 1 rows snaking, 2 columns snaking,
#endif                                           // 3 zigzag through 2×2 squares, along two rows,
                                                 // 4 strips of four columns snaking
#ifndef LOADS
#define LOADS 0
#endif
#define STEPS 8                                  // outer products for one loop counter and branch
#define THREADS 256
#define RESIDENT_BLOCKS (TM * TN == 128 ? 1 : 2) // for which the registers suffice
#define LANES_M 4                                // a warp's lanes: 4 rows of 8
#define LANES_N 8
#define QUADS ((TM + TN) / 4)                    // operands of a thread, four by four
#define ROW (LANES_M * TM / 4 + LANES_N * TN / 4)  // of numbers, in float4

struct Position {
    int row, col;
};

// The n-th of count positions in a line, from the other end if back.
__device__ constexpr int along(int n, int count, bool back) { return back ? count - 1 - n : n; }

// Which sum the n-th FMA of an outer product adds to.
__device__ constexpr Position position(int n)
{
#if ORDER == 0
    return {n / TN, n % TN};
#elif ORDER == 1
    return {n / TN, along(n % TN, TN, n / TN % 2)};
#elif ORDER == 2
    return {along(n % TM, TM, n / TM % 2), n / TM};
#elif ORDER == 3
    const int pair = n / (2 * TN), col = n / 2 % TN;
    return {2 * pair + along(n % 2, 2, col % 2), along(col, TN, pair % 2)};
#else
    const int strip = n / (4 * TM), row = n / 4 % TM;
    return {along(row, TM, strip % 2), 4 * strip + along(n % 4, 4, row % 2)};
#endif
}

// accumulator += a * b. As assembly, so that the compiler leaves the order of the FMAs to the
// assembler.
__device__ __forceinline__ void multiply_add(float& accumulator, float a, float b)
{
    asm volatile("fma.rn.ftz.f32 %0, %1, %2, %0;" : "+f"(accumulator) : "f"(a), "f"(b));
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
outer_products(float* __restrict__ out, const float4* __restrict__ numbers, int iterations)
{
    __shared__ float4 tile[2][STEPS][ROW];
    for (int i = threadIdx.x; i < 2 * STEPS * ROW; i += THREADS)
        tile[i / (STEPS * ROW)][i / ROW % STEPS][i % ROW] = numbers[i];
    __syncthreads();

    // This thread's operands, of a first and then of b, and where its lane has each four of them in
    // a row of numbers.
    const int lane_m = threadIdx.x % 32 / LANES_N, lane_n = threadIdx.x % LANES_N;
    float fragments[2][TM + TN];                      // of even outer products, of odd ones
    auto load = [&](float* to, const float4* row, int quad) {
        const float4 found = quad < TM / 4
            ? row[quad * LANES_M + lane_m]
            : row[TM / 4 * LANES_M + (quad - TM / 4) * LANES_N + lane_n];
        to[0] = found.x; to[1] = found.y; to[2] = found.z; to[3] = found.w;
    };
    #pragma unroll
    for (int set = 0; set < 2; ++set)
        #pragma unroll
        for (int quad = 0; quad < QUADS; ++quad)
            load(&fragments[set][4 * quad], tile[0][set], quad);

    float accumulators[TM][TN] = {};
    #pragma unroll 1
    for (int i = 0; i < iterations; ++i) {
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const float4* next = step + 1 < STEPS ? tile[i % 2][step + 1] : tile[(i + 1) % 2][0];
            #pragma unroll
            for (int quad = 0; quad < LOADS; ++quad)
                load(&fragments[(step + 1) % 2][4 * quad], next, quad);
            #pragma unroll
            for (int n = 0; n < TM * TN; ++n) {
                const int row = position(n).row, col = position(n).col;
                multiply_add(accumulators[row][col], fragments[step % 2][row],
                             fragments[step % 2][TM + col]);
            }
        }
    }

    // The total needs every sum, and it is stored: the compiler may leave nothing out.
    float total = 0.0f;
    #pragma unroll
    for (int i = 0; i < TM * TN; ++i)
        total += accumulators[i / TN][i % TN];
    out[blockIdx.x * THREADS + threadIdx.x] = total;
}
