"""The simulator's arithmetic against exact rational numbers and Python's integers."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ptxsim
from ptxsim.arithmetic import exactness, halves, multiply_add, rounding
from ptxsim.arithmetic import float32 as arithmetic
from ptxsim.arithmetic.exactness import NOTHING_KNOWN
from ptxsim.arithmetic.multiply_add import Magnitudes

f4 = np.float32
SMALLEST_NORMAL = 2.0**-126

float32 = st.floats(width=32)
finite32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
# Numbers near each other in magnitude, and near the subnormal ones: where rounding is not trivial.
even32 = st.builds(np.ldexp, st.integers(-(2**24) + 1, 2**24 - 1).map(f4), st.integers(-40, 10))
near_one = st.integers(-30, 30).map(lambda i: float(f4(1 + i * 2.0**-24)))
tiny32 = st.builds(np.ldexp, st.integers(-(2**24) + 1, 2**24 - 1).map(f4), st.integers(-90, -60))


# --- a reference that shares nothing with the simulator -------------------------------------------


def fma(a, b, c):
    return multiply_add.fma(np.float64(a), np.float64(b), c)


def fma_ftz(a, b, c, known, magnitudes=None):
    return multiply_add.fma_ftz(np.float64(a), np.float64(b), c, known, magnitudes or Magnitudes())


def to_float32(x: Fraction, ftz: bool) -> np.float32:
    """The float32 nearest to x, ties to even, for any x but 0.

    With ftz, what rounds to 24 bits below the normal numbers is 0.
    """
    magnitude = abs(x)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    step = Fraction(2) ** ((exponent if ftz else max(exponent, -126)) - 23)
    rounded = round(magnitude / step) * step  # Python rounds a fraction to even
    value = np.inf if rounded >= 2**128 else float(rounded)
    value = 0.0 if ftz and rounded < SMALLEST_NORMAL else value
    return f4(-value if x < 0 else value)


def exact_fma(a, b, c, ftz: bool = False) -> np.float32:
    if not all(np.isfinite([a, b, c])):
        return f4(float(a) * float(b) + float(c))  # NaN and infinity need no rounding
    total = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if total == 0:
        negative = np.signbit(c) and np.signbit(a) != np.signbit(b)
        return f4(-0.0) if negative and c == 0 and (a == 0 or b == 0) else f4(0)
    return to_float32(total, ftz)


def same(got, expected) -> bool:
    """Equal bit for bit, but any NaN is as good as another."""
    got, expected = np.asarray(got, f4), np.asarray(expected, f4)
    return bool(
        np.all(
            (got.view(np.int32) == expected.view(np.int32)) | (np.isnan(got) & np.isnan(expected))
        )
    )


def columns(rows):
    return (np.array(column, f4) for column in zip(*rows, strict=True))


def triples(number):
    return st.lists(st.tuples(number, number, number), min_size=1, max_size=40)


# --- fused multiply-add ---------------------------------------------------------------------------


@given(triples(float32) | triples(even32) | triples(tiny32))
@example([(np.inf, 0.0, 1.0), (np.inf, 1.0, -np.inf), (2.0**127, 2.0, -np.inf)])
@example([(0.0, -1.0, 0.0), (0.0, -1.0, -0.0), (1.0, 1.0, -1.0), (-1.0, 1.0, 1.0)])
@example([(2.0**127, 2.0, -(2.0**127)), (3e38, 3e38, 0.0), (2.0**-149, 0.5, 0.0)])
def test_fma_rounds_the_exact_sum_once(rows):
    a, b, c = columns(rows)
    with np.errstate(all="ignore"):
        assert same(fma(a, b, c), [exact_fma(*row) for row in zip(a, b, c, strict=True)])


@given(triples(float32) | triples(even32) | triples(tiny32))
def test_with_ftz_subnormal_operands_and_results_are_zeros(rows):
    a, b, c = (arithmetic.flush(column) for column in columns(rows))
    with np.errstate(all="ignore"):
        expected = [exact_fma(*row, ftz=True) for row in zip(a, b, c, strict=True)]
        assert same(fma_ftz(a, b, c, NOTHING_KNOWN), expected)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("scale", [-100, -60, 0, 60, 90])
@pytest.mark.parametrize("last_bit", [0, 1])
def test_a_sum_just_off_half_way_is_not_rounded_twice(sign, scale, last_bit):
    """c + half a step, less a little: float64 drops the little and sees a tie."""
    c = np.ldexp(f4(2**23 + 2**10 + last_bit), scale - 13)  # one step of c is 2**(scale - 13)
    a = f4(sign * (1 - 2.0**-23))
    b = np.ldexp(f4(1 + 2.0**-23), scale - 14)  # a * b is ± half a step, times 1 - 2**-46
    a, b, c = np.array([a]), np.array([b]), np.array([c])
    expected = exact_fma(a[0], b[0], c[0])
    assert expected == c[0]
    twice = (a.astype(np.float64) * b.astype(np.float64) + c).astype(f4)
    assert (twice[0] != expected) == bool(last_bit)  # the plain way fails where the tie goes away
    assert same(fma(a, b, c), [expected])
    assert same(fma_ftz(a, b, c, NOTHING_KNOWN), [expected])


@pytest.mark.parametrize("steps", [2**9 + 1, 2**15 + 1, 2**22 + 1])
def test_a_subnormal_sum_just_off_half_way_is_not_rounded_twice(steps):
    c = np.array([np.ldexp(f4(steps), -149)])
    a = np.array([np.ldexp(f4(1 - 2.0**-23), -75)])
    b = np.array([np.ldexp(f4(1 + 2.0**-23), -75)])
    assert exact_fma(a[0], b[0], c[0]) == c[0]
    assert (a.astype(np.float64) * b.astype(np.float64) + c).astype(f4) != c
    assert same(fma(a, b, c), c)
    assert same(fma_ftz(a, b, c, NOTHING_KNOWN), [0.0])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_rounds_up_to_the_smallest_normal_number_is_kept(sign):
    """Below 2**-126 numbers of 24 bits lie 2**-150 apart: half of that is still rounded up."""
    smallest = f4(sign * SMALLEST_NORMAL)
    a = np.full(16, -sign * 2.0**-77, f4)
    b = np.ldexp(np.arange(16).astype(f4), -77)
    result = fma_ftz(a, b, np.full(16, smallest), NOTHING_KNOWN)
    assert same(result, [smallest] * 9 + [sign * 0.0] * 7)  # 8 * 2**-154 is that half
    assert same(fma(a, b, np.full(16, smallest)), [smallest] * 16)


@given(st.lists(st.tuples(finite32 | near_one, finite32 | tiny32), min_size=1))
@example([(1 - 2.0**-24, 2.0**-126), (1 - 2.0**-23, 2.0**-126), (2.0**-100, -(2.0**-100))])
def test_products_and_quotients_are_flushed_after_rounding(rows):
    a, b = (arithmetic.flush(column) for column in columns(rows))
    with np.errstate(all="ignore"):
        for function, exact in (
            (arithmetic.multiply_ftz, lambda x, y: x * y),
            (arithmetic.divide_ftz, lambda x, y: x / y),
        ):
            for x, y in ((a, b), (b, a)):
                got = function(x, y)
                for result, p, q in zip(got, x.tolist(), y.tolist(), strict=True):
                    if p != 0 and q != 0:
                        expected = to_float32(exact(Fraction(p), Fraction(q)), ftz=True)
                        assert same(result, expected)


# --- where the search for a second rounding is left out ------------------------------------------


@given(
    st.integers(1, 24), st.integers(-70, 20), st.integers(1, 60), st.integers(0, 10**6), st.data()
)
def test_what_is_known_of_sums_changes_no_bit(bits, exponent, k, seed, data):
    """Sums of products of numbers with few or many bits, with and without knowing their granule."""
    random = np.random.default_rng(seed)
    significands = random.integers(-(2**bits) + 1, 2**bits, (2, k, 50))
    a, b = np.ldexp(significands.astype(f4), exponent - bits)
    if data.draw(st.booleans()):
        a[random.integers(k)] = data.draw(st.sampled_from([np.inf, np.nan, 0.0]))
    known = exactness.known_sums([a, b])[2, True]
    fast = slow = f4(0)
    magnitudes = Magnitudes()
    with np.errstate(all="ignore"):
        for x, y in zip(a, b, strict=True):
            fast = fma_ftz(x, y, fast, known, magnitudes)
            slow = fma_ftz(x, y, slow, NOTHING_KNOWN)
    assert same(fast, slow)


THROUGH = {
    "a register": "const float t = __int_as_float(bits);",
    "global memory": """out[threadIdx.x] = __int_as_float(bits);
        __syncthreads();
        const float t = out[(threadIdx.x + 1) % 3];""",
    "shared memory": """__shared__ float box[3];
        box[threadIdx.x] = __int_as_float(bits);
        __syncthreads();
        const float t = box[(threadIdx.x + 1) % 3];""",
    "an atomic in shared memory": """__shared__ int box[3];
        atomicExch(&box[threadIdx.x], bits);
        __syncthreads();
        const float t = ((float*)box)[(threadIdx.x + 1) % 3];""",
    "local memory": """float own[3] = {1.0f, 2.0f, 3.0f};
        own[i] = __int_as_float(bits);
        const float t = own[i + (x[0] > 1e9f)];""",
}


@pytest.mark.parametrize("way", THROUGH)
def test_a_number_that_was_not_given_is_not_taken_for_one(way):
    """It comes in an integer: what is known of the arrays, whole numbers, does not hold for it.

    The sum lies a little above the middle between two float32, by less than a float64 can tell.
    """
    source = f"""
    extern "C" __global__ void k(const float* x, float* out, int bits, int i, float c) {{
        {THROUGH[way]}
        out[threadIdx.x] = fmaf(x[threadIdx.x], t, c);
    }}"""
    whole = next(n for n in range(2**23 + 1, 2**24, 2) if 0 < -(2**47) % n < 2**16)
    x, out = np.full(3, whole, f4), np.ones(3, f4)
    tiny = np.ldexp(f4(-(-(2**47) // whole)), -71)
    args = [x, out, int(tiny.view(np.int32)), 1, 1.0]
    assert ptxsim.launch(source, "k", (1, 1, 1), (3, 1, 1), args).findings == []
    assert same(out, [exact_fma(whole, tiny, 1.0)] * 3)
    assert f4(np.float64(whole) * tiny + 1.0) != out[0], "no double rounding to be avoided"


# --- integers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["__int_as_float(bits[i] ^ 0x3f800000)", "fmul(x[i], 0x1p-100f)"])
def test_a_subnormal_number_made_in_the_kernel_counts_as_zero(how):
    """Bits of an integer, or a product that is not flushed: no argument was subnormal."""
    source = f"""__device__ float fmul(float a, float b) {{
        float d;
        asm("mul.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
        return d;
    }}
    extern "C" __global__ void k(const float* x, const int* bits, float* out) {{
        const int i = threadIdx.x;
        const float v = {how};
        out[i] = v * 0x1p40f;
        out[4 + i] = fmaf(v, 0x1p40f, 1.0f);
        out[8 + i] = v;
    }}"""
    values = np.array([2.0**-140, -(2.0**-130), 2.0**-126, -(2.0**-120)], f4)
    x, bits = np.ldexp(values, 100), values.view(np.int32) ^ np.int32(0x3F800000)
    assert not arithmetic.has_subnormal(x) and not arithmetic.has_subnormal(bits.view(f4))
    out = np.zeros(12, f4)
    ptxsim.launch(source, "k", (1, 1, 1), (4, 1, 1), [x, bits, out])
    kept = np.where(np.abs(values) < f4(SMALLEST_NORMAL), np.copysign(f4(0), values), values)
    assert same(out[:4], kept * f4(2.0**40))
    assert same(out[8:], values)


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("cleared", (0, 3, 7))
@np.errstate(over="ignore", invalid="ignore")
def test_sums_and_products_of_halves_are_rounded_once(name, cleared):
    """Any patterns; with trailing zeros sums half-way between two numbers are common."""
    random = np.random.default_rng(cleared)
    bits = random.integers(0, 1 << 16, (3, 1 << 15)).astype(np.uint16)
    bits[:2] &= np.uint16(0x10000 - (1 << cleared))
    bits[2] >>= random.integers(0, 16, bits.shape[1]).astype(np.uint16)  # tiny ones too
    a, b, c = (halves.numbers(x, name) for x in bits)
    exact = {
        halves.add: rounding.sum_to_odd(a, c),
        halves.subtract: rounding.sum_to_odd(a, -c),
        halves.multiply: a * b,
        halves.multiply_add: rounding.sum_to_odd(a * b, c),
    }
    given = {halves.multiply: bits[:2], halves.multiply_add: bits}
    for function, once in exact.items():
        result = function(*given.get(function, bits[::2]), name, False, None)
        np.testing.assert_array_equal(result, halves.pattern(once, name), function.__name__)


def test_pairs_of_halves_are_the_same_in_pieces(monkeypatch):
    """Also where an operand is the same along an axis, and a piece ends within a row."""
    random = np.random.default_rng(9)
    words = [random.integers(0, 1 << 32, shape, np.uint32).view(np.int32)
             for shape in ((30, 1, 7), (30, 50, 1), (50, 7))]  # fmt: skip
    add = partial(halves.multiply_add, name="f16", ftz=False, limit=None)
    result = []
    with np.errstate(all="ignore"):
        for piece in (1 << 30, 1000):
            monkeypatch.setattr(halves, "PIECE", piece)
            result.append(halves.each_half(add, words))
    assert result[0].shape == (30, 50, 7)
    np.testing.assert_array_equal(*result)


OF_SIXTEEN_BITS = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__device__ void all(T a, T b, T c, T* out, int n) {
    const T results[] = {a + b, a - b, a * b, FMA(a, b, c), -a, LARGER(a, b), EXP(a), a / b};
    for (int i = 0; i < 8; ++i) out[i * n] = results[i];
}
extern "C" __global__ void k(const T* x, T* out, int i, int zero) {
    const int t = threadIdx.x, varied = i + zero * t, n = blockDim.x;
    all(x[i], x[i + 1], x[i + 2], out + t, n);    // the same for all threads
    all(x[varied], x[varied + 1], x[varied + 2], out + 8 * n + t, n);
}"""


@pytest.mark.parametrize("c_type", ["half", "half2", "__nv_bfloat16", "__nv_bfloat162"])
def test_sixteen_bits_that_all_threads_share_are_computed_as_those_that_vary(c_type):
    two = "2" if c_type.endswith("2") else ""
    options = [f"-DT={c_type}", f"-DFMA=__hfma{two}", f"-DLARGER=__hmax{two}", f"-DEXP=h{two}exp"]
    bits = [0x3C01, 0xBC80, 0x0001, 0x8400, 0x7BFF, 0x7C00, 0x7E01, 0x4248, 0x0080, 0xC0A1, 0x3F81]
    x = np.repeat(np.array(bits, np.uint16), 2)
    for i in range(len(bits) - 2):
        out = np.zeros((2, 8, 32 * (2 if two else 1)), np.uint16)
        args = [x if two else x[::2].copy(), out, i, 0]
        ptxsim.launch(OF_SIXTEEN_BITS, "k", (1, 1, 1), (32, 1, 1), args, options=options)
        np.testing.assert_array_equal(out[0], out[1])
        assert out[0].any()
