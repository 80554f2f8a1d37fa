"""The arguments of a launch: what the caller gives becomes memory and parameters of the kernel."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from gemmlab.simulator import machine, ptx
from gemmlab.simulator.async_copy.tensor_map import (
    MAP_ALIGNMENT,
    MAP_BYTES,
    MapInUse,
    TensorMap,
    TensorMaps,
    within,
)
from gemmlab.simulator.errors import LaunchError
from gemmlab.simulator.memory.global_memory import (
    MOST_VARIABLES,
    GlobalMemory,
    ReadOnly,
    Uninitialised,
    pointer,
)
from gemmlab.simulator.ptx import TYPE_BYTES
from gemmlab.simulator.types import type_of

MAPS = 0x7C00_0000_0000  # the address of the first parameter that is a tensor map


def names(text: str, entry: str) -> list[str]:
    """The names of the kernel's parameters, as its source has them."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    found = re.search(rf"\b{entry}\s*\(([^)]*)\)", text)
    return re.findall(r"(\w+)\s*(?:,|$)", found[1].strip()) if found else []


def bind(kernel: ptx.Kernel, args, names):
    if len(args) != len(kernel.parameters):
        raise LaunchError(
            f"kernel '{kernel.name}' takes {len(kernel.parameters)} arguments, not {len(args)}"
        )
    if len(names) != len(args):
        names = [f"argument {i}" for i in range(len(args))]
    protected = {n for n, a in zip(names, args, strict=True) if isinstance(a, ReadOnly)}
    args = [plain(arg) for arg in args]
    arrays = [(n, a) for n, a in zip(names, args, strict=True) if isinstance(a, np.ndarray)]
    for name, array in arrays:
        if not array.flags.c_contiguous:
            raise LaunchError(f"{name} is not C-contiguous: pass np.ascontiguousarray({name})")
        if not array.flags.writeable and name not in protected:
            raise LaunchError(f"{name} is read-only: pass a copy")
    memory = _memory(kernel, arrays, protected)
    buffers = iter(memory.buffers)
    parameters, maps = {}, {}
    for (parameter, ptx_type), name, arg in zip(kernel.parameters, names, args, strict=True):
        if isinstance(arg, TensorMaps):
            parameters[parameter] = np.int64(MAPS + MAP_BYTES * len(maps))
            maps |= _in_memory(arg, name, int(parameters[parameter]), ptx_type)
            continue
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


def plain(arg):
    """An argument without what it is marked as."""
    return arg.array if isinstance(arg, (Uninitialised, ReadOnly)) else arg


def _memory(kernel: ptx.Kernel, arrays, protected) -> GlobalMemory:
    try:
        return GlobalMemory(arrays, kernel.variables, protected)
    except MemoryError:
        name, largest = max(kernel.variables.items(), key=lambda item: item[1].size)
        raise LaunchError(
            f"the variables outside of kernel '{kernel.name}' do not fit into memory: {name} alone "
            f"has {largest.size:,} bytes, and the simulator takes {MOST_VARIABLES:,} at most"
        ) from None


def _in_memory(arg: TensorMaps, name: str, begin: int, ptx_type: str) -> dict[int, MapInUse]:
    """The maps of an array in global memory that begins at address `begin`."""
    if TYPE_BYTES[ptx_type] != 8 or ptx_type.startswith("f"):
        raise LaunchError(f"{name} is an array of tensor maps, the kernel takes a {ptx_type} there")
    return {begin + MAP_BYTES * i: MapInUse(f"{name}[{i}]", one) for i, one in enumerate(arg.maps)}


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


def place(maps, arrays, memory: GlobalMemory) -> None:
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


def copy(prepared: machine.PreparedLaunch, args) -> machine.PreparedLaunch:
    """The same launch on copies, to run a block once more without touching the caller's arrays."""
    given = [arg for arg in args if isinstance(arg, np.ndarray)]
    names = [buffer.name for buffer in prepared.memory.buffers]
    arrays = [(n, a.copy()) for n, a in zip(names, given, strict=True)]
    protected = {buffer.name for buffer in prepared.memory.buffers if buffer.read_only}
    copies = GlobalMemory(arrays, prepared.kernel.variables, protected)
    maps = {address: _copy_of_map(used, given, [copy for _, copy in arrays])
            for address, used in prepared.maps.items()}  # fmt: skip
    return replace(prepared, memory=copies, maps=maps, count=False, check=False)


def _copy_of_map(used: MapInUse, arrays, copies) -> MapInUse:
    parts = (within(used.map.array, old, new) for old, new in zip(arrays, copies, strict=True))
    part = next((part for part in parts if part is not None), None)
    array = used.map.array.copy() if part is None else part
    return replace(used, map=replace(used.map, array=array), buffer=None, unwritten=None)
