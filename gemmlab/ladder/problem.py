"""A product: its shape, how many of them, and how A and B are stored; and those people run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gemmlab.files import rows_beside
from gemmlab.ladder.precision import Precision
from gemmlab.ladder.settings import IllegalSetting, is_whole

OPERATIONS = ("NN", "NT", "TN", "TT")


@dataclass(frozen=True)
class Problem:
    """C = alpha * op(A) @ op(B) + beta * C, `batch` times, C of `m` rows and `n` columns.

    `k`: what is summed over. `ops`: a letter each for A and B, as BLAS has them: N as it is, T
    stored transposed. Matrices are row-major; of a batch, one follows the other without gaps.

    Raises IllegalSetting for sizes that are no whole numbers from 0 on, and for other letters.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    ops: str = "NN"

    @classmethod
    def of(cls, shape: Sequence[int], ops: str = "NN") -> Problem:
        """Of (M, N, K), or (M, N, K, batch). Raises IllegalSetting."""
        if len(shape) not in (3, 4):
            raise IllegalSetting(f"shape is {shape!r}; it must be (M, N, K) or (M, N, K, batch)")
        m, n, k, batch = (*shape, 1)[:4]
        return cls(m, n, k, batch, ops)

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "batch"):
            size = getattr(self, name)
            if not is_whole(size) or size < 0:
                raise IllegalSetting(f"{name} is {size!r}; it must be a whole number, 0 or more")
        if self.ops not in OPERATIONS:
            raise IllegalSetting(f"ops is {self.ops!r}; it must be one of {', '.join(OPERATIONS)}")

    def __str__(self) -> str:
        batch = f"{self.batch} × " if self.batch != 1 else ""
        ops = f" {self.ops}" if self.ops != "NN" else ""
        return f"{batch}{self.m}×{self.n}×{self.k}{ops}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K)."""
        return self.m, self.n, self.k

    @property
    def flop(self) -> int:
        """Floating-point operations: m·n·k multiplications and as many additions, batch times."""
        return 2 * self.m * self.n * self.k * self.batch

    @property
    def shape_of_a(self) -> tuple[int, ...]:
        """As A is stored: (M, K), or (K, M) where it is transposed; the batch before it, if any."""
        return self._stored(self.m, self.k, self.ops[0])

    @property
    def shape_of_b(self) -> tuple[int, ...]:
        """As B is stored: (K, N), or (N, K) where it is transposed; the batch before it, if any."""
        return self._stored(self.k, self.n, self.ops[1])

    @property
    def shape_of_c(self) -> tuple[int, ...]:
        """(M, N); the batch before it, if any."""
        return self._stored(self.m, self.n, "N")

    def least_bytes(self, precision: Precision) -> int:
        """The fewest bytes that can move: A and B read once, C written once."""
        each = (
            self.m * self.k * precision.a.bytes
            + self.k * self.n * precision.b.bytes
            + self.m * self.n * precision.c.bytes
        )
        return self.batch * each

    def _stored(self, rows: int, columns: int, how: str) -> tuple[int, ...]:
        stored = (rows, columns) if how == "N" else (columns, rows)
        return stored if self.batch == 1 else (self.batch, *stored)


# Products that people run, by groups: at all of them the ladder is measured beside cuBLAS.
GROUPS: dict[str, tuple[Problem, ...]] = {}
for _row in rows_beside(__file__, "groups.csv"):
    _problem = Problem.of([int(_row[size]) for size in ("m", "n", "k", "batch")])
    GROUPS[_row["group"]] = (*GROUPS.get(_row["group"], ()), _problem)
EVERY_PROBLEM = tuple(problem for group in GROUPS.values() for problem in group)
BATCHES = GROUPS["batches"]
SINGLE_PRODUCTS = tuple(problem for problem in EVERY_PROBLEM if problem.batch == 1)
