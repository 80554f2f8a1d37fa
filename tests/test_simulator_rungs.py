"""Every rung in the simulator: its PTX is read, checks find nothing, and counts are as expected."""

import re

import nbformat
import numpy as np
import pytest

import gemmlab as gl
from gemmlab.folders import NOTEBOOKS
from gemmlab.kernel.compiler import options_for
from gemmlab.ladder import SINGLE
from ptxsim import ptx
from ptxsim.arithmetic import exactness, multiply_add
from ptxsim.compile import nvrtc

f4 = np.float32
every_rung = pytest.mark.parametrize("rung", gl.RUNGS, ids=lambda rung: rung.name)


def test_no_rung_has_a_finding():
    """Most notebooks show it; the others are checked here."""
    for rung in gl.RUNGS:
        cells = nbformat.read(NOTEBOOKS / f"{rung.name}.ipynb", as_version=4).cells
        shown = [c.outputs for c in cells if c.source.strip() == "kernel.check()"]
        if shown:
            assert re.search(r"\b(\d+) of \1 cases pass", str(shown)), rung
            continue
        report = gl.load(rung.name).check()
        assert report.passed and len(report.cases) >= 4, report


def check_blocks(kernel: ptx.Kernel, source: str, begins_unset: bool = False) -> None:
    instructions = kernel.instructions
    assert instructions[-1].name in ("ret", "bra") and instructions[-1].predicate is None
    assert [i for b in kernel.blocks.values() for i in range(b.start, b.end)] == [
        i.index for i in instructions
    ]  # every instruction in one block
    for block in kernel.blocks.values():
        assert not any(i.name in ptx.ENDS_BLOCK for i in instructions[block.start : block.end - 1])
    used = {name for i in instructions for name in i.uses | i.defines}
    assert used and used <= kernel.registers.keys()
    assert bool(kernel.blocks[0].live_in) == begins_unset  # else all is written before it is read
    # From sm_100 on, the compiler leaves a few accesses at the line before.
    lines = source.splitlines()
    accesses = [i for i in instructions if i.name in ("ld", "st") and "param" not in i.parts]
    at = [lines[i.line - 1] for i in accesses]
    at = [line for line in at if line.strip() != "}"]  # the end of what was put in for a call
    # The last: a call of a function of the kernel file or of a header.
    calls = "read|load|fetch|keep|store|multiply|put|take|add|combine|send|leave"
    calls += "|copy|prologue|mainloop|epilogue|producer|consumer|apply"
    names_memory = re.compile(rf"\[|\*|\b({calls})\w*[<(]")
    assert sum(bool(names_memory.search(line)) for line in at) >= 0.9 * len(at)


@every_rung
def test_every_rung_is_read(rung):
    text = rung.path.read_text(encoding="utf-8")
    settings = gl.load(rung.name).settings
    program = nvrtc.compile_source(text, rung.path.name, options=options_for(settings))
    # Sums: the first products of a tile, or of a set, add nothing.
    begins_unset = rung.name in ("18_persistent", "19_fp8")
    check_blocks(ptx.parse(program.ptx, rung.path.name)[rung.entry(settings)], text, begins_unset)


def operands_of(rung, m, n, k, scale=1.0):
    """A and B; of a rung that takes batches, a batch of one."""
    A, B = gl.random_matrix(m, k, 1) * f4(scale), gl.random_matrix(k, n, 2) * f4(scale)
    return (A[None], B[None]) if rung.batch > 1 else (A, B)


every_float32_rung = pytest.mark.parametrize(
    "rung", [r for r in gl.RUNGS if r.precision is SINGLE], ids=lambda rung: rung.name
)


@every_float32_rung
@pytest.mark.parametrize("scale", [1.0, 2.0**-30, 2.0**-60])
def test_a_product_is_the_same_with_nothing_known(rung, scale, monkeypatch):
    kernel = gl.load(rung.name)
    A, B = operands_of(rung, 67, 35, 90, scale)
    expected = kernel(A, B, alpha=0.3)
    monkeypatch.setattr(exactness, "known_sums", lambda given: exactness.nothing_known())
    assert kernel(A, B, alpha=0.3).tobytes() == expected.tobytes()


@every_float32_rung
def test_uniform_inputs_need_no_search(rung, monkeypatch):
    """Else the two tests above would compare the slow way with itself."""
    monkeypatch.setattr(multiply_add, "_half_way", lambda total: pytest.fail("searched"))
    gl.load(rung.name)(*operands_of(rung, 40, 30, 50))
