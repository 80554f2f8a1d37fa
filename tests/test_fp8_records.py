"""What is recorded of rung 19: bits and errors of an H200 beside the simulator's."""

import re

import pytest

from gemmlab import plots
from gemmlab.folders import ROOT
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import written
from gemmlab.ladder.rungs.fp8 import FP8, SCALES
from gemmlab.records.experiments.fp8 import errors, quantizing, steps

FORMS = (steps.TENSORS, steps.BY_ROWS, steps.BY_BLOCKS, *steps.OTHERS[-2:])


@pytest.mark.parametrize("step", FORMS, ids=lambda step: step.what)
def test_the_simulator_has_the_bits_of_the_gpu(step):
    table = steps.EVIDENCE.read()
    rows = table[(table.step == step.what) & (table.settings == written(step.full))]
    assert set(rows.sha256) == {steps.bits_of(step.kernel())}


def test_every_step_is_recorded_and_nothing_that_is_no_step():
    table = steps.EVIDENCE.read()
    recorded = set(zip(table.step, table.settings, table.m, table.n, table.k, strict=True))
    assert recorded == {
        (one.what, written(one.full), *shape) for one in steps.EVERY for shape in one.shapes
    }
    assert list(dict.fromkeys(steps.steps(steps.BY_ROWS, steps.TENSORS)["step"])) == [
        "scales of rows", "scales of tensors",
    ]  # fmt: skip


@pytest.mark.parametrize("quantizer", quantizing.EVERY, ids=lambda one: written(one.macros))
def test_quantizers_have_the_bits_of_the_gpu(quantizer):
    table = quantizing.times()
    rows = table[table.settings == written(quantizer.macros)]
    assert len(rows) == len(quantizing.SHAPES)
    assert set(rows.sha256) == {quantizing.bits_of(quantizer)}


def test_errors_are_those_of_the_simulator():
    table = errors.recorded_errors().set_index(["data", "types", "scales", "promote", "k"])
    assert len(table) == len(errors.cases())
    for case in (
        errors.Case("even", 0, 0, 128, 256), errors.Case("uneven", 0, 2, 128, 256),
    ):  # fmt: skip
        kernel = Kernel(FP8, case.settings, None, FP8.path)
        place = case.data, errors.TYPES[case.dtype], SCALES[case.scales].name, case.promote, case.k
        row = table.loc[place]
        assert (row.sum_error, row.whole_error) == pytest.approx(errors.errors(case, kernel), 1e-5)


def test_recorded_errors_grow_where_sums_are_never_promoted():
    table = errors.recorded_errors()
    even = table[(table.data == "even") & (table.types == "E4M3") & (table.scales == "tensors")]
    by_interval = even.pivot(index="k", columns="promote", values="sum_error")
    assert by_interval[0].is_monotonic_increasing and by_interval[128].is_monotonic_decreasing
    assert plots.fp8_errors(table).axes


def test_the_readme_has_the_recorded_figures():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    said = text[text.index("`kernels/19_fp8.cu`") :].partition("\n")[0]
    table = steps.EVIDENCE.read().set_index(["step", "m", "n", "k"])
    wanted = [
        f"{table.loc[(step.what, *shape), 'pct_cublas']:.1f}"
        for step in (steps.TENSORS, steps.BY_BLOCKS) for shape in steps.SQUARES
    ]  # fmt: skip
    assert re.findall(r"([\d.]+) %", said) == wanted
