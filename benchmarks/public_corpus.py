"""Run the kernels of public repositories in the simulator: plain, counted and checked.

    python benchmarks/public_corpus.py FOLDER [FOLDER …] [--seconds 20] [--list FILE]

Takes every kernel of every .cu file below the folders, with arrays of random numbers for pointers,
textures and surfaces of random numbers, and 64 for integers, those in structures too, and compares
the arrays that the three launches leave, byte by byte. A file that does not compile alone is
compiled with the .cu file that includes it. What a kernel computes is not looked at, so a launch
need not make sense: it must be refused, or leave the same three times, and never end in an error of
Python. Prints how many did what; FILE gets a line for each kernel. Ends with 1 where one is wrong.
No source is kept.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np

import ptxsim
from ptxsim import arguments, launcher, ptx
from ptxsim.architectures import SIMULATED_ARCH
from ptxsim.compile import headers
from ptxsim.host_code import COMMENT, closing
from ptxsim.textures import Image

ELEMENTS, INTEGER, NUMBER = 1 << 18, 64, 0.5  # of each array; scalars
THREADS, SHARED_BYTES = 256, 32 << 10  # of a block; dynamic ones
KERNEL = re.compile(r"__global__[^;{}]*?\b(?!__launch_bounds__)(\w+)\s*\([^;{}]*?\)\s*\{")
INSTANCE = r"\b{}\s*(<[\w\s,:]+>)\s*<<<"
OF_TEMPLATE = re.compile(r"\b(typename|class|int)\s+(\w+)\s*[,>]")
NAMESPACE = re.compile(r"\bnamespace\s+(\w+)\s*\{")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+\.cu)"', re.M)
HALVES = {"half", "__half", "half2", "__half2", "__nv_bfloat16", "__nv_bfloat162", "nv_bfloat16"}
IMAGES = {"tex", "tld4", "suld", "sust"}
SHAPES = {
    "1d": (256,), "2d": (64, 64), "3d": (16, 16, 16), "a1d": (4, 256), "a2d": (4, 64, 64),
    "cube": (6, 64, 64), "acube": (12, 64, 64),
}  # fmt: skip
NO_LAUNCH = (ptxsim.LaunchError, ptxsim.UnknownInstruction, ptxsim.PtxError)
WRONG = {"differs", "error of Python"}


def read(file: Path) -> str:
    return COMMENT.sub(" ", file.read_text(encoding="utf-8", errors="replace"))


def cases(file: Path, programs: list[Path]) -> Iterator[tuple[str, str, bool]]:
    """(kernel, with the arguments of its template; body; whether a template without arguments).

    `programs`: the file, and those that include it.
    """
    text, launches = read(file), "".join(map(read, programs))
    for kernel in KERNEL.finditer(text):
        begin = text.rfind("}", 0, kernel.start()) + 1
        is_template = "template" in text[begin : kernel.start()]
        instance = re.search(INSTANCE.format(kernel[1]), launches) if is_template else None
        given = instance[1] if instance else ""
        for kind, name in OF_TEMPLATE.findall(launches):
            given = re.sub(rf"\b{name}\b", str(INTEGER) if kind == "int" else "float", given)
        scope = "".join(
            f"{space[1]}::"
            for space in NAMESPACE.finditer(text, 0, kernel.start())
            if closing(text, space.end(), "{}") > kernel.start()
        )
        yield scope + kernel[1] + given, text[kernel.start() :], is_template and not instance


def images_of(kernel: ptx.Kernel, random: np.random.Generator) -> dict[tuple[str, int], Image]:
    """The textures and surfaces that are parameters, by name and byte within a structure."""
    places: dict[ptx.Register, tuple[str, int]] = {}  # of what is in a register
    made: dict[tuple[str, int], Image] = {}
    for instruction in kernel.instructions:
        target, *sources = instruction.operands or (None,)
        source = sources[0] if sources else None
        if instruction.opcode.startswith("ld.param") and isinstance(source.base, ptx.Symbol):
            places[target] = source.base.name, source.offset
        elif instruction.name in ("mov", "cvta") and source in places:
            places[target] = places[source]
        for operand in instruction.operands:
            place = places.get(getattr(operand, "base", None))
            if instruction.name in IMAGES and isinstance(operand, ptx.Coordinates) and place:
                made.setdefault(place, image(instruction.parts, random))
    return made


def image(parts: tuple[str, ...], random: np.random.Generator) -> Image:
    """A texture or a surface of random numbers that an instruction of these parts may use."""
    (geometry,) = set(parts) & SHAPES.keys()
    shape = SHAPES[geometry]
    stacked = {"layered": geometry.startswith("a")}
    if parts[0] not in ("suld", "sust"):
        stacked |= {"cubemap": "cube" in geometry}
        if "f32" in parts[-2:-1]:
            numbers = random.standard_normal(shape).astype(np.float32)
            return ptxsim.Texture(numbers, filter_mode="linear", normalized_coords=True, **stacked)
        numbers = random.integers(0, 256, shape).astype(np.uint8)
        return ptxsim.Texture(numbers, normalized_coords=stacked["cubemap"], **stacked)
    bits, values = int(parts[-2][1:]), int("".join(parts[3:-2]).lstrip("v") or 1)
    channels = values * max(1, bits // 32)
    numbers = random.integers(0, 256, (*shape, channels)).astype(f"u{min(bits, 32) // 8}")
    array = numbers if channels > 1 else numbers[..., 0]
    return ptxsim.Surface(array, channels=channels, **stacked)


def argument(
    parameter: arguments.Parameter, name: str, ptx_type: str, images: dict,
    random: np.random.Generator,
):  # fmt: skip
    """`name`: that in the PTX; `images`: the textures and surfaces of the kernel."""
    if structure := ptx.STRUCTURE.match(ptx_type):
        data = bytearray(np.full(-(-int(structure[2]) // 4), INTEGER, "i4").tobytes())
        for begin in (begin for inner, begin in images if inner == name):
            data[begin : begin + 8] = images[name, begin].handle.to_bytes(8, "little")
        return bytes(data[: int(structure[2])])
    if (name, 0) in images:
        return images[name, 0]
    declared = " ".join(word for word in parameter.declared.split() if word != "const")
    if "*" in declared or parameter.element:
        name = parameter.element or declared.rstrip("* ")
        if name in HALVES:
            return random.standard_normal(ELEMENTS).astype(np.float16).view(np.uint16)
        dtype = np.dtype(parameter.usual if parameter.element else "f4")
        if dtype.kind in "iub":
            return random.integers(0, 4, ELEMENTS).astype(dtype)
        return random.standard_normal(ELEMENTS).astype(dtype)
    return NUMBER if ptx.type_of(ptx_type).kind == "f" else INTEGER


def outcome(file: Path, entry: str, body: str, options: tuple[str, ...], seconds: float) -> str:
    text, name, all_options = launcher._source(file, options)
    kernel = launcher._find(text, name, SIMULATED_ARCH, all_options, entry, by_symbol=False)
    if not re.search(rf"\b{arguments.source_name(entry)}\s*\(", text):
        text = "\n".join(content for _, content in headers.included(text, all_options))
    declared = arguments.of_kernel(text, entry, len(kernel.parameters))
    threads = min(THREADS, kernel.most_threads or THREADS)
    block = kernel.block or ((16, threads // 16) if "threadIdx.y" in body else (threads,))
    grid = (2,) * (1 + max("blockIdx.y" in body, 2 * ("blockIdx.z" in body)))
    results, findings = [], []
    for mode in ({}, {"count": True}, {"check": True}):
        how = {"options": options, "limit_s": seconds, **mode}
        random = np.random.default_rng(0)
        images = images_of(kernel, random)
        args = [
            argument(parameter, *in_ptx, images, random)
            for parameter, in_ptx in zip(declared, kernel.parameters, strict=True)
        ]
        shared = SHARED_BYTES if "extern __shared__" in body else 0
        run = ptxsim.launch(file, entry, grid, block, args, shared_bytes=shared, **how)
        changed = [*args, *(each.array for each in images.values())]
        results.append([each.tobytes() for each in changed if isinstance(each, np.ndarray)])
        findings += [finding.kind for finding in run.findings]
    same = results[0] == results[1] == results[2]
    kinds = ", ".join(sorted(set(findings)))
    if kinds:
        return f"same, with findings: {kinds}" if same else f"differs, with findings: {kinds}"
    return "same" if same else "differs"


def judged(
    programs: list[Path], entry: str, body: str, options: tuple[str, ...], seconds: float
) -> str:
    """`programs`: the file of the kernel, and those that include it, which may compile instead."""
    program, *larger = programs
    try:
        with redirect_stdout(StringIO()):
            return outcome(program, entry, body, options, seconds)
    except ptxsim.CompileError as error:
        if larger:
            return judged(larger, entry, body, options, seconds)
        return f"does not compile: {str(error).splitlines()[2]}"
    except ptxsim.TakesTooLong:
        return "takes too long"
    except NO_LAUNCH as error:
        return f"refused: {error}"
    except Exception:
        return "error of Python: " + traceback.format_exc().replace("\n", " | ")


def main() -> int:
    parser = argparse.ArgumentParser(description="Public kernels: plain, counted and checked.")
    parser.add_argument("folder", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=20, help="for one launch")
    parser.add_argument("--list", type=Path, help="gets a line for each kernel")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    counts: Counter[str] = Counter()
    lines = []
    for folder in given.folder:
        includes = (
            folder,
            folder / "common",
            folder / "Common",
            folder / "include",
            folder / "src",
        )
        options = tuple(f"-I{place}" for place in includes if place.is_dir())
        files = sorted(folder.rglob("*.cu"))
        includes_it = {
            (file.parent / name).resolve(): file
            for file in files
            for name in INCLUDE.findall(read(file))
        }
        for file in files:
            programs = [file]
            while (larger := includes_it.get(programs[-1].resolve())) is not None:
                programs.append(larger)
            for entry, body, is_open in cases(file, programs):
                outcome = "a template"
                if not is_open:
                    outcome = judged(programs, entry, body, options, given.seconds)
                counts[outcome.partition(":")[0]] += 1
                lines.append(f"{file.relative_to(folder)}: {entry}: {outcome}")
                print(lines[-1][:160], file=sys.stderr)
    if given.list:
        given.list.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for what, count in counts.most_common():
        print(f"{count:5} {what}")
    return int(any(counts[what] for what in WRONG))


if __name__ == "__main__":
    sys.exit(main())
