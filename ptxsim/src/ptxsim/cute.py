"""Kernels of NVIDIA's CuTe DSL, run by the simulator: no GPU and no driver.

    >>> from ptxsim.cute import launch
    >>> run = launch(host, A, B, C, check=True)

The DSL compiles its own host function and kernel. The host function runs as it is, on the CPU, and
what it would have had the driver launch is simulated: grid, cluster, shared memory and tensor maps
are its own. Findings, counters and lines are those of the Python source.
"""

from __future__ import annotations

import ctypes
import inspect
import re
from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from ptxsim.async_copy.tensor_map import ELEMENTS, MAP_ALIGNMENT, MAP_BYTES, SWIZZLES, TensorMap
from ptxsim.launcher import Run, launch_ptx
from ptxsim.limits import LaunchError
from ptxsim.memory.structures import POINTER_BYTES, Part, Structure

ALIGNMENT = 16  # bytes; NumPy's arrays begin at multiples of it
NAMES = {"bool": "Boolean", "bfloat16": "BFloat16", "float8_e4m3fn": "Float8E4M3FN",
         "float8_e5m2": "Float8E5M2"}  # fmt: skip
ENTRY = re.compile(r"\.entry\s+(\w+)\s*\(([^{]*?)\)\s")
PARAMETER = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.\w?(\d+)\s[^,)\[]*(?:\[(\d+)\])?")
CLUSTER = 4  # cudaLaunchAttributeClusterDimension
HANDLES = ctypes.POINTER(ctypes.c_void_p)


class _Attribute(ctypes.Structure):
    """cudaLaunchAttribute; its value is a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    """cudaLaunchConfig_t."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_size_t),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    )  # fmt: skip


class _Parameter(NamedTuple):
    """Of a kernel, as the PTX declares it; sizes in bytes."""

    size: int
    alignment: int
    is_structure: bool

    @classmethod
    def declared(cls, alignment: str, bits: str, count: str) -> _Parameter:
        """By the texts that PARAMETER finds; `count`: of a structure, its bytes."""
        return cls(int(count or int(bits) // 8), int(alignment or 1), bool(count))


class Launched(NamedTuple):
    """A launch as the host function makes it. `args`: as ptxsim.launch_ptx takes them."""

    text: str
    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: list[Any]
    shared_bytes: int
    cluster: tuple[int, ...] | None


def launch(
    host: Any,
    *args: Any,
    arch: str = "sm_90a",
    count: bool = False,
    check: bool = False,
    blocks: list[tuple[int, int, int]] | None = None,
    limit_s: float | None = 120.0,
) -> Run:
    """As `host(*args)`, with NumPy arrays, which are changed in place.

    `host`: a function of cute.jit that launches one kernel. An array is a cute.Tensor of its shape
    and strides; where the host function takes a cute.Pointer, its address. The others, the result
    and what is raised are those of ptxsim.launch_ptx; LaunchError is raised where the host function
    launches no kernel or several, and what the DSL raises where it does not compile.
    """
    launched = launches(host, *args, arch=arch)
    if len(launched) != 1:
        raise LaunchError(
            f"{host.__name__} launches {len(launched)} kernels: run each of "
            "ptxsim.cute.launches(...) by ptxsim.launch_ptx"
        )
    text, entry, grid, block, passed, shared_bytes, cluster = launched[0]
    return launch_ptx(
        text, entry, grid, block, passed, shared_bytes=shared_bytes, cluster=cluster, count=count,
        check=check, blocks=blocks, limit_s=limit_s, names=_names(host, args, passed),
    )  # fmt: skip


def launches(host: Any, *args: Any, arch: str = "sm_90a") -> list[Launched]:
    """What `host(*args)` launches, in order; nothing is run. Arguments and errors as `launch`."""
    from cutlass import cute

    arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
    with TemporaryDirectory() as folder:
        passed = _for_the_dsl(host, args)
        options = f"--keep-ptx --generate-line-info --gpu-arch {arch} --dump-dir {folder}"
        compiled = cute.compile(host, *passed, options=options)
        text = compiled.__ptx__
    parameters = {
        entry: [_Parameter.declared(*each) for each in PARAMETER.findall(declared)]
        for entry, declared in ENTRY.findall(text)
    }
    return [
        Launched(
            text, entry, grid, block,
            [
                _argument(each, parameter, arrays)
                for each, parameter in zip(data, parameters[entry], strict=True)
            ],
            shared_bytes, cluster,
        )
        for entry, grid, block, shared_bytes, cluster, data in _intercepted(
            compiled, passed, {name: [p.size for p in every] for name, every in parameters.items()}
        )
    ]  # fmt: skip


def _for_the_dsl(host: Any, args: Sequence[Any]) -> list[Any]:
    import cutlass
    from cutlass import cute
    from cutlass.cute.runtime import from_dlpack, make_ptr

    kinds = [parameter.annotation for parameter in inspect.signature(host).parameters.values()]
    if len(args) != len(kinds):
        names = ", ".join(inspect.signature(host).parameters)
        raise LaunchError(f"{host.__name__} takes {len(kinds)} arguments, not {len(args)}: {names}")
    passed = []
    for arg, kind in zip(args, kinds, strict=True):
        if not isinstance(arg, np.ndarray):
            passed.append(arg)
            continue
        name = arg.dtype.name
        element = getattr(cutlass, NAMES.get(name, name.replace("uint", "Uint").title()), None)
        if element is None:
            raise LaunchError(f"an array of {name}: CuTe DSL has no such type")
        if arg.ctypes.data % ALIGNMENT:
            raise LaunchError(
                f"an array of {name} begins at {arg.ctypes.data:#x}: CuTe DSL is told that arrays "
                f"begin at multiples of {ALIGNMENT} bytes; pass a copy"
            )
        if kind in (cute.Pointer, "cute.Pointer"):
            space = cute.AddressSpace.gmem
            passed.append(make_ptr(element, arg.ctypes.data, space, assumed_align=ALIGNMENT))
            continue
        bits = arg if arg.dtype.isbuiltin == 1 else arg.view(f"u{arg.itemsize}")
        tensor = from_dlpack(bits, assumed_align=ALIGNMENT)
        tensor.element_type = element
        passed.append(tensor)
    return passed


def _intercepted(compiled: Any, args: Sequence[Any], sizes: dict[str, list[int]]) -> list[tuple]:
    """(kernel, grid, block, shared bytes, cluster, the bytes of each parameter) of each launch."""
    from cutlass._mlir.execution_engine import ExecutionEngine

    kernels, seen = list(sizes), []

    def get_kernel(handle: int, library: int, name: int) -> int:
        ctypes.cast(handle, HANDLES)[0] = 1 + kernels.index(ctypes.string_at(name).decode())
        return 0

    def launch_kernel(config: int, handle: int, parameters: int) -> int:
        how = ctypes.cast(config, ctypes.POINTER(_Config)).contents
        entry, addresses = kernels[handle - 1], ctypes.cast(parameters, HANDLES)
        data = [ctypes.string_at(addresses[i], size) for i, size in enumerate(sizes[entry])]
        attributes = how.attributes[: how.attribute_count]
        clusters = [tuple(each.value[:3]) for each in attributes if each.id == CLUSTER]
        cluster = clusters[0] if clusters else None
        seen.append((entry, tuple(how.grid), tuple(how.block), how.shared, cluster, data))
        return 0

    of_three = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)
    runtime: dict[str, Callable] = {
        "_cudaLibraryGetKernel": of_three(get_kernel),
        "_cudaLaunchKernelEx": of_three(launch_kernel),
    }
    done = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)  # what the rest of the runtime answers
    module = str(compiled.ir_module)
    engine = ExecutionEngine(compiled.ir_module, opt_level=0, shared_libs=[])
    for name in re.findall(r"llvm\.func @(_cu\w+)\([^{\n]*$", module, re.M):
        address = ctypes.cast(runtime.get(name, done), ctypes.c_void_p)
        engine.raw_register_runtime(name, address)
    library, result = ctypes.c_void_p(), ctypes.c_int()
    load = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("cuda_load"))
    reference = ctypes.c_void_p(ctypes.addressof(library))
    load((ctypes.c_void_p * 2)(ctypes.addressof(reference), ctypes.addressof(result)))
    given, _kept = compiled.execution_args.generate_execution_args(tuple(args), {})
    addresses = [each if isinstance(each, int) else each.value for each in given]
    call = (ctypes.c_void_p * (len(given) + 1))(*addresses, ctypes.addressof(result))
    engine.lookup(compiled.function_name)(call)
    return seen


def _argument(data: bytes, parameter: _Parameter, arrays: Sequence[np.ndarray]) -> Any:
    """What ptxsim.launch_ptx takes for a parameter of these bytes."""
    if not parameter.is_structure:
        number = np.frombuffer(data, f"u{parameter.size}")[0]
        pointer = _pointer(int(number), arrays) if parameter.size == POINTER_BYTES else None
        return number if pointer is None else pointer
    if parameter.size == MAP_BYTES and parameter.alignment == MAP_ALIGNMENT:
        return _tensor_map(data, arrays)
    members: list[Any] = []
    whole = len(data) // POINTER_BYTES * POINTER_BYTES
    for word in np.frombuffer(data[:whole], "u8"):
        pointer = _pointer(int(word), arrays) if parameter.alignment == POINTER_BYTES else None
        members.append(word.tobytes() if pointer is None else pointer)
    return Structure(*members, data[whole:])


def _pointer(address: int, arrays: Sequence[np.ndarray]) -> Any:
    for array in arrays:
        offset = address - array.ctypes.data
        if 0 <= offset < array.nbytes:
            return Part(array, offset // array.itemsize) if offset else array
    return None


def _tensor_map(data: bytes, arrays: Sequence[np.ndarray]) -> TensorMap:
    """Of a CUtensorMap as the DSL encodes it; found by encoding maps of known shapes, boxes, types
    and swizzles."""
    words, boxes = np.frombuffer(data, "<u4", 16), np.frombuffer(data, np.uint8, 5, 55)
    axes = 1 + int(words[2] >> 4 & 7)
    number, is_tf32 = int(words[2] >> 7 & 15), bool(words[2] >> 16 & 1)
    element, dtype = next((e, np.dtype(d)) for e, (n, d) in ELEMENTS.items() if n == number)
    pointer = _pointer(int(words[0]) | int(words[1]) << 32, arrays)
    if pointer is None:
        raise LaunchError("a tensor map of the host function is of no array among its arguments")
    array = pointer.array if isinstance(pointer, Part) else pointer
    start = pointer.offset() if isinstance(pointer, Part) else 0
    flat = array.reshape(-1).view(dtype)[start // dtype.itemsize :]
    shape = [int(size) + 1 for size in words[8 : 8 + axes]]
    strides = [dtype.itemsize, *(int(stride) << 4 for stride in words[3 : 2 + axes])]
    view = np.lib.stride_tricks.as_strided(flat, shape[::-1], strides[::-1])
    return TensorMap(
        view, [int(n) + 1 for n in boxes[:axes][::-1]],
        swizzle=list(SWIZZLES)[int(words[2] >> 13 & 3)], element="tf32" if is_tf32 else element,
    )  # fmt: skip


def _names(host: Any, args: Sequence[Any], passed: Sequence[Any]) -> tuple[str, ...]:
    """Of the kernel's parameters: those of the host function's arrays."""
    by_address = {
        arg.ctypes.data: name
        for name, arg in zip(inspect.signature(host).parameters, args, strict=True)
        if isinstance(arg, np.ndarray)
    }
    names = []
    for at, arg in enumerate(passed):
        if isinstance(arg, Structure) and arg.arrays():
            arg = arg.arrays()[0]
        array = getattr(arg, "array", arg)
        address = array.ctypes.data if isinstance(array, np.ndarray) else None
        names.append(by_address.get(address, f"argument {at}"))
    return tuple(names)
