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
    """The points that a search evaluated, each once and in order."""

    known: Recorded
    strategy: str
    seed: int
    points: tuple[Point, ...]

    def best_so_far(self) -> list[float]:
        """After each evaluation the lowest time, in milliseconds."""
        return list(accumulate(map(self.known.times_ms.__getitem__, self.points), min))

    @property
    def best(self) -> Settings:
        """The fastest settings that it met."""
        return self.known.space.settings(min(self.points, key=self.known.times_ms.__getitem__))


def replay(known: Recorded, strategy: str, budget: int, seed: int = 0) -> Search:
    """Look for the fastest point with at most `budget` evaluations of different points, 1 or more.

    strategy: of STRATEGIES. The same seed gives the same search.
    """
    import kernel_tuner

    space, named = known.space, STRATEGIES[strategy]
    values, options = {name: list(legal) for name, legal in space.values.items()}, {}
    if strategy != "exhaustive":  # which takes no budget there; annealing takes none of 1
        options["max_fevals"] = max(2, min(budget, len(known.times_ms)))
    random.seed(seed)  # Kernel Tuner draws from the generators of Python and NumPy
    numpy.random.seed(seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that none of the parameters is named block_size_x
        results, _ = kernel_tuner.tune_kernel(
            space.rung.name, "", space.problem.shape, [], values, lang="CUDA", quiet=True,
            restrictions=restrictions(space), simulation_mode=True, strategy=named.name,
            strategy_options=named.options | options,
            cache=str(write_cache(Path(folder) / "known.json", known)),
        )  # fmt: skip
    points = dict.fromkeys(map(space.point, results))
    return Search(known, strategy, seed, tuple(points)[:budget])


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
        "tune_params": {name: list(legal) for name, legal in space.values.items()},
        "objective": "time",
        "cache": {
            ",".join(map(str, point)): dict(zip(space.names, point, strict=True)) | {"time": ms}
            for point, ms in known.times_ms.items()
        },
    }  # fmt: skip
    path.write_text(json.dumps(head, indent=""), encoding="utf-8")
    return path


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
