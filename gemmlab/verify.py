"""The gate: is a kernel's product right? No kernel is timed before it has passed.

The reference is computed in float64. An element of C may differ from it by at most

    |alpha| * gamma(K + 2) * (|A| |B|)  +  |beta| * gamma(2) * |C|  +  underflow

with gamma(n) = n u / (1 - n u) and u = 2**-24, half the distance from 1 to the next float32.
This is the bound for an inner product of length K in any order of summation (N. J. Higham,
"Accuracy and Stability of Numerical Algorithms", 2nd edition, SIAM 2002, section 3.1): K roundings
for products and sums, one for the factor alpha, one for adding beta * C. `underflow` allows each
operation to flush a subnormal result to zero. The bound holds for every element by itself.

What else is checked: C is filled with NaN before (where beta is 0 it must not be read), and A, B
and C stand between guard cells that hold NaN, so that reading or writing past an end shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .simulator import Finding

UNIT_ROUNDOFF = {"float32": 2.0**-24}
SMALLEST_NORMAL = {"float32": 2.0**-126}
GUARD_PATTERN = 0x7FC0BEEF  # a NaN that no arithmetic makes
GUARD_ALIGNMENT = 64  # floats: keeps what follows as aligned as cudaMalloc would

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

    def __str__(self):
        what = f"M={self.m} N={self.n} K={self.k} alpha={self.alpha:g} beta={self.beta:g}"
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

        return pd.DataFrame(
            [
                {
                    "M": c.m, "N": c.n, "K": c.k, "alpha": c.alpha, "beta": c.beta,
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


def random_matrix(rows: int, cols: int, seed: int) -> np.ndarray:
    """float32 (rows, cols), uniform in [-1, 1), the same for a seed on every machine.

    NumPy promises the raw bits of its PCG64 for good, its distributions not.
    """
    raw = np.random.PCG64(seed).random_raw(rows * cols)
    return ((raw >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - 1).reshape(
        rows, cols
    )


def reference(A, B, C, alpha: float, beta: float):
    """alpha * A @ B + beta * C in float64. C is not looked at where beta is 0."""
    product = alpha * (A.astype(np.float64) @ B.astype(np.float64))
    return product + beta * C.astype(np.float64) if beta else product


def error_bound(A, B, C, alpha: float, beta: float, dtype: str = "float32"):
    """How far each element may be from the reference, float64 of C's shape: see the module."""
    u, tiny = UNIT_ROUNDOFF[dtype], SMALLEST_NORMAL[dtype]
    k = A.shape[1]
    gamma = [n * u / (1 - n * u) for n in (k + 2, 2)]
    magnitude = abs(A).astype(np.float64) @ abs(B).astype(np.float64)
    bound = abs(alpha) * gamma[0] * magnitude + (2 * k + 4) * tiny * max(abs(alpha), 1.0)
    return bound + abs(beta) * gamma[1] * abs(C).astype(np.float64) if beta else bound


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

    Inputs are new with every call, or those of `seed`. The kernel is run in place, as timing runs
    it.
    """
    seeds = iter(np.random.SeedSequence(seed).generate_state(64).tolist())
    cases = [check(kernel, *shape, *PRODUCT, seed=next(seeds)) for shape in shapes(kernel)]
    rows, cols = kernel.rung.tile(kernel.settings)
    cases += [
        check(kernel, rows + 1, cols + 1, 33, *factors, seed=next(seeds)) for factors in FACTORS[1:]
    ]
    cases.append(check(kernel, 7, 5, 0, 1.0, 0.5, seed=next(seeds)))
    return Report(kernel.name, cases)


def check(kernel, m: int, n: int, k: int, alpha: float, beta: float, *, seed: int) -> Case:
    """Run one product and compare it, element by element. Never raises for a wrong result."""
    A, B, C = (
        random_matrix(rows, cols, seed + i)
        for i, (rows, cols) in enumerate([(m, k), (k, n), (m, n)])
    )
    if beta == 0:
        C.fill(np.nan)
    message, worst = "", 0.0
    try:
        got, guards = _run_guarded(kernel, A, B, C, alpha, beta)
    except kernel.Mistake as mistake:
        message, worst = str(mistake), np.inf
    else:
        expected = reference(A, B, C, alpha, beta)
        bound = error_bound(A, B, C, alpha, beta, kernel.rung.dtype)
        message, worst = _compare(got, expected, bound)
        message = "; ".join(part for part in (message, guards) if part)
    return Case(m, n, k, alpha, beta, seed, not message, message, worst)


def check_sample(kernel, m: int, n: int, k: int, *, rows: int = 64) -> None:
    """Check a large product on its own device: every element finite, `rows` rows compared.

    The rows are the first, the last and others at random. Raises VerificationError.
    """
    xp = kernel.array_module
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    A, B = (_uniform(xp, shape, seed + i) for i, shape in enumerate([(m, k), (k, n)]))
    C = xp.full((m, n), xp.nan, xp.float32)
    kernel.launch_into(A, B, C)
    where = f"{kernel.name} at M={m} N={n} K={k} (seed {seed})"
    if not bool(xp.isfinite(C).all()):
        row, col = (int(i) for i in np.argwhere(~np.isfinite(kernel.to_host(C)))[0])
        raise VerificationError(f"{where}: C[{row}, {col}] is not finite")
    inner = np.random.default_rng(seed).choice(m, min(rows, m), replace=False)
    chosen = np.unique(np.concatenate([inner, [0, m - 1]]))
    part = A[xp.asarray(chosen)]
    expected, bound = reference(part, B, None, 1.0, 0.0), error_bound(part, B, None, 1.0, 0.0)
    got = C[xp.asarray(chosen)]
    message, _ = _compare(*(kernel.to_host(x) for x in (got, expected, bound)), rows=chosen)
    if message:
        raise VerificationError(f"{where}: {message}")


def _uniform(xp, shape, seed: int):
    """float32 in [-1, 1), made on the device itself."""
    generator = xp.random.default_rng(seed)
    return generator.random(shape, dtype=xp.float32) * 2 - 1


def _run_guarded(kernel, A, B, C, alpha, beta) -> tuple[np.ndarray, str]:
    """C after the run, and what happened to the guard cells: empty if nothing."""
    guard = -(-max(4096, 2 * C.shape[1]) // GUARD_ALIGNMENT) * GUARD_ALIGNMENT
    flat, inside = zip(*(_guarded(kernel, x, guard) for x in (A, B, C)), strict=True)
    kernel.launch_into(*inside, alpha, beta)
    after = kernel.to_host(flat[2]).view(np.uint32)
    got = after[guard : guard + C.size].view(np.float32).reshape(C.shape)
    outside = np.concatenate([after[:guard], after[guard + C.size :]])
    changed = np.flatnonzero(outside != GUARD_PATTERN)
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
    flat = np.full(matrix.size + 2 * guard, GUARD_PATTERN, np.uint32).view(np.float32)
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
