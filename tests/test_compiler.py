"""Compiling: resources for any architecture, readable errors, and a hash of what matters."""

import re

import pytest

from gemmlab import folders
from gemmlab.cuda import options
from gemmlab.kernel.compiler import compile_kernel
from gemmlab.kernel.fingerprint import code_hash
from ptxsim import CompileError
from ptxsim.compile import headers as cuda_headers
from ptxsim.compile import nvrtc

KERNEL = """// A kernel.
#include "helper.cuh"
extern "C" __global__ void twice(float* x) {
    int i = threadIdx.x;  /* my element */
    x[i] = 2 * x[i];
}
"""


@pytest.fixture
def headers(tmp_path, monkeypatch):
    for module in (options, folders):
        monkeypatch.setattr(module, "INCLUDE_FOLDERS", (tmp_path,))
    (tmp_path / "helper.cuh").write_text('#include "deeper.cuh"\n')
    (tmp_path / "deeper.cuh").write_text("#define DEPTH 1\n")
    return tmp_path


def test_the_hash_does_not_see_comments_and_blanks(headers):
    plain = re.sub(r"//.*|/\*.*?\*/", "", KERNEL).replace("    ", "\t").replace("\n", "\n\n")
    assert plain != KERNEL
    assert code_hash(plain, {"A": 1, "B": 2}) == code_hash(KERNEL, {"B": 2, "A": 1})


def test_the_hash_sees_code_headers_and_the_settings_that_are_mentioned(headers):
    kernel = KERNEL.replace("x[i] = 2", "if (i < TILE) x[i] = 2")
    hashes = {
        code_hash(kernel, {"TILE": 8}),
        code_hash(kernel, {"TILE": 16}),
        code_hash(kernel, {"TILE": 8, "PTXAS": 1}),  # the assembler sees it
        code_hash(kernel.replace("2 *", "3 *"), {"TILE": 8}),
        code_hash(kernel.replace("int i", "inti"), {"TILE": 8}),
    }
    assert code_hash(kernel, {"TILE": 8, "UNKNOWN": 1}) in hashes
    (headers / "deeper.cuh").write_text("#define DEPTH 2\n")
    hashes.add(code_hash(kernel, {"TILE": 8}))
    assert len(hashes) == 6


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_120"])
def test_resources_come_from_the_compiler_for_every_architecture(arch):
    source = """extern "C" __global__ void tile(float* x) {
        __shared__ float s[64];
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = s[63 - threadIdx.x];
    }"""
    compiled = compile_kernel(source, "tile.cu", arch=arch).entries["tile"]
    assert 4 <= compiled.registers <= 32
    assert compiled.shared_bytes - 256 in (0, 1024)  # the system's own 1024 count on newer ones
    assert compiled.spilled_bytes == 0


def test_spills_and_macros_reach_the_report():
    source = """extern "C" __global__ void __launch_bounds__(1024, 2) spill(float* x) {
        float r[SIZE];
        #pragma unroll
        for (int i = 0; i < SIZE; ++i) r[i] = x[i * 1024 + threadIdx.x];
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < SIZE; ++i) x[i * 1024 + threadIdx.x] = r[SIZE - 1 - i] + r[i] * r[0];
    }"""
    few, many = (
        compile_kernel(source, "spill.cu", macros={"SIZE": size}).entries["spill"]
        for size in (4, 64)
    )
    assert few.spilled_bytes == 0 < many.spilled_bytes and many.registers == 32


def test_an_error_shows_the_lines_around_it():
    with pytest.raises(CompileError) as error:
        compile_kernel(
            KERNEL.replace('#include "helper.cuh"', "").replace("x[i];", "y[i];"), "k.cu"
        )
    message = str(error.value)
    assert 'k.cu, line 5: identifier "y" is undefined' in message
    assert re.search(r"  > +5 \|     x\[i\] = 2 \* y\[i\];", message)
    assert re.search(r"    +4 \|     int i = threadIdx.x;", message)


def test_an_architecture_that_nvrtc_does_not_know_is_named():
    with pytest.raises(CompileError, match="sm_12345"):
        compile_kernel(KERNEL, "k.cu", arch="sm_12345")


# ---- CUDA's headers ------------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Folders of headers instead of those of this machine; what is in each is for the test."""
    folders = [tmp_path / name for name in ("wheel", "toolkit")]
    for folder in folders:
        (folder / "crt").mkdir(parents=True)
        for name in ("cuda_runtime.h", "mma.h"):
            (folder / name).write_text('#include "crt/mma.h"\n' if name == "mma.h" else "")
    monkeypatch.setattr(cuda_headers, "_places", lambda: folders)
    caches = cuda_headers.folder, cuda_headers.core_libraries, nvrtc.kept
    for cached in caches:
        cached.cache_clear()
    yield folders
    for cached in caches:
        cached.cache_clear()


WMMA = '#include <mma.h>\nextern "C" __global__ void empty() { MADE }\n'


def test_missing_headers_are_named_with_what_to_install(places):
    assert cuda_headers.folder() == places[0]  # other headers may do
    assert cuda_headers.missing(places[0]) == ["crt/mma.h"]
    with pytest.raises(CompileError, match=r"(?s)crt/mma.h.*not both here: .*nvidia-cuda-crt"):
        compile_kernel(WMMA, "w.cu")
    with pytest.raises(CompileError) as error:
        compile_kernel("broken", "other.cu")
    assert "nvidia-cuda-crt" not in str(error.value)
