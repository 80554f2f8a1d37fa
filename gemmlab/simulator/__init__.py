"""A CUDA kernel run on NumPy: NVRTC compiles it, its PTX is executed here. No GPU is needed.

    >>> run = launch("kernel.cu", "scale", (1, 1, 1), (32, 1, 1), [x, 2.0], count=True)
    >>> run.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]

Results of float32 kernels equal an NVIDIA H200's bit for bit, and so do the counts of requests and
sectors of global memory. Read in this order: ptx, translate, machine, memory, arithmetic, counters.
"""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from . import arithmetic, exactness, machine, nvrtc, ptx
from .architectures import LIMITS, MAX_THREADS_PER_BLOCK, base
from .counters import LineCount
from .grid import run as run_blocks
from .machine import Finding, TooLong, WarpAccess
from .memory import GlobalMemory, Uninitialised, pointer, uninitialised
from .nvrtc import CompileError, NoCompiler
from .ptx import KEPT_KERNELS, TYPE_BYTES, PtxError
from .tensor_map import MAP_ALIGNMENT, MAP_BYTES, MapInUse, TensorMap, within
from .translate import UnknownInstruction
from .types import type_of

__all__ = [
    "CompileError",
    "Finding",
    "LaunchError",
    "LineCount",
    "NoCompiler",
    "PtxError",
    "Run",
    "Step",
    "TakesTooLong",
    "TensorMap",
    "UnknownInstruction",
    "WarpAccess",
    "launch",
    "uninitialised",
]

MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAPS = 0x7C00_0000_0000  # the address of the first parameter that is a tensor map


class LaunchError(Exception):
    """A launch that no GPU would take, or arguments that do not fit the kernel."""


class TakesTooLong(LaunchError):
    """A launch that passes its time limit. It may be one that never ends."""


@dataclass(frozen=True)
class Step:
    """One instruction as a warp executed it, and what it asked of memory, mostly nothing."""

    opcode: str
    line: int
    accesses: tuple[WarpAccess, ...]


@dataclass
class Run:
    """What a launch did.

    `counters`: Nsight Compute's metric names and their totals, and `lines`: the same traffic by
    source line and array; both empty unless `count=True` was asked for. `findings`: mistakes that
    were met, empty for a correct kernel. `multiply_adds`: of float32 units and tensor cores
    together, counted with the rest.
    """

    counters: dict[str, int]
    lines: list[LineCount]
    findings: list[Finding]
    multiply_adds: int = 0
    _again: machine.Launch | None = field(repr=False, default=None)
    _seen: dict = field(repr=False, default_factory=dict)  # block -> its accesses and stretches

    def accesses(self, block=(0, 0, 0), warp: int | None = None) -> list[WarpAccess]:
        """Every memory access of one block, or of one of its warps, in the order of execution.

        The block is run once more for this, on copies of the arrays as the launch left them, unless
        it was the only one that ran.
        """
        accesses, _ = self._recorded(block)
        return [access for access in accesses if warp is None or access.warp == warp]

    def opcode(self, access: WarpAccess) -> str:
        """Of the instruction that made an access, such as "ld.global.f32"."""
        return self._kept().kernel.instructions[access.index].opcode

    def instructions(self, block=(0, 0, 0), warp: int = 0) -> list[Step]:
        """What one warp executed, in order. Found as `accesses` is."""
        accesses, stretches = self._recorded(block)
        steps = []
        for at, stretch in enumerate(stretches):
            if not stretch.warps[warp]:
                continue
            end = stretches[at + 1].first_access if at + 1 < len(stretches) else len(accesses)
            own = [one for one in accesses[stretch.first_access : end] if one.warp == warp]
            for index in range(stretch.start, stretch.end):
                one = self._again.kernel.instructions[index]
                made = tuple(access for access in own if access.index == index)
                steps.append(Step(one.opcode, one.line, made))
        return steps

    def _recorded(self, block):
        block = tuple(block)
        _check_block(block, self._kept().grid)
        if block not in self._seen:
            _, _, *self._seen[block] = run_blocks(self._again, [block], record=True)
        return self._seen[block]

    def _kept(self) -> machine.Launch:
        if self._again is None:
            raise LaunchError("accesses() needs a run with count=True")
        return self._again


def launch(
    source: str | Path,
    entry: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    args: list,
    *,
    arch: str = "sm_90a",
    options: tuple[str, ...] = (),
    shared_bytes: int = 0,
    count: bool = False,
    check: bool = False,
    blocks: list[tuple[int, int, int]] | None = None,
    limit_s: float | None = 120.0,
) -> Run:
    """Run the kernel `entry` of `source`, CUDA C++ text or the path of a file.

    `args`: C-contiguous NumPy arrays, which are the device's memory and are changed in place, and
    scalars; `uninitialised(array)` for memory that nobody has written yet; a `TensorMap` for a
    parameter that is a structure of 128 bytes. `options`: for NVRTC, such as "-DTILE=16".
    `shared_bytes`: dynamic shared memory. `count`: fill in the counters.
    `check`: look for races, uninitialised reads and lost barriers too, which takes longer.
    `blocks`: run only these (x, y, z); the others do nothing. `limit_s`: a launch that will take
    longer than so many seconds is refused, once its speed is seen, and leaves the arrays as they
    were; None for no limit.

    Raises CompileError, NoCompiler, LaunchError (before anything runs), TakesTooLong (a LaunchError
    too) and UnknownInstruction.
    A kernel's own mistakes, such as an access out of bounds, are in the result's `findings`.
    """
    text, filename = _source(source)
    kernels = _compiled(text, filename, arch, tuple(options))
    if entry not in kernels:
        there = ", ".join(kernels) or "none"
        raise LaunchError(f"{filename} has no kernel '{entry}'; it has {there}")
    kernel = kernels[entry]
    grid, block = _shape("grid", grid, MAX_GRID), _shape("block", block, MAX_BLOCK)
    if np.prod(block) > MAX_THREADS_PER_BLOCK:
        raise LaunchError(
            f"block {block} has {np.prod(block)} threads, at most {MAX_THREADS_PER_BLOCK} fit"
        )
    _check_shared(kernel, shared_bytes, arch)
    _check_cluster(kernel)
    unwritten = [arg.array for arg in args if isinstance(arg, Uninitialised)]
    args = [arg.array if isinstance(arg, Uninitialised) else arg for arg in args]
    memory, parameters, maps = _arguments(kernel, args, _names(text, entry))
    arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
    for number, array in enumerate(arrays if check else []):
        if any(array is one for one in unwritten):
            memory.forget(number)
    mapped = [used.map.array for used in maps.values()]
    _place(maps.values(), arrays, memory)
    given = [*arrays, *(value for value in parameters.values() if value.dtype == np.float32)]
    given += [np.ascontiguousarray(array) for array in mapped]
    given += [np.frombuffer(v.initial, np.uint8) for v in kernel.variables.values()]
    prepared = machine.Launch(
        kernel=kernel,
        grid=grid,
        block=block,
        parameters=parameters,
        memory=memory,
        shared_bytes=kernel.shared_bytes + shared_bytes,
        translation=_translation(kernel, _may_be_subnormal(given)),
        known_sums=exactness.known_sums(given),
        count=count,
        check=check,
        maps=maps,
    )
    for one in blocks or []:
        _check_block(one, grid)
    changed = [*arrays, *mapped]
    before = [array.copy() for array in changed] if limit_s is not None else []
    record = count and blocks is not None and len(blocks) == 1
    try:
        counter, findings, *seen = run_blocks(prepared, blocks, record, limit_s)
    except TooLong as error:
        for array, old in zip(changed, before, strict=True):
            array[...] = old
        raise TakesTooLong(
            f"kernel '{entry}' on a grid of {grid} blocks would take {error}: run a "
            "smaller problem, some blocks only (blocks=[(0, 0, 0)]), or wait for it (limit_s=None)"
        ) from None
    if not count:
        return Run({}, [], findings)
    done = counter.fma_lanes + counter.tensor_multiply_adds
    run = Run(counter.totals(), counter.lines(), findings, done, _copy(prepared, args))
    if record:
        run._seen[tuple(blocks[0])] = seen
    return run


@lru_cache(maxsize=KEPT_KERNELS)
def _compiled(text: str, filename: str, arch: str, options: tuple[str, ...]):
    program = nvrtc.compile_source(text, filename, arch=arch, options=options)
    if not program.ptx:
        raise NoCompiler(f"the PTX of {filename} for {arch} is not here, and no NVRTC to make it")
    with _collector_paused():
        return ptx.parse(program.ptx, filename)


@lru_cache(maxsize=KEPT_KERNELS)
def _translation(kernel: ptx.Kernel, flush_operands: bool) -> machine.Translation:
    with _collector_paused():
        return machine.Translation(kernel, flush_operands)


@contextmanager
def _collector_paused():
    """While ten thousand small objects are made that all stay, looking for garbage only costs."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _source(source: str | Path) -> tuple[str, str]:
    if isinstance(source, Path):
        return source.read_text(encoding="utf-8"), source.name
    return source, "kernel.cu"


def _shape(what: str, shape, limits) -> machine.Triple:
    shape = tuple(int(n) for n in shape) + (1,) * (3 - len(shape))
    if len(shape) > 3:
        raise LaunchError(f"{what} {shape} has more than three dimensions")
    for n, limit, dimension in zip(shape, limits, "xyz", strict=True):
        if not 1 <= n <= limit:
            raise LaunchError(f"{what} {shape}: {dimension} is {n}, it must be 1 to {limit}")
    return shape


def _check_block(block, grid: machine.Triple) -> None:
    if len(block) != 3 or any(not 0 <= i < n for i, n in zip(block, grid, strict=True)):
        raise LaunchError(f"block {tuple(block)} is not in the grid {grid}")


def _check_shared(kernel: ptx.Kernel, dynamic: int, arch: str) -> None:
    if dynamic < 0:
        raise LaunchError(f"shared_bytes is {dynamic}, it must be 0 or more")
    if base(arch) not in LIMITS:
        raise LaunchError(f"{arch} is not a known architecture; known are {', '.join(LIMITS)}")
    needed, most = kernel.shared_bytes + dynamic, LIMITS[base(arch)].shared_bytes_per_block
    if needed > most:
        raise LaunchError(
            f"kernel '{kernel.name}' needs {needed} bytes of shared memory ({kernel.shared_bytes} "
            f"of its own, {dynamic} dynamic), a block on {arch} has at most {most}"
        )


def _check_cluster(kernel: ptx.Kernel) -> None:
    if np.prod(kernel.cluster) > 1:
        raise LaunchError(
            f"kernel '{kernel.name}' asks for clusters of {'×'.join(map(str, kernel.cluster))} "
            "blocks; the simulator knows clusters of one block only"
        )


def _names(text: str, entry: str) -> list[str]:
    """The names of the kernel's parameters, as its source has them."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    found = re.search(rf"\b{entry}\s*\(([^)]*)\)", text)
    return re.findall(r"(\w+)\s*(?:,|$)", found[1].strip()) if found else []


def _arguments(kernel: ptx.Kernel, args, names):
    if len(args) != len(kernel.parameters):
        raise LaunchError(
            f"kernel '{kernel.name}' takes {len(kernel.parameters)} arguments, not {len(args)}"
        )
    if len(names) != len(args):
        names = [f"argument {i}" for i in range(len(args))]
    arrays = [(n, a) for n, a in zip(names, args, strict=True) if isinstance(a, np.ndarray)]
    for name, array in arrays:
        if not array.flags.c_contiguous:
            raise LaunchError(f"{name} is not C-contiguous: pass np.ascontiguousarray({name})")
        if not array.flags.writeable:
            raise LaunchError(f"{name} is read-only: pass a copy")
    memory = GlobalMemory(arrays, kernel.variables)
    buffers = iter(memory.buffers)
    parameters, maps = {}, {}
    for (parameter, ptx_type), name, arg in zip(kernel.parameters, names, args, strict=True):
        structure = ptx.STRUCTURE.match(ptx_type)
        if structure or isinstance(arg, TensorMap):
            _check_map(arg, structure, name)
            parameters[parameter] = np.int64(MAPS + MAP_BYTES * len(maps))
            maps[int(parameters[parameter])] = MapInUse(name, arg)
            continue
        dtype = type_of(ptx_type)
        if isinstance(arg, np.ndarray):
            if TYPE_BYTES[ptx_type] != 8 or dtype.kind == "f":
                raise LaunchError(f"{name} is an array, the kernel takes a {ptx_type} there")
            parameters[parameter] = pointer(next(buffers))
        else:
            parameters[parameter] = _scalar(arg, dtype, ptx_type, name)
    return memory, parameters, maps


def _check_map(arg, structure, name: str) -> None:
    """A TensorMap, and a parameter for one. `structure`: a match of ptx.STRUCTURE, or None."""
    if structure is None:
        raise LaunchError(
            f"{name} is a TensorMap: the kernel must take a structure of {MAP_BYTES} bytes there, "
            "const and __grid_constant__"
        )
    alignment, size = (int(n) for n in structure.groups())
    if not isinstance(arg, TensorMap):
        raise LaunchError(
            f"{name} is a structure of {size} bytes: the only structures that can be passed are "
            f"tensor maps (TensorMap), of {MAP_BYTES} bytes"
        )
    if size != MAP_BYTES or alignment < MAP_ALIGNMENT:
        raise LaunchError(
            f"{name} has {size} bytes, aligned to {alignment}; a tensor map has {MAP_BYTES}, "
            f"aligned to {MAP_ALIGNMENT}: struct __align__({MAP_ALIGNMENT}) {{ char "
            f"opaque[{MAP_BYTES}]; }}"
        )


def _place(maps, arrays, memory: GlobalMemory) -> None:
    """Find the arguments that the maps' arrays are parts of: whoever writes one, writes both."""
    for used in maps:
        for array, buffer in zip(arrays, memory.buffers, strict=True):
            if within(used.map.array, array, array) is None:
                continue
            used.buffer = buffer
            if buffer.base in memory.unwritten:
                flags = within(used.map.array, array, memory.unwritten[buffer.base])
                flags = flags.view(f"u{flags.itemsize}")
                used.unwritten = TensorMap(flags, used.map.box)


def _scalar(value, dtype: np.dtype, ptx_type: str, name: str):
    integral = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if dtype.kind == "f" and (integral or isinstance(value, (float, np.floating))):
        return dtype.type(value)
    if dtype.kind in "iu" and integral:
        bits = 8 * dtype.itemsize
        if not -(2 ** (bits - 1)) <= int(value) < 2**bits:
            raise LaunchError(f"{name} = {value} does not fit into {bits} bits")
        return np.array([int(value) % 2**bits], dtype=f"u{dtype.itemsize}").view(dtype)[0]
    raise LaunchError(f"{name} = {value!r} is no argument for a parameter of type {ptx_type}")


def _copy(prepared: machine.Launch, args) -> machine.Launch:
    """The same launch on copies, to run a block once more without touching the caller's arrays."""
    given = [arg for arg in args if isinstance(arg, np.ndarray)]
    names = [buffer.name for buffer in prepared.memory.buffers]
    arrays = [(n, a.copy()) for n, a in zip(names, given, strict=True)]
    copies = GlobalMemory(arrays, prepared.kernel.variables)
    maps = {address: _copy_of_map(used, given, [copy for _, copy in arrays])
            for address, used in prepared.maps.items()}  # fmt: skip
    return replace(prepared, memory=copies, maps=maps, count=False, check=False)


def _copy_of_map(used: MapInUse, arrays, copies) -> MapInUse:
    parts = (within(used.map.array, old, new) for old, new in zip(arrays, copies, strict=True))
    part = next((part for part in parts if part is not None), None)
    array = used.map.array.copy() if part is None else part
    return replace(used, map=replace(used.map, array=array), buffer=None, unwritten=None)


def _may_be_subnormal(given) -> bool:
    floats = (exactness.as_float32(value) for value in given)
    return any(arithmetic.has_subnormal(value) for value in floats if value.size)
