"""Multiply-adds that are done together: the order that they get, and the bits that come out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxsim
from ptxsim import ptx
from ptxsim.arithmetic import multiply_add as fused
from ptxsim.arithmetic.exactness import NOTHING_KNOWN, known_sums
from ptxsim.arithmetic.multiply_add import Magnitudes, fma_ftz
from ptxsim.translate import steps

f4, f8 = np.float32, np.float64

registers = st.sampled_from([f"%z{i}" for i in range(6)])


@st.composite
def programs(draw):
    """Straight-line code on six registers: multiply-adds, moves and sums."""
    lines = []
    for _ in range(draw(st.integers(1, 14))):
        d, a, b, c = (draw(registers) for _ in range(4))
        kind = draw(st.sampled_from(["fma"] * 5 + ["mov", "add"]))
        lines.append(
            {
                "fma": f"fma.rn.ftz.f32 {d}, {a}, {b}, {c};",
                "mov": f"mov.f32 {d}, {a};",
                "add": f"add.ftz.f32 {d}, {a}, {b};",
            }[kind]
        )
    return lines


KERNEL = """
extern "C" __global__ void k(const float* in, float* out) {
    float x[6];
    for (int i = 0; i < 6; ++i) x[i] = in[6 * threadIdx.x + i];
    asm volatile("{ .reg .f32 %%z<6>; ASSEMBLY }" : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3]),
                 "+f"(x[4]), "+f"(x[5]));
    for (int i = 0; i < 6; ++i) out[6 * threadIdx.x + i] = x[i];
}
"""


def plainly(lines, values):
    """The same program, one instruction after the other, on a list of arrays."""
    registers = {f"%z{i}": value for i, value in enumerate(values)}
    for line in lines:
        opcode, operands = line.rstrip(";").split(" ", 1)
        target, *sources = operands.split(", ")
        given = [registers[name] for name in sources]
        if opcode.startswith("fma"):
            a, b, c = given
            registers[target] = fma_ftz(f8(a), f8(b), c, NOTHING_KNOWN, Magnitudes())
        else:
            registers[target] = given[0] + given[1] if opcode.startswith("add") else given[0]
    return [registers[f"%z{i}"] for i in range(6)]


@settings(max_examples=25)
@given(programs(), st.integers(0, 2**32))
def test_any_order_of_dependent_and_independent_ones_gives_the_same_bits(lines, seed):
    inside = " ".join(
        [f"mov.f32 %z{i}, ${i};" for i in range(6)] + lines
        + [f"mov.f32 ${i}, %z{i};" for i in range(6)]
    )  # fmt: skip
    source = KERNEL.replace("ASSEMBLY", inside.replace("%", "%%").replace("$", "%"))
    given = np.random.default_rng(seed).uniform(-2, 2, (40, 6)).astype(f4)
    out = np.zeros_like(given)
    run = ptxsim.launch(source, "k", (1, 1, 1), (40, 1, 1), [given, out], count=True)
    with np.errstate(all="ignore"):
        assert out.T.tobytes() == np.array(plainly(lines, given.T)).tobytes()
    executed = sum(line.startswith("fma") for line in lines)
    assert run.counters["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == 40 * executed


def block(*lines):
    text = ".entry k() { .reg .f32 %f<90>; " + " ".join(lines) + " ret; }"
    return ptx.parse(text, "k.cu")["k"].instructions


def test_an_outer_product_is_one_step():
    lines = [f"fma.rn.ftz.f32 %f{10 * i + j}, %f{80 + i}, %f{84 + j}, %f{10 * i + j};"
             for i in range(4) for j in range(3)]  # fmt: skip
    together, last = steps(block(*lines))
    assert [instruction.index for instruction in together] == list(range(12)) and last.name == "ret"


def test_what_reads_a_result_comes_after_it_and_what_does_not_before():
    order = [
        [instruction.index for instruction in step] if isinstance(step, list) else step.index
        for step in steps(
            block(
                "fma.rn.ftz.f32 %f1, %f2, %f3, %f1;",
                "mov.f32 %f4, %f5;",
                "fma.rn.ftz.f32 %f6, %f2, %f4, %f6;",
                "mov.f32 %f2, %f7;",
                "fma.rn.ftz.f32 %f1, %f2, %f3, %f1;",
            )
        )
    ]
    assert order == [1, [0, 2], 3, [4], 5]


@pytest.mark.parametrize("large", [False, True])
@given(st.integers(2, 9), st.integers(0, 2**32), st.booleans())
def test_rows_of_fused_operations_equal_single_ones(large, count, seed, in_range):
    """In range: with all known of the numbers. Else the search for double rounding takes over."""
    random = np.random.default_rng(seed)
    draw = random.uniform if in_range else lambda low, high, shape: random.normal(0, 1e12, shape)
    shared = draw(-1, 1, (4, 1, 5)).astype(f4)
    others = [draw(-1, 1, (1, 3, 5)).astype(f4) for _ in range(count)]
    known = known_sums([shared, *others])[2, True]
    stacks = fused.Stacks()
    limit = fused.LARGE
    fused.LARGE = 1 if large else limit
    try:
        rows = singles = [f4(0)] * count
        with np.errstate(all="ignore"):
            for _ in range(3):
                factors = fused.stack(3, *(f8(other) for other in others))
                rows = fused.fma_rows(f8(shared), factors, rows, known, stacks, 3)
                singles = [
                    fma_ftz(f8(shared), f8(other), single, NOTHING_KNOWN, Magnitudes())
                    for other, single in zip(others, singles, strict=True)
                ]
    finally:
        fused.LARGE = limit
    assert np.array(rows).tobytes() == np.array(singles).tobytes()
