// The way of a warpgroup's sums to C through shared memory: stmatrix puts them there, a copy by
// tensor map takes them on. For 17 and 18.
#pragma once

#define SENT_COLUMNS (ROW_BYTES / (int)sizeof(OfC))            // of C, 64 rows at a time
#define ROOMS (BN > SENT_COLUMNS ? 2 : 1)        // one is filled while another is copied

typedef char Room[SQUARE_BYTES];

// All threads of my warpgroup, which has this number, come here.
__device__ __forceinline__ void meet_in_group(int group)
{
    asm volatile("bar.sync %0, %1;" :: "r"(group + 1), "n"(GROUP_THREADS) : "memory");
}

// My sums of SENT_COLUMNS columns, `sums` the first of them, into a room, swizzled.
__device__ __forceinline__ void put(unsigned room, const float* sums)
{
    const int thread = threadIdx.x % GROUP_THREADS;
#if OUT32
    #pragma unroll
    for (int i = 0; i < SENT_COLUMNS / 2; i += 2) {
        const int row = row_of(i), chunk = i / 4 * 2 + thread % 4 / 2;
        const PairOfC pair = rounded(sums[i], sums[i + 1]);
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
                     :: "r"(room + row * ROW_BYTES + (chunk ^ row % 8) * 16 + thread % 2 * 8),
                        "f"(pair.x), "f"(pair.y) : "memory");
    }
#else
    const int row = thread / 32 * 16 + thread % 16;
    #pragma unroll
    for (int i = 0; i < SENT_COLUMNS / 2; i += 8) {            // four matrices of 8×8
        const int chunk = i / 4 + thread % 32 / 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(room + row * ROW_BYTES + (chunk ^ row % 8) * 16),
                        "r"(rounded(sums[i], sums[i + 1])), "r"(rounded(sums[i + 2], sums[i + 3])),
                        "r"(rounded(sums[i + 4], sums[i + 5])),
                        "r"(rounded(sums[i + 6], sums[i + 7])) : "memory");
    }
#endif
}

// My warpgroup's sums to C, from (row, col) on. Copies may still be under way at the end.
__device__ __forceinline__ void send_sums(const float (&sums)[SUMS], Room (&rooms)[ROOMS],
                                          const TensorMap& map_c, int row, int col, int group)
{
    const bool leads = threadIdx.x % GROUP_THREADS == 0;
    #pragma unroll
    for (int c = 0; c < BN; c += SENT_COLUMNS) {
        const unsigned room = shared_address(rooms[c / SENT_COLUMNS % ROOMS]);
        if (leads) wait_until_read<ROOMS - 1>();
        meet_in_group(group);                    // the room is free
        put(room, sums + c / 2);
        publish_stores();
        meet_in_group(group);                    // all have put their sums there
        if (leads) send(map_c, row, col + c, room);
    }
}
