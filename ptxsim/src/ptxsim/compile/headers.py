"""Headers: where CUDA's own are, such as mma.h, and which others a source includes.

CUDA's own are in a wheel, a conda environment or the toolkit.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

# mma.h is a few lines that include crt/mma.h. Wheels have the two in packages of their own, so an
# environment can have the one without the other: PyTorch's for CUDA 13 does.
NEEDED = ("mma.h", "crt/mma.h")
TOOLKIT = Path("/usr/local/cuda")
CORE_HEADER = Path("nv", "target")  # which all of CUDA's C++ library needs
BESIDE_CUPY = Path("_core", "include", "cupy", "_cccl", "libcudacxx")
INSTALL = (
    "install the wheel nvidia-cuda-crt in the version of your "
    "nvidia-cuda-runtime, or set CUDA_PATH to a CUDA toolkit"
)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)
ANY_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.M)
# Of the host, from which kernels use nothing but printf and assert, which NVRTC knows without ...
HOST = (
    "algorithm", "array", "chrono", "fstream", "functional", "iomanip", "iostream", "map", "memory",
    "numeric", "random", "sstream", "stdexcept", "string", "string.h", "stdio.h", "stdlib.h",
    "sys/time.h", "thread", "time.h", "unistd.h", "vector", "assert.h", "math.h", "float.h",
    "cassert", "cfloat", "cmath", "cstdio", "cstdlib", "cstring", "ctime", "climits", "limits.h",
    "iterator", "queue", "set", "unordered_map", "mutex", "exception", "cctype", "ctype.h",
    "cstdarg", "stdarg.h", "complex", "filesystem", "dirent.h", "errno.h", "fcntl.h", "sys/mman.h",
    "sys/types.h", "sys/stat.h", "cublas_v2.h", "cublasLt.h", "curand.h", "cudnn.h", "mpi.h",
    "nccl.h", "omp.h", "helper_cuda.h", "helper_functions.h", "helper_timer.h",
    "cstdint", "stdint.h", "inttypes.h", "cuda_gl_interop.h", "cudaEGL.h",
)  # fmt: skip
OF_HOST = "".join(  # ... and these types and constants
    f"typedef signed {kind} int{bits}_t; typedef unsigned {kind} uint{bits}_t;\n"
    for bits, kind in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
)
OF_HOST += "".join(
    f"#ifndef {name}\n#define {name} {value}\n#endif\n"
    for name, value in (
        ("INFINITY", "__int_as_float(0x7f800000)"), ("NAN", "__int_as_float(0x7fffffff)"),
        ("FLT_MAX", "3.40282347e+38f"), ("FLT_MIN", "1.17549435e-38f"),
        ("FLT_EPSILON", "1.1920929e-7f"), ("DBL_MAX", "1.7976931348623157e+308"),
        ("DBL_MIN", "2.2250738585072014e-308"), ("DBL_EPSILON", "2.220446049250313e-16"),
        ("M_PI", "3.14159265358979323846"), ("INT_MAX", "2147483647"),
        ("INT_MIN", "(-2147483647 - 1)"), ("UINT_MAX", "4294967295u"), ("CHAR_BIT", "8"),
    )
)  # fmt: skip
FOLDER = re.compile(r"(?:-I|--include-path=)(.+)")  # among the options of NVRTC


@lru_cache
def folder() -> Path | None:
    """The first folder with all of NEEDED, else the first with any header of CUDA, else None."""
    folders = [place for place in _places() if (place / "cuda_runtime.h").is_file()]
    return next((place for place in folders if not missing(place)), folders[0] if folders else None)


@lru_cache
def core_libraries() -> Path | None:
    """The folder of CUDA's C++ library: of a toolkit, a wheel (nvidia-cuda-cccl), CuPy; or None."""
    places = [place for root in _places() for place in (root / "cccl", root)]
    if (cupy := find_spec("cupy")) and cupy.submodule_search_locations:
        places.append(Path(cupy.submodule_search_locations[0]) / BESIDE_CUPY)
    return next((root for root in places if (root / CORE_HEADER).is_file()), None)


def missing(where: Path | None) -> list[str]:
    """Which of NEEDED a folder lacks."""
    return [name for name in NEEDED if where is None or not (where / name).is_file()]


def are_missing(source: str) -> bool:
    """Whether CUDA C++ text includes a header of CUDA that cannot be found here."""
    included = re.findall(r"^\s*#\s*include\s*<([^>]+)>", source, re.M)
    return any(name in NEEDED for name in included) and bool(missing(folder()))


def _places() -> Iterator[Path]:
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError:  # on macOS there is no CUDA
        pass
    else:
        if headers := find_nvidia_header_directory("cudart"):
            yield Path(headers)
    named = (os.environ.get(name) for name in ("CUDA_PATH", "CUDA_HOME"))
    for toolkit in (*(Path(name) for name in named if name), TOOLKIT):
        yield toolkit / "include"
    for packages in sys.path:
        yield from sorted(Path(packages).glob("nvidia/*/include"))


def included(
    source: str, options: tuple[str, ...], form: re.Pattern = INCLUDE
) -> tuple[tuple[str, str], ...]:
    """(name, text) of each file that the source includes in quotes, also indirectly, if found.

    The name is as it is written there. `form`: ANY_INCLUDE for those in angle brackets too.
    """
    folders = [Path(match[1]) for option in options if (match := FOLDER.fullmatch(option))]
    texts: dict[tuple[Path, str], str] = {}

    def look(names: list[str], beside: list[Path]) -> None:
        for name in names:
            path = next((p for f in (*beside, *folders) if (p := f / name).is_file()), None)
            if path is not None and (path, name) not in texts:
                status = path.stat()
                texts[path, name], further = _read(path, status.st_mtime_ns, status.st_size, form)
                look(further, [path.parent])

    look(form.findall(source), [])
    return tuple((name, text) for (_, name), text in texts.items())


@lru_cache(maxsize=1024)
def _read(path: Path, modified_ns: int, size: int, form: re.Pattern) -> tuple[str, list[str]]:
    text = path.read_text(encoding="utf-8", errors="replace")
    return text, form.findall(text)


def of_host(options: tuple[str, ...]) -> dict[str, str]:
    """name -> text for NVRTC of the host's headers that are in no folder of `options`.

    They may be included by other headers, such as cuda.h. Those of the CUDA samples never count,
    nor do CUDA's own for graphics.
    """
    folders = [Path(match[1]) for option in options if (match := FOLDER.fullmatch(option))]
    return {
        name: OF_HOST
        for name in HOST
        if name.startswith(("helper_", "cuda"))
        or not any((folder / name).is_file() for folder in folders)
    }


def is_name_of_file(source: str) -> bool:
    """Whether a text is not CUDA C++ but the name of a file with it."""
    return bool(re.fullmatch(r"[^\n;{}]+\.(?:cu|cuh|cc|cpp|h|hpp)", source.strip()))
