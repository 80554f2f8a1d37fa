"""A naive and a tiled matrix product for numba-cuda: see simulator_speed.py.

A module of its own, because numba-cuda's simulator looks for `cuda` among the kernel's globals.
"""

from numba import cuda, float32

TILE = 16


@cuda.jit
def naive(A, B, C):
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    col = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if row < C.shape[0] and col < C.shape[1]:
        total = float32(0)
        for k in range(A.shape[1]):
            total += A[row, k] * B[k, col]
        C[row, col] = total


@cuda.jit
def tiled(A, B, C):
    """For sizes that are multiples of TILE."""
    a = cuda.shared.array((TILE, TILE), float32)
    b = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + y
    col = cuda.blockIdx.x * TILE + x
    total = float32(0)
    for start in range(0, A.shape[1], TILE):
        a[y, x] = A[row, start + x]
        b[y, x] = B[start + y, col]
        cuda.syncthreads()
        for k in range(TILE):
            total += a[y, k] * b[k, x]
        cuda.syncthreads()
    C[row, col] = total
