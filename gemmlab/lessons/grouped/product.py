"""Products of different heights in one call: gl.grouped_matmul."""

import sys
from functools import lru_cache
from typing import Any

import numpy as np

from gemmlab.cuda.device import gpu
from gemmlab.kernel import faults, layout
from gemmlab.kernel.arguments import ArgumentError, kind_of
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.on_gpu import PackedLaunches
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import BRAIN, HALF, SIMULATED, Problem, Rung, Settings
from gemmlab.ladder.precision import BLOCK
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons.grouped.kernels import GROUPED, GROUPED_FP8, most_products
from gemmlab.loading import load
from gemmlab.products.scaling import by_columns, scaling_of

LARGE = {"BM": 128, "BN": 256, "STAGES": 4, "GROUP": 8}
FLAT = {"BM": 64, "BN": 256, "STAGES": 5}
SMALL = {"BM": 64, "BN": 128, "STAGES": 8}
# In FP8.
MEDIUM_FP8, LARGE_FP8, FLAT_FP8 = (GROUPED_FP8.families[at] for at in (0, 2, 4))
FEW_ROWS = 256  # up to which tiles of 192 rows leave too many rows empty
MOST_PACKED = 1024

_packed: dict[tuple, PackedLaunches] = {}


def grouped_matmul(
    A: Any, B: Any, rows: Any, masked: bool = False, transpose_b: bool = False, out: Any = None,
    scales: tuple[Any, Any] | None = None,
) -> Any:  # fmt: skip
    """Compute A[p] @ B[p] for each product p; their row counts may be known only to the device.

    `A`: the rows of all products below one another, (rows, K), and `rows` int32 (products + 1,),
    the first row of each product and the end of the last. With `masked`, A is (products, capacity,
    K) and `rows` int32 (products,), the number of used rows of each. `B`: (products, K, N), or with
    `transpose_b` (products, N, K). The result is like A, with N columns: a new array or `out`; rows
    that belong to no product are not written. A and B are float16, bfloat16 of ml_dtypes or its
    bits as uint16, both NumPy or both CuPy arrays, C-contiguous; K and N are multiples of 8. Sums
    are float32, and each result is rounded once.

    With `scales` A and B are float8_e4m3fn of ml_dtypes or its bits as uint8, B with `transpose_b`,
    and K is a multiple of 16. Scales are float32 block scales as gl.quantize makes them: A's are
    like A with K/128 columns, rounded up, B's (products, N/128, K/128). The result is bfloat16
    (bits for bits).

    `rows` may be on the host or on the GPU. On the host it is checked; on the GPU it is not,
    because that would wait for the GPU: there it must increase, and end within A. With CuPy arrays
    the call does not wait. Without a GPU it runs in the simulator. Raises ArgumentError,
    IllegalSetting for more products than fit into shared memory, and the errors of Kernel.launch.
    """
    for name, value in (("masked", masked), ("transpose_b", transpose_b)):
        if not isinstance(value, bool):
            raise ArgumentError(f"{name} is {value!r}: it must be True or False")
    rung = GROUPED if scales is None else GROUPED_FP8
    problem = _checked(A, B, masked, transpose_b, rung)
    shape, stored = (*A.shape[:-1], problem.n), A.dtype
    if scales is not None:
        _check_scales(scales, A, problem)
        stored = np.dtype("u2" if stored == np.uint8 else sys.modules["ml_dtypes"].bfloat16)
    if out is not None:
        _check_out(out, shape, stored, A, B)
    what = {"MASKED": int(masked)}
    if scales is None:
        what |= {"DTYPE": int(stored != HALF.a.storage), "OP_B": int(transpose_b)}
    of_these = suited(problem, (gpu() or SIMULATED).sm_count, rung)
    kernel = _kernel(rung.name, tuple((what | of_these).items()))
    precision = kernel.precision
    A, B = (X.view(precision.a.storage) for X in (A, B))
    into = None if out is None else out.view(precision.c.storage)
    xp, host = kernel.array_module, isinstance(A, np.ndarray)
    with faults.reported():
        if into is None:
            into = (np.zeros if xp is np else xp.empty)(shape, precision.c.storage)
        if scales is not None:
            scales = by_columns(scales[0].reshape(-1, scales[0].shape[-1])), scales[1]
        A, B, C, *both = map(kernel.to_device, (A, B, into, *(scales or ())))
        rows = _rows(rows, problem, masked, shape, kernel)
        if C.size and problem.batch:
            _launch(kernel, Operands(problem, precision, A, B, C, None, *both, rows=rows))
        result = kernel.to_host(C) if host else C
    if out is None:
        return result.view(stored)
    if result is not into:
        into[...] = result
    return out


def suited(problem: Problem, sm_count: int, rung: Rung = GROUPED) -> Settings:
    """What products of so many rows on average, or of this capacity, are launched with.

    Tiles of 64 rows where most of one of 128 would be empty, and smaller ones where there are too
    few for all SMs.
    """
    if rung is GROUPED_FP8:
        if problem.m > FEW_ROWS:
            return LARGE_FP8
        return MEDIUM_FP8 if problem.m > FLAT_FP8["BM"] else FLAT_FP8
    chosen, wide = SMALL, ceil_div(problem.n, FLAT["BN"])
    if problem.batch * ceil_div(problem.m, FLAT["BM"]) * wide >= sm_count:
        large = problem.batch * ceil_div(problem.m, LARGE["BM"]) * wide >= sm_count
        chosen = LARGE if large and problem.m > FLAT["BM"] else FLAT
    while problem.batch > most_products(GROUPED.defaults | chosen) and chosen["STAGES"] > 2:
        chosen = chosen | {"STAGES": chosen["STAGES"] - 1}
    return chosen


@lru_cache(maxsize=64)
def _kernel(name: str, settings: tuple[tuple[str, int], ...]) -> Kernel:
    return load(name, **dict(settings))


def _launch(kernel: Kernel, operands: Operands) -> None:
    if not kernel.on_gpu:
        kernel.launch(operands, 1.0, 0.0)
        return
    faults.launched(kernel.name, *operands.problem.shape)
    key = kernel, operands.problem, operands.A.shape
    if key not in _packed:
        if len(_packed) >= MOST_PACKED:
            _packed.clear()
        _packed[key] = kernel.packed(operands)
    _packed[key].enqueue_with(operands.arrays(), 1.0, 0.0)


def _checked(A: Any, B: Any, masked: bool, transposed: bool, rung: Rung) -> Problem:
    """The products, of their rows on average or their capacity. Raises ArgumentError."""
    means = {"A": "(products, capacity, K)" if masked else "(rows, K)", "B": "(products, K, N)"}
    in_fp8 = rung is GROUPED_FP8
    names, takes = ("uint8", "float8_e4m3fn"), "with scales float8_e4m3fn or its bits as uint8"
    if not in_fp8:
        names = (HALF.name, "uint16", BRAIN.name)
        takes = "float16, and bfloat16 or its bits as uint16, and FP8 with scales"
    for name, array, axes in (("A", A, 2 + masked), ("B", B, 3)):
        if not hasattr(array, "flags") or type(array) is not type(A):
            raise ArgumentError(
                f"{name} is {kind_of(array)}: grouped_matmul takes NumPy arrays, or on a GPU CuPy "
                "arrays, all of one kind"
            )
        if array.dtype.name not in names or array.dtype != A.dtype:
            raise ArgumentError(
                f"{name} is {array.dtype}: grouped_matmul takes {takes}, both of one type"
            )
        if array.ndim != axes or not array.flags.c_contiguous:
            raise ArgumentError(
                f"{name} is {array.shape}, with strides {array.strides}: it is {means[name]}, "
                "row-major without gaps"
            )
    if in_fp8 and not transposed:
        raise ArgumentError("FP8 is multiplied along K: B is (products, N, K), with transpose_b")
    products, k, n = B.shape if not transposed else (B.shape[0], B.shape[2], B.shape[1])
    if A.shape[-1] != k or (masked and len(A) != products):
        raise ArgumentError(
            f"A is {A.shape} and B {products} matrices of {k}×{n}: they do not go together"
        )
    of_n, of_k = rung.multiples(rung.defaults)
    if not k or k % of_k or n % of_n:
        raise ArgumentError(
            f"K is {k} and N is {n}: grouped_matmul takes multiples of {of_k} and of {of_n}, and "
            "no K of 0"
        )
    height = A.shape[1] if masked else ceil_div(len(A), max(1, products))
    return Problem(height, n, k, products, "NT" if transposed else "NN")


def _check_scales(scales: Any, A: Any, problem: Problem) -> None:
    """Raises ArgumentError."""
    along_k = ceil_div(problem.k, BLOCK)
    shapes = (*A.shape[:-1], along_k), (problem.batch, ceil_div(problem.n, BLOCK), along_k)
    given = scaling_of(scales, A, None, None).shapes
    if given != shapes or not (scales[1].flags.c_contiguous and layout.begins(scales[1])):
        raise ArgumentError(
            f"scales are {' and '.join(map(str, given))}: for these matrices {shapes[0]} and "
            f"{shapes[1]}, B's row-major without gaps, from a multiple of 16 bytes on"
        )


def _rows(rows: Any, problem: Problem, masked: bool, shape: tuple[int, ...], kernel: Kernel) -> Any:
    """As the kernel takes them, on its device. Raises ArgumentError."""
    count = problem.batch + (not masked)
    on_host = not hasattr(rows, "flags") or isinstance(rows, np.ndarray)
    rows = np.asarray(rows) if on_host else rows
    if rows.shape != (count,) or rows.dtype.kind not in ("iu" if on_host else "i"):
        raise ArgumentError(f"rows is {rows.dtype} {rows.shape}: it is int32 ({count},)")
    if on_host and rows.size:
        rising = masked or not (np.diff(rows.astype(np.int64)) < 0).any()
        if not rising or rows.min() < 0 or rows.max() > shape[-2]:
            each = "each from 0 on" if masked else "each at least the one before, from 0 on"
            raise ArgumentError(f"rows is {rows}: {each}, and at most {shape[-2]}")
    return kernel.to_device(rows.astype(np.int32) if rows.dtype != np.int32 else rows)


def _check_out(out: Any, shape: tuple[int, ...], stored: Any, A: Any, B: Any) -> None:
    right = type(out) is type(A) and (out.dtype, out.shape) == (stored, shape)
    right = right and out.flags.c_contiguous and layout.begins(out)
    if not right or not getattr(out.flags, "writeable", True):
        raise ArgumentError(
            f"out is {kind_of(out)} {getattr(out, 'shape', '')}: it must be a {stored} array "
            f"{shape} like A, row-major without gaps, from a multiple of 16 bytes on, and not "
            "read-only"
        )
    xp = np if isinstance(out, np.ndarray) else sys.modules["cupy"]
    if shared := [name for name, X in (("A", A), ("B", B)) if xp.may_share_memory(out, X)]:
        raise ArgumentError(f"out shares memory with {shared[0]}: it must not")
