"""Whole kernels in kernels/: products on tensor cores, and those of other kinds.

Every entry knows its launch shape, so a test says only which size it wants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import ptxsim
from matrices import ceil_div, error_bound, random_matrix, reference

KERNELS = Path(__file__).parent / "kernels"


@dataclass(frozen=True)
class Entry:
    """A kernel `entry` of the file `path`, compiled with the macros `settings`.

    `arch`: what it is compiled for. `shared_bytes`: its dynamic shared memory.
    """

    name: str
    path: Path
    entry: str
    settings: dict[str, int] = field(hash=False)
    block: tuple[int, int, int]
    arch: str = "sm_90a"
    shared_bytes: int = 0

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(f"-D{name}={value}" for name, value in self.settings.items())

    def run(self, grid, args, *, source: str | Path | None = None, **how) -> ptxsim.Run:
        """Run it in the simulator. `source`: another text, with a mistake in it for example.

        `how`: what ptxsim.launch takes besides, such as count, check, blocks.
        """
        usual = {"arch": self.arch, "options": self.options, "shared_bytes": self.shared_bytes}
        text = self.path if source is None else source
        return ptxsim.launch(text, self.entry, grid, self.block, args, **{**usual, **how})


@dataclass(frozen=True)
class Inputs:
    """Matrices of one product: A (m, k), B (k, n), C (m, n) before, and the factors."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    alpha: float
    beta: float

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.A.shape[0], self.B.shape[1], self.A.shape[1]

    def reference(self) -> np.ndarray:
        """float64 (m, n)."""
        return reference(self.A, self.B, self.C, self.alpha, self.beta)

    def bound(self) -> np.ndarray:
        """How far an element may be from the reference, if sums are kept in float32."""
        A, B = self.A.astype(np.float32), self.B.astype(np.float32)
        return error_bound(A, B, self.C.astype(np.float32), self.alpha, self.beta)


def inputs(
    m: int, n: int, k: int, alpha: float = 1.0, beta: float = 0.0, seed: int = 1, dtype="float32"
) -> Inputs:
    """A, B and C by matrices.random_matrix with seed, seed + 1, seed + 2; A, B of `dtype`.

    Where beta is 0, C holds NaN: a kernel must not read it.
    """
    A = random_matrix(m, k, seed).astype(dtype)
    B = random_matrix(k, n, seed + 1).astype(dtype)
    C = random_matrix(m, n, seed + 2) if beta else np.full((m, n), np.nan, np.float32)
    return Inputs(A, B, C, alpha, beta)


def plain_arguments(given: Inputs) -> list:
    """(A, B, C, M, N, K, alpha, beta)."""
    return [given.A, given.B, given.C, *given.shape, given.alpha, given.beta]


@dataclass(frozen=True)
class Product(Entry):
    """A kernel that computes C = alpha * A @ B + beta * C in place, C float32 (M, N).

    `tile`: rows and columns of C that a block computes. `dtype`: of A and B. `multiples`: what M,
    N and K must be multiples of. `arguments`: the kernel's arguments for Inputs; C among them is
    the array itself. `roundings`: how many float32 roundings a step of the sum costs at most:
    tensor cores cut off instead of rounding, which counts as two.
    """

    tile: tuple[int, int] = (1, 1)
    dtype: str = "float32"
    multiples: tuple[int, int, int] = (1, 1, 1)
    arguments: Callable[[Inputs], list] = plain_arguments
    roundings: float = 1.0

    def grid(self, m: int, n: int) -> tuple[int, int, int]:
        rows, cols = self.tile
        return ceil_div(n, cols), ceil_div(m, rows), 1

    def fitting(self, m: int, n: int, k: int) -> tuple[int, int, int]:
        """The shape, or the next larger one that the kernel takes."""
        return tuple(ceil_div(x, of) * of for x, of in zip((m, n, k), self.multiples, strict=True))

    def inputs(self, m, n, k, alpha=1.0, beta=0.0, seed=1) -> Inputs:
        return inputs(m, n, k, alpha, beta, seed, self.dtype)

    def launch(self, m, n, k, alpha=1.0, beta=0.0, seed=1, **how):
        """Run an m×n×k product on random inputs. Returns (C, run), C float32 (m, n)."""
        given = self.inputs(m, n, k, alpha, beta, seed)
        run = self.run(self.grid(m, n), self.arguments(given), **how)
        return given.C, run

    def wrong_elements(self, C: np.ndarray, given: Inputs) -> int:
        """How many elements of C are further from the reference than they may be; NaN is."""
        return int((~(np.abs(C - given.reference()) <= self.roundings * given.bound())).sum())


# --- products on tensor cores: float16 in, float32 sums -------------------------------------------


def tensor(
    name: str, file: str, threads: int, tile: int, multiples=(1, 1, 1), **settings
) -> Product:
    return Product(
        name, KERNELS / file, name.split()[0], settings, (threads, 1, 1),
        tile=(tile, tile), dtype="float16", multiples=multiples, roundings=2.0,
    )  # fmt: skip


TENSOR_PRODUCTS = [
    tensor("wmma_plain", "wmma.cu", 32, 16, (16, 16, 16)),
    tensor("wmma_staged", "wmma.cu", 128, 32),
    tensor("mma_sync", "mma_sync.cu", 128, 64, SWIZZLE=0),
    tensor("mma_sync swizzled", "mma_sync.cu", 128, 64, SWIZZLE=1),
    tensor("wgmma_shared", "wgmma.cu", 128, 64),
    tensor("wgmma_shared 1 stage", "wgmma.cu", 128, 64, STAGES=1),
    tensor("wgmma_registers", "wgmma.cu", 128, 64),
]


def product(name: str) -> Product:
    """The product kernel of this name."""
    return next(product for product in TENSOR_PRODUCTS if product.name == name)


# --- other kinds ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Other(Entry):
    """A kernel that is no product. `case(size)` gives (grid, args, expected).

    `expected` is the last array of the arguments as it must be afterwards, or a pair of float64
    (value, error bound).
    """

    case: Callable[[int], tuple] = None

    def launch(self, size: int, **how):
        """Run it at `size`. Returns (result, expected, run)."""
        grid, args, expected = self.case(size)
        run = self.run(grid, args, **how)
        return [arg for arg in args if isinstance(arg, np.ndarray)][-1], expected, run


def _row_sums(size: int):
    x = random_matrix(5, size, 11)
    exact, magnitude = x.astype(np.float64).sum(axis=1), np.abs(x).astype(np.float64).sum(axis=1)
    return (
        (5, 1, 1),
        [x, np.full(5, np.nan, np.float32), size],
        (exact, size * 2.0**-24 * magnitude),
    )


def _transposed(size: int):
    x = random_matrix(size, size + 3, 12)
    out = np.full((size + 3, size), np.nan, np.float32)
    return (ceil_div(size + 3, 32), ceil_div(size, 32), 1), [x, out, *x.shape], x.T.copy()


def _counted(size: int):
    x = np.random.default_rng(13).integers(0, 256, size, np.uint8)
    x[: size // 2] %= 4  # many of the same, so that lanes meet in a bin
    bins = np.zeros(256, np.uint32)
    return (3, 1, 1), [x, bins, size], np.bincount(x, minlength=256).astype(np.uint32)


def other(name: str, block: tuple[int, int, int], case: Callable[[int], tuple]) -> Other:
    return Other(name, KERNELS / f"{name}.cu", name, {}, block, case=case)


OTHERS = [
    other("block_reduction", (128, 1, 1), _row_sums),
    other("transpose", (32, 8, 1), _transposed),
    other("histogram", (128, 1, 1), _counted),
]
