"""Products of different heights in one call: gl.grouped_matmul."""

from functools import lru_cache
from typing import Any

import numpy as np

from gemmlab.cuda.device import gpu
from gemmlab.kernel import faults
from gemmlab.kernel.arguments import ArgumentError, kind_of
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.on_gpu import PackedLaunches
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import BRAIN, HALF, SIMULATED, Problem, Settings
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons.grouped.kernels import GROUPED, TYPES, WHOLE, most_products
from gemmlab.loading import load

LARGE = {"BM": 128, "BN": 256, "STAGES": 4, "GROUP": 8}
FLAT = {"BM": 64, "BN": 256, "STAGES": 5}
SMALL = {"BM": 64, "BN": 128, "STAGES": 8}
MOST_PACKED = 1024

_packed: dict[tuple, PackedLaunches] = {}


def grouped_matmul(
    A: Any, B: Any, rows: Any, masked: bool = False, transpose_b: bool = False, out: Any = None
) -> Any:
    """A[p] @ B[p] for each product p, whose number of rows the device alone may know.

    `A`: the rows of all products below one another, (rows, K), and `rows` int32 (products + 1,),
    where those of each begin and where the last one's end. With `masked` (products, capacity, K),
    and `rows` int32 (products,), how many of its first rows each uses. `B`: (products, K, N), or
    with `transpose_b` (products, N, K). The result is like A, with N columns: a new array or `out`;
    rows of no product are not written. A and B are float16, bfloat16 of ml_dtypes or its bits as
    uint16, both NumPy or both CuPy arrays, C-contiguous; K and N are multiples of 8. Sums are
    float32, and rounded once.

    `rows` may be anywhere. On the host it is checked; on the GPU it is not, because that would wait
    for it: there it must rise, and end within A. For CuPy arrays nothing waits. Without a GPU it
    runs in the simulator. Raises ArgumentError, IllegalSetting for more products than shared memory
    has room for, and what Kernel.launch raises.
    """
    for name, value in (("masked", masked), ("transpose_b", transpose_b)):
        if not isinstance(value, bool):
            raise ArgumentError(f"{name} is {value!r}: it must be True or False")
    brain = getattr(getattr(A, "dtype", None), "name", "") == BRAIN.name
    view = A.dtype if brain else None
    if brain and getattr(B, "dtype", None) == view:
        A, B = A.view(BRAIN.a.storage), B.view(BRAIN.a.storage)
    problem, shape = _checked(A, B, masked, transpose_b)
    stored = A.dtype if view is None else view
    if out is not None:
        _check_out(out, shape, stored, A, B)
    precision = HALF if A.dtype == HALF.a.storage else BRAIN
    what = {"MASKED": int(masked), "DTYPE": TYPES.index(precision), "OP_B": int(transpose_b)}
    kernel = _kernel(tuple((what | suited(problem, (gpu() or SIMULATED).sm_count)).items()))
    host = isinstance(A, np.ndarray)
    with faults.reported():
        given = _rows(rows, problem.batch, masked, shape, kernel)
        into = None if out is None else out.view(A.dtype)
        if into is None or (host and kernel.on_gpu):
            xp = kernel.array_module
            into = (np.zeros if xp is np else xp.empty)(shape, A.dtype)
        if host and kernel.on_gpu:
            if out is not None:  # for the rows that are not written
                into[...] = kernel.to_device(out.view(A.dtype))
            A, B = kernel.to_device(A), kernel.to_device(B)
        if into.size and problem.batch:
            _launch(kernel, Operands(problem, precision, A, B, into, rows=given))
        result = kernel.to_host(into) if host else into
    if out is None:
        return result if view is None else result.view(view)
    if host and kernel.on_gpu:
        out.view(A.dtype)[...] = result
    return out


def suited(problem: Problem, sm_count: int) -> Settings:
    """What a product of this many rows on average, or of this capacity, is launched with.

    Tiles of 64 rows where most of one of 128 would be empty, and smaller ones where there are too
    few for all SMs.
    """
    rows, wide = problem.m, ceil_div(problem.n, FLAT["BN"])
    chosen = SMALL
    if problem.batch * ceil_div(rows, FLAT["BM"]) * wide >= sm_count:
        large = problem.batch * ceil_div(rows, LARGE["BM"]) * wide >= sm_count
        chosen = LARGE if large and rows > FLAT["BM"] else FLAT
    while problem.batch > most_products(GROUPED.defaults | chosen) and chosen["STAGES"] > 2:
        chosen = chosen | {"STAGES": chosen["STAGES"] - 1}
    return chosen


@lru_cache(maxsize=64)
def _kernel(settings: tuple[tuple[str, int], ...]) -> Kernel:
    return load(GROUPED.name, **dict(settings))


def _launch(kernel: Kernel, operands: Operands) -> None:
    if not kernel.on_gpu:
        kernel.launch(operands, 1.0, 0.0)
        return
    arrays = {name: getattr(operands, name) for name in ("A", "B", "C", "rows")}
    key = (kernel, operands.problem, operands.A.shape)
    if key not in _packed:
        if len(_packed) >= MOST_PACKED:
            _packed.clear()
        _packed[key] = kernel.packed(operands)
    faults.launched(kernel.name, *operands.problem.shape)
    _packed[key].enqueue_with(arrays, 1.0, 0.0)


# ---- what is given -------------------------------------------------------------------------------


def _checked(A: Any, B: Any, masked: bool, transposed: bool) -> tuple[Problem, tuple[int, ...]]:
    """The product, its rows on average or its capacity, and the result's shape."""
    storage = [precision.a.storage for precision in TYPES]
    for name, array, axes in (("A", A, 2 + masked), ("B", B, 3)):
        if not hasattr(array, "flags") or type(array) is not type(A):
            raise ArgumentError(
                f"{name} is {kind_of(array)}: grouped_matmul takes NumPy arrays, or on a GPU CuPy "
                "arrays, all of one kind"
            )
        if array.dtype.name not in storage:
            raise ArgumentError(
                f"{name} is {array.dtype}: grouped_matmul takes float16 and bfloat16, or the bits "
                "of bfloat16 as uint16"
            )
        if array.ndim != axes:
            means = "(products, capacity, K)" if axes == 3 else "(rows, K)"
            means = means if name == "A" else "(products, K, N)"
            raise ArgumentError(f"{name} has {array.ndim} axes: it is {means}")
        if not array.flags.c_contiguous:
            raise ArgumentError(
                f"{name} is not row-major without gaps: use np.ascontiguousarray({name})"
            )
    if A.dtype != B.dtype:
        raise ArgumentError(f"A is {A.dtype} and B is {B.dtype}: they must be of one type")
    products, k, n = B.shape if not transposed else (B.shape[0], B.shape[2], B.shape[1])
    if A.shape[-1] != k:
        raise ArgumentError(
            f"A has rows of {A.shape[-1]}, and B is {k}×{n}: the inner sizes differ"
        )
    if not k or k % WHOLE or n % WHOLE:
        raise ArgumentError(
            f"K is {k} and N is {n}: grouped_matmul takes multiples of {WHOLE}, and no K of 0"
        )
    if masked and len(A) != products:
        raise ArgumentError(f"A has {len(A)} products and B {products}")
    height = A.shape[1] if masked else ceil_div(len(A), max(1, products))
    problem = Problem(height, n, k, products, "NT" if transposed else "NN")
    return problem, (*A.shape[:-1], n)


def _rows(rows: Any, products: int, masked: bool, shape: tuple[int, ...], kernel: Kernel) -> Any:
    """As the kernel takes them, on its device."""
    count = products + (not masked)
    means = "how many rows each product uses" if masked else "where those of each product begin"
    host = not hasattr(rows, "flags") or isinstance(rows, np.ndarray)
    if host:
        rows = np.asarray(rows)
    if (
        rows.shape != (count,)
        or rows.dtype.kind not in "iu"
        or (not host and rows.dtype != "int32")
    ):
        raise ArgumentError(
            f"rows is {rows.dtype} {rows.shape}: it is int32 ({count},), {means}"
            + ("" if masked else ", and where the last one's end")
        )
    if not host:
        return rows if kernel.on_gpu else kernel.to_host(rows)
    if masked and rows.size and not 0 <= rows.min() <= rows.max() <= shape[1]:
        raise ArgumentError(
            f"rows is from {rows.min()} to {rows.max()}, and the capacity {shape[1]}"
        )
    if not masked and ((np.diff(rows.astype(np.int64)) < 0).any() or rows[0] < 0):
        raise ArgumentError(f"rows is {rows}: each number is at least the one before, from 0 on")
    if not masked and rows[-1] > shape[0]:
        raise ArgumentError(f"rows ends at {rows[-1]}, and A has {shape[0]}")
    return kernel.to_device(rows.astype(np.int32))


def _check_out(out: Any, shape: tuple[int, ...], stored: Any, A: Any, B: Any) -> None:
    if type(out) is not type(A):
        raise ArgumentError(f"out is {kind_of(out)}, A and B are {type(A).__module__} arrays")
    if out.dtype != stored or out.shape != shape or not out.flags.c_contiguous:
        raise ArgumentError(
            f"out is {out.dtype} {out.shape}: it must be {stored} {shape}, row-major without gaps"
        )
    if isinstance(out, np.ndarray):
        if not out.flags.writeable:
            raise ArgumentError("out is read-only")
        shared = [name for name, X in (("A", A), ("B", B)) if np.may_share_memory(out, X)]
    else:
        import cupy

        shared = [name for name, X in (("A", A), ("B", B)) if cupy.may_share_memory(out, X)]
    if shared:
        raise ArgumentError(f"out shares memory with {shared[0]}: it must not")
