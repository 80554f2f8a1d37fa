"""Strategies compared: the best that each has found after so many evaluations, over many seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gemmlab.lessons.autotuning import tuner
from gemmlab.lessons.autotuning.space import Recorded
from gemmlab.lessons.autotuning.tuner import Search

if TYPE_CHECKING:
    import numpy
    import pandas

SEEDS = 20
NEAR = 0.98  # of the speed of the fastest settings: who is there has found it, but for noise


@dataclass(frozen=True)
class Trials:
    """Searches of one space by one strategy, a seed each.

    `shares`: float (seeds, budget), the best so far as a share of the fastest's speed, 0 to 1.
    """

    known: Recorded
    strategy: str
    shares: numpy.ndarray

    def quartiles(self) -> numpy.ndarray:
        """Float (3, budget): after each evaluation the lower quartile, the median, the upper."""
        import numpy

        return numpy.quantile(self.shares, (0.25, 0.5, 0.75), axis=0)

    def needed(self, share: float = NEAR) -> list[int | None]:
        """Of each seed the evaluations until such a share was reached; None where it was not."""
        reached = self.shares >= share
        return [int(row.argmax()) + 1 if row.any() else None for row in reached]


def trials(known: Recorded, strategy: str, budget: int, seeds: int = SEEDS) -> Trials:
    """Search recorded times with seeds 0, 1, 2, ... Raises what tuner.replay raises."""
    found = [tuner.replay(known, strategy, budget, seed) for seed in range(seeds)]
    return of_searches(known, strategy, budget, found)


def of_searches(known: Recorded, strategy: str, budget: int, searches: Sequence[Search]) -> Trials:
    """Searches side by side; one that ends before the budget keeps what it found."""
    import numpy

    shares = numpy.zeros((len(searches), budget))
    for row, one in zip(shares, searches, strict=True):
        best = [known.best_ms / time_ms for time_ms in one.best_so_far()]
        row[: len(best)] = best
        row[len(best) :] = best[-1]
    return Trials(known, strategy, shares)


def compare(
    known: Recorded, strategies: Sequence[str] = tuple(tuner.STRATEGIES), budget: int = 60,
    seeds: int = SEEDS,
) -> list[Trials]:  # fmt: skip
    """Every strategy on the same space; the exhaustive one once, for no seed changes it."""
    return [
        trials(known, name, budget, 1 if name == "exhaustive" else seeds) for name in strategies
    ]


def table(every: Sequence[Trials], after: Sequence[int] = (10, 20, 40)) -> pandas.DataFrame:
    """What the strategies reached, in percent of the fastest's speed.

    Columns: strategy; for each number of evaluations in `after` the median over the seeds; the
    median number of evaluations until NEAR, and how many seeds got there.
    """
    import pandas

    rows = []
    for one in every:
        middle = one.quartiles()[1]
        needed = one.needed()
        got = [count for count in needed if count is not None]
        row = {"strategy": one.strategy}
        row |= {f"after {count}": f"{100 * middle[count - 1]:.1f} %" for count in after}
        # Of all seeds, those that did not get there being the last.
        half = sorted(count or one.shares.shape[1] + 1 for count in needed)
        middle_needed = median(half)
        within = middle_needed <= one.shares.shape[1]
        row[f"to {100 * NEAR:.0f} %"] = f"{middle_needed:.0f}" if within else "more"
        row["seeds there"] = f"{len(got)} of {len(needed)}"
        rows.append(row)
    return pandas.DataFrame(rows)
