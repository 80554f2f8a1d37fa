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
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from ptxsim import ptx
from ptxsim.async_copy import map_bytes
from ptxsim.async_copy.tensor_map import MAP_ALIGNMENT, MAP_BYTES, TensorMap
from ptxsim.launcher import Run, launch_ptx
from ptxsim.limits import LaunchError
from ptxsim.machine import Check
from ptxsim.memory.structures import POINTER_BYTES, Part, Structure

ALIGNMENT = 16  # bytes; NumPy's arrays begin at multiples of it
NAMES = {"bool": "Boolean", "bfloat16": "BFloat16", "float8_e4m3fn": "Float8E4M3FN",
         "float8_e5m2": "Float8E5M2"}  # fmt: skip
MAP = f"structure {MAP_ALIGNMENT} {MAP_BYTES}"  # of ptx.Kernel.parameters
CLUSTER = 4  # cudaLaunchAttributeClusterDimension
HANDLES = ctypes.POINTER(ctypes.c_void_p)


class _Config(ctypes.Structure):
    """cudaLaunchConfig_t; an attribute has its number, and its value from byte 8 to 72."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_size_t),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(ctypes.c_uint * 18)),
        ("attribute_count", ctypes.c_uint),
    )  # fmt: skip


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
    host: Any, *args: Any, arch: str = "sm_90a", count: bool = False, check: Check = False,
    blocks: list[tuple[int, int, int]] | None = None, limit_s: float | None = 120.0,
) -> Run:  # fmt: skip
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
    kinds = {
        name: [kind for _, kind in kernel.parameters]
        for name, kernel in ptx.parse(text, host.__name__).items()
    }
    launched = []
    for entry, grid, block, shared_bytes, cluster, data in _intercepted(compiled, passed, kinds):
        given = [_argument(*each, arrays) for each in zip(data, kinds[entry], strict=True)]
        launched.append(Launched(text, entry, grid, block, given, shared_bytes, cluster))
    return launched


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
        name, address = arg.dtype.name, arg.ctypes.data
        element = getattr(cutlass, NAMES.get(name, name.replace("uint", "Uint").title()), None)
        if element is None or address % ALIGNMENT:
            raise LaunchError(
                f"an array of {name} from {address:#x} on: CuTe DSL takes types such as float16 "
                f"and bfloat16, and here arrays that begin at multiples of {ALIGNMENT} bytes"
            )
        if kind in (cute.Pointer, "cute.Pointer"):
            passed.append(make_ptr(element, address, cute.AddressSpace.gmem, ALIGNMENT))
            continue
        bits = arg if arg.dtype.isbuiltin == 1 else arg.view(f"u{arg.itemsize}")
        passed.append(from_dlpack(bits, assumed_align=ALIGNMENT))
        passed[-1].element_type = element
    return passed


def _intercepted(compiled: Any, args: Sequence[Any], kinds: dict[str, list[str]]) -> list[tuple]:
    """(kernel, grid, block, shared bytes, cluster, the bytes of each parameter) of each launch."""
    from cutlass._mlir.execution_engine import ExecutionEngine

    kernels, seen = list(kinds), []

    def get_kernel(handle: int, library: int, name: int) -> int:
        ctypes.cast(handle, HANDLES)[0] = 1 + kernels.index(ctypes.string_at(name).decode())
        return 0

    def launch_kernel(config: int, handle: int, parameters: int) -> int:
        how = ctypes.cast(config, ctypes.POINTER(_Config)).contents
        entry, addresses = kernels[handle - 1], ctypes.cast(parameters, HANDLES)
        data = [ctypes.string_at(addresses[i], _bytes(kind)) for i, kind in enumerate(kinds[entry])]
        attributes = how.attributes[: how.attribute_count]
        clusters = (tuple(each[2:5]) for each in attributes if each[0] == CLUSTER)
        cluster = next(clusters, None)
        seen.append((entry, tuple(how.grid), tuple(how.block), how.shared, cluster, data))
        return 0

    of_three = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)
    runtime: dict[str, Any] = {
        "_cudaLibraryGetKernel": of_three(get_kernel),
        "_cudaLaunchKernelEx": of_three(launch_kernel),
    }
    done = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)  # what the rest of the runtime answers
    module = str(compiled.ir_module)
    engine = ExecutionEngine(compiled.ir_module, opt_level=0, shared_libs=[])
    for name in re.findall(r"llvm\.func @(_cu\w+)\([^{\n]*$", module, re.M):
        engine.raw_register_runtime(name, ctypes.cast(runtime.get(name, done), ctypes.c_void_p))
    room = (ctypes.c_void_p * 3)()  # of a library, its address, and a result
    library, reference, result = (ctypes.addressof(room) + POINTER_BYTES * at for at in range(3))
    room[1] = library
    load = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("cuda_load"))
    load((ctypes.c_void_p * 2)(reference, result))
    constants = {each["argument_index"] for each in compiled.execution_args.get_constexpr_args()}
    passed = tuple(arg for at, arg in enumerate(args) if at not in constants)
    given, _kept = compiled.execution_args.generate_execution_args(passed, {})
    addresses = [each if isinstance(each, int) else each.value for each in given]
    engine.lookup(compiled.function_name)((ctypes.c_void_p * (len(given) + 1))(*addresses, result))
    return seen


def _bytes(kind: str) -> int:
    structure = ptx.STRUCTURE.match(kind)
    return int(structure[2]) if structure else ptx.TYPE_BYTES[kind]


def _argument(data: bytes, kind: str, arrays: Sequence[np.ndarray]) -> Any:
    """What ptxsim.launch_ptx takes for a parameter of these bytes. `kind`: as ptx.Kernel has it."""
    if kind == MAP:
        return _tensor_map(data, arrays)
    if not ptx.STRUCTURE.match(kind):
        is_float = kind.startswith("f")
        number = np.frombuffer(data, ptx.type_of(kind) if is_float else f"u{len(data)}")[0]
        may_be_pointer = len(data) == POINTER_BYTES and not is_float
        pointer = _pointer(int(number), arrays) if may_be_pointer else None
        return number if pointer is None else pointer
    members: list[Any] = []
    whole = len(data) // POINTER_BYTES * POINTER_BYTES
    for word in np.frombuffer(data[:whole], "u8"):
        pointer = _pointer(int(word), arrays)
        members.append(word.tobytes() if pointer is None else pointer)
    return Structure(*members, data[whole:])


def _pointer(address: int, arrays: Sequence[np.ndarray]) -> Any:
    for array in arrays:
        offset = address - array.ctypes.data
        if 0 <= offset < array.nbytes:
            return Part(array, offset // array.itemsize) if offset else array
    return None


def _tensor_map(data: bytes, arrays: Sequence[np.ndarray]) -> TensorMap:
    """Of a CUtensorMap as the DSL encodes it, which is as map_bytes has it."""

    def array_at(address: int, shape: Any, dtype: np.dtype, strides: Any) -> np.ndarray:
        pointer = _pointer(address, arrays)
        if pointer is None:
            raise LaunchError(f"a tensor map of address {address:#x}, where no argument's array is")
        is_part = isinstance(pointer, Part)
        array, start = (pointer.array, pointer.offset()) if is_part else (pointer, 0)
        flat = array.reshape(-1).view(dtype)[start // dtype.itemsize :]
        return np.lib.stride_tricks.as_strided(flat, shape, strides)

    return map_bytes.decoded(data, "a tensor map of the host function", array_at)


def _names(host: Any, args: Sequence[Any], passed: Sequence[Any]) -> tuple[str, ...]:
    """Of the kernel's parameters: those of the host function's arrays."""
    names = []
    for at, arg in enumerate(passed):
        pointers = arg.arrays() if isinstance(arg, Structure) else [arg]
        arrays = [getattr(pointer, "array", pointer) for pointer in pointers]
        of_host = zip(inspect.signature(host).parameters, args, strict=True)
        named = (name for name, each in of_host if any(each is array for array in arrays))
        names.append(next(named, f"argument {at}"))
    return tuple(names)
