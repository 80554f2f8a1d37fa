"""The compiled multiply-add gives the bits of NumPy's way, and is not needed."""

import subprocess
import sys

import numpy as np
import pytest

from ptxsim import arithmetic
from ptxsim.arithmetic import compiled, halves, multiply_add
from ptxsim.arithmetic.exactness import NOTHING_KNOWN
from ptxsim.arithmetic.float32 import flush
from ptxsim.arithmetic.multiply_add import Magnitudes

f4, f8, u4 = np.float32, np.float64, np.uint32
COUNT = 1 << 16
SMALLEST = u4(1 << 23)  # the bits of the smallest normal number


def of_bits(bits):
    return np.asarray(bits, u4).view(f4)


def any_bits(random):
    return [of_bits(random.integers(0, 1 << 32, COUNT)) for _ in range(3)]


def few_digits(random):
    """Sums half-way between two float32 are common among them."""
    return [of_bits(random.integers(0, 1 << 32, COUNT) & 0xFFFFFFFF << 18) for _ in range(3)]


def around_the_smallest_normal(random):
    """A product of any small size, added to a number next to the smallest normal one."""
    exponents = random.integers(20, 80, COUNT)
    others = np.clip(127 + 127 - 126 - 24 - exponents + random.integers(-3, 6, COUNT), 1, 250)
    a, b = (of_bits(e << 23 | random.integers(0, 4, COUNT) << 21) for e in (exponents, others))
    signs = random.choice([f4(1), f4(-1)], (2, COUNT))
    return [a, b * signs[0], of_bits(SMALLEST + random.integers(-2, 3, COUNT)) * signs[1]]


@pytest.fixture(params=[any_bits, few_digits, around_the_smallest_normal])
def operands(request):
    return request.param(np.random.default_rng(1))


def same(a, b):
    """Bit for bit, but for which NaN it is."""
    nan = np.isnan(a)
    return (nan == np.isnan(b)).all() and (a.view(u4) == b.view(u4))[~nan].all()


@pytest.mark.parametrize("ftz", [False, True])
def test_compiled_steps_have_the_bits_of_numpy(operands, ftz, monkeypatch):
    a, b, c = map(flush, operands) if ftz else operands
    with np.errstate(invalid="ignore"):
        a, b = a.astype(f8), b.astype(f8)

    def result():
        with np.errstate(all="ignore"):
            if ftz:
                return multiply_add.fma_ftz(a, b, c, NOTHING_KNOWN, Magnitudes())
            return multiply_add.fma(a, b, c)

    monkeypatch.setattr(compiled, "WORTH_IT", float("inf"))
    by_numpy = result()
    monkeypatch.setattr(compiled, "WORTH_IT", 0)
    assert compiled.function("fma_ftz" if ftz else "fma", 1) is not None
    assert same(result(), by_numpy)


def test_without_numba_all_is_left_to_numpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, f"{arithmetic.__name__}.machine_code", raising=False)
    monkeypatch.delattr(arithmetic, "machine_code", raising=False)
    monkeypatch.setattr(compiled, "WORTH_IT", 0)
    compiled._functions.cache_clear()
    try:
        assert compiled.function("fma", 1) is None
        ones = np.ones(3)
        assert (multiply_add.fma(ones, ones, ones.astype(f4)) == 2).all()
    finally:
        compiled._functions.cache_clear()


def test_what_was_compiled_once_is_loaded_by_the_next_process():
    program = (
        "from ptxsim.arithmetic import machine_code\n"
        "print(*map(len, machine_code.batch.stats[1:]))  # found in the cache, and not"
    )
    command = [sys.executable, "-c", program]
    outputs = [subprocess.run(command, capture_output=True, text=True).stdout for _ in range(2)]
    assert outputs[1] == "1 0\n", outputs


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("kept", [0xFFFF, 0xBFFF, 0xBBFF, 0x83FF, 0x80FF])  # fewer exponents
def test_sixteen_bits_are_those_of_numpy(name, kept, monkeypatch):
    random, infinity = np.random.default_rng(2), halves.INFINITY[name]
    a, b, c = (random.integers(0, 1 << 16, (3, COUNT)) & kept).astype(np.uint16)
    a, b, c = (np.where(x & infinity == infinity, x ^ infinity, x) for x in (a, b, c))
    with np.errstate(all="ignore"):
        c[::5] = halves.multiply(a, b, name, False, None)[::5] ^ halves.SIGN  # nothing is left
    for operation, given in (
        (halves.multiply_add, (a, b, c)), (halves.add, (a, b)), (halves.multiply, (a, b)),
        (halves.multiply, (a, a[0])),
    ):  # fmt: skip
        results = []
        for worth_it in (float("inf"), 0):
            monkeypatch.setattr(compiled, "WORTH_IT", worth_it)
            with np.errstate(all="ignore"):
                results.append(operation(*given, name, False, None))
        np.testing.assert_array_equal(*results)
    factor, addend = (x & 0x3FFF | 0x3000 for x in (a, c))  # of moderate size
    assert halves._in_machine_code(factor, factor, addend, name) is not None
