"""Every rung in the simulator: its PTX is read, checks find nothing, and counts are as expected."""

import re
from collections import Counter

import nbformat
import numpy as np
import pytest
from test_metrics import RULES, brute_sectors, sums_agree

import gemmlab as gl
import ptxsim
from gemmlab.folders import NOTEBOOKS
from gemmlab.kernel.compiler import options_for
from gemmlab.ladder import SINGLE
from ptxsim import metrics, ptx
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


BLOCKS = [(64, 8), (32, 32), (8, 16), (5, 7), (33, 3)]


def count_by_lanes(grid, block, warp_accesses):
    """Sum over all warps of what `warp_accesses(lanes)` says.

    A lane is ((bx, by), (tx, ty)). What comes back, for each instruction: its name, the bytes per
    lane, and for each lane an address or None.
    """
    totals = Counter()
    for by, bx in np.ndindex(grid[1], grid[0]):
        threads = [((bx, by), (tx, ty)) for ty in range(block[1]) for tx in range(block[0])]
        for first in range(0, len(threads), 32):
            for name, size, addresses in warp_accesses(threads[first : first + 32]):
                active = [a is not None for a in addresses] + [False] * (32 - len(addresses))
                if any(active):
                    lanes = [a or 0 for a in addresses] + [0] * (32 - len(addresses))
                    (units,) = RULES.get(name, brute_sectors)([lanes], [active], size)
                    totals[name, "requests"] += 1
                    totals[name, "bytes"] += size * sum(active)
                    totals[name, "units"] += units
    return totals


def counted(run):
    totals = Counter()
    for line in run.lines:
        shared = "shared " if line.space == "shared" else ""
        name = shared + line.operation + ("" if shared else f" {line.array}")
        totals[name, "requests"] += line.requests
        totals[name, "units"] += line.units
        totals[name, "bytes"] += line.bytes_asked
    return totals


@pytest.mark.parametrize("block", BLOCKS, ids=str)
@pytest.mark.parametrize("rung", ["01_naive", "02_coalescing"])
@pytest.mark.parametrize(("m", "n", "k"), [(70, 37, 5), (9, 101, 7), (33, 64, 8)])
def test_a_product_asks_for_what_its_formulas_say(rung, block, m, n, k):
    """The formulas of the two kernels, lane by lane, tails included."""
    rung = gl.RUNGS[[r.name for r in gl.RUNGS].index(rung)]
    down_x = rung.name == "01_naive"

    def warp(threads):
        places = [(bx * block[0] + tx, by * block[1] + ty) for (bx, by), (tx, ty) in threads]
        lanes = [place if down_x else place[::-1] for place in places]
        lanes = [(row, col) if row < m and col < n else None for row, col in lanes]
        for step in range(k):
            yield "load A", 4, [lane and 4 * (lane[0] * k + step) for lane in lanes]
            yield "load B", 4, [lane and 4 * (step * n + lane[1]) for lane in lanes]
        yield "store C", 4, [lane and 4 * (lane[0] * n + lane[1]) for lane in lanes]

    tall, wide = (m, n) if down_x else (n, m)
    grid = (-(-tall // block[0]), -(-wide // block[1]), 1)
    A, B, C = np.ones((m, k), f4), np.ones((k, n), f4), np.ones((m, n), f4)
    source = rung.path.read_text(encoding="utf-8")
    options = (f"-DBLOCK_X={block[0]}", f"-DBLOCK_Y={block[1]}")
    run = ptxsim.launch(
        source, rung.entry(rung.defaults), grid, (*block, 1), [A, B, C, m, n, k, 1.0, 0.0],
        options=options, count=True,
    )  # fmt: skip
    assert counted(run) == count_by_lanes(grid, block, warp)
    assert run.counters[metrics.FMA_METRIC] == m * n * k
    sums_agree(run)
