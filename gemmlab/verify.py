"""The gate: is a kernel's product right? No kernel is timed before it has passed.

The reference is computed in float64. An element of a float32 C may differ from it by at most

    |alpha| * gamma(K + 2) * (|A| |B|)  +  |beta| * gamma(2) * |C|  +  underflow

with gamma(n) = n u / (1 - n u) and u = 2**-24, half the distance from 1 to the next float32.
This is the bound for an inner product of length K in any order of summation (N. J. Higham,
"Accuracy and Stability of Numerical Algorithms", 2nd edition, SIAM 2002, section 3.1): K roundings
for products and sums, one for the factor alpha, one for adding beta * C. `underflow` allows each
operation to flush a subnormal result to zero. The bound holds for every element by itself.

Of float16 matrices, multiplied by tensor cores with sums in float32, it is at most S + R:

    S = |alpha| * gamma'(3 K / 2 + 4) * (|A| |B|)  +  |beta| * gamma(2) * |C|  +  underflow
    R = 2**-11 * (|expected| + S)  +  2**-25

Products of two float16 are exact in float32. A tensor core adds g of them and the sum so far at
once. It aligns these g + 1 terms to the largest, cuts each off, and cuts off the sum: g + 2 errors
below 2**-23 of what is added, for cutting off loses up to twice what rounding does. g is 4 or more
(4 on Volta, 8 on Ampere, 16 on Hopper: M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, "Numerical
behavior of NVIDIA tensor cores", PeerJ Computer Science 7, 2021), so that K products cost at most
3 K / 2 + 3 such errors, and alpha one more: gamma' is gamma with 2 u. That they add up as gamma
says is shown by P. Blanchard, N. J. Higham, F. Lopez, T. Mary, S. Pranesh, "Mixed precision block
fused multiply-add", SIAM Journal on Scientific Computing 42 (3), 2020. R is the one rounding to
float16 at the end: 2**-11 of the result, or half of the smallest subnormal. Where K is small, R is
nearly all; S grows with K and overtakes it.

Where a bias is added, of float32 alone, K + 2 and 2 above grow by 1, and gamma(1) |bias| is added.
What an activation makes of the bound is in activations.py.

What else is checked: C is filled with NaN before (where beta is 0 it must not be read), and A, B
and C stand between guard cells that hold NaN, so that reading or writing past an end shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .activations import activate, error_after
from .simulator import Finding

UNIT_ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11}
SMALLEST_SUBNORMAL = {"float16": 2.0**-24}
SMALLEST_NORMAL = 2.0**-126  # of float32, in which all sums are
GUARD_PATTERN = {"float32": np.uint32(0x7FC0BEEF), "float16": np.uint16(0x7EEF)}
"""NaNs that no arithmetic makes, as bits."""
GUARD_ALIGNMENT = 128  # elements: keeps what follows as aligned as cudaMalloc would

PRODUCT = (1.0, 0.0)
FACTORS = (PRODUCT, (0.5, 2.0), (-1.5, 0.0), (0.0, 1.0), (0.0, 0.0), (1.0, -0.25))


class VerificationError(Exception):
    """A kernel gave a wrong product. The message says at which shape and where in C."""


@dataclass(frozen=True)
class Case:
    """One product that was checked. `seed` makes the same inputs again."""

    m: int
    n: int
    k: int
    alpha: float
    beta: float
    seed: int
    passed: bool
    message: str  # empty if passed
    worst: float  # the largest error as a share of its bound
    findings: tuple[Finding, ...] = ()  # what the simulator's checks met
    biased: bool = False  # with a bias

    def __str__(self):
        what = f"M={self.m} N={self.n} K={self.k} alpha={self.alpha:g} beta={self.beta:g}"
        what += " with bias" if self.biased else ""
        return f"{what}: {'pass' if self.passed else f'FAIL (seed {self.seed}): {self.message}'}"


@dataclass(frozen=True)
class Report:
    """All cases of one kernel."""

    kernel: str
    cases: list[Case] = field(repr=False)

    @property
    def passed(self) -> bool:
        return bool(self.cases) and all(case.passed for case in self.cases)

    def require(self) -> Report:
        """This report; raises VerificationError if any case failed."""
        failed = [case for case in self.cases if not case.passed]
        if failed or not self.cases:
            first = failed[0] if failed else "no case was run"
            raise VerificationError(f"{self.kernel}: {len(failed)} cases fail. {first}")
        return self

    def frame(self):
        """pandas.DataFrame with a row for each case."""
        import pandas as pd

        any_bias = any(case.biased for case in self.cases)
        return pd.DataFrame(
            [
                {
                    "M": c.m, "N": c.n, "K": c.k, "alpha": c.alpha, "beta": c.beta,
                    **({"bias": "yes" if c.biased else "no"} if any_bias else {}),
                    "result": "pass" if c.passed else f"FAIL: {c.message}",
                }
                for c in self.cases
            ]
        )  # fmt: skip

    def __repr__(self):
        count = sum(case.passed for case in self.cases)
        lines = [f"{self.kernel}: {count} of {len(self.cases)} cases pass"]
        return "\n".join(lines + [f"  {case}" for case in self.cases if not case.passed])

    def _repr_html_(self):
        import pandas as pd

        with pd.option_context("display.max_colwidth", None):
            table = self.frame().to_html(index=False, float_format="{:g}".format)
        return f"<p>{repr(self).splitlines()[0]}</p>{table}"


# --- inputs and reference -----------------------------------------------------------------------


def random_matrix(rows: int, cols: int, seed: int, dtype: str = "float32") -> np.ndarray:
    """(rows, cols), uniform in [-1, 1), the same for a seed on every machine.

    Made in float32 and rounded to `dtype`, which makes 1 of what is next to it. NumPy promises the
    raw bits of its PCG64 for good, its distributions not.
    """
    raw = np.random.PCG64(seed).random_raw(rows * cols)
    values = (raw >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - 1
    return values.astype(dtype, copy=False).reshape(rows, cols)


def reference(A, B, C, alpha: float, beta: float, bias=None, activation: str = "none"):
    """activation(alpha * A @ B + beta * C + bias) in float64, the activation one of ACTIVATIONS.

    C is not looked at where beta is 0. `bias`: (N,), or None.
    """
    product = alpha * (A.astype(np.float64) @ B.astype(np.float64))
    if beta:
        product = product + beta * C.astype(np.float64)
    if bias is not None:
        product = product + bias.astype(np.float64)
    return activate(product, activation)


def error_bound(
    A, B, C, alpha: float, beta: float, dtype: str = "float32", bias=None, activation: str = "none"
):
    """How far each element may be from the reference, float64 of C's shape: see the module.

    `dtype` is that of the matrices that the kernel takes: "float32" or "float16".
    """
    k, u = A.shape[1], UNIT_ROUNDOFF["float32"]
    more = 0 if bias is None else 1  # roundings
    of_product = _gamma(k + 2 + more, u) if dtype == "float32" else _gamma(1.5 * k + 4, 2 * u)
    magnitude = abs(A).astype(np.float64) @ abs(B).astype(np.float64)
    underflow = (2 * k + 4) * SMALLEST_NORMAL * max(abs(alpha), 1.0)
    bound = abs(alpha) * of_product * magnitude + underflow
    if beta:
        bound += abs(beta) * _gamma(2 + more, u) * abs(C).astype(np.float64)
    if bias is not None:
        bound += _gamma(1, u) * abs(bias).astype(np.float64)
    if activation != "none":
        bound = error_after(reference(A, B, C, alpha, beta, bias), bound, activation) + underflow
    if dtype == "float32":
        return bound
    largest = abs(reference(A, B, C, alpha, beta)) + bound
    return bound + UNIT_ROUNDOFF[dtype] * largest + SMALLEST_SUBNORMAL[dtype] / 2


def _gamma(n: float, u: float) -> float:
    """What n errors of a relative size up to u each add up to at most."""
    return n * u / (1 - n * u)


# --- checking -----------------------------------------------------------------------------------


def shapes(kernel) -> list[tuple[int, int, int]]:
    """(M, N, K) where kernels go wrong: single elements, primes, thin ones, tile edges, K of 0."""
    rows, cols = kernel.rung.tile(kernel.settings)
    return [
        (1, 1, 1), (7, 5, 3), (61, 67, 71), (1, 129, 65), (129, 1, 65), (17, 33, 0), (33, 17, 1),
        (rows, cols, 32), (max(rows - 1, 1), cols + 1, 33), (rows + 1, max(cols - 1, 1), 31),
        (1001, 777, 513),
    ]  # fmt: skip


def verify(kernel, seed: int | None = None) -> Report:
    """Check `kernel` at all of `shapes`, and with all of FACTORS at a tile's edge.

    Where it takes a bias, all but two cases have one. Inputs are new with every call, or those of
    `seed`. The kernel is run in place, as timing runs it.
    """
    seeds = iter(np.random.SeedSequence(seed).generate_state(64).tolist())
    cases = [check(kernel, *shape, *PRODUCT, seed=next(seeds)) for shape in shapes(kernel)]
    rows, cols = kernel.rung.tile(kernel.settings)
    cases += [
        check(kernel, rows + 1, cols + 1, 33, *factors, seed=next(seeds)) for factors in FACTORS[1:]
    ]
    cases.append(check(kernel, 7, 5, 0, 1.0, 0.5, seed=next(seeds), biased=False))
    if kernel.rung.bias:
        cases.append(
            check(kernel, rows + 1, cols + 1, 33, *PRODUCT, seed=next(seeds), biased=False)
        )
    return Report(kernel.name, cases)


def check(
    kernel, m: int, n: int, k: int, alpha: float, beta: float, *, seed: int, biased: bool = True
) -> Case:
    """Run one product and compare it, element by element. Never raises for a wrong result.

    `biased`: with a bias, if the kernel takes one.
    """
    A, B, C = (
        random_matrix(rows, cols, seed + i, kernel.dtype)
        for i, (rows, cols) in enumerate([(m, k), (k, n), (m, n)])
    )
    if beta == 0:
        C.fill(np.nan)
    bias = kernel.random_bias(n, seed + 3) if biased else None
    message, worst = "", 0.0
    try:
        got, guards = _run_guarded(kernel, A, B, C, alpha, beta, bias)
    except kernel.Mistake as mistake:
        message, worst = str(mistake), np.inf
    else:
        end = {"bias": bias, "activation": kernel.activation}
        expected = reference(A, B, C, alpha, beta, **end)
        bound = error_bound(A, B, C, alpha, beta, kernel.dtype, **end)
        message, worst = _compare(got, expected, bound)
        message = "; ".join(part for part in (message, guards) if part)
    return Case(
        m, n, k, alpha, beta, seed, not message, message, worst, biased=bias is not None
    )  # fmt: skip


def check_sample(kernel, m: int, n: int, k: int, *, rows: int = 64) -> None:
    """Check a large product on its own device: every element finite, `rows` rows compared.

    The rows are the first, the last and others at random. Raises VerificationError.
    """
    xp = kernel.array_module
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    A, B = (_uniform(xp, shape, seed + i, kernel.dtype) for i, shape in enumerate([(m, k), (k, n)]))
    C = xp.full((m, n), xp.nan, kernel.dtype)
    bias = kernel.random_bias(n, seed + 3)
    end = {} if bias is None else {"bias": kernel.to_device(bias)}
    kernel.launch_into(A, B, C, **end)
    where = f"{kernel.name} at M={m} N={n} K={k} (seed {seed})"
    if not bool(xp.isfinite(C).all()):
        row, col = (int(i) for i in np.argwhere(~np.isfinite(kernel.to_host(C)))[0])
        raise VerificationError(f"{where}: C[{row}, {col}] is not finite")
    inner = np.random.default_rng(seed).choice(m, min(rows, m), replace=False)
    chosen = np.unique(np.concatenate([inner, [0, m - 1]]))
    part = A[xp.asarray(chosen)]
    expected = reference(part, B, None, 1.0, 0.0, **end)
    bound = error_bound(part, B, None, 1.0, 0.0, kernel.dtype, **end, activation=kernel.activation)
    got, expected, bound = map(kernel.to_host, (C[xp.asarray(chosen)], expected, bound))
    message, _ = _compare(got, activate(expected, kernel.activation), bound, rows=chosen)
    if message:
        raise VerificationError(f"{where}: {message}")


def _uniform(xp, shape, seed: int, dtype: str):
    """From -1 to 1, made on the device itself."""
    generator = xp.random.default_rng(seed)
    return (generator.random(shape, dtype=xp.float32) * 2 - 1).astype(dtype, copy=False)


def _run_guarded(kernel, A, B, C, alpha, beta, bias) -> tuple[np.ndarray, str]:
    """C after the run, and what happened to the guard cells: empty if nothing."""
    guard = -(-max(4096, 2 * C.shape[1]) // GUARD_ALIGNMENT) * GUARD_ALIGNMENT
    flat, (A, B, C_inside) = zip(*(_guarded(kernel, x, guard) for x in (A, B, C)), strict=True)
    end = {} if bias is None else {"bias": _guarded(kernel, bias, guard)[1]}
    kernel.launch_into(A, B, C_inside, alpha, beta, **end)
    after, pattern = kernel.to_host(flat[2]), GUARD_PATTERN[kernel.dtype]
    got = after[guard : guard + C.size].reshape(C.shape)
    outside = np.concatenate([after[:guard], after[guard + C.size :]]).view(pattern.dtype)
    changed = np.flatnonzero(outside != pattern)
    if not len(changed):
        return got, ""
    first = int(changed[0])
    if first < guard:
        place = f"{guard - first} elements before the start"
    else:
        place = f"{first - guard + 1} elements past the end"
    return got, f"wrote outside C: {place} of C, {len(changed)} guard cells changed"


def _guarded(kernel, matrix: np.ndarray, guard: int):
    """The matrix between two guards, as one array and as the view of the matrix alone."""
    pattern = GUARD_PATTERN[kernel.dtype]
    flat = np.full(matrix.size + 2 * guard, pattern, pattern.dtype).view(matrix.dtype)
    flat[guard : guard + matrix.size] = matrix.reshape(-1)
    flat = kernel.to_device(flat)
    return flat, flat[guard : guard + matrix.size].reshape(matrix.shape)


def _compare(got, expected, bound, rows=None) -> tuple[str, float]:
    """A message that says where `got` is wrong, empty if nowhere; and the worst error / bound."""
    if not got.size:
        return "", 0.0
    with np.errstate(invalid="ignore"):
        error = np.abs(got.astype(np.float64) - expected)
        wrong = ~(error <= bound)  # NaN is wrong too
        worst = float(np.max(np.where(np.isfinite(got), error / bound, np.inf)))
    if not wrong.any():
        return "", worst
    places = np.argwhere(wrong)
    row, col = (int(i) for i in places[0])
    value = float(got[row, col])
    count, (top, left), (bottom, right) = len(places), places.min(axis=0), places.max(axis=0)
    named = (lambda i: int(i)) if rows is None else (lambda i: int(rows[i]))
    what = f"C[{named(row)}, {col}] is {value:.9g}, expected {float(expected[row, col]):.9g}"
    if np.isnan(value):
        what += " (never written, or made from a value outside A, B and C)"
    else:
        what += f" within {float(bound[row, col]):.2g}"
    if count == 1:
        return f"{what}; no other element is wrong", worst
    region = f"rows {named(top)} to {named(bottom)}, columns {left} to {right}"
    return f"{what}; {count} of {got.size} elements are wrong, in {region}", worst
