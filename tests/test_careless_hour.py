"""A careless hour: edits of real rungs, each tried in every way that a reader has.

None of them raises what is not GEMM Lab's own, takes long, or says nothing; and on a GPU none that
could fault or hang there is launched.
"""

import re

import numpy as np
import pytest

import gemmlab as gl
from gemmlab.cuda.options import options_for
from gemmlab.kernel import in_simulator, verify
from gemmlab.kernel.checks import HARMLESS
from gemmlab.kernel.kernel import Kernel, KernelMistake
from gemmlab.notebook.exercises import check_kernel
from ptxsim import LaunchError, PtxError, UnknownInstruction

OWN = (gl.CompileError, KernelMistake, LaunchError, PtxError, UnknownInstruction)
TWO, THREE, SIX = "02_coalescing", "03_shared_memory", "06_vectorized_loads"
SETTINGS = {TWO: {}, THREE: {"TILE": 16, "BK": 16}, SIX: {"BM": 64, "BN": 64, "TM": 4, "TN": 4}}
STORE = "C[index] = alpha * sum;"
SUM = "    float sum = 0.0f;"
BARRIER = "__syncthreads();                         // both tiles are complete"
LINE = r"line \d+"

# What a reader does -> (rung, old text, new text, what must be said).
EDITS = {
    "nothing": (TWO, "Dot product", "The product", None),
    "wrong order": (TWO, "(size_t)k * N + col", "(size_t)col * K + k", None),
    "wrong factor": (TWO, STORE, "C[index] = sum;", "alpha=-1.5"),
    "wrong stride": (TWO, "(size_t)k * N", "(size_t)k * K", "FAIL|out-of-bounds read"),
    "bound left out": (TWO, "if (row >= M || col >= N) return;", "", rf"out-of-bounds.*{LINE}"),
    "bound one too far": (TWO, "row >= M ||", "row > M ||", rf"out-of-bounds.*{LINE}"),
    "before the start": (TWO, STORE, "C[index - 1] = alpha * sum;", rf"write.*{LINE}: C\[-1\]"),
    "wild pointer": (TWO, STORE, "*(float*)(index * 7919) = 1.f;", rf"out-of-bounds write.*{LINE}"),
    "null pointer": (TWO, STORE, "*(volatile float*)0 = 1.0f;", rf"write.*{LINE}"),
    "half a float": (
        TWO, SUM, "float sum = *(float*)((char*)B + 2);", rf"(aligned|bounds) read.*{LINE}",
    ),
    "writes to A": (TWO, SUM, SUM + " ((float*)A)[0] = 0.0f;", rf"forbidden.*{LINE}: writes to A"),
    "index over zero": (TWO, SUM, "float sum = A[N / (int)beta];", rf"out-of-bounds.*{LINE}"),
    "never ends": (TWO, "++k", "k += 0", "given up.*for ever"),
    "waits for a flag": (TWO, SUM, SUM + " while (((volatile float*)A)[0] < 9);", "for ever"),
    "launch bounds": (TWO, "(BLOCK_X * BLOCK_Y)", "(64)", r"at most 64: __launch_bounds__\(64\)"),
    "huge local array": (
        TWO, SUM, SUM + " float own[1 << 13]; for (int i = 0; i < K; ++i) own[i * 97 & 8191] = i;"
        " sum = 0 * own[K & 8191];", "uninitialised read",
    ),
    "huge variable": (
        TWO, SUM, "static __device__ float g[1 << 30]; float sum = g[1 << M];", None,
    ),
    "recursion": (
        TWO, SUM, "struct F { static __device__ __noinline__ float f(int n) { return n < 1 ? 1 : n"
        " * f(n - 1) + f(n - 2); } }; float sum = 0.0f * F::f(K);", rf"{LINE}: calls.*no recursion",
    ),
    "printf": (TWO, SUM, SUM + ' if (row + col == 0) printf("M is %d\\n", M);', None),
    "assert": (TWO, SUM, SUM + " assert(K < 9);", rf"failed assertion.*{LINE}: .*`K < 9`"),
    "another name": (TWO, "coalescing(const", "mine(const", "no kernel 'coalescing'; it has mine"),
    "an argument less": (TWO, ", float beta)", ")\n#define beta 0.f\n", "takes 7 arguments, not 8"),
    "a typo": (TWO, "float sum", "flot sum", f"{LINE}: identifier"),
    "a bracket less": (TWO, SUM, "{" + SUM, rf"{LINE}: expected a"),
    "a header that is not there": (
        TWO, 'extern "C"', '#include "my.h"\nextern "C"', rf"{LINE}: cannot open source file",
    ),
    "not C++": (TWO, 'extern "C"', "import numpy\nextern", f"does not compile.*{LINE}"),
    "barrier left out": (THREE, BARRIER, "", rf"race.*{LINE}"),
    "barrier in a branch": (THREE, BARRIER, "if (y) __syncthreads();", rf"barrier.*{LINE}"),
    "return before a barrier": (
        THREE, SUM, "if (row >= M || col >= N) return;" + SUM, rf"uninitialised read.*{LINE}",
    ),
    "tile far too large": (THREE, "b[BK][", "b[1 << 14][", "too much shared data"),
    "barrier for too many": (
        THREE, BARRIER, 'asm volatile("bar.sync 1, 1024;");', rf"deadlock.*{LINE}",
    ),
    "float4 anywhere": (SIX, " && N % 4 == 0 && K % 4 == 0", "", rf"misaligned read.*{LINE}"),
}  # fmt: skip


LAUNCHED = {  # on a GPU: what is right, wrong without a fault, or left to chance
    "nothing", "wrong order", "wrong factor", "huge local array", "huge variable",
    "barrier left out", "printf", "return before a barrier",
}  # fmt: skip
RIGHT = {"nothing", "huge variable", "printf"}
SEEN_BY_CHECKS_ALONE = {"barrier left out", "return before a barrier", "huge local array"}


ENDLESS = {"never ends", "waits for a flag"}


@pytest.fixture(autouse=True)
def quick(monkeypatch, request):
    """Few and small products, and little patience: seconds for all edits, and no other answers."""
    monkeypatch.setattr(verify, "shapes", lambda kernel: [(1, 1, 1), (7, 5, 3), (61, 67, 71)])
    monkeypatch.setattr(verify, "FACTORS", ((1.0, 0.0), (0.5, 2.0), (-1.5, 0.0)))
    patience = 0.1 if request.node.callspec.params["name"] in ENDLESS else 1.0
    monkeypatch.setattr(in_simulator, "SMALL_S", patience)


class FakeGpu:
    """Stands in for a GPU: its launches run in the simulator."""

    def __init__(self, monkeypatch):
        self.launches, self.faults = 0, set()
        monkeypatch.setattr(Kernel, "array_module", np)

    def take(self, kernel: Kernel) -> Kernel:
        kernel.on_gpu, kernel._loaded = True, self
        self.kernel = kernel
        return kernel

    def run(self, launches, values) -> None:
        """As on_gpu.GpuKernels has it."""
        self.launches += 1
        options = options_for(self.kernel.settings)
        for run in in_simulator.run(self.kernel.text, launches, values, options=options, limit_s=9):
            self.faults |= {finding.kind for finding in run.findings} - HARMLESS


@pytest.fixture
def fake_gpu(monkeypatch):
    return FakeGpu(monkeypatch)


def edited(name: str) -> tuple[str, str]:
    rung, old, new, _ = EDITS[name]
    text = gl.load(rung, **SETTINGS[rung]).text
    assert text.count(old) >= 1, old
    return rung, text.replace(old, new, 1)


def sentence_of(action) -> str:
    """What an action says, by its result or by an error, which is one of GEMM Lab's own."""
    try:
        return str(action())
    except OWN as error:
        return str(error)


@pytest.mark.parametrize("name", EDITS)
def test_every_way_to_try_an_edit_reports_the_mistake(name, fake_gpu, capsys):
    rung, text = edited(name)
    settings, message = SETTINGS[rung], EDITS[name][3] or ("pass" if name in RIGHT else "FAIL")
    A, B = (gl.random_matrix(*shape, seed=i) for i, shape in enumerate([(61, 71), (71, 67)]))

    def kernel():
        return gl.from_source(text, rung, **settings)

    check_kernel(text, rung, mistakes=True, **settings)
    printed = re.sub(r"M is \d+\n", "", capsys.readouterr().out)
    sentences = {
        "verify": sentence_of(lambda: kernel().verify(seed=1)),
        "verify on a GPU": sentence_of(lambda: fake_gpu.take(kernel()).verify(seed=1)),
    }
    sentence_of(lambda: fake_gpu.take(kernel())(A, B))
    assert (fake_gpu.launches > 0) == (name in LAUNCHED) and not fake_gpu.faults
    assert printed.startswith("Right: all" if name in RIGHT else "Not yet: "), printed
    if name in SEEN_BY_CHECKS_ALONE:
        del sentences["verify"]
        if name in LAUNCHED:
            del sentences["verify on a GPU"]
    for how, words in sentences.items():
        assert re.search(message, words, re.S), (how, words)
    if message.endswith(LINE) and name not in SEEN_BY_CHECKS_ALONE:
        assert re.search(LINE, printed), printed
