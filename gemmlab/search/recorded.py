"""What a recorded sweep says of each point of a space: the times that a search replays."""

from __future__ import annotations

from dataclasses import dataclass

from gemmlab import ladder
from gemmlab.ladder import Problem
from gemmlab.records import tuning
from gemmlab.records.registry import NoRecord
from gemmlab.search.space import Point, Space, space_of


@dataclass(frozen=True)
class Recorded:
    """Times of all points of a space, in milliseconds, where and when they were measured."""

    space: Space
    times_ms: dict[Point, float]
    gpu: str
    recorded: str  # ISO date and time, UTC, of the last of them

    @property
    def best_ms(self) -> float:
        return min(self.times_ms.values())

    @property
    def best(self) -> Point:
        """The fastest point."""
        return min(self.times_ms, key=self.times_ms.__getitem__)

    def share(self, point: Point) -> float:
        """Of the speed of the fastest point, 0 to 1."""
        return self.best_ms / self.times_ms[point]

    @property
    def source(self) -> str:
        """Where the times come from, for the foot of a figure."""
        return f"{self.gpu}, recorded {self.recorded[:10]}"


def recorded(name: str, shape: tuple[int, ...]) -> Recorded:
    """The sweep of the rung `name` at a shape (M, N, K); its space has the recorded points alone.

    Raises LadderError, NoRecord where the rung or the shape is not recorded, and StaleRecord.
    """
    rung = ladder.find(name)
    rows = tuning.at(tuning.recorded(name), shape)
    whole = space_of(name, shape)
    times = {
        whole.point({parameter.name: row[parameter.name] for parameter in rung.parameters}): float(
            row["time_ms"]
        )
        for row in rows.to_dict("records")
    }
    first = rows.iloc[0]
    return Recorded(
        space_of(name, shape, times), times, str(first["gpu"]), str(rows["recorded"].max())
    )


def coverage(names: tuple[str, ...], shape: tuple[int, int, int] = tuning.SHAPES[0]):
    """pandas.DataFrame: how much of each rung's space is recorded at a shape (M, N, K).

    Columns: rung, combinations (of all values), legal, recorded, best TFLOP/s, median share of it.
    A rung whose sweep is not recorded has a "not yet" in place of these. Raises LadderError.
    """
    import pandas

    rows = []
    for name in names:
        space = space_of(name, shape)
        row = {
            "rung": name, "parameters": len(space.names), "combinations": space.every,
            "legal": len(space.legal()), "recorded": "not yet", "best TFLOP/s": "",
            "median of it": "",
        }  # fmt: skip
        try:
            found = recorded(name, shape)
        except NoRecord:
            rows.append(row)
            continue
        shares = sorted(map(found.share, found.times_ms))
        row["recorded"] = str(len(found.times_ms))
        row["best TFLOP/s"] = f"{Problem(*shape).flop / found.best_ms / 1e9:.1f}"
        row["median of it"] = f"{100 * shares[len(shares) // 2]:.0f} %"
        rows.append(row)
    return pandas.DataFrame(rows)
