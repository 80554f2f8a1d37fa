"""Kernels of the kinds that occur in a series on products, with what NumPy or Python says of them.

Each is run in the simulator, and on a GPU where there is one: see test_machine.py and
test_against_hardware.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import ptxsim
from matrices import ceil_div, error_bound, random_matrix, reference

f4 = np.float32


@dataclass(frozen=True)
class Sample:
    """A kernel `entry` of `text`, a launch, and `expected`: which argument must become what.

    An expected value is an array, to be met exactly, or a pair of float64 (value, error bound).
    """

    text: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: Callable[[], list]
    expected: Callable[[list], dict[int, object]]  # from the arguments before the launch
    shared_bytes: int = 0
    entry: str = "k"
    options: tuple[str, ...] = ()

    @property
    def fifth(self) -> int:
        """The lanes of about a fifth of its blocks, and of one block at least."""
        return int(np.prod(self.block) * max(1, np.prod(self.grid) // 5))

    def run(self, **how) -> tuple[list, ptxsim.Run]:
        """The arguments after a run in the simulator, and the run; `how`: as ptxsim.launch."""
        args = self.args()
        run = ptxsim.launch(
            self.text, self.entry, self.grid, self.block, args,
            shared_bytes=self.shared_bytes, options=self.options, **how,
        )  # fmt: skip
        return args, run


def matches(got: np.ndarray, expected) -> bool:
    if isinstance(expected, tuple):
        value, bound = expected
        return bool((np.abs(got - value) <= bound).all())
    return got.dtype == expected.dtype and np.array_equal(got, expected, equal_nan=got.dtype == f4)


# --- products -------------------------------------------------------------------------------------

TILED = """
#define TILE %(tile)d
extern "C" __global__ void k(const float* __restrict__ A, const float* __restrict__ B,
                             float* __restrict__ C, int M, int N, int K) {
    __shared__ float a[TILE][TILE + %(pad)d], b[TILE][TILE + %(pad)d];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int start = 0; start < K; start += TILE) {
        a[y][x] = row < M && start + x < K ? A[(size_t)row * K + start + x] : 0.0f;
        b[x][y] = start + y < K && col < N ? B[(size_t)(start + y) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum += a[y][k] * b[x][k];
        __syncthreads();
    }
    if (row < M && col < N)
        C[(size_t)row * N + col] = sum;
}"""

# float4 from and to global memory, float4 into shared memory; K and N are multiples of 4.
VECTOR = """
#define TILE 16
extern "C" __global__ void k(const float* __restrict__ A, const float* __restrict__ B,
                             float* __restrict__ C, int M, int N, int K) {
    __shared__ float4 a[TILE][TILE / 4];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + 4 * x;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int start = 0; start < K; start += TILE) {
        const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        a[y][x] = row < M && start + 4 * x < K
            ? *(const float4*)&A[(size_t)row * K + start + 4 * x] : none;
        __syncthreads();
        for (int k = 0; k < TILE && start + k < K; ++k) {
            const float left = ((const float*)a[y])[k];
            const float4 b = col < N ? *(const float4*)&B[(size_t)(start + k) * N + col] : none;
            sum.x += left * b.x; sum.y += left * b.y; sum.z += left * b.z; sum.w += left * b.w;
        }
        __syncthreads();
    }
    if (row < M && col < N)
        *(float4*)&C[(size_t)row * N + col] = sum;
}"""


def product(source: str, m: int, n: int, k: int, tile: tuple[int, int], block, seed: int = 1):
    """A sample of a kernel whose block computes `tile` rows and columns of A @ B."""

    def args():
        A, B = random_matrix(m, k, seed), random_matrix(k, n, seed + 1)
        return [A, B, np.full((m, n), np.nan, f4), m, n, k]

    def expected(args):
        A, B = args[:2]
        return {2: (reference(A, B, None, 1.0, 0.0), error_bound(A, B, None, 1.0, 0.0))}

    grid = (ceil_div(n, tile[1]), ceil_div(m, tile[0]), 1)
    return Sample(source, grid, block, args, expected)


def tiled(m, n, k, tile=16, pad=0):
    return product(TILED % {"tile": tile, "pad": pad}, m, n, k, (tile, tile), (tile, tile, 1))


def vector(m, n, k):
    return product(VECTOR, m, 4 * n, 4 * k, (16, 16), (4, 16, 1))


# --- control flow ---------------------------------------------------------------------------------

COLLATZ = """
extern "C" __global__ void k(const int* start, int* steps, int* highest, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = start[i], count = 0, top = x;
    while (x != 1) {
        if (x % 2) {
            x = 3 * x + 1;
            if (x > top) top = x;
        } else {
            do { x /= 2; ++count; } while (x % 2 == 0);
            --count;
        }
        if (++count == 100) break;
    }
    steps[i] = count;
    highest[i] = top;
}"""


def collatz(block: int = 48):
    start = np.random.default_rng(3).integers(1, 10_000, 301, np.int32)

    def course(x):
        count, top = 0, x
        while x != 1:
            if x % 2:
                x = 3 * x + 1
                top = max(top, x)
            else:
                while True:
                    x //= 2
                    count += 1
                    if x % 2:
                        break
                count -= 1
            count += 1
            if count == 100:
                break
        return count, top

    def expected(args):
        steps, highest = np.array([course(int(x)) for x in args[0]], np.int32).T
        return {1: steps.copy(), 2: highest.copy()}

    empty = np.zeros_like(start)
    grid = (ceil_div(len(start), block), 1, 1)
    return Sample(
        COLLATZ, grid, (block, 1, 1),
        lambda: [start.copy(), empty.copy(), empty.copy(), len(start)], expected,
    )  # fmt: skip


# Rows of different length; some threads return before the barrier, some between two of them.
RETURNS = """
extern "C" __global__ void k(const float* x, float* out, int n) {
    __shared__ float s[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t] = i < n ? x[i] : 0.0f;
    if (i >= n) return;
    __syncthreads();
    float sum = 0.0f;
    for (int j = t; j < 64 && blockIdx.x * 64 + j < n; ++j) sum += s[j];
    if (t % 3 == 0) { out[i] = sum; return; }
    __syncthreads();
    s[t] = sum;
    __syncthreads();
    out[i] = -s[t];
}"""


def returns():
    x = np.random.default_rng(4).integers(-50, 50, 150).astype(f4)

    def expected(args):
        out = np.empty_like(x)
        for i in range(len(x)):
            end = min(len(x), i // 64 * 64 + 64)
            out[i] = x[i:end].sum() * (1 if i % 64 % 3 == 0 else -1)
        return {1: out}

    return Sample(
        RETURNS, (3, 1, 1), (64, 1, 1), lambda: [x.copy(), np.zeros_like(x), len(x)], expected
    )


# A sum over the block in shared memory, the last steps inside a warp; x is read and written again.
REDUCTION = """
__shared__ float partial[128];
extern __shared__ float scaled[];
extern "C" __global__ void k(float* x, float* sums) {
    const int t = threadIdx.x;
    float* mine = x + blockIdx.x * 128 + t;
    *mine += 1.0f;
    scaled[t] = 2.0f * *mine;
    partial[t] = scaled[t];
    __syncthreads();
    for (int half = 64; half >= 32; half /= 2) {
        if (t < half) partial[t] += partial[t + half];
        __syncthreads();
    }
    if (t < 32)
        for (int half = 16; half > 0; half /= 2) {
            const float other = partial[t + half];
            __syncwarp();
            partial[t] += other;
            __syncwarp();
        }
    if (t == 0) sums[blockIdx.x] = partial[0];
    *mine = *mine * 3.0f - scaled[127 - t];
}"""


def reduction():
    x = np.random.default_rng(5).integers(-100, 100, (5, 128)).astype(f4)

    def expected(args):
        return {0: 3 * (x + 1) - 2 * (x + 1)[:, ::-1], 1: (2 * (x + 1)).sum(axis=1)}

    return Sample(
        REDUCTION, (5, 1, 1), (128, 1, 1), lambda: [x.copy(), np.zeros(5, f4)], expected, 4 * 128
    )


POSITIONS = """
extern "C" __global__ void k(int* out, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    const int code = ((gridDim.z * 10 + gridDim.y) * 10 + gridDim.x) * 10 + blockDim.z;
    out[(z * height + y) * width + x] = code * 1000000 + z * 10000 + y * 100 + x;
}"""


def positions(grid, block):
    shape = [grid[i] * block[i] for i in (2, 1, 0)]

    def expected(args):
        z, y, x = np.indices(shape, np.int64)
        code = ((grid[2] * 10 + grid[1]) * 10 + grid[0]) * 10 + block[2]
        return {0: (code * 1000000 + z * 10000 + y * 100 + x).astype(np.int32)}

    return Sample(
        POSITIONS, grid, block, lambda: [np.zeros(shape, np.int32), shape[2], shape[1]], expected
    )


# --- arithmetic of single elements ----------------------------------------------------------------

# Name -> (C expression of a and b, the same in Python's integers).
INTEGER_OPERATIONS = {
    "add": ("a + b", lambda a, b: a + b),
    "subtract": ("a - b", lambda a, b: a - b),
    "multiply": ("a * b", lambda a, b: a * b),
    "divide": ("b ? a / b : 7", lambda a, b: quotient(a, b) if b else 7),
    "remainder": ("b ? a % b : 7", lambda a, b: a - quotient(a, b) * b if b else 7),
    "by ten": ("a / 10 + a % 10", lambda a, b: quotient(a, 10) + a - quotient(a, 10) * 10),
    "left": ("a << (b & 31)", lambda a, b: a << (b & 31)),
    "right": ("a >> (b & 31)", lambda a, b: a >> (b & 31)),
    "and": ("a & b", lambda a, b: a & b),
    "or": ("a | b", lambda a, b: a | b),
    "xor": ("a ^ b", lambda a, b: a ^ b),
    "not": ("~a", lambda a, b: ~a),
    "negative": ("-a", lambda a, b: -a),
    "smaller": ("min(a, b)", min),
    "larger": ("max(a, b)", max),
    "less": ("a < b", lambda a, b: a < b),
    "chosen": ("a == b ? a : a > b ? 1 : 2", lambda a, b: a if a == b else 1 if a > b else 2),
    "multiply-add": ("a * b + 3", lambda a, b: a * b + 3),
}
C_TYPES = {
    "int": np.int32, "unsigned": np.uint32, "long long": np.int64, "unsigned long long": np.uint64,
    "short": np.int16, "unsigned short": np.uint16,
    "signed char": np.int8, "unsigned char": np.uint8,
}  # fmt: skip


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def wrapped(value: int, dtype) -> int:
    bits = np.iinfo(dtype).bits
    value %= 2**bits
    return value - 2**bits if np.iinfo(dtype).min < 0 and value >= 2 ** (bits - 1) else value


def integer_operations(c_type: str):
    """All operations on all pairs of awkward numbers; C computes short types as int."""
    dtype = C_TYPES[c_type]
    limits = np.iinfo(dtype)
    few = [0, 1, 2, 3, 5, 7, 10, 31, 33, 100, limits.max, limits.max - 1, limits.max // 3]
    few += [limits.min, limits.min + 1, -1, -2, -7, -10, -33] if limits.min else [limits.max // 2]
    # Left out: the one quotient that does not fit, which C leaves undefined.
    pairs = [(a, b) for a in few for b in few if (a, b) != (limits.min, -1) or not limits.min]
    computed_as = dtype if limits.bits >= 32 else np.int32
    lines = "\n".join(
        f"    out[{i}ll * n + i] = ({c_type})({text});"
        for i, (text, _) in enumerate(INTEGER_OPERATIONS.values())
    )
    source = f"""extern "C" __global__ void
k(const {c_type}* A, const {c_type}* B, {c_type}* out, int n) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const {c_type} a = A[i], b = B[i];
{lines}
}}"""

    def args():
        A, B = (np.array(side, dtype) for side in zip(*pairs, strict=True))
        return [A, B, np.zeros((len(INTEGER_OPERATIONS), len(pairs)), dtype), len(pairs)]

    def expected(args):
        rows = [
            [wrapped(wrapped(int(python(a, b)), computed_as), dtype) for a, b in pairs]
            for _, python in INTEGER_OPERATIONS.values()
        ]
        return {2: np.array(rows, dtype)}

    return Sample(source, (ceil_div(len(pairs), 96), 1, 1), (96, 1, 1), args, expected)


SAMPLES = {
    "tiled": tiled(50, 70, 37), "tiled, padded": tiled(33, 40, 65, tile=32, pad=1),
    "tiled, large": tiled(300, 500, 20, tile=16, pad=1), "vector": vector(45, 13, 9),
    "divergent": collatz(), "divergent, whole warps": collatz(64), "returns": returns(),
    "reduction": reduction(), "1-D": positions((3, 1, 1), (45, 1, 1)),
    "2-D": positions((3, 4, 1), (5, 7, 1)), "3-D": positions((2, 3, 4), (3, 5, 2)),
    "3-D, whole warps": positions((2, 1, 2), (32, 3, 2)),
    **{c_type: integer_operations(c_type) for c_type in C_TYPES},
}  # fmt: skip
