"""Scales of a product of 8-bit floats: which elements of A and of B share a float32 factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemmlab.ladder.problem import Problem

BLOCK = 128


@dataclass(frozen=True)
class Scales:
    """One factor for `rows` of A, or `columns` of B, along so many of k; 0 stands for all.

    They lie in float32 arrays: (1,) for a whole matrix; (M,) and (N,) for rows of A and columns of
    B; (M / rows, K / depth) and (N / columns, K / depth), rounded up, where they change along k.
    """

    name: str
    rows: int
    columns: int
    depth: int = 0

    def __str__(self) -> str:
        """What an array of scales is, for a message."""
        if not self.depth:
            return "one for each row of A, and of op(B).T" if self.rows else "one number each"
        return f"one for each {self.rows}×{self.depth} of A, {self.columns}×{self.depth} of op(B).T"

    def shape_of_a(self, problem: Problem) -> tuple[int, ...]:
        return self._shape(problem.m, self.rows, problem.k)

    def shape_of_b(self, problem: Problem) -> tuple[int, ...]:
        return self._shape(problem.n, self.columns, problem.k)

    def _shape(self, lines: int, together: int, k: int) -> tuple[int, ...]:
        count = -(-lines // together) if together else 1
        return (count, -(-k // self.depth)) if self.depth else (count,)

    def spread_over_a(self, scale: Any, problem: Problem) -> Any:
        """float64, to be multiplied with op(A), (M, K)."""
        return self._spread(scale, self.rows, problem.m, problem.k)

    def spread_over_b(self, scale: Any, problem: Problem) -> Any:
        """float64, to be multiplied with op(B), (K, N)."""
        return self._spread(scale, self.columns, problem.n, problem.k).T

    def _spread(self, scale: Any, together: int, lines: int, k: int) -> Any:
        wide = scale.astype("float64").reshape(len(scale), -1)
        if together > 1:
            wide = wide.repeat(together, axis=0)[:lines]
        return wide.repeat(self.depth, axis=1)[:, :k] if self.depth else wide


OF_TENSORS = Scales("tensors", 0, 0)
OF_ROWS = Scales("rows", 1, 1)
OF_BLOCKS = Scales("blocks", 1, BLOCK, BLOCK)
