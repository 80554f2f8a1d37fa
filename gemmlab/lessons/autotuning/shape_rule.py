"""Which settings for a shape that nobody measured: rules, judged on shapes that were left out.

A rule sees the recorded times of all shapes but one, and names settings for that one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, exp, log, log2
from statistics import mean

import pandas

from gemmlab import ladder
from gemmlab.ladder import LadderError
from gemmlab.lessons.autotuning import cost_model
from gemmlab.lessons.autotuning.space import Point, Recorded, recorded
from gemmlab.records import tuning
from gemmlab.records.tuning import Shape

Others = dict[Shape, Recorded]
Rule = Callable[[Shape, Others], Point]
"""Names the settings for a shape (M, N, K), from what is recorded of other shapes."""

LEAF = 3  # measurements that a leaf of the tree holds at least


def shapes_of(name: str) -> Others:
    """What is recorded of a rung at each shape. Raises NoRecord, LadderError if settings differ."""
    rung = ladder.find(name)
    by_shape = {shape: recorded(name, shape) for shape in tuning.shapes_of(rung)}
    if len({frozenset(known.times_ms) for known in by_shape.values()}) > 1:
        raise LadderError(f"{name}: its sweep tries other settings at each shape; no rule is fair")
    return by_shape


def nearest_shape(shape: Shape, others: Others) -> Point:
    """A table: the fastest settings at the nearest recorded shape, as gl.load(..., shape=...)."""
    return others[min(others, key=lambda other: tuning.distance(shape, other))].best


def one_for_all(shape: Shape, others: Others) -> Point:
    """The settings that lose the least on all other shapes, by the mean of logarithms."""
    points = next(iter(others.values())).times_ms
    return max(points, key=lambda point: mean(log(other.share(point)) for other in others.values()))


def decision_tree(shape: Shape, others: Others) -> Point:
    """A tree learned from the other shapes (Breiman and others, 1984), by scikit-learn.

    It guesses each setting's share of the best.
    """
    from sklearn.tree import DecisionTreeRegressor

    rows, shares, sms = [], [], cost_model.machine().sms
    for other, known in others.items():
        for point in known.times_ms:
            rows.append(features(known, point, other, sms))
            shares.append(log(known.share(point)))
    tree = DecisionTreeRegressor(min_samples_leaf=LEAF, random_state=0).fit(rows, shares)
    known = next(iter(others.values()))
    points = list(known.times_ms)
    guessed = tree.predict([features(known, point, shape, sms) for point in points])
    return points[int(guessed.argmax())]


def features(known: Recorded, point: Point, shape: Shape, sms: int) -> list[float]:
    """What the tree may ask: tiles for each SM, M, N and K as powers of two, the settings."""
    m, n, k = shape[:3]
    rows, columns = known.space.rung.tile(known.space.settings(point))
    tiles = ceil(m / rows) * ceil(n / columns)
    return [log2(tiles / sms), log2(m), log2(n), log2(k), *point]


def by_cost_model(shape: Shape, others: Others) -> Point:
    """The first in the cost model's order, which needs no recorded time at all."""
    known = next(iter(others.values()))
    space, problem, gpu = known.space, ladder.Problem(*shape), cost_model.machine()

    def seconds(point: Point) -> float:
        counts = cost_model.counts(space.rung, space.settings(point))
        return cost_model.terms(counts, problem, gpu).seconds

    return min(known.times_ms, key=seconds)


RULES: dict[str, Rule] = {
    "one setting for all": one_for_all,
    "nearest recorded shape": nearest_shape,
    "decision tree": decision_tree,
    "cost model": by_cost_model,
}


@dataclass(frozen=True)
class Judged:
    """For each shape that was left out, the share of the best that a rule's settings have."""

    rule: str
    shares: dict[Shape, float]

    @property
    def mean(self) -> float:
        return exp(mean(map(log, self.shares.values())))


def judged(name: str, rules: dict[str, Rule] = RULES) -> list[Judged]:
    """Each rule on each shape of the rung's sweep, which it does not see. Raises as shapes_of."""
    every = shapes_of(name)
    results = []
    for title, rule in rules.items():
        shares = {}
        for shape, known in every.items():
            others = {other: every[other] for other in every if other != shape}
            shares[shape] = known.share(rule(shape, others))
        results.append(Judged(title, shares))
    return results


def table(every: list[Judged]) -> pandas.DataFrame:
    """A row for each shape that was left out, a column for each rule: percent of the best there."""
    rows = [
        {"left out": str(ladder.Problem(*shape))}
        | {judged_rule.rule: f"{100 * judged_rule.shares[shape]:.1f} %" for judged_rule in every}
        for shape in every[0].shares
    ]
    means = {judged_rule.rule: f"{100 * judged_rule.mean:.1f} %" for judged_rule in every}
    return pandas.DataFrame([*rows, {"left out": "geometric mean"} | means])
