"""Every rung in the simulator: its PTX is read, checks find nothing, and counts are as expected."""

import numpy as np
import pytest
from test_metrics import BLOCKS, count_by_lanes, counted, sums_agree
from test_ptx import check

import gemmlab as gl
import ptxsim
from gemmlab.kernel.compiler import options_for
from gemmlab.ladder import SINGLE
from ptxsim import metrics, ptx
from ptxsim.arithmetic import exactness, multiply_add
from ptxsim.compile import nvrtc

f4 = np.float32
every_rung = pytest.mark.parametrize("rung", gl.RUNGS, ids=lambda rung: rung.name)


@every_rung
def test_no_rung_has_a_finding(rung):
    report = gl.load(rung.name).check()
    assert report.passed and len(report.cases) >= 4, report


@every_rung
def test_every_rung_is_read(rung):
    text = rung.path.read_text(encoding="utf-8")
    settings = gl.load(rung.name).settings
    program = nvrtc.compile_source(text, rung.path.name, options=options_for(settings))
    # Sums: the first products of a tile, or of a set, add nothing.
    begins_unset = rung.name in ("18_persistent", "19_fp8")
    check(ptx.parse(program.ptx, rung.path.name)[rung.entry(settings)], text, begins_unset)


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
