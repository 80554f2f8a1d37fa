"""One call for every product: gl.matmul takes the rung and the settings that choose() names.

What a call needs is found once for each kind of call (shapes, strides, types, operations) and kept:
after that a call asks a dictionary, prepares what the rung cannot take as it is, and launches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from numbers import Real
from typing import Any, cast

import numpy as np

from gemmlab.cuda.device import gpu
from gemmlab.kernel import faults, layout
from gemmlab.kernel.arguments import ArgumentError, factor, kind_of, problem_of
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.on_gpu import PackedLaunches
from gemmlab.kernel.operands import FLOATS, Operands
from gemmlab.ladder import BRAIN, SINGLE, Problem
from gemmlab.ladder.activations import ACTIVATIONS
from gemmlab.loading import load
from gemmlab.products.choosing import FP8, OTHER_TYPES, TYPES, Chosen, choose, refused
from gemmlab.products.scaling import NO_SCALES, Scaling, scaling_of

MOST_PLANS = 4096
EVERY_TYPE = {name: precision.a for name, precision in TYPES.items()} | OTHER_TYPES
NO_STEPS: Sequence[Callable] = ()
GIVEN = (*FLOATS, "lost")  # arrays of a launch
NO_PLAIN_ARRAYS = (np.matrix, np.ma.MaskedArray)  # of which a product is something else

_plans: dict[tuple, Plan] = {}


def matmul(
    A: Any, B: Any, alpha: float = 1, beta: float = 0, C: Any = None, bias: Any = None,
    activation: str | None = None, transpose_a: bool = False, transpose_b: bool = False,
    dtype: str | None = None, out: Any = None, scales: tuple[Any, Any] | None = None,
    by: str | None = None, lost: Any = None,
) -> Any:  # fmt: skip
    """Compute activation(alpha * op(A) @ op(B) + beta * C + bias) with the rung for the shape.

    op(A) is A, or its transpose if `transpose_a` is True; the same holds for B. For op(A) of shape
    (M, K) and op(B) of shape (K, N) the result is (M, N); with a batch before one or both it is
    (batch, M, N). A and B are float32, float16, bfloat16 of ml_dtypes or, with dtype="bfloat16",
    the bits of bfloat16 as uint16; both are NumPy or both CuPy arrays, with any strides. The result
    is a new C-contiguous array of their kind and type, or `out`, which must have the result's shape
    and type, may have any strides, and may share memory only with C, if it is C itself. With 16-bit
    operands sums are float32, and each result is rounded once. `C`: like the result, not changed,
    and read only if beta is not 0. `bias`: float32 (N,), added to each row. `activation`: "ReLU",
    "GELU by tanh" or "GELU by erf". alpha and beta are converted to float32. PyTorch tensors on one
    device are taken through DLPack; the result is then a tensor, without a gradient.

    Three types take no batches, no bias and no activation. int8 gives an exact int32, without alpha
    and beta. float32 with dtype="tf32" is rounded to TF32. FP8 is float8_e4m3fn of ml_dtypes, or
    its bits as uint8 with dtype="float8_e4m3fn", with float32 `scales` of A and of B: a number or
    an array of one number each; (M,) and (N,); or (M, K/128) and (K/128, N/128), rounded up, which
    are copied unless in Fortran order, as PyTorch has them. Its result is bfloat16 (bits for bits),
    or float32 if `out` or C is float32.

    float32 with by="tensor cores" is multiplied in parts of 16 bits, on Hopper: no batches, no bias
    and no activation. `lost`: int32 (1,) of A's kind, set to 1 where a result may differ from
    float32's, because it is not finite, or because a number of A or B is below 2**-102.

    With CuPy arrays it does not wait for the GPU; without a GPU it runs in the simulator. gl.choose
    names the rung. Raises ArgumentError, IllegalSetting for a type that this GPU cannot multiply,
    and the errors of Kernel.launch.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(A, torch.Tensor):
        A, B, C, bias, out, lost, dtype, scales = _of_torch(
            torch, A, B, C, bias, out, lost, dtype, scales
        )
        result = matmul(
            A, B, alpha, beta, C, bias, activation, transpose_a, transpose_b, dtype, out, scales,
            by, lost,
        )  # fmt: skip
        return _to_torch(torch, result, dtype)
    scaling = None if scales is None else scaling_of(scales, A, C, out)
    plan = planned(A, B, bias, activation, transpose_a, transpose_b, dtype, scaling, by)
    alpha, beta = factor("alpha", alpha), factor("beta", beta)
    return plan.run(A, B, alpha, beta, C, bias, out, scales or NO_SCALES, lost)


def planned(
    A: Any, B: Any, bias: Any, activation: Any, transpose_a: bool, transpose_b: bool,
    dtype: str | None = None, scaling: Scaling | None = None, by: str | None = None,
) -> Plan:  # fmt: skip
    """How a call is done, found once for each kind of call. Raises ArgumentError."""
    key: tuple[Any, ...] | None
    try:
        key = (
            type(A), A.shape, A.strides, A.dtype, layout.begins(A),
            type(B), B.shape, B.strides, B.dtype, layout.begins(B),
            bias is None, activation, transpose_a, transpose_b, dtype, scaling, by,
        )  # fmt: skip
        plan = _plans.get(key)
    except (AttributeError, TypeError):  # no array, or an activation that is no text
        key = plan = None
    if plan is None:
        plan = _plan(
            A, B, bias is not None, activation, transpose_a, transpose_b, dtype, scaling, by
        )
        if key is None:
            return plan
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        _plans[key] = plan
    return plan


@dataclass(eq=False)
class Plan:
    """What one kind of call does: `chosen` is loaded as `kernel`.

    `prepare`: of A and of B, makes of an argument what the kernel takes, or None. `problem`: one
    launch's. `shape`: the result's. `spans`: bytes from the first to the last one of A and of B as
    the kernel takes them. `flat`: the products of a batch are computed as one, their rows
    below one another. `dtype`: of the result, where arrays of ml_dtypes are launched as their bits.
    `scale_steps`: as `prepare`, of the scales. `stored`: the type of the result.
    """

    chosen: Chosen
    kernel: Kernel
    problem: Problem
    shape: tuple[int, ...]
    prepare: tuple[Callable | None, Callable | None]
    spans: tuple[int, int]
    flat: bool = False
    dtype: Any = None
    scale_steps: Sequence[Callable] = ()
    stored: Any = None
    _packed: PackedLaunches | None = None  # of the first call on a GPU
    _again: bool = False  # whether a call like the first is these launches and no more

    def run(
        self, A: Any, B: Any, alpha: float, beta: float, C: Any, bias: Any, out: Any = None,
        scales: Sequence[Any] = NO_SCALES, lost: Any = None,
    ) -> Any:  # fmt: skip
        """Raises ArgumentError for a C, bias, `out` or `lost` that does not fit."""
        if (alpha != 1 or beta != 0) and not self.kernel.takes("alpha"):
            raise ArgumentError(f"{self.kernel.dtype} takes no alpha and beta: leave them 1 and 0")
        if self.scale_steps:
            scales = [step(scale) for step, scale in zip(self.scale_steps, scales, strict=True)]
        if lost is not None:
            if not self.kernel.takes("lost"):
                raise ArgumentError(f"{self.kernel.name} has no use for `lost`")
            self._check("lost", lost, (1,), np.dtype(np.int32), type(A))
        if self._again and beta == 0 and bias is None and (out is None or self._fits(out, A, B)):
            return self._run_again(A, B, alpha, out, (*scales, lost))
        kernel, host, stored = self.kernel, isinstance(A, np.ndarray), self.stored
        same, flag = out is C, lost
        C = C if beta != 0 else None
        if bias is not None:
            self._check("bias", bias, (self.problem.n,), SINGLE.name, type(A))
        if beta != 0:
            self._check("C", C, self.shape, stored, type(A))
        if out is not None:
            self._check("out", out, self.shape, stored, type(A))
            self._check_apart(out, A, B, C, bias)
        if not kernel.on_gpu:
            kernel.require_time(self.problem)
        into = out
        if self.dtype is not None:
            given, made = kernel.precision.a.storage, kernel.precision.c.storage
            A, B = A.view(given), B.view(given)
            C, into = (None if X is None else X.view(made) for X in (C, out))
        first, second = self.prepare
        with faults.reported():
            A, B = A if first is None else first(A), B if second is None else second(B)
            if host and kernel.on_gpu:
                A, B, C, bias, flag, *scales = (
                    None if X is None else kernel.to_device(X)
                    for X in (A, B, C, bias, lost, *scales)
                )
            result = self._room(None if host and kernel.on_gpu else into, C, same)
            self._launch(A, B, result, (bias, *scales, flag), alpha, beta)
            if flag is not lost:
                lost[...] = kernel.to_host(flag)
            self._again = (
                self._packed is not None and not host and self.prepare == (None, None)
                and self.dtype is None and not self.flat and self._at_once
            )  # fmt: skip
            if host:
                result = kernel.to_host(result)
            if into is not None and result is not into:
                into[...] = result
        if out is not None:
            return out
        return result if self.dtype is None else result.view(self.dtype)

    def _fits(self, out: Any, A: Any, B: Any) -> bool:
        """Whether a kernel can store into `out` as it is; what does not fit is refused later."""
        if type(out) is not type(A) or out.shape != self.shape or not out.flags.c_contiguous:
            return False
        begin, a, b = out.data.ptr, A.data.ptr, B.data.ptr
        end, (a_bytes, b_bytes) = begin + out.nbytes, self.spans
        apart = (end <= a or a + a_bytes <= begin) and (end <= b or b + b_bytes <= begin)
        return apart and out.dtype == self.stored and not begin % layout.ALIGNMENT

    @cached_property
    def _at_once(self) -> bool:
        """Whether the products of a batch are launched together."""
        alone = self.chosen.one_by_one or self.problem.batch == 1
        return len(self.shape) == 2 or self.flat or not alone

    def _run_again(self, A: Any, B: Any, alpha: float, out: Any, beside: Sequence[Any]) -> Any:
        """The short way of a call that was made before, of what needs no preparation."""
        try:
            if out is None:
                out = self._empty(self.shape, self.stored)
            faults.launched(*self._named)
            arrays = dict(zip(GIVEN, (A, B, out, None, *beside), strict=True))
            cast(PackedLaunches, self._packed).enqueue_with(arrays, alpha, 0.0)
        except Exception as error:
            faults.report(error)
            raise
        return out

    @cached_property
    def _empty(self) -> Callable[..., Any]:
        return self.kernel.array_module.empty

    @cached_property
    def _named(self) -> tuple[str, int, int, int]:
        return self.kernel.name, *self.problem.shape

    def _room(self, into: Any, C: Any, same: bool) -> Any:
        """Where the result is computed: in `into` where kernels can store there; with C in it.
        `same`: they are one array."""
        kernel = self.kernel
        xp = kernel.array_module
        direct = into is not None and into.flags.c_contiguous and layout.begins(into)
        if C is None:
            if direct:
                return into
            return (np.zeros if xp is np else xp.empty)(self.shape, kernel.precision.c.storage)
        if not direct:
            return xp.array(C, order="C")
        if not same:
            into[...] = C
        return into

    def _launch(self, A: Any, B: Any, result: Any, beside: Any, alpha: float, beta: float) -> None:
        """`beside`: a bias, two scales and `lost`, or None."""
        if 0 in self.shape:
            return
        if self.flat:
            result = result.reshape(-1, result.shape[-1])
        if self.chosen.padded is None:
            self._launch_each(A, B, result, beside, alpha, beta)
            return
        wide = self.kernel.array_module.empty(self.problem.shape_of_c, result.dtype)
        inside = wide[:, : result.shape[1]]
        if beta != 0:
            inside[...] = result
        self._launch_each(A, B, wide, beside, alpha, beta)
        result[...] = inside

    def _launch_each(
        self, A: Any, B: Any, result: Any, beside: Any, alpha: float, beta: float
    ) -> None:
        each: Iterable[tuple[Any, Any, Any]] = [(A, B, result)]
        if not self._at_once:
            each = zip(A, B, result, strict=True)
        for a, b, c in each:
            arrays = dict(zip(GIVEN, (a, b, c, *beside), strict=True))
            if self._packed is None:
                operands = Operands(self.problem, self.kernel.precision, **arrays)
                if not self.kernel.on_gpu:
                    self.kernel.launch(operands, alpha, beta)
                    continue
                self._packed = self.kernel.packed(operands)
            faults.launched(self.kernel.name, *self.problem.shape)
            self._packed.enqueue_with(arrays, alpha, beta)

    @staticmethod
    def _check(name: str, array: Any, shape: tuple[int, ...], dtype: Any, kind: Any) -> None:
        if type(array) is not kind:
            raise ArgumentError(f"{name} is {kind_of(array)}; A and B are {kind.__module__} arrays")
        if array.dtype != dtype or array.shape != shape:
            raise ArgumentError(
                f"{name} is {array.dtype} {array.shape}; for A and B it must be {dtype} {shape}"
            )

    @staticmethod
    def _check_apart(out: Any, A: Any, B: Any, C: Any, bias: Any) -> None:
        """Raises ArgumentError where storing into `out` would change what is read."""
        if isinstance(out, np.ndarray) and not out.flags.writeable:
            raise ArgumentError("out is read-only: pass an array that can be written")
        for name, array in (("A", A), ("B", B), ("C", C), ("bias", bias)):
            if array is None or (name == "C" and array is out):
                continue
            if _may_overlap(out, array):
                also = ", unless it is C itself" if name == "C" else ""
                raise ArgumentError(f"out shares memory with {name}, which is not allowed{also}")


def _may_overlap(first: Any, second: Any) -> bool:
    """Whether two arrays lie, from their first to their last byte, over one another."""
    if isinstance(first, np.ndarray):
        return np.may_share_memory(first, second)
    if first.flags.c_contiguous and second.flags.c_contiguous:
        begin, other = first.data.ptr, second.data.ptr
        return begin < other + second.nbytes and other < begin + first.nbytes
    return sys.modules["cupy"].may_share_memory(first, second)


def _plan(
    A: Any, B: Any, biased: bool, activation: Any, transpose_a: bool, transpose_b: bool,
    dtype: str | None, scaling: Scaling | None, by: str | None,
) -> Plan:  # fmt: skip
    for name, value in (("transpose_a", transpose_a), ("transpose_b", transpose_b)):
        if not isinstance(value, bool):
            raise ArgumentError(f"{name} is {value!r}: it must be True or False")
    if activation is not None and activation not in ACTIVATIONS:
        there = ", ".join(map(repr, ACTIVATIONS))
        raise ArgumentError(f"there is no activation {activation!r}; there are {there}, and None")
    _check_kinds(A, B)
    view = None
    if dtype is None and A.dtype.name in (BRAIN.name, FP8):
        dtype = A.dtype.name
        if B.dtype != A.dtype:
            raise ArgumentError(f"A is {A.dtype} and B is {B.dtype}: they must be of one type")
        to = scaling.to if dtype == FP8 and scaling is not None else BRAIN.name
        view = np.dtype(getattr(sys.modules["ml_dtypes"], to, to))
        A, B = (X.view(EVERY_TYPE[dtype].storage) for X in (A, B))
    _check_matrices(A, B, dtype)
    name = dtype or A.dtype.name
    fused = biased or activation not in (None, ACTIVATIONS[0])
    if (name == FP8) != (scaling is not None):
        raise ArgumentError(f"{FP8} needs scales, and no other type takes scales: A is {A.dtype}")
    shape_before = A.shape[:-2] or B.shape[:-2]
    together, flat = _together(A, B, transpose_a)
    A, B = (X if change is None else change(X) for X, change in zip((A, B), together, strict=True))
    (A, how_a), (B, how_b) = (
        _by_rows(X, turned) for X, turned in ((A, transpose_a), (B, transpose_b))
    )
    product = problem_of(how_a + how_b, A, B)
    kind, to, scale_steps = "tensors", BRAIN.name, NO_STEPS
    if scaling is not None:
        to, (kind, scale_steps) = scaling.to, scaling.steps(product, _module_of(A))
    if why := refused(name, fused, len(shape_before) > 0, kind, by):
        raise ArgumentError(why)
    chosen = choose(product, name, fused, kind, to, by)
    settings = dict(chosen.settings)
    if fused:
        settings["ACTIVATION"] = ACTIVATIONS.index(activation or ACTIVATIONS[0])
    kernel = _kernel(chosen.rung, tuple(settings.items()))
    problem = chosen.padded or product
    if chosen.turned:
        problem = replace(problem, ops=kernel.ops)
    if chosen.one_by_one:
        problem = replace(problem, batch=1)
    rows = product.m // shape_before[0] if flat else product.m
    shape = (*shape_before, rows, product.n)
    single = chosen.one_by_one or problem.batch == 1
    if (padded := chosen.padded) is None:
        steps = (
            _prepare(A, how_a, transpose_a, "A" in chosen.turned, kernel, single),
            _prepare(B, how_b, transpose_b, "B" in chosen.turned, kernel, single),
        )
    else:
        along_k = padded.ops[1] == "T"
        steps = (
            partial(_in_longer_rows, shape=padded.shape_of_a, turned=transpose_a),
            partial(_in_longer_rows, shape=padded.shape_of_b, turned=transpose_b != along_k),
        )
    prepare = _both(together[0], steps[0]), _both(together[1], steps[1])
    spans = layout.span(A) * A.itemsize, layout.span(B) * B.itemsize
    stored = np.dtype(kernel.precision.c.storage if view is None else view)
    return Plan(chosen, kernel, problem, shape, prepare, spans, flat, view, scale_steps, stored)


def _together(
    A: Any, B: Any, transpose_a: bool
) -> tuple[tuple[Callable | None, Callable | None], bool]:
    """Of a batch and one matrix: what makes a product of both, for A and for B; and whether that is
    a single product, the rows of all A below one another."""
    if A.ndim == B.ndim:
        return (None, None), False
    if A.ndim == 2:
        return (partial(_repeated, batch=B.shape[0]), None), False
    if A.flags.c_contiguous and not transpose_a and A.shape[0]:
        return (lambda X: X.reshape(-1, X.shape[-1]), None), True
    return (None, partial(_repeated, batch=A.shape[0])), False


def _module_of(array: Any) -> Any:
    return np if isinstance(array, np.ndarray) else sys.modules["cupy"]


def _repeated(matrix: Any, batch: int) -> Any:
    """A view: the same matrix for each product of a batch."""
    return _module_of(matrix).broadcast_to(matrix, (batch, *matrix.shape))


def _in_longer_rows(X: Any, shape: tuple[int, ...], turned: bool) -> Any:
    """The matrix, or its transpose, with zeros behind its rows and below: a copy, where need be."""
    matrix = X.T if turned else X
    if matrix.shape == shape and matrix.flags.c_contiguous and layout.begins(matrix):
        return _regular(matrix)
    rows, columns = matrix.shape
    longer = _module_of(X).empty(shape, X.dtype)
    longer[:rows, :columns] = matrix
    longer[rows:] = 0
    longer[:, columns:] = 0
    return longer


def _both(first: Callable | None, then: Callable | None) -> Callable | None:
    if first is None or then is None:
        return first or then
    return lambda X: then(first(X))


def _check_kinds(A: Any, B: Any) -> None:
    """Raises ArgumentError for what is no array, and where they are not of one kind."""
    kinds = _kinds()
    for name, array in (("A", A), ("B", B)):
        if not isinstance(array, kinds) or isinstance(array, NO_PLAIN_ARRAYS):
            raise ArgumentError(
                f"{name} is {kind_of(array)}: gl.matmul takes NumPy arrays, or on a GPU CuPy arrays"
            )
    if type(B) is not type(A):
        raise ArgumentError(
            f"A is {kind_of(A)} and B is {kind_of(B)}: gl.matmul takes arrays of one kind"
        )


def _check_matrices(A: Any, B: Any, dtype: str | None) -> None:
    if dtype is not None and dtype not in EVERY_TYPE:
        raise ArgumentError(f"dtype is {dtype!r}; it must be one of {', '.join(EVERY_TYPE)}")
    # Their own type says what they are, but for bits, and float32 that is to be rounded.
    allowed = EVERY_TYPE.keys() - {BRAIN.name, "tf32", FP8} if dtype is None else {dtype}
    stored = sorted(EVERY_TYPE[name].storage for name in allowed)
    for name, array in (("A", A), ("B", B)):
        if array.dtype.name not in stored:
            raise ArgumentError(
                f"{name} is {array.dtype}: gl.matmul takes {' and '.join(stored)}"
                + (f" with dtype={dtype!r}" if dtype else "")
                + f", and the bits of {BRAIN.name} as {BRAIN.a.storage} with dtype={BRAIN.name!r}"
            )
        if array.ndim not in (2, 3):
            raise ArgumentError(
                f"{name} has {array.ndim} axes: gl.matmul takes matrices, or batches of them"
            )
    if A.dtype != B.dtype:
        raise ArgumentError(f"A is {A.dtype} and B is {B.dtype}: they must be of one type")


def _by_rows(array: Any, turned: bool) -> tuple[Any, str]:
    """The array as it is stored, row by row where that can be, and its letter of a Problem."""
    by_rows = array.flags.c_contiguous or array.strides[-1] == array.itemsize
    if not by_rows and array.strides[-2] == array.itemsize:  # a transposed view
        return array.swapaxes(-1, -2), "TN"[turned]
    return array, "NT"[turned]


def _prepare(
    array: Any, letter: str, transposed: bool, turned: bool, kernel: Any, single: bool
) -> Callable | None:
    """What makes of an argument, where it is, what the kernel takes; None for nothing. `array`: as
    it is stored. `turned`: op of it is made before the product. `single`: a batch's matrices are
    launched one by one."""
    swapped = (letter == "T") != transposed  # the caller's array is a transposed view of it
    if turned:
        swapped = not swapped
    xp, lies = _module_of(array), array.swapaxes(-1, -2) if turned else array
    gaps = kernel.takes("lda")
    repeated = single and lies.ndim == 3 and lies.strides[0] == 0  # one matrix, launched each time
    fault = layout.fault(lies[0] if repeated and len(lies) else lies, gaps=gaps)
    if fault is not None or not (gaps or layout.begins(array)):
        return lambda X: xp.array(X.swapaxes(-1, -2) if swapped else X, order="C")
    if lies.shape[-2] == 1 and lies.strides[-2] != lies.shape[-1] * lies.itemsize:
        return lambda X: _regular(X.swapaxes(-1, -2) if swapped else X)
    return (lambda X: X.swapaxes(-1, -2)) if swapped else None


def _regular(matrix: Any) -> Any:
    """The same memory: a single row may have any stride, and a tensor map takes none."""
    return matrix.reshape(-1).reshape(matrix.shape)


# ---- PyTorch's tensors ---------------------------------------------------------------------------


def _of_torch(
    torch: Any, A: Any, B: Any, C: Any, bias: Any, out: Any, lost: Any, dtype: Any, scales: Any
) -> Any:
    """The same arguments as arrays; bfloat16 and FP8 as their bits. Raises ArgumentError."""
    arrays: list[Any] = []
    names = "A", "B", "C", "bias", "out", "lost", "A's scale", "B's scale"
    given = A, B, C, bias, out, lost, *(scales or NO_SCALES)
    for name, tensor in zip(names, given, strict=True):
        if tensor is None or isinstance(tensor, Real):
            arrays.append(tensor)
            continue
        if not isinstance(tensor, torch.Tensor):
            raise ArgumentError(f"{name} is {kind_of(tensor)}; it must be a PyTorch tensor like A")
        if tensor.device != A.device:
            raise ArgumentError(f"{name} is on {tensor.device} and A on {A.device}: use one device")
        tensor, brain = tensor.detach(), tensor.dtype == torch.bfloat16
        tensor = tensor.view(torch.int16) if brain else tensor
        tensor = tensor.view(torch.uint8) if tensor.dtype == torch.float8_e4m3fn else tensor
        if tensor.is_cuda:
            import cupy

            array = cupy.from_dlpack(tensor)
        else:
            array = tensor.numpy()
        arrays.append(array.view(np.uint16) if brain else array)
    types = {torch.bfloat16: BRAIN.name, torch.float8_e4m3fn: FP8}
    return (*arrays[:6], types.get(A.dtype, dtype), None if scales is None else tuple(arrays[6:]))


def _to_torch(torch: Any, result: Any, dtype: str | None) -> Any:
    brain = dtype in (BRAIN.name, FP8) and result.dtype == np.uint16
    tensor = torch.from_dlpack(result.view(np.int16) if brain else result)
    return tensor.view(torch.bfloat16) if brain else tensor


def _kinds() -> tuple[type, ...]:
    if gpu() is None:
        return (np.ndarray,)
    import cupy

    return np.ndarray, cupy.ndarray


@lru_cache(maxsize=256)
def _kernel(name: str, settings: tuple[tuple[str, Any], ...]) -> Kernel:
    kernel = load(name, **dict(settings))
    kernel.prepare()
    return kernel
