"""The gate: is a kernel's product right? No kernel is timed before it has passed.

Every element is compared with a float64 reference, within a bound of its own: see
gemmlab.kernel.bounds. C is filled with NaN before (where beta is 0 it must not be read), A, B and C
stand between guard cells that hold NaN, so that reading or writing past an end shows, as do the
rows of matrices with gaps between them; A, B and the bias must be afterwards what they were.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmlab.kernel import faults, layout
from gemmlab.kernel.bounds import error_bound, reference
from gemmlab.kernel.in_simulator import KernelMistake
from gemmlab.kernel.operands import Launchable, Operands, random_values, unwritten
from gemmlab.ladder import Problem
from gemmlab.ladder.activations import activate
from gemmlab.ladder.precision import PRECISIONS, ElementType, Precision
from ptxsim import Finding

if TYPE_CHECKING:
    import pandas

    from gemmlab.kernel.kernel import Kernel

GUARD_ALIGNMENT = 128  # elements: keeps what follows as aligned as cudaMalloc would

PRODUCT = (1.0, 0.0)
# The largest product. An edited kernel has a smaller one in the simulator, where the other takes
# longer than all the rest: still no multiple of anything, larger than any shared tile both ways,
# with more steps along K than there are stages.
LARGE, SMALLER = (1001, 777, 513), (277, 261, 389)
GAPS = (3, 4)  # elements between rows: of 1 more than a tile, they begin at 16 bytes, and off them
OFF = 4  # with a gap that this does not divide, arrays begin off 16 bytes too
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
    message: str  # empty if passed
    findings: tuple[Finding, ...] = ()  # what the simulator's checks met
    biased: bool = False  # with a bias
    batch: int = 1
    gap: int = 0  # elements between rows

    @property
    def passed(self) -> bool:
        return not self.message

    def __str__(self) -> str:
        product = f"M={self.m} N={self.n} K={self.k} alpha={self.alpha:g} beta={self.beta:g}"
        product += f" batch={self.batch}" if self.batch != 1 else ""
        product += " with bias" if self.biased else ""
        product += f" with {self.gap} elements between rows" if self.gap else ""
        return f"{product}: {'pass' if self.passed else f'FAIL (seed {self.seed}): {self.message}'}"


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

    def frame(self) -> pandas.DataFrame:
        """pandas.DataFrame with a row for each case."""
        import pandas as pd

        table = pd.DataFrame([
            {
                "M": case.m, "N": case.n, "K": case.k, "alpha": case.alpha, "beta": case.beta,
                "batch": case.batch, "bias": "yes" if case.biased else "no",
                "between rows": case.gap,
                "result": "pass" if case.passed else f"FAIL: {case.message}",
            }
            for case in self.cases
        ])  # fmt: skip
        usual = {"batch": 1, "bias": "no", "between rows": 0}
        every = [name for name, value in usual.items() if (table.get(name, value) == value).all()]
        return table.drop(columns=every)

    def __repr__(self) -> str:
        count = sum(case.passed for case in self.cases)
        lines = [f"{self.kernel}: {count} of {len(self.cases)} cases pass"]
        return "\n".join(lines + [f"  {case}" for case in self.cases if not case.passed])

    def _repr_html_(self) -> str:
        import pandas as pd

        with pd.option_context("display.max_colwidth", None):
            table = self.frame().to_html(index=False, float_format="{:g}".format)
        folded = "" if self.passed else " open"
        return (
            f"<p>{repr(self).splitlines()[0]}</p>"
            f"<details{folded}><summary>All cases</summary>{table}</details>"
        )


# --- checking -----------------------------------------------------------------------------------


def shapes(kernel: Kernel) -> list[tuple[int, int, int]]:
    """(M, N, K) where kernels go wrong: single elements, primes, thin ones, tile edges, K of 0. A
    kernel that takes whole multiples alone gets the next ones."""
    rows, cols = kernel.rung.tile(kernel.settings)
    mapped = [(rows + 8, cols + 8, 336), (8, 2 * cols - 8, 64)]  # rows of whole 16 bytes
    every: list[tuple[int, int, int]] = [
        (1, 1, 1), (7, 5, 3), (61, 67, 71), (1, 129, 65), (129, 1, 65), (17, 33, 0), (33, 17, 1),
        (rows, cols, 32), (max(rows - 1, 1), cols + 1, 33), (rows + 1, max(cols - 1, 1), 31),
        LARGE if (kernel.on_gpu or not kernel.edited) and kernel.rung.batch == 1 else SMALLER,
        *(mapped if kernel.rung.has_maps(kernel.settings) else ()),
    ]  # fmt: skip
    return [kernel.rung.taken(*shape, kernel.settings) for shape in every]


def verify(kernel: Kernel, seed: int | None = None) -> Report:
    """Check `kernel` at all of `shapes`, and with all of FACTORS at a tile's edge.

    A kernel that takes no factors is checked without, and one that takes whole multiples alone at
    the next ones. Where it takes a bias, all but two cases have one; where it takes batches, all
    but two are of several products. Where it takes leading dimensions, the cases with factors have
    gaps between rows. Inputs are new with every call, or those of `seed`. The kernel is run in
    place, as timing runs it.
    """
    taken, (rows, cols) = kernel.rung.taken, kernel.rung.tile(kernel.settings)
    edge, gaps = (rows + 1, cols + 1, 33), cycle(GAPS if kernel.takes("lda") else (0,))
    cases: list[tuple[tuple[int, int, int], tuple[float, float], dict[str, Any]]] = [
        *((shape, PRODUCT, {}) for shape in shapes(kernel)),
        *((edge, factors, {"gap": next(gaps)}) for factors in FACTORS[1:]),
    ]
    if kernel.rung.has_maps(kernel.settings):
        cases.append(((rows + 8, cols + 8, 80), (0.5, 2.0), {}))
    if kernel.takes("lda"):
        cases.append(((rows, cols, 32), PRODUCT, {"gap": 4}))
    if kernel.rung.batch > 1:
        cases += [((61, 67, 71), PRODUCT, {"batch": batch}) for batch in (0, 1)]
    cases.append(((7, 5, 0), (1.0, 0.5), {"biased": False}))
    if kernel.takes_bias:
        cases.append((edge, PRODUCT, {"biased": False}))
    if not kernel.takes("alpha"):
        cases = [case for case in cases if case[1] == PRODUCT]
    seeds = np.random.SeedSequence(seed).generate_state(len(cases)).tolist()
    return Report(kernel.name, [
        check(kernel, *taken(*shape, kernel.settings), *factors, seed=seed_of_case, **how)
        for (shape, factors, how), seed_of_case in zip(cases, seeds, strict=True)
    ])  # fmt: skip


def check(
    kernel: Kernel, m: int, n: int, k: int, alpha: float, beta: float, *, seed: int,
    biased: bool = True, batch: int | None = None, gap: int = 0,
) -> Case:  # fmt: skip
    """Run one product and compare it, element by element. Never raises for a wrong result.

    `biased`: with a bias, if the kernel takes one. `batch`: of how many products, the rung's own
    number if it is not given. `gap`: elements between rows, of a kernel that takes lda.
    """
    problem = kernel.problem(m, n, k, batch)
    operands = kernel.operands(problem, seed, written=beta != 0, gap=gap)
    if not biased:
        operands = replace(operands, bias=None)
    findings: tuple[Finding, ...] = ()
    try:
        got, guards = _run_guarded(kernel, operands, alpha, beta, gap % OFF)
    except KernelMistake as mistake:
        message, findings = str(mistake), mistake.findings
    else:
        A, B, C = operands.numbers()
        end = {"bias": operands.bias, "activation": kernel.activation}
        expected = reference(A, B, C, alpha, beta, **end)
        least = operands.least() if kernel.precision.promoted is not None else (0.0, 0.0)
        bound = error_bound(A, B, C, alpha, beta, kernel.precision, **end, least=least)
        got = kernel.precision.c.decode(got)
        rows = _names(range(m), range(len(got)) if got.ndim == 3 else None)
        got, expected, bound = (X.reshape(-1, n) for X in (got, expected, bound))
        message = "; ".join(filter(None, (_compare(got, expected, bound, rows), guards)))
    return Case(
        m, n, k, alpha, beta, seed, message, findings,
        operands.bias is not None, problem.batch, gap,
    )  # fmt: skip


@faults.reported()
def check_sample(
    kernel: Launchable, problem: Problem, *, rows: int = 64, precision: Precision | None = None
) -> None:
    """Check a large product on its own device: every element finite, `rows` rows compared.

    The rows are the first, the last and others at random, of at most as many products of a batch.
    `precision`: whose bound holds, if not the kernel's. Raises VerificationError.
    """
    xp = kernel.array_module
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    precision = precision or getattr(kernel, "precision", None) or PRECISIONS[kernel.dtype]
    A = _uniform(xp, problem.shape_of_a, seed, precision.a)
    B = _uniform(xp, problem.shape_of_b, seed + 1, precision.b)
    C = xp.full(problem.shape_of_c, precision.c.guard, precision.c.bits).view(precision.c.storage)
    bias = kernel.to_device(random_values(problem.n, seed + 3)) if kernel.takes_bias else None
    operands = Operands(problem, precision, A, B, C, bias)
    if precision.scales is not None:
        operands = operands.scaled(seed + 4, kernel.to_device)
    kernel.launch(operands, 1.0, 0.0)
    where = f"{kernel.name} at {problem} (seed {seed})"
    finite = xp.isfinite(precision.c.decode(C))
    if not bool(finite.all()):
        place = ", ".join(map(str, np.argwhere(~kernel.to_host(finite))[0]))
        raise VerificationError(f"{where}: C[{place}] is not finite")
    random = np.random.default_rng(seed)
    chosen = _some(random, problem.m, rows)
    products = _some(random, problem.batch, rows) if C.ndim > 2 else None
    lines = xp.asarray(chosen)
    some = {"A": A.take(lines, axis=-2 if problem.ops[0] == "N" else -1), "B": B}
    some["C"] = C.take(lines, axis=-2)
    if products is not None:
        some = {name: X[xp.asarray(products)] for name, X in some.items()}
    if precision.scales is not None and precision.scales.rows:
        some["scale_a"] = precision.scales.of_rows(operands.scale_a, lines, problem)
    batch = problem.batch if products is None else len(products)
    operands = replace(operands, problem=replace(problem, m=len(chosen), batch=batch), **some)
    A, B, C = operands.numbers()
    least = operands.least() if precision.scales is not None else (0.0, 0.0)
    expected = reference(A, B, None, 1.0, 0.0, bias)
    bound = error_bound(A, B, None, 1.0, 0.0, precision, bias, kernel.activation, least)
    got, expected, bound = (kernel.to_host(X).reshape(-1, problem.n) for X in (C, expected, bound))
    names = _names(chosen, products)
    if message := _compare(got, activate(expected, kernel.activation), bound, names):
        raise VerificationError(f"{where}: {message}")


def _names(rows: Iterable[int], products: Iterable[int] | None) -> list[str]:
    """What messages call the rows of a product, or of these products of a batch."""
    names = [str(row) for row in rows]
    return [f"{at}, {row}" for at in products for row in names] if products is not None else names


def _some(random: np.random.Generator, count: int, most: int) -> np.ndarray:
    """Sorted indices: the first, the last, and others at random, about `most` in all."""
    inner = random.choice(count, min(most, count), replace=False)
    return np.unique(np.concatenate([inner, [0, count - 1]]))


def _uniform(xp: Any, shape: tuple[int, ...], seed: int, element: ElementType) -> Any:
    """From -1 to 1, made on the device itself."""
    generator = xp.random.default_rng(seed)
    return element.encode(generator.random(shape, dtype=xp.float32) * 2 - 1, element.storage)


def _run_guarded(
    kernel: Kernel, operands: Operands, alpha: float, beta: float, off: int
) -> tuple[np.ndarray, str]:
    """C after the run, and what was written that must not be: guard cells, inputs; or "". `off`:
    how many elements past a multiple of 16 bytes arrays begin."""
    guard = -(-max(4096, 2 * operands.problem.n) // GUARD_ALIGNMENT) * GUARD_ALIGNMENT + off
    given, types = operands.arrays(), operands.elements()
    placed = {name: _guarded(kernel, array, types[name], guard) for name, array in given.items()}
    views = {name: view for name, (_, view) in placed.items()}
    kernel.launch(replace(operands, **views), alpha, beta)
    after = {name: kernel.to_host(memory) for name, (memory, _) in placed.items()}
    views = {name: _lying_as(given[name], memory, guard) for name, memory in after.items()}
    wrong = [_guards_changed(name, after[name], types[name], guard, given[name]) for name in given]
    wrong += [_written_inside(name, views[name], given[name]) for name in given if name != "C"]
    return views["C"], "; ".join(sorted(filter(None, wrong)))


def _guards_changed(
    name: str, after: np.ndarray, element: ElementType, guard: int, given: np.ndarray
) -> str:
    """What happened to the cells around an array and between its rows; empty if nothing."""
    guards = np.ones(after.size, bool)
    end = guard + layout.span(given)
    guards[guard:end] = ~layout.covered(given)
    changed = np.flatnonzero(guards & (after.view(element.bits) != element.guard))
    if not len(changed):
        return ""
    first, count = int(changed[0]), f"{len(changed)} guard cells changed"
    if first < guard:
        return f"wrote outside {name}: {guard - first} elements before the start of {name}, {count}"
    if first >= end:
        return f"wrote outside {name}: {first - end + 1} elements past the end of {name}, {count}"
    row, past = divmod(first - guard, layout.leading(given))
    return (
        f"wrote between the rows of {name}: {past - given.shape[-1] + 1} elements past the end of "
        f"row {row}, {count}"
    )


def _written_inside(name: str, after: np.ndarray, given: np.ndarray) -> str:
    """What happened to an input; empty if nothing."""
    after, given = (np.ascontiguousarray(X).reshape(-1) for X in (after, given))
    changed = np.flatnonzero(after.view(np.uint8) != given.view(np.uint8))
    if not len(changed):
        return ""
    first = int(changed[0]) // given.itemsize
    return f"wrote to {name}[{first}], and {name} is an input"


def _guarded(
    kernel: Kernel, array: np.ndarray, element: ElementType, guard: int
) -> tuple[Any, Any]:
    """The array between two guards, as all of that memory and as the view of the array alone."""
    memory = unwritten((layout.span(array) + 2 * guard,), element)
    _lying_as(array, memory, guard)[...] = array
    on_device = kernel.to_device(memory)
    return on_device, _lying_as(array, on_device, guard)


def _lying_as(array: np.ndarray, memory: Any, guard: int) -> Any:
    """The view of memory behind a guard that lies as the array does."""
    inside = memory[guard : guard + layout.span(array)]
    if array.flags.c_contiguous:
        return inside.reshape(array.shape)
    if isinstance(memory, np.ndarray):
        return np.lib.stride_tricks.as_strided(inside, array.shape, array.strides)
    import cupy

    return cupy.lib.stride_tricks.as_strided(inside, array.shape, array.strides)


def _compare(got: np.ndarray, expected: np.ndarray, bound: np.ndarray, rows: list[str]) -> str:
    """A message that says where `got` is wrong, empty if nowhere. All (rows, columns). `rows`: what
    the message calls each row."""
    with np.errstate(invalid="ignore"):
        error = np.abs(got.astype(np.float64) - expected)
        wrong = ~(error <= bound)  # NaN is wrong too
    if not wrong.any():
        return ""
    places = np.argwhere(wrong)
    row, col = (int(i) for i in places[0])
    value = float(got[row, col])
    count, (top, left), (bottom, right) = len(places), places.min(axis=0), places.max(axis=0)
    element = f"C[{rows[row]}, {col}] is {value:.9g}, expected {float(expected[row, col]):.9g}"
    if np.isnan(value):
        element += " (never written, or made from a value outside A, B and C)"
    else:
        element += f" within {float(bound[row, col]):.2g}"
    if count == 1:
        return f"{element}; no other element is wrong"
    region = f"rows {rows[top]} to {rows[bottom]}, columns {left} to {right}"
    return f"{element}; {count} of {got.size} elements are wrong, in {region}"
