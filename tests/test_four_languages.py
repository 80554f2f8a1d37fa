"""Notebook 25: kernels of other languages multiply right; the record is of their code."""

from types import SimpleNamespace

import numpy as np
import pytest

from gemmlab.kernel.bounds import error_bound
from gemmlab.ladder import SIMULATED
from gemmlab.lessons.one_kernel_four_languages import measure, tables
from gemmlab.lessons.one_kernel_four_languages.programs import CUDA, CUTE, PROGRAMS, Program


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
@pytest.mark.parametrize("shape", [(128, 256, 64), (256, 512, 192)], ids=str)
def test_each_is_right_and_without_mistakes(program, shape):
    A, B, C = program.random(*shape)
    run = program.simulate(A, B, C, check=True)
    bound = error_bound(A, B, None, 1.0, 0.0, program.precision)
    assert (abs(C - A.astype(np.float64) @ B.astype(np.float64)) <= bound).all()
    assert run.findings == []


def test_sizes_that_a_tile_does_not_divide_are_refused():
    with pytest.raises(ValueError, match="multiples of 128×128, not 100×128"):
        PROGRAMS[0].launch(100, 128)


def test_each_element_of_c_is_stored_by_one_thread_and_each_thread_has_as_many():
    for threads in tables.owners().values():
        assert (np.bincount(threads.ravel(), minlength=256) == 64).all()


def test_the_swizzle_of_07_has_the_same_wavefronts_in_cuda_and_in_cute():
    table = tables.counts("float32")
    assert (table[CUDA] == table[CUTE])[["wavefronts of loads", "wavefronts of stores"]].all()


def test_a_record_depends_on_the_code_and_not_on_the_lines_of_its_source(monkeypatch):
    row = SimpleNamespace(kernel=PROGRAMS[0].name, m=256, n=256, k=64, settings="any")
    before, text = str(measure._fingerprint(row, SIMULATED)), PROGRAMS[0].ptx
    for changed, same in ((text.replace(".loc\t1 8", ".loc\t1 9"), True),
                          (text.replace("fma.rn", "fma.rz"), False)):  # fmt: skip
        assert changed != text
        monkeypatch.setattr(Program, "ptx", changed)
        assert (str(measure._fingerprint(row, SIMULATED)) == before) is same
