// Which rows of A and C each product has, and which tile has which number, where only the device
// knows how many rows there are.
#pragma once

#include "hopper_settings.cuh"
#include "tile_order.cuh"

#ifndef MASKED
#define MASKED 0                 // 1: each product has room for `capacity` rows, and uses the first
#endif

// A tile of C: its product, its first row in A and C, its first column, and how many rows the
// product has from there on, which may be more than the tile's.
struct ProductTile {
    int product, m, n, rows;
};

struct Products {
    const int* rows;             // how many rows each uses; without MASKED: where its rows begin,
                                 // and at last where those of the last one end
    int count, capacity, tile_cols;

    // `rows` comes from the launch before, so plain loads: those for constants may run ahead of the
    // wait for it.
    __device__ __forceinline__ int first_row(int product) const
    {
        return MASKED ? product * capacity : rows[product];
    }

    __device__ __forceinline__ int row_count(int product) const
    {
        return MASKED ? min(rows[product], capacity) : rows[product + 1] - rows[product];
    }

    __device__ __forceinline__ int tiles(int product) const
    {
        return ceil_div(row_count(product), BM) * tile_cols;
    }

    // By a warp: how many tiles the products before each one have, and at last how many all have.
    // A lane adds up a run of products, so that one scan by shuffles is enough for any number.
    __device__ __forceinline__ void number_tiles(int* first_tiles) const
    {
        const int lane = threadIdx.x % 32, run = ceil_div(count, 32);
        const int begin = min(lane * run, count), end = min(begin + run, count);
        int sum = 0;
        for (int product = begin; product < end; ++product) sum += tiles(product);
        int total = sum;                         // of this lane and those before
        #pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int before = __shfl_up_sync(~0u, total, distance);
            if (lane >= distance) total += before;
        }
        int number = total - sum;
        for (int product = begin; product < end; ++product) {
            first_tiles[product] = number;
            number += tiles(product);
        }
        if (lane == 31) first_tiles[count] = total;
    }

    // The tile of this number: product after product, so that blocks share one B at a time, and
    // within a product by groups of rows.
    __device__ __forceinline__ ProductTile tile(int number, const int* first_tiles) const
    {
        int product = 0, end = count;            // the tile is of one from `product` to `end` - 1
        while (end - product > 1) {
            const int middle = (product + end) / 2;
            if (first_tiles[middle] <= number) product = middle;       // past empty ones, too
            else end = middle;
        }
        const int rows_of_product = row_count(product);
        const Tile at = tile_at(number - first_tiles[product], ceil_div(rows_of_product, BM),
                                tile_cols, GROUP);
        return {product, first_row(product) + at.row * BM, at.col * BN,
                rows_of_product - at.row * BM};
    }
};
