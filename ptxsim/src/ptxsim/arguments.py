"""The arguments of a launch: what the caller gives becomes memory and parameters of the kernel."""

from __future__ import annotations

import re
import reprlib
from dataclasses import replace
from keyword import iskeyword

import numpy as np

from ptxsim import machine, ptx
from ptxsim.async_copy import map_bytes
from ptxsim.async_copy.tensor_map import (
    MAP_ALIGNMENT,
    MAP_BYTES,
    MapInUse,
    TensorMap,
    TensorMaps,
    place_within,
    whole_memory,
)
from ptxsim.errors import LaunchError
from ptxsim.memory.global_memory import (
    MOST_VARIABLES,
    Given,
    GlobalMemory,
    ReadOnly,
    Uninitialised,
    pointer,
)
from ptxsim.memory.structures import POINTER_BYTES, Part, Pointers, Structure, as_bytes
from ptxsim.parameters import Parameter
from ptxsim.ptx import TYPE_BYTES
from ptxsim.types import type_of


def arrays(args) -> list[np.ndarray]:
    """All arrays among the arguments, those in structures too, without what they are marked as."""
    return [plain(arg) for arg in given_arrays(args)]


def given_arrays(args) -> list:
    """All arrays among the arguments, those in structures too, as they are marked."""
    found = []
    for arg in args:
        if isinstance(arg, Structure):
            found += arg.arrays()
        elif isinstance(arg, (Part, Pointers)):
            found.append(arg.array)
        elif isinstance(plain(arg), np.ndarray):
            found.append(arg)
    return found


def bind(
    kernel: ptx.Kernel, args, declared: list[Parameter], given: dict[str, np.ndarray]
) -> tuple[GlobalMemory, dict[str, np.generic], map_bytes.MapsInMemory]:
    """(memory, parameters, tensor maps).

    `declared`: as many as the kernel has; `given`: variables of the module that the caller has.
    """
    _check_count(kernel, args, declared)
    names = [one.name for one in declared]
    marked = []
    for name, arg in zip(names, args, strict=True):
        own = given_arrays([arg])
        several = isinstance(arg, Structure) and len(own) > 1
        marked += [(f"{name}, array {i}" if several else name, one) for i, one in enumerate(own)]
    protected = {n for n, a in marked if isinstance(a, ReadOnly)}
    found = [(n, plain(a)) for n, a in marked]
    for name, array in found:
        _check_array(name, array)
        if not array.flags.writeable and name not in protected:
            raise LaunchError(f"{name} is read-only: pass a copy")
    for source, arg in zip(declared, args, strict=True):
        _check_elements(source, arg)
    structures = {
        parameter: Given(np.zeros(int(structure[2]), np.uint8), 1)
        for (parameter, ptx_type), arg in zip(kernel.parameters, args, strict=True)
        if (structure := ptx.STRUCTURE.match(ptx_type)) and not isinstance(arg, TensorMap)
    }
    structures |= {
        parameter: Given(np.zeros(POINTER_BYTES * len(arg.starts), np.uint8), POINTER_BYTES)
        for (parameter, _), arg in zip(kernel.parameters, args, strict=True)
        if isinstance(arg, Pointers)
    }
    structures |= _room_for_maps(kernel, args, names, [array for _, array in found])
    memory = _memory(kernel, found, protected, _given_variables(kernel, given) | structures)
    pointers = iter([pointer(buffer) for buffer in memory.buffers])
    parameters: dict[str, np.generic] = {}
    maps: dict[int, MapInUse] = {}
    for (parameter, ptx_type), source, arg in zip(kernel.parameters, declared, args, strict=True):
        name = source.name
        if isinstance(arg, (TensorMap, TensorMaps)):
            _check_map(arg, ptx_type, name)
            parameters[parameter] = address = memory.address(parameter)
            its_maps = {name: arg} if isinstance(arg, TensorMap) else arg.named(name)
            for i, (its_name, one) in enumerate(its_maps.items()):
                used = _map_in_use(memory, its_name, one)
                begin = MAP_BYTES * i
                structures[parameter].bytes[begin : begin + MAP_BYTES] = np.frombuffer(
                    used.data, np.uint8
                )
                maps[int(address) + begin] = used
            continue
        if isinstance(arg, Pointers):
            _check_pointer(name, "array of addresses", ptx_type)
            structures[parameter].bytes[:] = np.frombuffer(
                arg.packed(int(next(pointers))), np.uint8
            )
            parameters[parameter] = memory.address(parameter)
            continue
        if isinstance(arg, Part):
            _check_pointer(name, "array", ptx_type)
            parameters[parameter] = np.int64(next(pointers) + arg.offset())
            continue
        arg, structure = plain(arg), ptx.STRUCTURE.match(ptx_type)
        if structure:
            data = _structure(arg, int(structure[2]), name, pointers)
            structures[parameter].bytes[:] = np.frombuffer(data, np.uint8)
            parameters[parameter] = memory.address(parameter)
        elif isinstance(arg, np.ndarray):
            _check_pointer(name, "array", ptx_type)
            parameters[parameter] = next(pointers)
        else:
            parameters[parameter] = _scalar(arg, ptx_type, source)
    return memory, parameters, map_bytes.MapsInMemory(maps, memory)


def _room_for_maps(kernel: ptx.Kernel, args, names, arrays) -> dict[str, Given]:
    """Where the tensor maps lie, and their arrays that are no arguments themselves."""
    room: dict[str, Given] = {}
    owners: dict = {}
    for (parameter, _), name, arg in zip(kernel.parameters, names, args, strict=True):
        if not isinstance(arg, (TensorMap, TensorMaps)):
            continue
        maps = [arg] if isinstance(arg, TensorMap) else arg.maps
        room[parameter] = Given(np.zeros(MAP_BYTES * len(maps), np.uint8), 1, is_data=False)
        for one in maps:
            if all(place_within(one.array, array) is None for array in arrays):
                raw, _ = whole_memory(one.array)
                first = raw.__array_interface__["data"][0]
                owners.setdefault(first, (f"the array of {name}", raw, one.array.itemsize))
    return room | {
        f"{name}, {i}" if i else name: Given(raw, size, is_data=False)
        for i, (name, raw, size) in enumerate(owners.values())
    }


def _map_in_use(memory: GlobalMemory, name: str, one: TensorMap) -> MapInUse:
    for buffer in (*memory.buffers, *memory.variables.values()):
        offset = place_within(one.array, buffer.view(np.dtype("u1")))
        if offset is not None:
            begin = buffer.base + offset
            return MapInUse(name, one, buffer, begin, map_bytes.encode(one, begin))
    raise AssertionError(f"the array of {name} is nowhere in memory")


def _check_count(kernel: ptx.Kernel, args, declared: list[Parameter]) -> None:
    takes = len(kernel.parameters)
    if len(args) == takes:
        return
    message = f"kernel '{kernel.name}' takes {takes} arguments, not {len(args)}"
    if len(args) > takes:
        wrong, why = [reprlib.repr(arg) for arg in args[takes:]], "too many"
    else:
        wrong, why = [one.name for one in declared[len(args) :]], "missing"
    message += f": {', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} {why}"
    if all(one.declared for one in declared):
        message += f"; it takes ({', '.join(f'{one.declared} {one.name}' for one in declared)})"
    raise LaunchError(message)


def _check_array(name: str, array: np.ndarray) -> None:
    """What holds for all memory of a launch."""
    expression = _expression(name)
    if not array.flags.c_contiguous:
        raise LaunchError(f"{name} is not C-contiguous: pass np.ascontiguousarray({expression})")
    if array.dtype.hasobject:
        raise LaunchError(
            f"{name} is an array of Python objects: pass one of numbers, such as "
            f"{expression}.astype(np.float32)"
        )
    if not array.dtype.isnative:
        raise LaunchError(
            f"{name} is an array of {array.dtype.str}, whose bytes are in the order of another "
            f'machine: pass {expression}.astype({expression}.dtype.newbyteorder("="))'
        )


def _expression(name: str) -> str:
    """How Python can call an array that the kernel calls so."""
    return name if name.isidentifier() and not iskeyword(name) else "array"


def _check_elements(parameter: Parameter, arg) -> None:
    """That an array has the elements that the source has for the pointer."""
    array = plain(arg.array if isinstance(arg, Part) else arg)
    if not isinstance(array, np.ndarray) or parameter.takes(array.dtype):
        return
    name, right = parameter.name, parameter.usual
    if right == "bfloat16":
        how = "pass one of ml_dtypes.bfloat16, or its bits as uint16"
    else:
        expression = _expression(name)
        how = f"pass {expression}.astype(np.{right})"
        if array.itemsize in (1, np.dtype(right).itemsize):
            how += f", or {expression}.view(np.{right}), which has the same bits"
    raise LaunchError(
        f"{name} is an array of {array.dtype}, and the kernel takes it as {parameter.declared}: "
        f"{how}"
    )


def _check_pointer(name: str, what: str, ptx_type: str) -> None:
    if TYPE_BYTES.get(ptx_type) != 8 or type_of(ptx_type).kind == "f":
        raise LaunchError(f"{name} is an {what}, the kernel takes a {ptx_type} there")


def plain(arg):
    """An argument without what it is marked as."""
    return arg.array if isinstance(arg, (Uninitialised, ReadOnly)) else arg


def _memory(kernel: ptx.Kernel, arrays, protected, given) -> GlobalMemory:
    try:
        return GlobalMemory(arrays, {**kernel.variables, **given}, protected)
    except MemoryError:
        name, largest = max(kernel.variables.items(), key=lambda item: item[1].size)
        raise LaunchError(
            f"the variables outside of kernel '{kernel.name}' do not fit into memory: {name} alone "
            f"has {largest.size:,} bytes, and the simulator takes {MOST_VARIABLES:,} at most"
        ) from None


def _given_variables(kernel: ptx.Kernel, given: dict[str, np.ndarray]) -> dict[str, Given]:
    """Those that the kernel uses, by their names in the PTX."""
    found = {}
    for name, array in given.items():
        symbol = variable_symbol(kernel.declared, name)
        size = kernel.declared[symbol]
        if not isinstance(array, np.ndarray):
            raise LaunchError(f"variable {name} is {reprlib.repr(array)}: pass a NumPy array")
        _check_array(f"variable {name}", array)
        if not array.flags.writeable:
            raise LaunchError(f"variable {name} is read-only: pass a copy")
        if array.nbytes != size:
            raise LaunchError(f"variable {name} has {size} bytes, the array {array.nbytes}")
        if symbol in kernel.variables:
            found[symbol] = Given(array.reshape(-1).view(np.uint8), array.itemsize)
    return found


def variable_symbol(declared, name: str) -> str:
    """The name in the PTX of the variable `name`, which may be mangled there."""
    mangled = re.compile(rf"_Z\w*?(?<!\d){len(name)}{re.escape(name)}(?:E|$)")
    found = [name] if name in declared else [one for one in declared if mangled.match(one)]
    if len(found) != 1:
        there = ", ".join(declared) or "none"
        raise LaunchError(f"the source has no one variable '{name}' that is used; it has {there}")
    return found[0]


def _structure(arg, size: int, name: str, pointers) -> bytes:
    data = arg.packed(pointers) if isinstance(arg, Structure) else as_bytes(arg)
    if data is None:
        raise LaunchError(
            f"{name} = {reprlib.repr(arg)} is no argument for a structure of {size} bytes: "
            "simulator.Structure puts one together, a NumPy scalar or bytes of that size will do, "
            "and for a tensor map of 128 bytes TensorMap"
        )
    if len(data) != size:
        raise LaunchError(f"{name} is a structure of {size} bytes, {len(data)} are given")
    return data


def _check_map(arg, ptx_type: str, name: str) -> None:
    """A parameter that a TensorMap or TensorMaps are given for."""
    structure = ptx.STRUCTURE.match(ptx_type)
    if isinstance(arg, TensorMaps):
        if TYPE_BYTES.get(ptx_type) != 8 or ptx_type.startswith("f"):
            raise LaunchError(
                f"{name} is an array of tensor maps, the kernel takes a {ptx_type} there"
            )
        return
    if structure is None:
        raise LaunchError(
            f"{name} is a TensorMap: the kernel must take a structure of {MAP_BYTES} bytes there, "
            "const and __grid_constant__"
        )
    alignment, size = (int(n) for n in structure.groups())
    if size != MAP_BYTES or alignment < MAP_ALIGNMENT:
        raise LaunchError(
            f"{name} has {size} bytes, aligned to {alignment}; a tensor map has {MAP_BYTES}, "
            f"aligned to {MAP_ALIGNMENT}: struct __align__({MAP_ALIGNMENT}) {{ char "
            f"opaque[{MAP_BYTES}]; }}"
        )


def _scalar(value, ptx_type: str, parameter: Parameter):
    name, dtype = parameter.name, type_of(ptx_type)
    may_be_pointer = dtype.kind != "f" and dtype.itemsize == POINTER_BYTES
    if value is None and may_be_pointer and not parameter.is_number:
        value = 0
    integral = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if dtype.kind == "f" and (integral or isinstance(value, (float, np.floating))):
        return dtype.type(value)
    if dtype.kind in "iu" and integral:
        bits = 8 * dtype.itemsize
        if not -(2 ** (bits - 1)) <= int(value) < 2**bits:
            raise LaunchError(f"{name} = {value} does not fit into {bits} bits")
        return np.array([int(value) % 2**bits], dtype=f"u{dtype.itemsize}").view(dtype)[0]
    kind = parameter.declared or ptx_type
    pointer = may_be_pointer and not parameter.is_number
    right = ": pass a NumPy array, or None for a null pointer" if pointer else ""
    raise LaunchError(
        f"{name} = {reprlib.repr(value)} is no argument for a parameter of type {kind}{right}"
    )


def copy(prepared: machine.PreparedLaunch, args) -> machine.PreparedLaunch:
    """The same launch on copies, to run a block once more without touching the caller's arrays."""
    given = arrays(args)
    names = [buffer.name for buffer in prepared.memory.buffers]
    copied = [(n, a.copy()) for n, a in zip(names, given, strict=True)]
    protected = {buffer.name for buffer in prepared.memory.buffers if buffer.read_only}
    copies = GlobalMemory(copied, prepared.memory.copied_variables(), protected)
    there = prepared.maps.given if prepared.maps else {}
    maps = {address: _copy_of_map(used, copies) for address, used in there.items()}
    return replace(
        prepared, memory=copies, maps=map_bytes.MapsInMemory(maps, copies), count=False,
        check=False, prints=False,
    )  # fmt: skip


def _copy_of_map(used: MapInUse, memory: GlobalMemory) -> MapInUse:
    array = used.map.array
    array, buffer = map_bytes.seen_at(memory, used.begin, array.shape, array.dtype, array.strides)
    return replace(used, map=replace(used.map, array=array), buffer=buffer, unwritten=None)
