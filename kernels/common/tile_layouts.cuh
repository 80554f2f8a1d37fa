// Other layouts of a tile product: A or B stored transposed, and A that stays in rows in shared
// memory. tile_product.cuh includes this header for them.
#pragma once

#if A_IN_ROWS
// A tile of A as it is stored, where K goes along the rows: [row][k], for narrow tiles. Copies are
// of 16 bytes then, and a thread loads four k of one row at once. Units of four k trade places in a
// row, so that neighbouring rows have the same k in different banks.
__device__ __forceinline__ constexpr int swizzle(int row) { return row * (BK / 4) / 8 % (BK / 4); }

__device__ __forceinline__ constexpr int place_in_row(int row, int k)
{
    return row * BK + ((k / 4) ^ swizzle(row)) * 4 + k % 4;
}

template <int SIZE>
struct CopyInRows {
    static constexpr int ROWS = SIZE, PITCH = BK;
    static constexpr bool BY_FOUR = true;

    const float* from;
    int ld, side_left, k_left;

    template <int WIDTH>
    static constexpr int ROW_THREADS = BK / WIDTH < THREADS ? BK / WIDTH : THREADS;

    template <int WIDTH>
    static __device__ __forceinline__ int first_row() { return threadIdx.x / ROW_THREADS<WIDTH>; }

    template <int WIDTH>
    static __device__ __forceinline__ int first_k()
    {
        return threadIdx.x % ROW_THREADS<WIDTH> * WIDTH;
    }

    template <int WIDTH>
    __device__ __forceinline__ void begin(const float* X, int ld_x, int side, int k)
    {
        from = X + (size_t)first_row<WIDTH>() * ld_x + first_k<WIDTH>();
        ld = ld_x;
        side_left = side - first_row<WIDTH>();
        k_left = k - first_k<WIDTH>();
    }

    template <bool IN_BOUNDS, int WIDTH>
    __device__ __forceinline__ void copy_tile(unsigned tile)
    {
        constexpr int ROW_STEP = ROW_THREADS<WIDTH> * WIDTH;
        constexpr int ROWS_AT_ONCE = THREADS / ROW_THREADS<WIDTH>;
        static_assert(SIZE % ROWS_AT_ONCE == 0, "threads copy equal shares of a tile");
        #pragma unroll
        for (int row = 0; row < SIZE; row += ROWS_AT_ONCE)
            #pragma unroll
            for (int k = 0; k < BK; k += ROW_STEP) {
                const int to_row = first_row<WIDTH>(), to_k = first_k<WIDTH>();
                const int to = ROWS_AT_ONCE % 8 == 0 && k == 0
                    ? place_in_row(to_row, to_k) + row * BK : place_in_row(to_row + row, to_k + k);
                const int count = row < side_left ? k_left - k : 0;
                copy<IN_BOUNDS, WIDTH>(tile + 4 * to, from + (size_t)row * ld + k, count);
            }
        from += BK;
        k_left -= BK;
    }
};

typedef CopyInRows<BM> CopyA;
#elif OP_A
typedef CopyAsStored<BM> CopyA;
#else
typedef CopyTransposed<BM> CopyA;
#endif

#if OP_B
typedef CopyTransposed<BN> CopyB;
#else
typedef CopyAsStored<BN> CopyB;
#endif
