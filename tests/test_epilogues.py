"""What a bias and an activation cost: passes over C counted otherwise, and the measurements."""

import ast
from pathlib import Path

import numpy as np
import pandas
import pytest

import gemmlab as gl
from gemmlab.cuda.device import gpu, why_no_gpu
from gemmlab.ladder.activations import ACTIVATIONS, activate
from gemmlab.lessons.fused_epilogue import epilogues
from gemmlab.lessons.fused_epilogue import measure as epilogue_timing
from gemmlab.lessons.fused_epilogue import tables as epilogue_costs
from gemmlab.lessons.fused_epilogue.epilogues import SEPARATE, THIN
from gemmlab.records import registry

every_activation = pytest.mark.parametrize("activation", ACTIVATIONS)


@pytest.fixture(scope="module")
def table():
    return epilogue_timing.TABLE.read()


# ---- passes over C -------------------------------------------------------------------------------


class Interpreter:
    """Does the operations, each on whole matrices, and counts those that it reads and writes."""

    def __init__(self, C, bias):
        self.values, self.bias = {"C": C}, bias

    def do(self, operation: str) -> tuple[int, int]:
        """What one operation reads and writes: "T = C * C", or "T + C", which changes T."""
        target, _, expression = operation.rpartition(" = ")
        names = [node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)]
        matrices = [name for name in names if name in self.values]
        functions = {"maximum": np.maximum, "tanh": np.tanh}
        value = eval(expression, functions, {**self.values, "bias": self.bias})
        self.last = self.values[target or matrices[0]] = value
        return len(set(matrices)), 1


@pytest.mark.parametrize("activation", epilogues.OPERATIONS)
def test_the_operations_are_the_activation_and_pass_over_c_as_often_as_is_said(activation):
    C, bias = 3 * gl.random_matrix(7, 5, 1), gl.random_matrix(1, 5, 2)[0]
    interpreter = Interpreter(C.astype(np.float64), bias.astype(np.float64))
    counted = [interpreter.do(operation) for operation, *_ in epilogues.OPERATIONS[activation]]
    assert counted == [(reads, writes) for _, reads, writes in epilogues.OPERATIONS[activation]]
    # Factors have three digits there.
    exact = activate((C + bias).astype(np.float64), activation)
    assert np.allclose(interpreter.last, exact, atol=2e-3)
    reads, writes = np.sum(counted, axis=0)
    assert epilogues.passes(SEPARATE, activation) == (reads, 1 + writes)


# ---- the measurements ----------------------------------------------------------------------------


def test_every_shape_activation_and_way_is_there_once(table):
    expected = {(shape, epilogues.CURVE_OF) for shape in epilogues.CURVE}
    expected |= {(shape, activation) for shape in epilogues.WITH_ALL for activation in ACTIVATIONS}
    measured = [((r.m, r.n, r.k), r.activation, r.way) for r in table.itertuples()]
    every = {(*case, way) for case in expected for way in epilogues.ways(case[1])}
    assert sorted(measured) == sorted(every)


def test_bytes_of_dram_are_counted_at_the_thin_product_alone(table):
    there = table[table.dram_read_bytes.notna() | table.dram_write_bytes.notna()]
    assert set(zip(there.m, there.n, there.k, strict=True)) == {THIN}
    assert there[["dram_read_bytes", "dram_write_bytes"]].notna().all(axis=None)


def test_time_over_k_adds_up_to_the_ways_it_is_of(table):
    """A second kernel takes as long at every K: it passes over C, whatever K was."""
    side = THIN[0]
    over_k = epilogue_costs.over_k(table, side)
    fused = table.query("way == @epilogues.FUSED and activation == 'ReLU' and m == n == @side")
    times = fused.set_index("k").time_ms
    assert np.allclose(over_k["matmul"] + over_k["fused epilogue"], times)
    followed = over_k["matmul"] + over_k["second kernel"]
    assert np.allclose(followed / times, over_k["with a second kernel, times as long"])
    assert over_k["second kernel"].max() < 1.05 * over_k["second kernel"].min()
    cost = epilogue_costs.epilogue_percent(table).loc["ReLU", f"{side}×{side}×64"]
    assert cost == pytest.approx(100 * over_k["fused epilogue"][64] / times[64])


# ---- what is not there ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [epilogues.PLAIN, "11_fused_epilogue"])
def test_a_kernel_is_launched_on_its_arrays_and_the_bias_where_it_takes_one(name):
    kernel = gl.load(name)
    given = kernel.operands(kernel.problem(5, 8, 3), seed=0)
    bias = given.bias if kernel.takes_bias else np.full(8, np.nan, np.float32)
    epilogues.launcher(kernel)(given.A, given.B, given.C, bias)
    total = given.A @ given.B + (bias if kernel.takes_bias else 0)
    np.testing.assert_allclose(given.C, activate(total, kernel.activation), rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason=f"needs a GPU: {why_no_gpu()}")
@every_activation
def test_every_way_is_verified_and_measured_on_a_gpu(activation):
    rows = pandas.DataFrame(epilogue_timing._measure(256, 128, 64, activation, print))
    assert rows["way"].tolist() == list(epilogues.ways(activation))
    rows = rows.assign(**dict.fromkeys(epilogue_timing.DRAM))
    columns = epilogue_timing.TABLE.columns
    known = {name: kind for name, kind in columns.items() if name in rows}
    registry.parsed(rows.to_csv(index=False), Path("epilogue.csv"), known)
