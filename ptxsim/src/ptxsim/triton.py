"""Kernels of Triton, run by the simulator: no GPU, no driver, no PyTorch.

    >>> from ptxsim.triton import launch
    >>> run = launch(add, (4,), x, y, out, x.size, BLOCK=1024, check=True)
    >>> run.findings
    []

Triton compiles its own kernel to PTX; findings, counters and lines are those of the Python source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from math import prod
from typing import Any

import numpy as np

from ptxsim import limits
from ptxsim.architectures import WARP
from ptxsim.async_copy.tensor_map import TensorMap
from ptxsim.launcher import Run, launch_ptx
from ptxsim.limits import LaunchError
from ptxsim.machine import Check

ELEMENTS = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "bool": "i1",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}  # fmt: skip
# Triton assumes it of arguments of which it is true, and loads more bytes at once.
DIVISIBILITY = 16
SWIZZLES = "none", "32B", "64B", "128B"  # by the number that Triton has for it


def launch(
    kernel: Any, grid: int | Sequence[int] | Callable[[dict], Sequence[int]], *args: Any,
    arch: str = "sm_90", count: bool = False, check: Check = False,
    blocks: list[tuple[int, int, int]] | None = None, limit_s: float | None = 120.0, **named: Any,
) -> Run:  # fmt: skip
    """As `kernel[grid](*args, **named)`, with NumPy arrays, which are changed in place.

    `kernel`: a function of triton.jit. `grid`: as Triton takes it, also a function of the named
    constants. Where Triton takes a tensor descriptor of the host, give a TensorMap(array, block
    shape). `named`: arguments by name, and options of Triton's compiler, such as num_warps.
    The others, the result and what is raised are those of ptxsim.launch_ptx; LaunchError is raised
    for arguments that do not fit, and what Triton raises where the kernel does not compile.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDAOptions
    from triton.compiler import ASTSource

    if not isinstance(kernel, triton.runtime.JITFunction):
        raise LaunchError(
            f"{kernel!r} is no function of triton.jit: of one with autotune or heuristics give its "
            "`fn`, and the constants by name"
        )
    options = {
        field.name: named.pop(field.name) for field in fields(CUDAOptions) if field.name in named
    }
    given = _by_name(kernel, args, named)
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    attributes: dict[tuple, list] = {}
    for at, parameter in enumerate(kernel.params):
        value = given[parameter.name]
        plain = parameter.do_not_specialize
        is_one = not plain and type(value) is int and value == 1
        if parameter.is_constexpr or value is None or is_one:
            signature[parameter.name], constants[parameter.name] = "constexpr", value
            continue
        signature[parameter.name] = _type(parameter.name, value)
        is_aligned = isinstance(value, np.ndarray) or (
            isinstance(value, int) and value % DIVISIBILITY == 0
        )
        if is_aligned and not plain:
            attributes[(at,)] = [["tt.divisibility", DIVISIBILITY]]
    number = int("".join(filter(str.isdigit, arch)))
    compiled = triton.compile(
        ASTSource(kernel, signature, constants, attributes),
        target=GPUTarget("cuda", number, WARP), options=options,
    )  # fmt: skip
    metadata = compiled.metadata
    x, y, z = limits.shape("grid", grid(constants) if callable(grid) else grid, limits.MAX_GRID)
    launched = x * metadata.num_ctas, y, z
    descriptors = iter(metadata.tensordesc_meta or ())
    passed: list[Any] = []
    names: list[str] = []
    for name, kind in signature.items():
        if kind != "constexpr":
            values = _passed(given[name], descriptors)
            passed += values
            names += (
                [name] if len(values) == 1 else [f"{name}, part {i}" for i in range(len(values))]
            )
    for size in (metadata.global_scratch_size, metadata.profile_scratch_size):
        passed.append(np.zeros(size * prod(launched), np.uint8) if size else None)
    return launch_ptx(
        compiled.asm["ptx"], metadata.name, launched, WARP * metadata.num_warps, passed,
        shared_bytes=metadata.shared, count=count, check=check, blocks=blocks, limit_s=limit_s,
        names=(*names, "global scratch", "profile scratch"),
    )  # fmt: skip


def _by_name(kernel: Any, args: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    try:
        bound = kernel.signature.bind(*args, **named)
    except TypeError as error:
        raise LaunchError(f"kernel '{kernel.__name__}': {error}") from None
    bound.apply_defaults()
    return bound.arguments


def _type(name: str, value: Any) -> str:
    """Triton's name of an argument's type."""
    array = value.array if isinstance(value, TensorMap) else value
    if isinstance(array, np.ndarray):
        dtype = value.element if isinstance(value, TensorMap) else array.dtype.name
        if dtype not in ELEMENTS:
            raise LaunchError(f"{name} is an array of {dtype}; Triton has {', '.join(ELEMENTS)}")
        kind = ELEMENTS[dtype]
        return (
            f"tensordesc<{kind}{list(value.box)}>" if isinstance(value, TensorMap) else f"*{kind}"
        )
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, int):
        kinds = (("i32", -(2**31), 2**31), ("i64", -(2**63), 2**63), ("u64", 0, 2**64))
        if kind := next((kind for kind, low, end in kinds if low <= value < end), ""):
            return kind
    if isinstance(value, float):
        return "fp32"
    raise LaunchError(f"{name} = {value!r} is no array, integer, float or TensorMap")


def _passed(value: Any, descriptors: Any) -> list[Any]:
    """What the kernel takes for it: the map, shape and strides of a descriptor."""
    if not isinstance(value, TensorMap):
        return [int(value) if isinstance(value, bool) else value]
    how, array = next(descriptors), value.array
    box = TensorMap(
        array, how["block_size"], swizzle=SWIZZLES[how["swizzle"]], fill=value.fill,
        element="b4x16_p64" if how["fp4_padded"] else value.element,
    )  # fmt: skip
    return [box, *array.shape, *(stride // array.itemsize for stride in array.strides)]
