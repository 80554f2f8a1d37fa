// The way of a warpgroup's sums to C through shared memory: stmatrix puts them there, a copy by
// tensor map takes them on.
#pragma once

#define SENT_COLUMNS (ROW_BYTES / (int)sizeof(OfC))            // of C, 64 rows at a time
#define PIECES (BN / SENT_COLUMNS)
#define ROOMS (BN > SENT_COLUMNS ? 2 : 1)        // one is filled while another is copied

typedef char Room[SQUARE_BYTES];
typedef PairOfC Pairs[SUMS / 2];

// All threads of my warpgroup, which has this number, come here.
__device__ __forceinline__ void meet_in_group(int group)
{
    asm volatile("bar.sync %0, %1;" :: "r"(group + 1), "n"(GROUP_THREADS) : "memory");
}

__device__ __forceinline__ void round_sums(Pairs& pairs, const float (&sums)[SUMS])
{
    #pragma unroll
    for (int i = 0; i < SUMS / 2; ++i) pairs[i] = rounded(sums[2 * i], sums[2 * i + 1]);
}

// My pairs of SENT_COLUMNS columns, `pairs` the first of them, into a room, swizzled.
__device__ __forceinline__ void put(unsigned room, const PairOfC* pairs)
{
    const int thread = threadIdx.x % GROUP_THREADS;
#if OUT32
    #pragma unroll
    for (int i = 0; i < SENT_COLUMNS / 4; ++i) {
        const int row = row_of(2 * i), chunk = i / 2 * 2 + thread % 4 / 2;
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
                     :: "r"(room + row * ROW_BYTES + (chunk ^ row % 8) * 16 + thread % 2 * 8),
                        "f"(pairs[i].x), "f"(pairs[i].y) : "memory");
    }
#else
    const int row = thread / 32 * 16 + thread % 16;
    #pragma unroll
    for (int i = 0; i < SENT_COLUMNS / 4; i += 4) {            // four matrices of 8×8
        const int chunk = i / 2 + thread % 32 / 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(room + row * ROW_BYTES + (chunk ^ row % 8) * 16), "r"(pairs[i]),
                        "r"(pairs[i + 1]), "r"(pairs[i + 2]), "r"(pairs[i + 3]) : "memory");
    }
#endif
}

// One of the PIECES of my warpgroup's part of C, which begins at (row, col). The copy may still be
// under way at the end.
__device__ __forceinline__ void send_piece(const Pairs& pairs, int piece, Room (&rooms)[ROOMS],
                                           const TensorMap& map_c, int row, int col, int group)
{
    const bool leads = threadIdx.x % GROUP_THREADS == 0;
    const unsigned room = shared_address(rooms[piece % ROOMS]);
    if (leads) wait_until_read<ROOMS - 1>();
    meet_in_group(group);                        // the room is free
    put(room, pairs + piece * (SENT_COLUMNS / 4));
    publish_stores();
    meet_in_group(group);                        // all have put their sums there
    if (leads) send(map_c, row, col + piece * SENT_COLUMNS, room);
}

// My warpgroup's sums to C, from (row, col) on.
__device__ __forceinline__ void send_sums(const float (&sums)[SUMS], Room (&rooms)[ROOMS],
                                          const TensorMap& map_c, int row, int col, int group)
{
    Pairs pairs;
    round_sums(pairs, sums);
    #pragma unroll
    for (int piece = 0; piece < PIECES; ++piece)
        send_piece(pairs, piece, rooms, map_c, row, col, group);
}
