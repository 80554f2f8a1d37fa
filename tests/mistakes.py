"""Mistakes planted in correct kernels, and who finds each: the simulator's checks or verification.

A mistake is one change of text in a kernel of corpus.py or of planted/*.cu, with the headers that
it includes, or of its launch: planted/mistakes.toml has them. The kernels without it are run the
same way, so that a finding is due to the mistake alone. A rung that no longer has the text of a
mistake is refused.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import corpus
import numpy as np
from cluster_mistakes import MISTAKES_IN_CLUSTERS, InCluster
from planting import Mistake
from sample_kernels import Sample, matches

import ptxsim
from gemmlab.kernel.operands import random_matrix

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PLANTED = Path(__file__).parent / "planted"
f4 = np.float32

# (m, n, k, alpha, beta): C wider than high, with tails, and C to be read, higher than wide.
SHAPES = ((20, 35, 37, 1.0, 0.0), (40, 18, 24, 0.5, 2.0))
# For blocks of 64×64: float4 in the first, rows of no multiple of 4 in the second.
WIDE_SHAPES = ((68, 132, 20, 1.0, 0.0), (130, 67, 17, 0.5, 2.0))
SIZES = (100, 33)


@dataclass(frozen=True)
class Trial:
    """One run: how it was launched, and what came of it."""

    findings: list[ptxsim.Finding]
    right: bool


def text_of(name: str) -> str:
    return (PLANTED / f"{name}.cu").read_text(encoding="utf-8")


def _square_product(source: str, grid, block, n: int = 32, shared_bytes: int = 0) -> Sample:
    A, B = random_matrix(n, n, 31), random_matrix(n, n, 32)
    given = corpus.Inputs(A, B, np.full((n, n), np.nan, f4), 1.0, 0.0)

    def expected(args):
        return {2: (given.reference(), given.bound())}

    def args():
        return [A.copy(), B.copy(), given.C.copy(), n]

    return Sample(source, grid, block, args, expected, shared_bytes)


def _mapped(name: str, grid: int, block: int, x, out, *numbers: int, expected) -> Sample:
    """Of kernels that read `x` and write `out`."""
    return Sample(
        text_of(name), (grid, 1, 1), (block, 1, 1), lambda: [x.copy(), out.copy(), *numbers],
        lambda args: {1: expected},
    )  # fmt: skip


def _warp_private() -> Sample:
    x, lanes = np.arange(256, dtype=f4), (np.arange(32) + 15) % 32
    expected = 8 * x.reshape(8, 32)[:, lanes].reshape(-1)
    return _mapped("warp_private", 2, 128, x, np.zeros(256, f4), 3, expected=expected)


def _hand_over() -> Sample:
    x = np.random.default_rng(33).integers(-9, 9, (5, 64)).astype(f4)
    expected = x.sum(axis=0)[::-1].copy()
    return _mapped("hand_over", 1, 96, x, np.zeros(64, f4), 5, expected=expected)


def _compact() -> Sample:
    x = random_matrix(1, 200, 34)[0]
    expected = np.array([(x > 0).sum()], np.int32)
    return _mapped("compact", 1, 64, x, np.zeros(1, np.int32), 200, expected=expected)


def _window() -> Sample:
    x = random_matrix(32, 12, 35)
    return _mapped("window", 1, 32, x, np.zeros(32, f4), 12, expected=x[:, -5].copy())


def _row_ends() -> Sample:
    x = random_matrix(3, 1000, 37)
    expected = x[:, -1].copy()
    return _mapped("row_ends", 1, 3, x, np.zeros(3, f4), 2_200_000, 1000, expected=expected)


def _scaled() -> Sample:
    x = random_matrix(3, 150, 36)
    expected = x.astype(np.float64) / np.abs(x).max(axis=1, keepdims=True), 2.0**-22
    return _mapped("scaled", 3, 64, x, np.zeros((3, 150), f4), 150, expected=expected)


def _pieces(name: str, threads: int) -> Sample:
    """The sum of pieces of 128, each times its number and turned round."""
    pieces = 7
    x = np.random.default_rng(38).integers(-9, 9, (pieces, 128)).astype(f4)
    expected = (np.arange(1, pieces + 1)[:, None] * x).sum(axis=0)[::-1].astype(f4)
    return _mapped(name, 1, threads, x, np.zeros(128, f4), pieces, expected=expected)


OWN = {
    "flat tiles": _square_product(
        text_of("flat_tiles"), (2, 2, 1), (16, 16, 1), shared_bytes=4 * 2 * 16 * 17
    ),
    "persistent": _square_product(text_of("persistent"), (3, 1, 1), (8, 8, 1)),
    "split": _square_product(text_of("split"), (1, 32, 1), (32, 4, 1)),
    "warp-private": _warp_private(),
    "hand-over": _hand_over(),
    "compact": _compact(),
    "window": _window(),
    "row ends": _row_ends(),
    "scaled": _scaled(),
    "pipeline": _pieces("pipeline", 128),
    "bulk copies": _pieces("bulk_copies", 160),
}


# ---- the mistakes --------------------------------------------------------------------------------


def _tuples(value):
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _of_entry(entry: dict) -> Mistake:
    fields = {"old": "", "new": ""} | {name: _tuples(value) for name, value in entry.items()}
    return Mistake(**fields | {"found_by": frozenset(entry["found_by"])})


ENTRIES = tomllib.loads((PLANTED / "mistakes.toml").read_text(encoding="utf-8"))["mistake"]
MISTAKES = [*map(_of_entry, ENTRIES), *MISTAKES_IN_CLUSTERS]
IN_CLUSTERS = {mistake.of for mistake in MISTAKES_IN_CLUSTERS}


# --- running one ----------------------------------------------------------------------------------


def find(name: str) -> Mistake:
    (match,) = (mistake for mistake in MISTAKES if mistake.name == name)
    return match


def base(name: str):
    """The kernel of this name: a corpus.Product, a corpus.Other, a Sample or an InCluster."""
    if name in OWN:
        return OWN[name]
    if name in IN_CLUSTERS:
        return InCluster(name)
    (product,) = (known for known in (*corpus.PRODUCTS, *corpus.OTHERS) if known.name == name)
    return product


def planted(mistake: Mistake) -> str:
    """The text with the mistake in it, and instead of #include the headers of kernels/.

    Raises ValueError where the text that it replaces does not stand there exactly once.
    """
    text = base(mistake.of).text
    if not mistake.old:
        return text
    text = corpus.self_contained(text)
    if (times := text.count(mistake.old)) != 1:
        raise ValueError(
            f"{mistake.name}: {mistake.old!r} stands {times} times in {mistake.of}, it must stand "
            "there once: plant the mistake in the kernel as it is now"
        )
    return text.replace(mistake.old, mistake.new)


def shapes(kernel, mistake: Mistake) -> tuple:
    """What to run it at: (m, n, k, alpha, beta) of a product, sizes of others, once for Samples."""
    if mistake.shapes:
        return mistake.shapes
    if isinstance(kernel, Sample | InCluster):
        return (None,)
    if isinstance(kernel, corpus.Other):
        return SIZES
    if max(kernel.tile) <= 32:
        return SHAPES
    return WIDE_SHAPES


def correct(mistake: Mistake) -> Mistake:
    """The same kernel run the same way, without the mistake."""
    return replace(mistake, old="", new="", change=None, found_by=frozenset(), kinds=())


@dataclass(frozen=True)
class Prepared:
    """A launch ready to run, in the simulator or on a GPU.

    `empty`: which arguments nobody has written. `right` judges the arguments after.
    """

    source: str
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: list
    arch: str
    options: tuple[str, ...]
    shared_bytes: int
    empty: tuple[int, ...]
    right: Callable[[], bool]


def prepare(mistake: Mistake, shape) -> Prepared:
    """The launch at one of `shapes`, with new arrays."""
    kernel, source = base(mistake.of), planted(mistake)
    change, empty = dict(mistake.change or {}), ()
    if isinstance(kernel, Sample):
        args, entry, arch, options = kernel.args(), "k", "sm_90a", ()
        expected, grid = kernel.expected(args), kernel.grid

        def right():
            return all(matches(args[i], value) for i, value in expected.items())

    elif isinstance(kernel, InCluster):
        case, arch, options = kernel.case, kernel.arch, kernel.options
        args, entry, grid = case.args(), case.entry, (*case.grid, 1, 1)[:3]

        def right():
            return kernel.is_right(args)

    elif isinstance(kernel, corpus.Other):
        entry, arch, options = kernel.entry, kernel.arch, kernel.options
        grid, args, expected = kernel.case(shape)

        def right():
            return matches([a for a in args if isinstance(a, np.ndarray)][-1], expected)

    else:
        entry, arch, options = kernel.entry, kernel.arch, kernel.options
        m, n, k = kernel.fitting(*shape[:3])
        given = kernel.inputs(m, n, k, *shape[3:])
        before = replace(given, C=given.C.copy())
        args, grid = kernel.arguments(given), kernel.grid(m, n)
        if given.beta == 0:
            empty = tuple(i for i, arg in enumerate(args) if arg is given.C)
        if change.pop("grid", None) == "floor":
            grid = (max(n // kernel.tile[1], 1), max(m // kernel.tile[0], 1), 1)

        def right():
            return kernel.wrong_elements(given.C, before) == 0

    block, shared_bytes = (
        ((*case.block, 1, 1)[:3], case.shared_bytes)
        if isinstance(kernel, InCluster)
        else (kernel.block, kernel.shared_bytes)
    )
    usual = Prepared(source, entry, grid, block, args, arch, options, shared_bytes, empty, right)
    return replace(usual, **change)


def trials(mistake: Mistake, check: bool = True) -> Iterator[Trial]:
    """Run it in the simulator at each of its shapes."""
    for shape in shapes(base(mistake.of), mistake):
        it = prepare(mistake, shape)
        args = [
            ptxsim.uninitialised(arg) if i in it.empty else arg for i, arg in enumerate(it.args)
        ]
        run = ptxsim.launch(
            it.source,
            it.entry,
            it.grid,
            it.block,
            args,
            arch=it.arch,
            options=it.options,
            shared_bytes=it.shared_bytes,
            check=check,
            limit_s=None,
        )
        yield Trial(run.findings, it.right())
