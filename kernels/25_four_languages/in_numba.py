"""In Numba: threads as in CUDA C++. Tiles are shared arrays, sums an array of a thread."""

from numba import cuda, float32

BM, BN, BK = 128, 128, 16  # the tile of C that a block computes, and a step along K
TM, TN = 8, 8  # the elements of C that a thread computes
THREADS = BM // TM * (BN // TN)
ROW = BM + 4  # of the tile of A: padded, against bank conflicts


def float32_in_numba(A, B, C):
    a = cuda.shared.array((BK, ROW), float32)  # transposed
    b = cuda.shared.array((BK, BN), float32)
    accumulators = cuda.local.array((TM, TN), float32)
    fragment_a = cuda.local.array(TM, float32)
    fragment_b = cuda.local.array(TN, float32)
    thread = cuda.threadIdx.x
    tile_m, tile_n = cuda.blockIdx.y * BM, cuda.blockIdx.x * BN
    thread_m, thread_n = thread // (BN // TN) * TM, thread % (BN // TN)
    for i in range(TM):
        for j in range(TN):
            accumulators[i, j] = 0
    for tile_k in range(0, A.shape[1], BK):
        for i in range(thread, BM * BK, THREADS):
            a[i % BK, i // BK] = A[tile_m + i // BK, tile_k + i % BK]
        for i in range(thread, BK * BN, THREADS):
            b[i // BN, i % BN] = B[tile_k + i // BN, tile_n + i % BN]
        cuda.syncthreads()
        for k in range(BK):
            for i in range(TM):
                fragment_a[i] = a[k, thread_m + i]
            for j in range(TN):
                fragment_b[j] = b[k, thread_n + j * (BN // TN)]
            for i in range(TM):
                for j in range(TN):
                    accumulators[i, j] += fragment_a[i] * fragment_b[j]
        cuda.syncthreads()
    for i in range(TM):
        for j in range(TN):
            C[tile_m + thread_m + i, tile_n + thread_n + j * (BN // TN)] = accumulators[i, j]
