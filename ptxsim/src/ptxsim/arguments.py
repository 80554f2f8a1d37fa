"""The arguments of a launch: what the caller gives becomes memory and parameters of the kernel.

The kernel's source tells the names of its parameters, and what its pointers point to: PTX has 64
bits for every pointer, `const float* x` and `double* x` alike.
"""

from __future__ import annotations

import re
import reprlib
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from keyword import iskeyword

import numpy as np

from ptxsim import machine, ptx
from ptxsim.async_copy import map_bytes, tensor_map
from ptxsim.async_copy.tensor_map import MAP_ALIGNMENT, MAP_BYTES, MapInUse, TensorMap, TensorMaps
from ptxsim.host_code import COMMENT, closing
from ptxsim.limits import LaunchError, require
from ptxsim.memory import global_memory
from ptxsim.memory.global_memory import Given, GlobalMemory, ReadOnly, Uninitialised
from ptxsim.memory.structures import POINTER_BYTES, Part, Pointers, Structure, as_bytes
from ptxsim.ptx import TYPE_BYTES, type_of
from ptxsim.textures import Image, Surface, Texture

CPU = 1  # DLPack's number for it


def given_arrays(args) -> list:
    """All arrays among the arguments, those in structures too, as they are marked."""
    arrays = []
    for arg in args:
        if isinstance(arg, Structure):
            arrays += arg.arrays()
        elif isinstance(arg, (Part, Pointers)):
            arrays.append(arg.array)
        elif isinstance(plain(arg), np.ndarray):
            arrays.append(arg)
    return arrays


def shared_with_numpy(arg):
    """A tensor of another library as an array that shares its memory; anything else as it is.

    Of bfloat16, which NumPy does not have, PyTorch's tensors are taken as their bits.
    """
    if isinstance(arg, (np.ndarray, np.generic)) or not hasattr(arg, "__dlpack__"):
        return arg
    if arg.__dlpack_device__()[0] != CPU:
        raise LaunchError(f"a {type(arg).__name__} is on a GPU: pass one in the CPU's memory")
    if hasattr(arg, "detach"):  # PyTorch's: by DLPack they would be read-only
        arg = arg.detach()
        return (
            arg.view(sys.modules["torch"].int16) if "bfloat16" in str(arg.dtype) else arg
        ).numpy()
    return np.from_dlpack(arg)


def plain(arg):
    return arg.array if isinstance(arg, (Uninitialised, ReadOnly)) else arg


def bind(
    kernel: ptx.Kernel, args, declared: list[Parameter], given: dict[str, np.ndarray]
) -> tuple[GlobalMemory, dict[str, np.generic], map_bytes.MapsInMemory]:
    """(memory, parameters, tensor maps). `given`: the caller's arrays for module variables."""
    _check_count(kernel, args, declared)
    arrays, protected = [], set()
    for source, arg in zip(declared, args, strict=True):
        marked_arrays = given_arrays([arg])
        several = isinstance(arg, Structure) and len(marked_arrays) > 1
        for i, marked in enumerate(marked_arrays):
            name, array = f"{source.name}, array {i}" if several else source.name, plain(marked)
            protected |= {name} if isinstance(marked, ReadOnly) else set()
            arrays.append((name, array))
            _check_array(name, array)
            may_read = array.flags.writeable or name in protected
            require(may_read, f"{name} is read-only: pass a copy")
        _check_elements(source, arg)
        _check_image(source, arg)
    bound = list(zip(kernel.parameters, declared, args, strict=True))
    rooms = {
        parameter: _room(arg, ptx_type, source.name)
        for (parameter, ptx_type), source, arg in bound
        if isinstance(arg, (Pointers, TensorMap, TensorMaps)) or ptx.STRUCTURE.match(ptx_type)
    }
    behind_maps = _arrays_of_maps(bound, [array for _, array in arrays])
    memory = _memory(
        kernel, arrays, protected, _given_variables(kernel, given) | rooms | behind_maps
    )
    pointers = iter([np.int64(buffer.base) for buffer in memory.buffers])
    parameters: dict[str, np.generic] = {}
    maps: dict[int, MapInUse] = {}
    for (parameter, ptx_type), source, arg in bound:
        if parameter in rooms:
            parameters[parameter] = address = memory.address(parameter)
            if isinstance(arg, Pointers):
                data = arg.packed(int(next(pointers)))
            elif not isinstance(arg, (TensorMap, TensorMaps)):
                data = _structure(plain(arg), rooms[parameter].size, source.name, pointers)
            else:
                data = bytes(rooms[parameter].size)
            rooms[parameter].bytes[:] = np.frombuffer(data, np.uint8)
            for name, (begin, given_map) in _maps_of(source.name, arg).items():
                used = maps[int(address) + begin] = _map_in_use(memory, name, given_map)
                place = slice(begin, begin + MAP_BYTES)
                rooms[parameter].bytes[place] = np.frombuffer(used.data, np.uint8)
        elif isinstance(plain(arg), (np.ndarray, Part)):
            _check_pointer(source.name, "an array", ptx_type)
            offset = arg.offset() if isinstance(arg, Part) else 0
            parameters[parameter] = np.int64(next(pointers) + offset)
        elif isinstance(arg, Image):
            _check_pointer(source.name, f"a {type(arg).__name__}", ptx_type)
            parameters[parameter] = np.int64(arg.handle)
        else:
            parameters[parameter] = _scalar(plain(arg), ptx_type, source)
    return memory, parameters, map_bytes.MapsInMemory(maps, memory)


def _maps_of(name: str, arg: object) -> dict[str, tuple[int, TensorMap]]:
    """Name -> at which byte of the argument a tensor map begins, and the map."""
    if isinstance(arg, TensorMap):
        return {name: (0, arg)}
    if isinstance(arg, TensorMaps):
        return {f"{name}[{i}]": (MAP_BYTES * i, each) for i, each in enumerate(arg.maps)}
    maps = arg.maps() if isinstance(arg, Structure) else {}
    return {f"{name}, byte {begin}": (begin, each) for begin, each in maps.items()}


def _room(arg, ptx_type: str, name: str) -> Given:
    if isinstance(arg, Pointers):
        _check_pointer(name, "an array of addresses", ptx_type)
        return Given(np.zeros(POINTER_BYTES * len(arg.starts), np.uint8), POINTER_BYTES)
    if isinstance(arg, TensorMaps):
        _check_pointer(name, "an array of tensor maps", ptx_type)
        return Given(np.zeros(MAP_BYTES * len(arg.maps), np.uint8), 1, is_data=False)
    structure = ptx.STRUCTURE.match(ptx_type)
    if structure is None:
        raise LaunchError(
            f"{name} is a TensorMap: the kernel must take a structure of {MAP_BYTES} bytes there, "
            "const and __grid_constant__"
        )
    alignment, size = (int(n) for n in structure.groups())
    require(
        not isinstance(arg, TensorMap) or (size == MAP_BYTES and alignment >= MAP_ALIGNMENT),
        f"{name} has {size} bytes, aligned to {alignment}; a tensor map has {MAP_BYTES}, aligned "
        f"to {MAP_ALIGNMENT}: struct __align__({MAP_ALIGNMENT}) {{ char opaque[{MAP_BYTES}]; }}",
    )
    return Given(np.zeros(size, np.uint8), 1, is_data=not isinstance(arg, TensorMap))


def _arrays_of_maps(bound, arrays) -> dict[str, Given]:
    """The arrays of tensor maps that are no arguments themselves."""
    owners: dict = {}
    for _, source, arg in bound:
        for _, used in _maps_of("", arg).values():
            if all(tensor_map.place_within(used.array, array) is None for array in arrays):
                raw, _ = tensor_map.whole_memory(used.array)
                first = raw.__array_interface__["data"][0]
                owners.setdefault(first, (f"the array of {source.name}", raw, used.array.itemsize))
    return {
        f"{name}, {i}" if i else name: Given(raw, size, is_data=False)
        for i, (name, raw, size) in enumerate(owners.values())
    }


def _map_in_use(memory: GlobalMemory, name: str, given: TensorMap) -> MapInUse:
    for buffer in (*memory.buffers, *memory.variables.values()):
        offset = tensor_map.place_within(given.array, buffer.view(np.dtype("u1")))
        if offset is not None:
            begin = buffer.base + offset
            data = map_bytes.encode(given, begin)
            return MapInUse(name, given, buffer, begin, data)
    raise AssertionError(f"the array of {name} is nowhere in memory")


def _check_count(kernel: ptx.Kernel, args, declared: list[Parameter]) -> None:
    takes = len(kernel.parameters)
    message = f"kernel '{kernel.name}' takes {takes} arguments, not {len(args)}"
    if len(args) > takes:
        wrong, why = [reprlib.repr(arg) for arg in args[takes:]], "too many"
    else:
        wrong, why = [parameter.name for parameter in declared[len(args) :]], "missing"
    message += f": {', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} {why}"
    if all(parameter.declared for parameter in declared):
        message += f"; it takes ({', '.join(f'{p.declared} {p.name}' for p in declared)})"
    require(len(args) == takes, message)


def _check_array(name: str, array: np.ndarray) -> None:
    """What holds for all memory of a launch."""
    expression = _expression(name)
    require(
        array.flags.c_contiguous,
        f"{name} is not C-contiguous: pass np.ascontiguousarray({expression})",
    )
    require(
        not array.dtype.hasobject,
        f"{name} is an array of Python objects: pass one of numbers, such as "
        f"{expression}.astype(np.float32)",
    )
    require(
        array.dtype.isnative,
        f"{name} is an array of {array.dtype.str}, whose bytes are in the order of another "
        f'machine: pass {expression}.astype({expression}.dtype.newbyteorder("="))',
    )


def _expression(name: str) -> str:
    return name if name.isidentifier() and not iskeyword(name) else "array"


def _check_elements(parameter: Parameter, arg) -> None:
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


def _check_image(parameter: Parameter, arg) -> None:
    declared, given = parameter.declared, type(arg)
    needed = next((k for k in (Texture, Surface) if f"cuda{k.__name__}Object_t" in declared), None)
    is_other = needed is not given if isinstance(arg, Image) else isinstance(arg, np.ndarray)
    if needed and is_other and "*" not in declared:
        how = f"pass a ptxsim.{needed.__name__}"
    elif isinstance(arg, Image) and "*" in declared:
        how = "pass its array, or an array of handles"
    else:
        return
    raise LaunchError(
        f"{parameter.name} is of type {given.__name__}, the kernel takes a {declared}: {how}"
    )


def _check_pointer(name: str, what: str, ptx_type: str) -> None:
    is_pointer = TYPE_BYTES.get(ptx_type) == POINTER_BYTES and type_of(ptx_type).kind != "f"
    require(is_pointer, f"{name} is {what}, the kernel takes a {ptx_type} there")


def _memory(kernel: ptx.Kernel, arrays, protected, given) -> GlobalMemory:
    try:
        return GlobalMemory(arrays, {**kernel.variables, **given}, protected)
    except MemoryError:
        name, largest = max(kernel.variables.items(), key=lambda item: item[1].size)
        raise LaunchError(
            f"the variables outside of kernel '{kernel.name}' do not fit into memory: {name} alone "
            f"has {largest.size:,} bytes, and the simulator takes "
            f"{global_memory.MOST_VARIABLES:,} at most"
        ) from None


def _given_variables(kernel: ptx.Kernel, given: dict[str, np.ndarray]) -> dict[str, Given]:
    """Those that the kernel uses, by their names in the PTX."""
    variables = {}
    for name, array in given.items():
        symbol = variable_symbol(kernel.declared, name)
        size = kernel.declared[symbol]
        if not isinstance(array, np.ndarray):
            raise LaunchError(f"variable {name} is {reprlib.repr(array)}: pass a NumPy array")
        _check_array(f"variable {name}", array)
        require(array.flags.writeable, f"variable {name} is read-only: pass a copy")
        fits = array.nbytes == size
        require(fits, f"variable {name} has {size} bytes, the array {array.nbytes}")
        if symbol in kernel.variables:
            variables[symbol] = Given(array.reshape(-1).view(np.uint8), array.itemsize)
    return variables


def variable_symbol(declared, name: str) -> str:
    mangled = re.compile(rf"_Z\w*?(?<!\d){len(name)}{re.escape(name)}(?:E|$)")
    symbols = [name] if name in declared else list(filter(mangled.match, declared))
    there = ", ".join(declared) or "none"
    require(len(symbols) == 1, f"the source has no single variable '{name}' in use; it has {there}")
    return symbols[0]


def _structure(arg, size: int, name: str, pointers) -> bytes:
    data = arg.packed(pointers) if isinstance(arg, Structure) else as_bytes(arg)
    if data is None:
        raise LaunchError(
            f"{name} = {reprlib.repr(arg)} cannot be a structure of {size} bytes: pass a "
            "ptxsim.Structure, a NumPy scalar or bytes of that size, or, for a tensor map of 128 "
            "bytes, a TensorMap"
        )
    require(len(data) == size, f"{name} is a structure of {size} bytes, not of {len(data)}")
    return data


def _scalar(value, ptx_type: str, parameter: Parameter):
    name, dtype = parameter.name, type_of(ptx_type)
    bits, may_be_pointer = 8 * dtype.itemsize, dtype.kind != "f" and dtype.itemsize == POINTER_BYTES
    may_be_pointer &= not parameter.is_number
    if value is None and may_be_pointer:
        value = 0
    integral = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if dtype.kind == "f" and (integral or isinstance(value, (float, np.floating))):
        return dtype.type(value)
    if dtype.kind in "iu" and integral:
        fits = -(2 ** (bits - 1)) <= int(value) < 2**bits
        require(fits, f"{name} = {value} does not fit into {bits} bits")
        return np.array([int(value) % 2**bits], dtype=f"u{dtype.itemsize}").view(dtype)[0]
    right = ": pass a NumPy array, or None for a null pointer" if may_be_pointer else ""
    raise LaunchError(
        f"{name} = {reprlib.repr(value)} cannot be a parameter of type "
        f"{parameter.declared or ptx_type}{right}"
    )


def copy(prepared: machine.PreparedLaunch, args) -> machine.PreparedLaunch:
    """The same launch on copies, to run a block once more without touching the caller's arrays."""
    buffers = prepared.memory.buffers
    copied = [
        (buffer.name, plain(array).copy())
        for buffer, array in zip(buffers, given_arrays(args), strict=True)
    ]
    protected = {buffer.name for buffer in buffers if buffer.read_only}
    copies = GlobalMemory(copied, prepared.memory.copied_variables(), protected)
    maps = {address: _copy_of_map(used, copies) for address, used in prepared.maps.given.items()}
    images = {handle: image.copied() for handle, image in prepared.images.items()}
    return replace(
        prepared, memory=copies, maps=map_bytes.MapsInMemory(maps, copies), images=images,
        count=False, check=False, prints=False,
    )  # fmt: skip


def _copy_of_map(used: MapInUse, memory: GlobalMemory) -> MapInUse:
    array = used.map.array
    array, buffer = map_bytes.seen_at(memory, used.begin, array.shape, array.dtype, array.strides)
    return replace(used, map=replace(used.map, array=array), buffer=buffer, unwritten=None)


# --- what the source declares ---------------------------------------------------------------------

QUALIFIERS = {"const", "volatile", "struct", "__grid_constant__"}
RESTRICT = re.compile(r"\b(?:__restrict__|__restrict|restrict)\b")
ATTRIBUTE = re.compile(r"\b(?:__align__|alignas)\s*\([^()]*\)")
MOST_ALIASES = 8  # of which one means another
INTEGER_WORDS = {"signed", "unsigned", "char", "short", "int", "long"}

HALVES, BFLOAT16 = ("float16", "uint16", "int16"), ("bfloat16", "uint16", "int16")
WORDS, LONG_WORDS = ("int32", "uint32"), ("int64", "uint64")
ONE_BYTE = "one byte"  # any type of one byte, such as float8 of ml_dtypes
# C++ type -> the NumPy types that it may be given, the usual one first. Of vectors and complex
# numbers those of an element. Pointers to any other type take every array: char* and uint4* often
# stand for bytes of any type, and what a template means is not known here.
ELEMENTS = {
    **dict.fromkeys(("float", "float1", "float2", "float3", "float4"), ("float32",)),
    **dict.fromkeys(("cuComplex", "cuFloatComplex"), ("float32",)),
    **dict.fromkeys(("double", "double1", "double2", "double3", "double4"), ("float64",)),
    "cuDoubleComplex": ("float64",),
    **dict.fromkeys(("half", "__half"), HALVES),
    **dict.fromkeys(("half2", "__half2"), HALVES + WORDS),
    **dict.fromkeys(("nv_bfloat16", "__nv_bfloat16"), BFLOAT16),
    **dict.fromkeys(("nv_bfloat162", "__nv_bfloat162"), BFLOAT16 + WORDS),
    **dict.fromkeys(("short", "int16_t", "uint16_t"), ("int16", "uint16", "float16", "bfloat16")),
    **dict.fromkeys(("int", "int32_t", "uint32_t"), WORDS),
    "long": (f"int{8 * np.dtype('l').itemsize}", f"uint{8 * np.dtype('l').itemsize}"),
    **dict.fromkeys(("long long", "int64_t", "uint64_t", "size_t"), LONG_WORDS),
    **dict.fromkeys(("signed char", "int8_t", "uint8_t", "bool"), ("uint8", ONE_BYTE)),
    **dict.fromkeys(("__nv_fp8_e4m3", "__nv_fp8_e5m2"), ("uint8", ONE_BYTE)),
}


@dataclass(frozen=True)
class Parameter:
    """`declared`: its type; `element`: a key of ELEMENTS. Empty where the source does not tell."""

    name: str
    declared: str = ""
    element: str = ""

    def takes(self, dtype: np.dtype) -> bool:
        """Whether an array of this type may be given for the pointer."""
        untyped = dtype.type is np.void and dtype.names is None
        if not self.element or untyped:
            return True
        allowed = ELEMENTS[self.element]
        return all(
            scalar.name in allowed or (ONE_BYTE in allowed and scalar.itemsize == 1)
            for scalar in _scalars(dtype)
        )

    @property
    def is_number(self) -> bool:
        """Whether the source says that it is one, not a pointer."""
        return _plain_name(_words(self.declared)) in ELEMENTS

    @property
    def usual(self) -> str:
        first, *others = ELEMENTS[self.element]
        unsigned = re.search(r"\bu(?:nsigned|int)|size_t", self.declared)
        return others[0] if unsigned and others[:1] == [f"u{first}"] else first


def of_kernel(text: str, entry: str, count: int, names: tuple[str, ...] = ()) -> list[Parameter]:
    """The `count` parameters of a kernel, called `names` if these are given."""
    parameters = of_source(text, entry)
    if len(parameters) != count:
        parameters = tuple(Parameter(f"argument {i}") for i in range(count))
    if len(names) == count:
        return [replace(p, name=name) for p, name in zip(parameters, names, strict=True)]
    return list(parameters)


def source_name(entry: str) -> str:
    """`_Z5scaleIfEvPT_` is `scale` of the source, `scale<float>` too; others are as they are."""
    entry = entry.partition("<")[0].rpartition("::")[2].strip()
    mangled = re.match(r"_Z(?:N(?:\d+\D\w*?)?)?(\d+)", entry)
    if mangled and (name := entry[mangled.end() : mangled.end() + int(mangled[1])]).isidentifier():
        return name
    return entry


@lru_cache(maxsize=256)
def of_source(text: str, entry: str) -> tuple[Parameter, ...]:
    """As many as the source has; without types where it has several such kernels."""
    text = COMMENT.sub(" ", text)
    lists = _parameter_lists(text, source_name(entry))
    if not lists:
        return ()
    parameters = [
        _parameter(at, part, text) for at, part in enumerate(ptx.split(lists[0], ",", "<>"))
    ]
    if len(set(lists)) > 1:
        parameters = [Parameter(parameter.name) for parameter in parameters]
    return tuple(parameters)


def _parameter_lists(text: str, name: str) -> list[str]:
    """What stands in the brackets behind `name`: of kernels with a body, if there are any."""
    lists: dict[tuple[bool, bool], list[str]] = {}
    name = re.escape(name)
    for match in re.finditer(rf"{name}(?<!\w{name})\s*\(", text):
        end = closing(text, match.end(), "()")
        begin = max(text.rfind(sign, 0, match.start()) for sign in ";{}") + 1
        head = text[begin : match.start()]
        rank = "__global__" in head, text[end + 1 :].lstrip().startswith("{")
        lists.setdefault(rank, []).append(" ".join(text[match.end() : end].split()))
    return [] if not lists else ["" if each == "void" else each for each in lists[max(lists)]]


def _parameter(at: int, text: str, source: str) -> Parameter:
    text = ATTRIBUTE.sub(" ", text)
    if pointer := re.search(r"\(\s*[*&]\s*(?:\w+\s+)*(\w+)\s*\)", text):  # to an array, a function
        return Parameter(pointer[1])
    match = re.fullmatch(r"(.*\W)(\w+)\s*((?:\[[^]]*\]\s*)*)", text)
    if not match:
        return Parameter(f"argument {at}")
    kind, name, extents = (part.strip() for part in match.groups())
    kind += " *" if extents else ""
    words = _words(kind)
    declared = re.sub(r"\s*\*\s*", "*", RESTRICT.sub("", kind)).strip()
    if words.count("*") != 1 or words[-1] != "*":
        return Parameter(name, declared)
    return Parameter(name, declared, _resolved(_plain_name(words[:-1]), source))


def _words(kind: str) -> list[str]:
    return [w for w in re.findall(r"\w+|::|\S", RESTRICT.sub("", kind)) if w not in QUALIFIERS]


def _plain_name(words: list[str]) -> str:
    """`unsigned long long int` is `long long`, `std::uint8_t` is `uint8_t`."""
    if words and set(words) <= INTEGER_WORDS:
        if "char" in words:
            return " ".join(word for word in words if word != "int")
        return "short" if "short" in words else " ".join(["long"] * words.count("long")) or "int"
    return words[-1] if words and set(words[:-1]) <= {"::", "std", "cuda"} else ""


@lru_cache(maxsize=256)
def _resolved(name: str, source: str) -> str:
    """What a name means, through typedefs: a key of ELEMENTS; empty if that is not known."""
    for _ in range(MOST_ALIASES):
        other = rf"\b(?:class|typename|struct|define)\s+{name}\b|\}}\s*{name}\s*;"
        if not name or re.search(other, source):
            return ""
        aliases = re.findall(
            rf"\btypedef\s+([^;{{}}]+?)\b{name}\s*;|\busing\s+{name}\s*=([^;]+);", source
        )
        if not aliases:
            return name if name in ELEMENTS else ""
        if len(aliases) > 1:
            return ""
        name = _plain_name(_words("".join(aliases[0])))
    return ""


def _scalars(dtype: np.dtype) -> list[np.dtype]:
    """What an element is made of: itself, or the members of a structure, the two of a complex."""
    if dtype.subdtype:
        return _scalars(dtype.subdtype[0])
    if dtype.names is not None:
        return [scalar for name in dtype.names for scalar in _scalars(dtype[name])]
    return [np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype]
