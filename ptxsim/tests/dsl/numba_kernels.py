"""Kernels for Numba-CUDA: a product through tiles in shared memory, and a sum by shuffles."""

from numba import cuda, float32

TILE = 16


def product(a, b, c):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    n, m = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(0, a.shape[1], TILE):
        tile_a[y, x] = a[m, k + x] if m < a.shape[0] and k + x < a.shape[1] else float32(0)
        tile_b[y, x] = b[k + y, n] if n < b.shape[1] and k + y < b.shape[0] else float32(0)
        cuda.syncthreads()
        for i in range(TILE):
            total += tile_a[y, i] * tile_b[i, x]
        cuda.syncthreads()
    if m < c.shape[0] and n < c.shape[1]:
        c[m, n] = total


def total(x, out):
    value = float32(0)
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        value += x[i]
    for distance in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, distance)
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)
