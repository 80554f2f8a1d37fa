"""When each step of each rank ran, whoever tells it: the clock of a model, or events of GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from gemmlab.lessons.multi_gpu.steps import Collective, Product, Schedule, Work

PRODUCT, SUM, COLLECTIVE = "product", "sum", "collective"  # kinds of work


@dataclass(frozen=True)
class Ran:
    """A step of a rank. Milliseconds from the begin of the first step of any rank."""

    rank: int
    stream: str
    name: str
    kind: str
    start_ms: float
    end_ms: float

    @property
    def ms(self) -> float:
        return self.end_ms - self.start_ms


@dataclass(frozen=True)
class Timeline:
    """`source`: where the times come from, in words that stand below its figure."""

    schedule: Schedule
    steps: tuple[Ran, ...]
    source: str

    @property
    def ms(self) -> float:
        """From the first begin to the last end."""
        if not self.steps:
            return 0.0
        return max(one.end_ms for one in self.steps) - min(one.start_ms for one in self.steps)

    def of(self, rank: int, *kinds: str) -> list[Ran]:
        """The steps of a rank, of these kinds, or all."""
        return [one for one in self.steps if one.rank == rank and (not kinds or one.kind in kinds)]

    def moving_ms(self, rank: int) -> float:
        """How long collectives of the rank ran, those at the same time once."""
        return sum(end - start for start, end in _joined(self.of(rank, COLLECTIVE)))

    def hidden_ms(self, rank: int) -> float:
        """How much of that time the rank was multiplying too."""
        products = _joined(self.of(rank, PRODUCT))
        return sum(
            max(0.0, min(end, last) - max(start, first))
            for start, end in _joined(self.of(rank, COLLECTIVE))
            for first, last in products
        )

    @property
    def hidden(self) -> float | None:
        """The share of communication behind products, of the rank that hides least of it.

        None where nothing is moved.
        """
        shares = [
            self.hidden_ms(rank) / moving
            for rank in range(self.schedule.ranks)
            if (moving := self.moving_ms(rank)) > 0
        ]
        return min(shares) if shares else None


def kind_of(work: Work) -> str:
    if isinstance(work, Collective):
        return COLLECTIVE
    return PRODUCT if isinstance(work, Product) else SUM


def _joined(steps: list[Ran]) -> list[tuple[float, float]]:
    """Their times, those that touch as one."""
    joined: list[tuple[float, float]] = []
    for one in sorted(steps, key=lambda one: one.start_ms):
        if joined and one.start_ms <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], one.end_ms)
        else:
            joined.append((one.start_ms, one.end_ms))
    return joined
