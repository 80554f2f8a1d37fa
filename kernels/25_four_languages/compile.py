"""Compile the kernels of this folder to PTX, into ptx.json.xz, so that readers need no compilers.

    python kernels/25_four_languages/compile.py          # in the environment of `make test-dsl`

Beside the PTX of each kernel stand its dynamic shared memory in bytes, and the package that made
it. The version that the PTX asks of a driver is lowered to that of CUDA 13.0, file names lose their
folders, and a kernel has the name of its Python function.
"""

import json
import lzma
import re
import sys
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMPILED = HERE / "ptx.json.xz"
PTX_VERSION = "9.0"
TRITON, CUTE, NUMBA = "triton", "nvidia-cutlass-dsl", "numba-cuda"


def compiled() -> dict[str, dict[str, str | int]]:
    """{kernel: {"ptx", "shared_bytes", "made_by"}}."""
    sys.path.insert(0, str(HERE))
    made = {**_of_triton(), **_of_cute(), "float32_in_numba": _of_numba()}
    return {name: _entry(name, *of_kernel) for name, of_kernel in made.items()}


def _entry(name: str, text: str, shared_bytes: int, package: str) -> dict[str, str | int]:
    (entry,) = re.findall(r"\.entry\s+(\w+)", text)
    text = re.sub(rf"\b{entry}\b", name, text.replace(f"{entry}_param", f"{name}_param"))
    text = re.sub(r"^\.version .*", f".version {PTX_VERSION}", text, flags=re.M)
    text = re.sub(r'(\.file\s+\d+\s+")[^"]*/', r"\1", text)
    # Numba counts what it has compiled in this process, and shared arrays, in their names.
    text = re.sub(r"B\dv\d+B", "B2v1B", text)
    for number, shared in enumerate(dict.fromkeys(re.findall(r"_cudapy_smem_\d+", text)), 1):
        text = re.sub(rf"\b{shared}\b", f"_cudapy_smem_of_{number}", text)
    text = text.replace("_cudapy_smem_of_", "_cudapy_smem_")
    text = re.sub(r"^\s*\.section\s+\.debug.*?^\s*\}$", "", text, flags=re.M | re.S)
    return {"ptx": text, "shared_bytes": shared_bytes, "made_by": f"{package} {version(package)}"}


def _of_triton() -> dict[str, tuple[str, int, str]]:
    import in_triton
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    def of_kernel(kernel, signature, constants, **options):
        kinds = signature | dict.fromkeys(constants, "constexpr")
        aligned = {(at,): [["tt.divisibility", 16]] for at in range(len(signature))}
        aligned = {} if "tensordesc" in str(signature) else aligned
        made = triton.compile(
            ASTSource(kernel, kinds, constants, aligned), target=GPUTarget("cuda", 90, 32),
            options=options,
        )  # fmt: skip
        return made.asm["ptx"], made.metadata.shared, TRITON

    pointers, sizes = dict.fromkeys("ABC", "*fp32"), dict.fromkeys("MNK", "i32")
    boxes = {"A": [128, 64], "B": [64, 256], "C": [128, 256]}
    descriptors = {name: f"tensordesc<fp16{box}>" for name, box in boxes.items()}
    return {
        "float32_in_triton": of_kernel(
            in_triton.float32_in_triton, pointers | dict.fromkeys("NK", "i32"),
            {"BM": 128, "BN": 128, "BK": 16}, num_warps=8, num_stages=1,
        ),
        "float16_in_triton": of_kernel(
            in_triton.float16_in_triton, descriptors | sizes,
            {"BM": 128, "BN": 256, "BK": 64, "BLOCKS": 132}, num_warps=8, num_stages=3,
        ),
    }  # fmt: skip


def _of_cute() -> dict[str, tuple[str, int, str]]:
    import in_cute
    import numpy as np

    from ptxsim.cute import launches

    made = {}
    for name, dtype in (("float32", np.float32), ("float16", np.float16)):
        A, B, C = (np.zeros((256, 256), dtype) for _ in "ABC")
        (launch,) = launches(getattr(in_cute, name), A, B, C, 256, 256, 256)
        made[f"{name}_in_cute"] = launch.text, launch.shared_bytes, CUTE
    return made


def _of_numba() -> tuple[str, int, str]:
    import in_numba
    from numba import cuda, float32, types

    matrix = types.Array(float32, 2, "C")
    text, _ = cuda.compile_ptx(
        in_numba.float32_in_numba, types.void(matrix, matrix, matrix), cc=(9, 0), lineinfo=True
    )
    return text, 0, NUMBA


if __name__ == "__main__":
    COMPILED.write_bytes(lzma.compress(json.dumps(compiled(), indent=1).encode()))
    print(COMPILED)
