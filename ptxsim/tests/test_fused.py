"""Multiply-adds that are done together: the order that they get, and the bits that come out."""

from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptxsim
from ptxsim import ptx
from ptxsim.arithmetic import compiled, halves, rounding
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


def one_by_one(name):
    """A function of arrays of float32, or of words of two numbers each, for a * b + c."""
    if name == "subnormal f32":
        return lambda a, b, c: fused.fma(a.astype(f8), b.astype(f8), c)
    if name != "f32":
        return partial(halves.of_pairs, name)
    return lambda a, b, c: fma_ftz(a.astype(f8), b.astype(f8), c, NOTHING_KNOWN, Magnitudes())


def some(name, random, shape=(), special=None):
    """From -1 to 1 and, in one place, the last, something else."""
    numbers = random.uniform(-1, 1, (*shape, 2)).astype(f4)
    if special is not None:
        numbers.flat[-1] = numbers.flat[-2] = special
    if "f32" in name:
        return np.ascontiguousarray(numbers[..., 0])
    return np.asarray(rounding.to_half(numbers, name).view(np.int32)[..., 0])


def plainly(name, lines, values):
    """The same program, one instruction after the other, on a list of arrays."""
    registers = {f"%z{i}": value for i, value in enumerate(values)}
    unit = {"f16": 0x3C003C00, "bf16": 0x3F803F80}.get(name)
    for line in lines:
        opcode, operands = line.rstrip(";").split(" ", 1)
        target, *sources = operands.split(", ")
        given = [registers[source] for source in sources]
        if opcode.startswith("add"):
            a, b = given
            registers[target] = a + b if "f32" in name else one_by_one(name)(np.int32(unit), a, b)
        else:
            registers[target] = one_by_one(name)(*given) if "fma" in opcode else given[0]
    return [registers[f"%z{i}"] for i in range(6)]


@pytest.fixture(params=[float("inf"), 0], ids=["NumPy", "machine code"])
def way(request, monkeypatch):
    monkeypatch.setattr(compiled, "_done", 1)
    monkeypatch.setattr(compiled, "WORTH_IT", request.param)


# What stands for it in programs of halves, in the kernel and in what is drawn.
OF_HALVES = {
    "float": "unsigned", '"+f"': '"+r"', ".reg .f32": ".reg .b32", "mov.f32": "mov.b32",
    "fma.rn.ftz.f32": "fma.rn.KIND", "add.ftz.f32": "add.KIND",
}  # fmt: skip


@pytest.mark.parametrize("name", ["f32", "subnormal f32", "f16", "bf16"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs(), st.integers(0, 2**32))
def test_any_order_of_dependent_and_independent_ones_gives_the_same_bits(way, name, lines, seed):
    inside = " ".join(
        [f"mov.f32 %z{i}, ${i};" for i in range(6)] + lines
        + [f"mov.f32 ${i}, %z{i};" for i in range(6)]
    )  # fmt: skip
    source = KERNEL.replace("ASSEMBLY", inside.replace("%", "%%").replace("$", "%"))
    if name == "subnormal f32":
        source = source.replace(".ftz", "")
    elif name != "f32":
        for before, after in OF_HALVES.items():
            source = source.replace(before, after.replace("KIND", f"{name}x2"))
    given = some(name, np.random.default_rng(seed), (40, 6))
    out = np.zeros_like(given)
    run = ptxsim.launch(source, "k", (1, 1, 1), (40, 1, 1), [given, out], count=True)
    with np.errstate(all="ignore"):
        assert out.T.tobytes() == np.array(plainly(name, lines, given.T)).tobytes()
    executed = sum(line.startswith("fma") for line in lines) if "f32" in name else 0
    assert run.counters["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == 40 * executed


def block(*lines):
    text = ".entry k() { .reg .f32 %f<90>; " + " ".join(lines) + " ret; }"
    return ptx.parse(text, "k.cu")["k"].instructions


def test_an_outer_product_is_one_step():
    lines = [f"fma.rn.ftz.f32 %f{10 * i + j}, %f{80 + i}, %f{84 + j}, %f{10 * i + j};"
             for i in range(4) for j in range(3)]  # fmt: skip
    together, last = steps(block(*lines))
    assert [instruction.index for instruction in together] == list(range(12)) and last.name == "ret"


@pytest.mark.parametrize("special", [None, np.nan, np.inf, 2.0**-64, 2.0**-10])
@pytest.mark.parametrize("name", ["f32", "subnormal f32", "f16", "bf16"])
@pytest.mark.parametrize("shapes", [
    ((8, 1, 96), (1, 5, 96)), ((40, 1), (1, 70)), ((), (3, 50)), ((6, 1, 20), (6, 7, 20)),
    ((2, 1, 3, 1, 30), (1, 4, 1, 3, 1)), ((7, 1), (7, 3)), ((3, 20), (20,)), ((2, 2048), (2, 1)),
])  # fmt: skip
def test_a_batch_has_the_bits_of_one_multiply_add_after_the_other(shapes, name, special, way):
    random = np.random.default_rng(4)
    a, b = ([some(name, random, shape) for _ in range(6)] for shape in shapes)
    c = [some(name, random), some(name, random, np.broadcast_shapes(*shapes)), some(name, random)]
    if special is not None:  # in a product, the second of three, that is added to 0
        a[0], c[0] = np.zeros_like(a[0]), np.zeros_like(c[0])
        a[1], b[1] = (some(name, random, shape, special) for shape in shapes)
    products = [[(0, 6), (1, 7), (2, 8)], [(3, 9)], [(10, 4), (5, 11)]]
    batch, step, stacks = fused.Batch(name.split()[-1], products), one_by_one(name), fused.Stacks()
    expected = []
    with np.errstate(all="ignore"):
        for pairs, total in zip(products, c, strict=True):
            for x, y in pairs:
                total = step((a + b)[x], (a + b)[y], total)
            expected.append(total)
        for _ in range(2):
            results = fused.fma_batch(batch, [*a, *b], c, stacks, step)
            for result, right in zip(results, expected, strict=True):
                np.testing.assert_array_equal(result.view(np.int32), right.view(np.int32))


@given(st.integers(2, 9), st.integers(0, 2**32), st.booleans())
def test_rows_of_fused_operations_equal_single_ones(count, seed, in_range):
    """In range: with all known of the numbers. Else the search for double rounding takes over."""
    random = np.random.default_rng(seed)
    draw = random.uniform if in_range else lambda low, high, shape: random.normal(0, 1e12, shape)
    shared = draw(-1, 1, (4, 1, 5)).astype(f4)
    others = [draw(-1, 1, (1, 3, 5)).astype(f4) for _ in range(count)]
    known = known_sums([shared, *others])[2, True]
    stacks = fused.Stacks()
    rows = singles = [f4(0)] * count
    with np.errstate(all="ignore"):
        for _ in range(3):
            factors = fused.stack(3, *(f8(other) for other in others))
            rows = fused.fma_rows(f8(shared), factors, rows, known, stacks, 3)
            singles = [
                fma_ftz(f8(shared), f8(other), single, NOTHING_KNOWN, Magnitudes())
                for other, single in zip(others, singles, strict=True)
            ]
    assert np.array(rows).tobytes() == np.array(singles).tobytes()
