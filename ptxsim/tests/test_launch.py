"""What a launch refuses, and that the arrays are then as they were."""

import json
import os
import re
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import ptxsim
from ptxsim import LaunchError, machine, testing
from ptxsim.compile import nvrtc

SOURCE = """
extern __shared__ float dynamic[];
extern "C" __global__ void scale(float* x, float factor, int n) {
    __shared__ float box[1024];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    box[threadIdx.x] = i < n ? x[i] : 0.0f;
    if (i < n) x[i] = factor * box[threadIdx.x];
}
extern "C" __global__ void walk(float* x, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) sum += x[i % 4];
    x[(blockIdx.x * blockDim.x + threadIdx.x) % 4] = sum;
}
extern "C" __global__ void wait(float* x) {
    x[0] = 2.0f;
    while (((volatile float*)x)[1] != 5.0f) {}
}
extern "C" __global__ void count(float* x) {
    x[0] = 2.0f;
    for (int i = 0; i >= 0; i = (i + 1) % 7) asm volatile("");
}
"""
f4 = np.float32


def refused(entry, grid, block, args, **how) -> str:
    before = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    with pytest.raises(LaunchError) as error:
        ptxsim.launch(SOURCE, entry, grid, block, args, **how)
    for arg, old in zip(args, before, strict=True):
        assert np.array_equal(arg, old)
    return str(error.value)


def ones(count=4):
    return np.ones(count, f4)


ONE, WARP = (1, 1, 1), (32, 1, 1)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (1, "takes 3 arguments, not 1: factor, n are missing; it takes (float* x, float factor,"),
        (5, "takes 3 arguments, not 5: 5, [0, 1, 2, 3, 4, 5, ...] are too many;"),
    ],
)
def test_a_wrong_number_of_arguments_names_those(count, message):
    args = [ones(), 2.0, 4, 5, list(range(10**5))][:count]
    assert message in refused("scale", ONE, WARP, args)


@pytest.mark.parametrize(
    ("args", "what"),
    [
        ([2.0, 2.0, 4], "x = 2.0"),
        ([ones(), 2.0, 4.5], "n = 4.5"),
        ([ones(), 2.0, 2**40], "n = 1099511627776"),
        ([ones(), 2.0, True], "n = True"),
        ([ones().tolist(), 2.0, 4], "x = [1.0, 1.0, 1.0, 1.0] cannot be a parameter of "
         "type float*: pass a NumPy array, or None"),
        ([ones(), 2.0, None], "n = None"),
        ([ones().astype(">f4"), 2.0, 4],
         'x is an array of >f4, whose bytes are in the order of another machine: pass '
         'x.astype(x.dtype.newbyteorder("="))'),
        ([ones().astype(object), 2.0, 4], "x is an array of Python objects: pass one of numbers"),
        ([ones(8)[::2], 2.0, 4], "x is not C-contiguous"),
    ],
)  # fmt: skip
def test_an_argument_of_the_wrong_kind_is_named(args, what):
    assert what in refused("scale", ONE, WARP, args)


def test_a_read_only_array_is_named():
    x = ones()
    x.flags.writeable = False
    assert "x is read-only" in refused("scale", ONE, WARP, [x, 2.0, 4])


@pytest.mark.parametrize(
    ("grid", "block", "what"),
    [
        (ONE, (1025, 1, 1), "1025"),
        (ONE, (32, 33, 1), "1056 threads"),
        ((0, 1, 1), WARP, "x is 0"),
        ((1, 65536, 1), WARP, "y is 65536"),
        ((1, 1, 1, 1), WARP, "more than three"),
        (0, WARP, "grid (0, 1, 1): x is 0"),
        ("1", WARP, "grid is '1': pass an integer, or up to three: (x, y, z)"),
        (ONE, (32, 1.5), "block is (32, 1.5): pass an integer"),
    ],
)
def test_a_shape_that_no_gpu_takes_is_refused(grid, block, what):
    assert what in refused("scale", grid, block, [ones(), 2.0, 4])


@pytest.mark.parametrize(
    ("arch", "most"), [("sm_75", 64 * 1024), ("sm_86", 99 * 1024), ("sm_90a", 227 * 1024)]
)
def test_shared_memory_is_limited_by_the_architecture(arch, most):
    args = [ones(), 2.0, 4]
    ptxsim.launch(SOURCE, "scale", ONE, WARP, args, arch=arch, shared_bytes=most - 4096)
    how = {"arch": arch, "shared_bytes": most - 4095}
    message = refused("scale", ONE, WARP, [ones(), 2.0, 4], **how)
    assert str(most) in message and str(most + 1) in message and arch in message
    assert "-1" in refused("scale", ONE, WARP, [ones(), 2.0, 4], shared_bytes=-1)


def test_a_launch_that_would_take_minutes_says_so_and_how_to_go_on(monkeypatch):
    monkeypatch.setattr(ptxsim.grid, "CHUNK_LANES", 1024)
    monkeypatch.setattr(ptxsim.grid, "SEEN_S", 0.05)
    message = refused("walk", (100_000, 1, 1), (1024, 1, 1), [ones(), 2000])
    assert "minutes" in message and "blocks=[(0, 0, 0)]" in message and "limit_s=None" in message


@pytest.mark.parametrize("grid", [2, np.int64(2), (2,), [2, 1]])
def test_an_integer_is_a_shape_along_x(grid):
    x = ones(64)
    assert not ptxsim.launch(SOURCE, "scale", grid, 32, [x, 2.0, 64]).findings
    assert (x == 2).all()


@pytest.mark.parametrize("check", ["Strict", 2, None])
def test_a_launch_is_checked_or_not_or_strictly(check):
    message = refused("scale", ONE, WARP, [ones(), 2.0, 4], check=check)
    assert f'check is {check!r}: pass True, False or "strict"' in message


@pytest.mark.parametrize("limit_s", ["x", -1, float("nan"), True])
def test_a_limit_is_a_number_of_seconds(limit_s):
    message = refused("scale", ONE, WARP, [ones(), 2.0, 4], limit_s=limit_s)
    assert f"limit_s is {limit_s!r}: pass seconds, or None" in message


def test_other_threads_of_the_process_do_not_count_against_the_limit(monkeypatch):
    """The wall and the process have used up the limit, and the thread itself has not begun."""
    now = {"monotonic": 0.0, "process_time": 0.0, "thread_time": 0.0}
    clocks = {name: lambda name=name: now[name] for name in now}
    monkeypatch.setattr(machine, "time", SimpleNamespace(**clocks))
    deadline = machine.Deadline(8.0)
    with deadline.at_work():
        now.update(monotonic=20.0, process_time=80.0, thread_time=5.0)
        assert deadline.elapsed == 5.0 and not deadline.passed
        now.update(thread_time=9.0)
        assert deadline.passed
    now.update(thread_time=100.0)  # of other launches
    assert deadline.elapsed == 9.0
    now.update(monotonic=7.0)
    assert not deadline.passed


def test_a_launch_that_waits_for_ever_ends_at_its_limit():
    message = refused("count", ONE, ONE, [ones()], limit_s=0.2)
    assert "was given 0.2 seconds and takes longer, for its first blocks alone" in message


def test_a_launch_that_waits_for_what_nobody_writes_ends_at_once():
    run = ptxsim.launch(SOURCE, "wait", ONE, ONE, [ones()])
    (finding,) = run.findings
    assert finding.kind == "deadlock" and "for what nobody writes" in finding.what


# --- what a GPU refuses too -----------------------------------------------------------------------

BOUNDED = """
extern "C" __global__ void __launch_bounds__(128) bounded(float* x) {
    x[threadIdx.x + blockDim.x * threadIdx.y] = 1.0f;
}
extern "C" __global__ void __block_size__((32, 4, 1), (1, 1, 1)) fixed(float* x) {
    x[threadIdx.x + 32 * threadIdx.y] = 1.0f;
}
"""


@pytest.mark.parametrize(
    ("entry", "block", "message"),
    [
        ("bounded", (128, 1, 1), None),
        ("bounded", (16, 8, 1), None),
        ("bounded", (129, 1, 1), "129 threads.*at most 128: __launch_bounds__"),
        ("bounded", (16, 16, 1), "256 threads"),
        ("fixed", (32, 4, 1), None),
        ("fixed", (128, 1, 1), r"blocks of \(32, 4, 1\), not \(128, 1, 1\)"),
    ],
)
def test_a_block_is_held_against_what_the_kernel_was_compiled_for(entry, block, message):
    x = np.zeros(128, f4)
    if message is None:
        assert not ptxsim.launch(BOUNDED, entry, ONE, block, [x]).findings and x.all()
        return
    with pytest.raises(LaunchError, match=message):
        ptxsim.launch(BOUNDED, entry, ONE, block, [x])
    assert not x.any()


WRITES = """
extern "C" __global__ void store(float* a, float* b) { b[threadIdx.x] = 1; a[threadIdx.x + 3] = 2; }
extern "C" __global__ void add(float* a, float* b) { atomicAdd(a + threadIdx.x + 3, 1.0f); }
extern "C" __global__ void read(float* a, float* b) { b[threadIdx.x] = a[threadIdx.x]; }
"""


@pytest.mark.parametrize(("entry", "line"), [("store", 2), ("add", 3), ("read", None)])
def test_what_is_read_only_is_not_written(entry, line):
    a, b = np.zeros(64, f4), np.zeros(64, f4)
    a.flags.writeable = False
    run = ptxsim.launch(WRITES, entry, ONE, WARP, [ptxsim.read_only(a), b], count=True)
    assert not a.any()
    if line is None:
        assert not run.findings
        return
    (finding,) = run.findings
    assert (finding.kind, finding.line, finding.lanes) == ("forbidden write", line, 32)
    assert "writes to a[3], and a is an input" in str(finding)
    run.accesses((0, 0, 0))  # which runs the block once more
    assert not a.any()


def test_a_large_variable_takes_the_memory_that_is_used():
    source = """__device__ float g[1 << 29];
    extern "C" __global__ void k(float* x) { g[1 << 27] = 7; x[0] = g[1 << 27] + g[3]; }"""
    before, x = _memory_peak(), ones()
    assert not ptxsim.launch(source, "k", ONE, ONE, [x]).findings and x[0] == 7
    assert _memory_peak() - before < 2**28  # of 2**31 bytes
    with pytest.raises(LaunchError, match="g alone has 68,719,476,736 bytes"):
        ptxsim.launch(source.replace("1 << 29", "1ll << 34"), "k", ONE, ONE, [x])


def _memory_peak() -> int:
    """Bytes of this process that were in memory at once."""
    resource = pytest.importorskip("resource", reason="Windows does not tell it")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def test_large_local_arrays_are_run_some_blocks_at_a_time_or_refused(monkeypatch):
    monkeypatch.setattr(ptxsim.grid, "LOCAL_BYTES", 1 << 22)
    source = """extern "C" __global__ void k(float* x, int n) {
        float own[50000];
        for (int i = 0; i < n; ++i) own[i * 7919 % 50000] = i;
        x[blockIdx.x * blockDim.x + threadIdx.x] = own[n];
    }"""
    args = [np.zeros(512, f4), 7]
    ptxsim.launch(source, "k", ONE, ONE, args)  # whatever is kept of the kernel
    tracemalloc.start()
    try:
        assert not ptxsim.launch(source, "k", (16, 1, 1), WARP, args).findings
        assert tracemalloc.get_traced_memory()[1] < 2**25  # of 16 * 32 * 200000 bytes
    finally:
        tracemalloc.stop()
    with pytest.raises(LaunchError, match="2,000,000 bytes of local memory"):
        ptxsim.launch(source.replace("50000", "500000"), "k", ONE, ONE, args)


# ---- pointers into arrays, and arrays of them ----------------------------------------------------

GATHER = """
extern "C" __global__ void gather(const float* const* rows, const float* more, float* out, int n)
{
    const int i = threadIdx.x;
    for (int row = 0; row < n; ++row) out[row * 32 + i] = rows[row][i] + more[i];
}
"""


def gathered(rows, more, out, n, **how):
    return ptxsim.launch(GATHER, "gather", (1, 1, 1), (32, 1, 1), [rows, more, out, n], **how)


def test_an_array_of_pointers_leads_to_parts_of_an_array():
    x, y = np.arange(200, dtype=np.float32), np.arange(100, 148, dtype=np.float32)
    out = np.zeros((4, 32), np.float32)
    starts = [5, 100, 5, 0]
    run = gathered(ptxsim.Pointers(x, starts), ptxsim.Part(y, 16), out, 4, count=True)
    expected = [x[start : start + 32] + y[16:] for start in starts]
    assert np.array_equal(out, expected) and not run.findings
    assert {line.array for line in run.lines} >= {"rows", "more", "out"}


def test_pointers_past_the_end_and_into_what_is_read_only_or_unwritten_are_findings():
    x, out = np.zeros(64, np.float32), np.zeros((2, 32), np.float32)
    (finding,) = gathered(ptxsim.Pointers(x, [0, 40]), x.copy(), out, 2).findings
    assert finding.kind.startswith("out-of-bounds") and "rows[64] of 64 elements" in finding.what
    (finding,) = gathered(
        ptxsim.Pointers(ptxsim.uninitialised(x), [0, 16]), x.copy(), out, 2, check=True
    ).findings
    assert "uninitialised" in finding.kind
    (finding,) = gathered(ptxsim.Pointers(x, [0, 16]), x.copy(), ptxsim.read_only(out), 2).findings
    assert "out is an input" in finding.what
    (finding,) = gathered(ptxsim.Pointers(x, [0, 0]), ptxsim.Part(x, 33), out, 2).findings
    assert finding.kind.startswith("out-of-bounds")


def test_none_is_a_null_pointer_alone_and_in_a_structure():
    source = """struct View { float* data; int count; };
    extern "C" __global__ void k(const float* bias, View view, float* out, size_t n) {
        out[threadIdx.x] = (bias ? bias[threadIdx.x] : 0) + (view.data ? 1 : view.count);
    }"""
    out = ones(32)
    args = [None, ptxsim.Structure(None, np.int32(7)), out, 1]
    assert not ptxsim.launch(source, "k", 1, 32, args, check=True).findings
    assert (out == 7).all()
    with pytest.raises(LaunchError, match="n = None cannot be a parameter of type size_t"):
        ptxsim.launch(source, "k", 1, 32, [*args[:3], None])


# ---- element types of pointers -------------------------------------------------------------------

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
PAIR = np.dtype([("x", "f4"), ("y", "f4")])
MIXED = np.dtype([("x", "f4"), ("n", "i4")])
TAKEN = {
    "const float*": ["f4", "c8", PAIR, "V4"], "float *const __restrict__": ["f4"],
    "volatile double*": ["f8", "c16"], "int*": ["i4", "u4"],
    "unsigned long long int*": ["i8", "u8"], "long*": [np.dtype("l"), np.dtype("L")],
    "short*": ["i2", "u2", "f2", BF16],
    "cuda::std::uint8_t*": ["u1", "i1", "?", E4M3, "S1"],
    "char*": ["i1", "f4", "f8", MIXED, BF16], "void*": ["f4", "f8", MIXED],
    "__half*": ["f2", "u2", "i2"], "half2*": ["f2", "u2", "u4"],
    "const __nv_bfloat16*": [BF16, "u2"], "__nv_fp8_e4m3*": ["u1", E4M3],
    "float4*": ["f4", PAIR], "uint4*": ["f4", "f2", "u4", "f8"], "Mine*": ["f8", "i4", MIXED],
}  # fmt: skip
REFUSED = {
    "const float*": {"f8": "np.float32", "i4": "np.float32), or x.view(np.float32), which has the",
                     "f2": "np.float32", MIXED: "np.float32", BF16: "np.float32"},
    "int*": {"i8": "np.int32", "f4": "np.int32), or x.view(np.int32)"},
    "uint32_t*": {"f4": "np.uint32"},
    "uint8_t*": {"f4": "np.uint8", "i4": "np.uint8"},
    "half*": {"f4": "np.float16", BF16: "np.float16"},
    "const __nv_bfloat16*": {"f4": "ml_dtypes.bfloat16, or its bits as uint16", "f2": "ml_dtypes"},
    "float4*": {"f8": "np.float32"},
    "Number*": {"f8": "np.float32"},
    "half2*": {"f4": "np.float16"},
}  # fmt: skip
POINTER = """
#include <cuda/std/cstdint>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
using cuda::std::uint8_t;
typedef unsigned int uint32_t;
using Number = float;
struct Mine {{ float x; int n; }};
extern "C" __global__ void k({} x) {{}}
"""


def given(pointer: str, dtype):
    return ptxsim.launch(POINTER.format(pointer), "k", 1, 1, [np.zeros(8, dtype)], by_symbol=True)


@pytest.mark.parametrize("pointer", TAKEN)
def test_a_pointer_takes_arrays_of_its_elements(pointer):
    for dtype in TAKEN[pointer]:
        assert given(pointer, dtype).findings == []


@pytest.mark.parametrize("pointer", REFUSED)
def test_a_pointer_refuses_arrays_of_other_elements(pointer):
    for dtype, right in REFUSED[pointer].items():
        with pytest.raises(LaunchError) as error:
            given(pointer, dtype)
        message = str(error.value)
        assert (
            f"x is an array of {np.dtype(dtype)}, and the kernel takes it as {pointer}:" in message
        )
        assert right in message


def test_marked_arrays_and_parts_are_looked_at_too():
    x = np.zeros(64)
    for arg in (ptxsim.read_only(x), ptxsim.uninitialised(x), ptxsim.Part(x, 3),
                ptxsim.Part(ptxsim.read_only(x), 3)):  # fmt: skip
        with pytest.raises(LaunchError, match=r"x is an array of float64.* as float\*"):
            ptxsim.launch(SOURCE, "scale", 1, 32, [arg, 2.0, 4])
    with pytest.raises(LaunchError, match="numbers is an array of float64"):
        ptxsim.launch(SOURCE, "scale", 1, 32, [x, 2.0, 4], names=("numbers", "by", "n"))


@pytest.mark.parametrize(
    "before",
    [
        "template <typename half> ",
        "struct half { float x; };",
        "#define half float\n",
        "__global__ void k(half* x) { *(float*)x = 3; }\n",
    ],
)
def test_what_the_source_itself_gives_another_meaning_or_has_twice_is_not_refused(before):
    kernel = "__global__ void k(half* x, int n = 1) { *(float*)x = 2; }"
    twice = "__global__" in before
    source = f"{'#include <cuda_fp16.h>' if twice else ''}\n{before}{kernel}"
    entry = "k<float>" if "template" in before else "k"
    x = ones()
    if twice:  # the one without n
        ptxsim.launch(source, "_Z1kP6__half", 1, 1, [x])
    else:
        ptxsim.launch(source, entry, 1, 1, [x, 1])
    assert x[0] == (3 if twice else 2)


# ---- files ---------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A kernel in a file, with a header beside it, and one that this includes from a folder."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "far.h").write_text(
        "\n\n__device__ float far(float* x, int i) { return x[i + 64]; }\n"
    )
    (tmp_path / "helper.h").write_text(
        '#include "deep/far.h"\n__device__ float near(float* x, int i) { return x[i + 1]; }\n'
    )
    (tmp_path / "add.cu").write_text(
        '#include "helper.h"\nextern "C" __global__ void add(float* x, float* y) {\n'
        "    y[threadIdx.x] = near(x, threadIdx.x) +\n"
        "                     far(x, threadIdx.x);\n}\n"
    )
    return tmp_path / "add.cu"


def test_headers_are_found_beside_the_file_and_findings_name_their_lines(project):
    x, y = ones(32), ones(32)
    run = ptxsim.launch(project, "add", 1, 32, [x, y])
    where = {(finding.line, finding.header) for finding in run.findings}
    assert where == {(3, "helper.h, line 2"), (4, "far.h, line 3")}
    assert "'add', line 3 (helper.h, line 2): x[32] of 32 elements" in str(run.findings[0])


def test_a_finding_in_a_kernel_of_a_header_names_the_header(tmp_path):
    (tmp_path / "kernels.h").write_text(
        'extern "C" __global__ void add(float* x) {\n    x[threadIdx.x + 1] = 1;\n}\n'
    )
    (tmp_path / "all.cu").write_text("#include <kernels.h>\n")
    folder = f"-I{tmp_path}"
    run = ptxsim.launch(tmp_path / "all.cu", "add", 1, 32, [ones(32)], options=(folder,))
    assert run.findings[0].place == ("kernels.h", 2)
    assert "in kernel 'add', kernels.h, line 2: " in str(run.findings[0])
    (sarif,) = json.loads(testing.as_sarif(run.findings, tmp_path / "all.cu"))["runs"]
    place = sarif["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == (tmp_path / "kernels.h").as_posix()
    assert place["region"]["startLine"] == 2


def test_a_header_that_changed_is_compiled_anew(project):
    x, y = ones(128), ones(32)
    ptxsim.launch(project, "add", 1, 32, [x, y])
    assert (y == 2).all()
    header = project.parent / "deep" / "far.h"
    header.write_text(header.read_text().replace("x[i + 64]", "5"))
    os.utime(header, ns=(0, 0))  # whatever the clock of the file system tells apart
    ptxsim.launch(project, "add", 1, 32, [x, y])
    assert (y == 6).all()
    ptxsim.launch(project.read_text(), "add", 1, 32, [x, y], options=(f"-I{project.parent}",))
    assert (y == 6).all()


@pytest.mark.parametrize("quotes", ['""', "<>"])
def test_what_is_compiled_is_kept_for_others_by_all_that_it_is_made_of(
    project, tmp_path, monkeypatch, quotes
):
    kept = tmp_path / "new" / "kept"
    monkeypatch.setenv(nvrtc.KEPT, str(kept))
    text, folder = project.read_text(), f"-I{project.parent}"
    text = text.replace('"helper.h"', f"{quotes[0]}helper.h{quotes[1]}")
    program = nvrtc.compile_anew(text, "add.cu", options=(folder,))
    assert program.ptx and program.cubin and "registers" in program.log
    compiled = []
    monkeypatch.setattr(
        nvrtc.Library, "_compile", lambda self, *given: compiled.append(given) or program
    )
    assert nvrtc.compile_anew(text, "add.cu", options=(folder,)) == program and not compiled
    others = ((text + "//", (folder,), "sm_90a"), (text, (folder, "-DX"), "sm_90a"))
    for source, options, arch in (*others, (text, (folder,), "sm_80")):
        nvrtc.compile_anew(source, "add.cu", options=options, arch=arch)
    header = project.parent / "deep" / "far.h"
    header.write_text(header.read_text().replace("64", "5"))
    nvrtc.compile_anew(text, "add.cu", options=(folder,))
    assert len(compiled) == 4
    for path in kept.iterdir():
        path.write_bytes(path.read_bytes()[:-9])
    nvrtc.compile_anew(text, "add.cu", options=(folder,))
    assert len(compiled) == 5


def test_an_error_in_a_header_names_the_header(project):
    header = project.parent / "helper.h"
    header.write_text(header.read_text().replace("x[i + 1]", "z"))
    with pytest.raises(ptxsim.CompileError) as error:
        ptxsim.launch(project, "add", 1, 32, [ones(), ones()])
    assert "add.cu does not compile" in str(error.value)
    assert 'helper.h, line 2: identifier "z" is undefined' in str(error.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("add.cu", r"'add.cu', .* but the name of a file: pass Path\('add.cu'\)"),
        ("/some where/add.cuh", r"pass Path\('/some where/add.cuh'\)"),
        (b"int;", "source is b'int;', of type bytes: pass CUDA C"),
        (None, "source is None"),
    ],
)
def test_a_source_that_is_not_text_is_refused(source, message):
    with pytest.raises(LaunchError, match=message):
        ptxsim.launch(source, "add", 1, 32, [])


# --- PTX of any compiler --------------------------------------------------------------------------

SCALED = """extern "C" __global__ void scale(float* x, int n)
{
    __shared__ float part[64];
    part[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = part[63 - threadIdx.x];
}
"""


def test_ptx_gives_what_its_source_gives():
    text = nvrtc.translate_source(SCALED, "some.cu").ptx
    x, same = np.arange(64, dtype=np.float32), np.arange(64, dtype=np.float32)
    run = ptxsim.launch_ptx(text, "scale", 1, 64, [x, 64], check=True, count=True)
    again = ptxsim.launch(SCALED, "scale", 1, 64, [same, 64], check=True, count=True)
    np.testing.assert_array_equal(x, same)
    assert run.counters == again.counters
    assert [f.line for f in run.findings] == [f.line for f in again.findings] == [5]


def test_ptx_without_line_numbers_has_its_own():
    text = nvrtc.translate_source(SCALED, "some.cu").ptx
    bare = re.sub(r"^\s*\.(?:loc|file).*\n", "", text, flags=re.M)
    x = np.arange(64, dtype=np.float32)
    (finding,) = ptxsim.launch_ptx(bare, "scale", 1, 64, [x, 64], check=True).findings
    assert "ld.shared" in bare.splitlines()[finding.line - 1]


def test_a_finding_in_inline_assembly_of_several_lines_is_at_the_statement_s_line():
    """As LLVM writes a load of Triton's: the second line of the text counts as line 8."""
    text = """.version 8.0\n.target sm_90\n.address_size 64
        .visible .entry k(.param .u64 k_param_0) {
        .reg .b32 %r<2>; .reg .b64 %rd<2>;
        .loc 1 7 9
        ld.param.u64 %rd1, [k_param_0];
        // begin inline asm
        .loc 1 7 9
        mov.u32 %r1, 0x0;
        .loc 1 8 9
        ld.global.b32 { %r1 }, [ %rd1 + 4 ];
        // end inline asm
        .loc 1 9 9
        st.global.b32 [ %rd1 + 8 ], %r1;
        ret; }
        .file 1 "kernel.py"
    """
    run = ptxsim.launch_ptx(text, "k", 1, 1, [np.zeros(1, np.float32)], check=True)
    assert [(f.kind, f.line) for f in run.findings] == [
        ("out-of-bounds read", 7), ("out-of-bounds write", 9),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text, entry, message",
    [("int i;", "k", "is not PTX"), (None, "scale", "has no kernel 'scale'; it has other")],
)
def test_what_is_no_ptx_is_refused(text, entry, message):
    text = text or nvrtc.translate_source(SCALED.replace("scale", "other"), "some.cu").ptx
    with pytest.raises(ptxsim.LaunchError, match=message):
        ptxsim.launch_ptx(text, entry, 1, 1, [])


def test_what_blackwell_adds_to_float32():
    source = r"""extern "C" __global__ void k(const float* x, float* out)
    {
        const int i = threadIdx.x;
        float most, high;
        unsigned long long pair = ((const unsigned long long*)x)[i], result;
        asm("max.f32 %0, %1, %2, %3;" : "=f"(most) : "f"(x[i]), "f"(x[i + 1]), "f"(x[i + 2]));
        asm("fma.rn.f32x2 %0, %1, %1, %1;" : "=l"(result) : "l"(pair));
        asm("mov.b64 {_, %0}, %1;" : "=f"(high) : "l"(result));
        out[i] = most + high;
    }"""
    x, out = np.random.default_rng(0).standard_normal(64).astype(np.float32), np.zeros(16, "f4")
    ptxsim.launch(source, "k", 1, 16, [x, out], arch="sm_100a")
    most = np.lib.stride_tricks.sliding_window_view(x, 3)[:16].max(axis=1)
    high = x[1:33:2].astype(np.float64)
    np.testing.assert_array_equal(out, most + (high * high + high).astype(np.float32))


# --- tensors of others ----------------------------------------------------------------------------


class Tensor:
    """What a library exports by DLPack, and nothing else."""

    def __init__(self, array, device=1):
        self.array, self.device = array, device

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.device, 0


class TorchTensor(Tensor):
    """As PyTorch's: its own way to NumPy, and a type that NumPy does not have."""

    dtype = "torch.bfloat16"

    def detach(self):
        return self

    def view(self, dtype):
        return SimpleNamespace(numpy=lambda: self.array.view(dtype))


def test_tensors_share_their_memory():
    x = np.arange(8, dtype=np.float32)
    ptxsim.launch(SOURCE, "scale", 1, 32, [Tensor(x), 2.0, 8])
    np.testing.assert_array_equal(x, 2 * np.arange(8))


def test_bfloat16_of_pytorch_is_taken_as_its_bits(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(int16=np.int16))
    source = """#include <cuda_bf16.h>
    extern "C" __global__ void twice(__nv_bfloat16* x) { x[threadIdx.x] += x[threadIdx.x]; }"""
    x = np.arange(8).astype(ml_dtypes.bfloat16)
    ptxsim.launch(source, "twice", 1, 8, [TorchTensor(x)])
    np.testing.assert_array_equal(x.astype(np.float32), 2 * np.arange(8))


def test_a_tensor_on_a_gpu_is_refused():
    with pytest.raises(LaunchError, match="a Tensor is on a GPU: pass one in the CPU's memory"):
        ptxsim.launch(SOURCE, "scale", 1, 32, [Tensor(np.zeros(8, np.float32), 2), 2.0, 8])
