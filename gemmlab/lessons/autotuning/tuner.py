"""Kernel Tuner's strategies on a space, replayed from recorded times.

Kernel Tuner (van Werkhoven, Future Generation Computer Systems 90, 2019) gets the space, the
ladder's constraints as restrictions, and a cache file with the times, from which its simulation
mode answers.
"""

import json
import random
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

import numpy
import pandas

from gemmlab.ladder import Constraint, Settings
from gemmlab.lessons.autotuning.space import Point, Recorded, Space

FIRST = 10  # points: of the genetic search's population, and of the Bayesian one's first guesses


@dataclass(frozen=True)
class Strategy:
    """One of Kernel Tuner's strategies: its name there, its options, what it does, in a clause."""

    name: str
    options: dict[str, Any]
    what: str


STRATEGIES = {
    "exhaustive": Strategy("brute_force", {}, "every legal setting, in order"),
    "random": Strategy("random_sample", {}, "settings drawn at random"),
    "genetic": Strategy(
        "genetic_algorithm", {"popsize": FIRST, "mutation_chance": 10},
        "pairs of good settings are crossed, and some of their children changed",
    ),
    "annealing": Strategy(
        "simulated_annealing", {},
        "steps to neighbours; a slower one is taken too, more rarely as time goes on",
    ),
    "basin-hopping": Strategy(
        "basinhopping", {}, "down the slope from a point, then a jump and down again"
    ),
    "bayesian": Strategy(
        "bayes_opt",  # by its defaults it takes no seed, and goes by how long its own steps take
        {"popsize": FIRST, "samplingmethod": "random", "method": "multi-advanced"},
        "a Gaussian process guesses all times from those measured, and says what to try next",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Search:
    """What a search evaluated, each point once and in order, with its time in milliseconds."""

    space: Space
    strategy: str
    seed: int
    evaluated: tuple[tuple[Point, float], ...]

    def best_so_far(self) -> list[float]:
        """After each evaluation the lowest time, in milliseconds."""
        return list(accumulate((time_ms for _, time_ms in self.evaluated), min))

    @property
    def best(self) -> Settings:
        """The fastest settings that it met."""
        point, _ = min(self.evaluated, key=lambda evaluation: evaluation[1])
        return self.space.settings(point)


def replay(known: Recorded, strategy: str, budget: int, seed: int = 0) -> Search:
    """Look for the fastest point with at most `budget` evaluations of different points, 1 or more.

    strategy: of STRATEGIES. The same seed gives the same search.
    """
    import kernel_tuner.interface

    space, named = known.space, STRATEGIES[strategy]
    options = dict(named.options)
    if strategy != "exhaustive":  # which takes no budget there
        options["max_fevals"] = min(budget, len(known.times_ms))
    watched = _Watched(kernel_tuner.interface.strategy_map[named.name], budget)
    random.seed(seed)  # Kernel Tuner draws from the generators of Python and NumPy
    numpy.random.seed(seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that none of the parameters is named block_size_x
        path = write_cache(Path(folder) / "known.json", known)
        kernel_tuner.tune_kernel(
            space.rung.name, "", space.problem.shape, [], _lists(space), lang="CUDA", quiet=True,
            restrictions=restrictions(space), cache=str(path), simulation_mode=True,
            strategy=watched, strategy_options=options,
        )  # fmt: skip
    evaluated = ((point, known.times_ms[point]) for point in watched.points)
    return Search(space, strategy, seed, tuple(evaluated))


def restrictions(space: Space) -> list:
    """The space's constraints as Kernel Tuner takes them, each a function of all values."""
    from constraint import FunctionConstraint

    def allows(constraint: Constraint) -> Callable[..., bool]:
        return lambda *point: constraint.broken(space.settings(point)) is None

    return [FunctionConstraint(allows(restriction)) for restriction in space.restrictions]


def write_cache(path: Path, known: Recorded) -> Path:
    """Times as a cache file of Kernel Tuner, JSON: an entry for each point."""
    space = known.space
    head = {
        "device_name": "recorded", "kernel_name": space.rung.name,
        "problem_size": list(space.problem.shape), "tune_params_keys": list(space.names),
        "tune_params": _lists(space), "objective": "time",
        "cache": {
            key_of(point): dict(zip(space.names, point, strict=True)) | {"time": time_ms}
            for point, time_ms in known.times_ms.items()
        },
    }  # fmt: skip
    path.write_text(json.dumps(head, indent=""), encoding="utf-8")
    return path


def _lists(space: Space) -> dict[str, list[int]]:
    return {name: list(values) for name, values in space.values.items()}


def key_of(point: Point) -> str:
    return ",".join(map(str, point))


class _Watched:
    """A strategy that is also its own runner, and notes what is evaluated.

    All else that Kernel Tuner wants of a runner is that of its simulation mode.
    """

    def __init__(self, strategy, budget: int) -> None:
        self._strategy, self._budget = strategy, budget
        self.points: dict[Point, None] = {}  # in order

    def tune(self, searchspace, runner, options) -> list:
        from kernel_tuner.util import StopCriterionReached

        self._runner = runner
        with suppress(StopCriterionReached):  # some let it through
            self._strategy.tune(searchspace, self, options)
        return []

    def __getattr__(self, name: str):
        return getattr(self._runner, name)

    def run(self, points, options) -> list:
        return [self._result(tuple(map(int, point)), options) for point in points]

    def _result(self, point: Point, options):
        if point in self.points:
            return dict(options.cache[key_of(point)])
        if len(self.points) >= self._budget:
            return None  # as Kernel Tuner says that the budget is spent
        (result,) = self._runner.run([point], options)
        if result is not None:
            self.points[point] = None
        return result


SEEDS, EVALUATIONS = 20, 60
NEAR = 0.98  # of the speed of the fastest settings: who is there has found it, but for noise


def compare(known: Recorded) -> pandas.DataFrame:
    """How many evaluations each strategy needs until NEAR: the median over SEEDS seeds, of the
    exhaustive search, which no seed changes, of one."""
    rows = {}
    for strategy in STRATEGIES:
        seeds = range(1 if strategy == "exhaustive" else SEEDS)
        half = median(_evaluations(known, strategy, seed) for seed in seeds)
        rows[strategy] = f"{half:.0f}" if half <= EVALUATIONS else "more"
    named = pandas.Series(rows, name=f"to {100 * NEAR:.0f} %")
    return named.rename_axis("strategy").to_frame()


def _evaluations(known: Recorded, strategy: str, seed: int) -> int:
    """Until NEAR; one more than EVALUATIONS for a search that does not get there."""
    times = replay(known, strategy, EVALUATIONS, seed).best_so_far()
    there = (at for at, time_ms in enumerate(times, 1) if known.best_ms / time_ms >= NEAR)
    return next(there, EVALUATIONS + 1)
