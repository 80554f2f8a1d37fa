"""Every rung in the simulator: checks find nothing, and what is known of numbers changes no bit."""

import re

import nbformat
import numpy as np
import pytest

import gemmlab as gl
from gemmlab.folders import NOTEBOOKS
from gemmlab.ladder import SINGLE
from ptxsim.arithmetic import exactness, multiply_add

f4 = np.float32


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
