"""Record what textures and surfaces give on an NVIDIA GPU.

    python ptxsim/hardware/record_textures.py OUTDIR

writes OUTDIR/textures.npz: texels, coordinates that show how they are rounded, and results. Needs
CuPy, which does not make layered textures of one dimension. An address mode is that of the axes
that a texture has: with "border" along y, a linear filter of one axis takes half of the border.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np

LANES = 48
MODES = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
LAYERED, SURFACE, CUBEMAP, GATHER = 1, 2, 4, 8
BORDER = (0.65, -0.37, 0.1, 2.0)
SHAPES = ((7,), (5, 7), (3, 4, 5))
FETCH = """extern "C" __global__ void %(name)s(unsigned long long texture, const %(type)s* x,
        const float* more, const int* layer, unsigned* out) {
    const int i = threadIdx.x, n = blockDim.x;
    asm volatile("%(opcode)s {%%0, %%1, %%2, %%3}, [%%4, {%(place)s}]%(tail)s;"
        : "=r"(out[4 * i]), "=r"(out[4 * i + 1]), "=r"(out[4 * i + 2]), "=r"(out[4 * i + 3])
        : "l"(texture), "r"(layer[i]), %(given)s, "f"(more[i]), "f"(more[n + i]));
}"""
ACCESS = """extern "C" __global__ void %(name)s(unsigned long long surface, const int* x,
        %(type)s* data) {
    const int i = threadIdx.x, n = blockDim.x;
    asm volatile("%(text)s;" : %(values)s
        : "l"(surface), "r"(x[i]), "r"(x[n + i]), "r"(x[2 * n + i]) : "memory");
}"""
SIZE = """extern "C" __global__ void %(name)s(unsigned long long image, unsigned* out) {
    asm volatile("%(name)s.width.b32 %%0, [%%1];" : "=r"(out[0]) : "l"(image));
    asm volatile("%(name)s.height.b32 %%0, [%%1];" : "=r"(out[1]) : "l"(image));
    asm volatile("%(name)s.depth.b32 %%0, [%%1];" : "=r"(out[2]) : "l"(image));
}"""
# Where the layer (%5) and the coordinates (from %6 on) stand. What is there twice is not used.
PLACES = {
    "1d": "%6", "2d": "%6, %7", "3d": "%6, %7, %8, %8", "a2d": "%5, %6, %7, %7",
    "cube": "%6, %7, %8, %8", "acube": "%5, %6, %7, %8",
}  # fmt: skip
TYPES = {8: ("h", "unsigned short"), 16: ("h", "unsigned short"), 32: ("r", "unsigned"),
         64: ("l", "unsigned long long")}  # fmt: skip


def fetch(opcode: str, coordinate: str = "f32") -> tuple[str, str]:
    """A kernel's name and text. `opcode`: without the type of the coordinates."""
    parts = opcode.split(".")
    geometry = next(part for part in parts if part in PLACES)
    letter = "f" if coordinate == "f32" else "r"
    given = ", ".join(f'"{letter}"(x[{axis} * n + i])' for axis in range(3))
    tail = {"level": ", %9", "grad": ", {%9, %10}, {%10, %9}"}.get(parts[1], "")
    name = f"{opcode}.{coordinate}".replace(".", "_")
    text = FETCH % {
        "name": name, "type": "float" if letter == "f" else "int", "given": given, "tail": tail,
        "opcode": f"{opcode}.{coordinate}", "place": PLACES[geometry],
    }  # fmt: skip
    return name, text


def access(operation: str, geometry: str, count: int, bits: int, beyond: str) -> tuple[str, str]:
    """The same for suld and sust."""
    letter, kind = TYPES[bits]
    registers = ", ".join(f"%{i}" for i in range(count))
    order = {"1d": [0], "2d": [0, 1], "3d": [0, 1, 2, 2], "a2d": [2, 0, 1, 1]}[geometry]
    place = f"[%{count}, {{{', '.join(f'%{count + 1 + at}' for at in order)}}}]"
    vector = f".v{count}" if count > 1 else ""
    opcode = f"{operation}.b.{geometry}{vector}.b{bits}.{beyond}"
    text = f"{{{registers}}}, {place}" if operation == "suld" else f"{place}, {{{registers}}}"
    values = ", ".join(f'"+{letter}"(data[{count} * i + {k}])' for k in range(count))
    name = opcode.replace(".", "_")
    values = {"name": name, "type": kind, "text": f"{opcode} {text}", "values": values}
    return name, ACCESS % values


def textures() -> list[dict]:
    """What each is, and by which instruction it is read."""
    plain = {
        "opcode": "tex", "dtype": "float32", "channels": 1, "texels": "normal", "flags": 0,
        "address": "clamp", "filter": "linear", "read": "element_type", "normalized": True,
        "border": (0.0,) * 4, "coordinate": "f32",
    }  # fmt: skip
    every: list[dict] = []

    def add(shape, **other):
        every.append({**plain, "shape": shape, **other})

    for shape in SHAPES:
        for filter in ("point", "linear"):
            for mode in MODES:
                add(shape, filter=filter, address=mode)
            for mode in ("clamp", "border"):
                add(shape, filter=filter, address=mode, normalized=False)
        for texels, dtype in product(("wide", "special"), ("float32", "float16")):
            add(shape, texels=texels, dtype=dtype, normalized=False)
        for filter in ("point", "linear"):
            add(shape, filter=filter, dtype="float16", channels=2, normalized=False)
            for dtype in ("uint8", "int8", "uint16", "int16"):
                add(shape, filter=filter, dtype=dtype, channels=2, read="normalized_float",
                    address="border", border=BORDER, normalized=False)  # fmt: skip
    for dtype in ("uint8", "int8", "uint16", "int16", "uint32", "int32"):
        add((5, 7), filter="point", dtype=dtype, address="border", normalized=False)
    add((5, 7), filter="linear", channels=4, address="border", border=BORDER)
    for shape in SHAPES:
        add(shape, filter="point", normalized=False, coordinate="s32")
    for opcode in ("tex.level", "tex.grad"):
        add((5, 7), opcode=opcode)
    for component, mode in zip("rgba", MODES, strict=True):
        add((5, 7), opcode=f"tld4.{component}", channels=4, address=mode, flags=GATHER)
    for filter in ("point", "linear"):
        add((3, 5, 7), filter=filter, flags=LAYERED, normalized=False)
        add((6, 5, 5), filter=filter, flags=CUBEMAP)
        add((12, 4, 4), filter=filter, flags=CUBEMAP | LAYERED)
    for number, texture in enumerate(every):
        texture["name"] = f"texture {number}"
    return every


SURFACES = [
    {"operation": operation, "geometry": geometry, "count": count, "bits": bits, "beyond": beyond,
     "name": f"surface {operation} {geometry} {count} {bits} {beyond}"}
    for operation in ("suld", "sust")
    for geometry, count, bits in (
        ("1d", 1, 8), ("2d", 1, 16), ("2d", 1, 64), ("2d", 2, 32), ("2d", 4, 8), ("2d", 4, 32),
        ("3d", 1, 32), ("a2d", 1, 32),
    )
    for beyond in ("clamp", "zero")
]  # fmt: skip
SURFACE_SHAPES = {"1d": (8,), "2d": (5, 8), "3d": (3, 4, 8), "a2d": (3, 5, 8)}
# What ends with an error: an access, and the byte and the row of a surface of 5 rows of 32 bytes.
ERRORS = {
    "load past the width": ("suld", "trap", 32, 0), "store past the width": ("sust", "trap", 32, 0),
    "load past the height": ("suld", "trap", 0, 5), "misaligned load": ("suld", "zero", 2, 0),
    "misaligned store": ("sust", "clamp", 2, 0),
}  # fmt: skip


def kernel_of(texture: dict) -> tuple[str, str]:
    shape, flags = texture["shape"], texture["flags"]
    geometry = "cube" if flags & CUBEMAP else f"{len(shape) - bool(flags & LAYERED)}d"
    kind = np.dtype(texture["dtype"]).kind
    is_float = kind == "f" or texture["read"] == "normalized_float"
    result = "f32" if is_float else {"i": "s32", "u": "u32"}[kind]
    opcode = f"{texture['opcode']}.{'a' * bool(flags & LAYERED)}{geometry}.v4.{result}"
    return fetch(opcode, texture["coordinate"])


def source() -> str:
    """All kernels."""
    kernels = dict(kernel_of(texture) for texture in textures())
    parts = ("operation", "geometry", "count", "bits", "beyond")
    kernels |= dict(access(*(surface[part] for part in parts)) for surface in SURFACES)
    kernels |= {name: SIZE % {"name": name} for name in ("txq", "suq")}
    return "\n".join(kernels.values())


def texels_of(texture: dict, random) -> np.ndarray:
    """With an axis of channels behind the others."""
    dtype, shape = np.dtype(texture["dtype"]), (*texture["shape"], texture["channels"])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        texels = random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        texels.flat[:3] = limits.min, limits.max, limits.min
        return texels
    texels = random.standard_normal(shape)
    if texture["texels"] == "wide":
        powers = {"float32": (-20, 20), "float16": (-17, 16)}[texture["dtype"]]
        texels = np.ldexp(np.clip(texels, -0.9, 0.9), random.integers(*powers, shape))
    texels = texels.astype(dtype)
    if texture["texels"] == "special":
        tiny, large = np.finfo(dtype).tiny, np.finfo(dtype).max
        texels.flat[: texels.size // 7 * 7 : 7][:8] = np.array(
            [-0.0, np.inf, tiny, tiny / 4, -large, np.nan, -np.inf, -tiny], dtype
        )[: texels.size // 7]
    return texels


def along(n: int, normalized: bool, random) -> np.ndarray:
    """LANES coordinates of an axis of n texels."""
    whole = np.concatenate([np.arange(-2, n + 3), np.arange(-2, n + 3) + 0.5]).astype("f4")
    near = [whole, *(np.nextafter(whole, np.float32(end)) for end in (-np.inf, np.inf))]
    steps = [random.integers(-1, n + 1, 40) + random.integers(0, k, 40) / k for k in (256, 512)]
    x = np.concatenate([*near, *steps, random.uniform(-2 * n, 3 * n, 60)]).astype("f4")
    special = [np.nan, np.inf, -np.inf, -0.0, -1e-40, 1e-8, -1e-8, 1e6, -1e10, 2**31, 3e38, 0.5]
    if normalized:
        x = x / np.float32(n)
    return np.concatenate([special, random.permutation(x)[: LANES - len(special)]]).astype("f4")


def coordinates(texture: dict, random) -> np.ndarray:
    """(3, LANES); of a cube map directions, some with ties."""
    if texture["flags"] & CUBEMAP:
        x = random.standard_normal((3, LANES)).astype("f4")
        x[:, 20:44] = random.integers(-3, 4, (3, 24))
        x[:, 44:48] = [[np.nan, 1, 1, np.inf], [1, np.nan, 1, 1], [1, 1, np.inf, np.inf]]
        return x
    axes = texture["shape"][bool(texture["flags"] & LAYERED) :][::-1]
    if texture["coordinate"] == "s32":
        each = [random.integers(-2, n + 2, LANES, dtype=np.int32) for n in axes]
    else:
        each = [random.permutation(along(n, texture["normalized"], random)) for n in axes]
    return np.stack([*each, *[np.zeros_like(each[0])] * (3 - len(axes))])


def accesses(surface: dict, random) -> np.ndarray:
    """int32 (3, LANES), x in bytes; no two stores to one place."""
    shape = SURFACE_SHAPES[surface["geometry"]]
    spans = (*shape[::-1], 1, 1)[:3]
    x = np.stack([random.integers(-2, n + 2, 4 * LANES) for n in spans])
    limits = np.array(spans)[:, None] - 1
    inside = np.clip(x, 0, limits)
    if surface["geometry"] == "a2d":  # a layer has no sign
        inside[2] = np.where(x[2] < 0, limits[2], inside[2])
    if surface["operation"] == "sust":
        _, first = np.unique(inside, axis=1, return_index=True)
        x = x[:, random.permutation(first)]
    x = x[:, :LANES]
    x[0] *= surface["count"] * surface["bits"] // 8
    return np.ascontiguousarray(x, np.int32)


def surface_texels(surface: dict, random) -> np.ndarray:
    size = min(surface["bits"], 32) // 8
    channels = surface["count"] * (2 if surface["bits"] == 64 else 1)
    shape = (*SURFACE_SHAPES[surface["geometry"]], channels)
    return random.integers(0, 1 << 8 * size, shape).astype(f"u{size}")


def array_of(cupy, texels: np.ndarray, flags: int):
    """A CUDA array of texels with an axis of channels, and its resource."""
    texture, (*shape, channels) = cupy.cuda.texture, texels.shape
    bits = [8 * texels.itemsize if at < channels else 0 for at in range(4)]
    form = texture.ChannelFormatDescriptor(*bits, "iuf".index(texels.dtype.kind))
    array = texture.CUDAarray(form, *shape[::-1], *[0] * (3 - len(shape)), flags)
    array.copy_from(texels.reshape(*shape[:-1], -1))
    return array, texture.ResourceDescriptor(0, cuArr=array)


def linear_memory(cupy, texels: np.ndarray):
    texture = cupy.cuda.texture
    form = texture.ChannelFormatDescriptor(32, 0, 0, 0, 2)
    array = cupy.asarray(texels.ravel())
    described = texture.ResourceDescriptor(2, arr=array, chDesc=form, sizeInBytes=texels.nbytes)
    return array, described


def fails(error: str) -> None:
    """Make an access that is an error, which ends the process's use of the GPU."""
    import cupy

    operation, beyond, x, y = ERRORS[error]
    name, text = access(operation, "2d", 1, 32, beyond)
    _array, resource = array_of(cupy, np.zeros((5, 8, 1), "u4"), SURFACE)
    surface = cupy.cuda.texture.SurfaceObject(resource)
    place, data = cupy.asarray(np.array([x, y, 0], np.int32)), cupy.zeros(1, "u4")
    kernel = cupy.RawModule(code=text).get_function(name)
    kernel((1,), (1,), (np.uint64(surface.ptr), place, data))
    cupy.cuda.Device().synchronize()


def packed(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Hundreds of small arrays as two."""
    index = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    data = b"".join(array.tobytes() for array in arrays.values())
    return {"index": np.array(json.dumps(index)), "data": np.frombuffer(data, np.uint8)}


def unpacked(file) -> dict[str, np.ndarray]:
    arrays, begin, data = {}, 0, file["data"]
    for name, dtype, shape in json.loads(str(file["index"])):
        end = begin + int(np.prod(shape)) * np.dtype(dtype).itemsize
        arrays[name], begin = data[begin:end].view(dtype).reshape(shape).copy(), end
    return arrays


def main(outdir: Path) -> None:
    import cupy

    from record_arithmetic import provenance

    module = cupy.RawModule(code=source(), options=("-std=c++17",))
    arrays: dict[str, np.ndarray] = {}

    def sizes(kernel: str, image) -> np.ndarray:
        out = cupy.zeros(3, "u4")
        module.get_function(kernel)((1,), (1,), (np.uint64(image.ptr), out))
        return out.get()

    for number, texture in enumerate(textures()):
        random, name = np.random.default_rng(number), texture["name"]
        texels, x = texels_of(texture, random), coordinates(texture, random)
        more = random.choice([0, 0.25, -1, 1.5, 10, np.nan, np.inf], (2, LANES)).astype("f4")
        layer = random.integers(-2, 6, LANES).astype(np.int32)
        axes = len(texture["shape"]) - bool(texture["flags"] & LAYERED)
        in_memory = texture["coordinate"] == "s32" and len(texture["shape"]) == 1
        kept, resource = (
            linear_memory(cupy, texels) if in_memory else array_of(cupy, texels, texture["flags"])
        )
        image = cupy.cuda.texture.TextureObject(
            resource,
            cupy.cuda.texture.TextureDescriptor(
                (MODES[texture["address"]],) * axes, int(texture["filter"] == "linear"),
                int(texture["read"] == "normalized_float"), borderColors=texture["border"],
                normalizedCoords=int(texture["normalized"]),
            ),
        )  # fmt: skip
        out = cupy.zeros((LANES, 4), "u4")
        given = [cupy.asarray(each) for each in (x, more, layer)]
        kernel, _ = kernel_of(texture)
        module.get_function(kernel)((1,), (LANES,), (np.uint64(image.ptr), *given, out))
        arrays |= {f"{name} texels": texels, f"{name} x": x, f"{name} out": out.get(),
                   f"{name} sizes": sizes("txq", image)}  # fmt: skip
        if texture["flags"] & LAYERED:
            arrays[f"{name} layer"] = layer
        if texture["opcode"] in ("tex.level", "tex.grad"):
            arrays[f"{name} more"] = more
        del kept
    for number, surface in enumerate(SURFACES):
        random, name = np.random.default_rng(1000 + number), surface["name"]
        texels, x = surface_texels(surface, random), accesses(surface, random)
        flags = SURFACE | LAYERED * (surface["geometry"] == "a2d")
        array, resource = array_of(cupy, texels, flags)
        image = cupy.cuda.texture.SurfaceObject(resource)
        dtype = f"u{max(surface['bits'], 16) // 8}"
        data = random.integers(0, 1 << 62, (x.shape[1], surface["count"])).astype(dtype)
        out, after = cupy.asarray(data), np.empty_like(texels)
        kernel, _ = access(*(surface[part] for part in list(surface)[:5]))
        module.get_function(kernel)(
            (1,), (len(data),), (np.uint64(image.ptr), cupy.asarray(x), out)
        )
        array.copy_to(after.reshape(*after.shape[:-2], -1))
        result = {"suld": out.get(), "sust": after}[surface["operation"]]
        arrays |= {f"{name} texels": texels, f"{name} x": x, f"{name} data": data,
                   f"{name} out": result, f"{name} sizes": sizes("suq", image)}  # fmt: skip
    about: dict = {"textures": textures(), "surfaces": SURFACES, **provenance(cupy)}
    about["command"] = "python ptxsim/hardware/record_textures.py OUTDIR"
    for name in ERRORS:
        command = [sys.executable, __file__, "--fails", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        about[name] = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no error"
    about_it = np.array(json.dumps(about))
    np.savez_compressed(outdir / "textures.npz", about=about_it, **packed(arrays))


if __name__ == "__main__":
    if sys.argv[1] == "--fails":
        fails(sys.argv[2])
    else:
        main(Path(sys.argv[1]))
