"""Kernel Tuner's strategies on a space: replayed from known times, or measuring what is missing.

Kernel Tuner (van Werkhoven, Future Generation Computer Systems 90, 2019) gets the space, the
ladder's constraints as restrictions, and a cache file with the known times. What is missing is
measured by a function of this package: Kernel Tuner's own cannot launch a rung that takes tensor
maps or several kernels.
"""

import json
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy
import pandas

from gemmlab.ladder import Constraint, IllegalSetting, Settings
from gemmlab.lessons.autotuning.space import Point, Recorded, Space

FIRST = 10  # points: of the genetic search's population, and of the Bayesian one's first guesses


class NoTuner(ImportError):
    """Kernel Tuner is not installed."""


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
    """What a search evaluated, each point once and in order, with its time; None if it failed."""

    space: Space
    strategy: str
    seed: int
    evaluated: tuple[tuple[Point, float | None], ...]

    def best_so_far(self) -> list[float]:
        """After each evaluation the lowest time, in milliseconds; infinite before the first."""
        best, times = float("inf"), []
        for _, time_ms in self.evaluated:
            best = min(best, float("inf") if time_ms is None else time_ms)
            times.append(best)
        return times

    @property
    def best(self) -> tuple[Settings, float]:
        """The fastest settings that it met, and their time. Raises ValueError if all failed."""
        passed = [evaluation for evaluation in self.evaluated if evaluation[1] is not None]
        if not passed:
            raise ValueError(f"none of the {len(self.evaluated)} settings passed")
        point, time_ms = min(passed, key=lambda evaluation: evaluation[1])
        return self.space.settings(point), time_ms


def replay(known: Recorded, strategy: str, budget: int, seed: int = 0) -> Search:
    """A search of recorded times. Raises IllegalSetting for its strategy or budget, NoTuner."""
    return search(known.space, strategy, budget, seed, known.times_ms)


def search(
    space: Space,
    strategy: str,
    budget: int,
    seed: int = 0,
    known: Mapping[Point, float] | None = None,
    measure: Callable[[Point], float | None] | None = None,
) -> Search:
    """Look for the fastest point with at most `budget` evaluations of different points.

    strategy: of STRATEGIES. known: milliseconds of points that need not be measured. measure: gives
    those of others, None for a point that fails. The same seed and times give the same search.
    Raises as replay.
    """
    if budget < 1:
        raise IllegalSetting(f"the budget is {budget} evaluations; it must be 1 or more")
    if strategy not in STRATEGIES:
        names = ", ".join(STRATEGIES)
        raise IllegalSetting(f"there is no strategy {strategy!r}; there are {names}")
    tuner = _kernel_tuner()
    named = STRATEGIES[strategy]
    chosen, options = tuner.interface.strategy_map[named.name], dict(named.options)
    if strategy != "exhaustive":  # which takes no budget there
        options["max_fevals"] = min(budget, len(space.legal()))
    watched = _Watched(chosen, space, budget, measure)
    with tempfile.TemporaryDirectory() as folder, _seeded(seed), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that none of the parameters is named block_size_x
        path = write_cache(Path(folder) / "known.json", space, known or {})
        tuner.tune_kernel(
            space.rung.name, "", space.problem.shape, [], _lists(space), lang="CUDA", quiet=True,
            restrictions=restrictions(space), cache=str(path), simulation_mode=True,
            strategy=watched, strategy_options=options,
        )  # fmt: skip
    return Search(space, strategy, seed, tuple(watched.times_ms.items()))


def restrictions(space: Space) -> list:
    """The space's constraints as Kernel Tuner takes them, each a function of all values."""
    from constraint import FunctionConstraint

    def allows(constraint: Constraint) -> Callable[..., bool]:
        return lambda *point: constraint.broken(space.settings(point)) is None

    made = [FunctionConstraint(allows(restriction)) for restriction in space.restrictions]
    if space.among is not None:
        made.append(FunctionConstraint(lambda *point: tuple(map(int, point)) in space.among))
    return made


def write_cache(path: Path, space: Space, known: Mapping[Point, float]) -> Path:
    """Times as a cache file of Kernel Tuner, JSON: an entry for each point."""
    entries = {key_of(point): _entry(space, point, time_ms) for point, time_ms in known.items()}
    head = {
        "device_name": "recorded", "kernel_name": space.rung.name,
        "problem_size": list(space.problem.shape), "tune_params_keys": list(space.names),
        "tune_params": _lists(space),
        "objective": "time", "cache": entries,
    }  # fmt: skip
    # Without an entry too the end is one that Kernel Tuner takes for a whole file.
    path.write_text(json.dumps(head, indent=""), encoding="utf-8")
    return path


def _lists(space: Space) -> dict[str, list[int]]:
    return {name: list(values) for name, values in space.values.items()}


def key_of(point: Sequence[int]) -> str:
    return ",".join(str(int(value)) for value in point)


class _Watched:
    """A strategy that is also its own runner: notes what is evaluated, measures what is missing.

    All else that Kernel Tuner wants of a runner is that of its simulation mode.
    """

    def __init__(self, strategy, space: Space, budget: int, measure) -> None:
        self._strategy, self._space, self._budget, self._measure = strategy, space, budget, measure
        self.times_ms: dict[Point, float | None] = {}

    def tune(self, searchspace, runner, options) -> list:
        self._runner = runner
        with suppress(_kernel_tuner().util.StopCriterionReached):  # some let it through
            self._strategy.tune(searchspace, self, options)
        return []

    def __getattr__(self, name: str):
        return getattr(self._runner, name)

    def run(self, points, options) -> list:
        return [self._result(tuple(map(int, point)), options) for point in points]

    def _result(self, point: Point, options):
        key = key_of(point)
        if point in self.times_ms:
            return dict(options.cache[key])
        if len(self.times_ms) >= self._budget:
            return None  # as Kernel Tuner says that the budget is spent
        if key not in options.cache and self._measure is not None:
            options.cache[key] = _entry(self._space, point, self._measure(point))
        (result,) = self._runner.run([point], options)
        if result is not None:
            self.times_ms[point] = options.cache[key]["time"]
        return result


def _entry(space: Space, point: Point, time_ms: float | None) -> dict[str, Any]:
    """Of a point in a cache; without a time where it failed."""
    entry = dict(zip(space.names, map(int, point), strict=True)) | {"time": time_ms}
    if time_ms is None:
        entry["__error__"] = _kernel_tuner().util.RuntimeFailedConfig()
    return entry


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Kernel Tuner draws from the generators of Python and NumPy: set, and then as they were."""
    before = random.getstate(), numpy.random.get_state()
    random.seed(seed)
    numpy.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        numpy.random.set_state(before[1])


def _kernel_tuner():
    try:
        import kernel_tuner
        import kernel_tuner.interface
        import kernel_tuner.util
    except ImportError as error:
        raise NoTuner(
            f'Searching needs Kernel Tuner ({error}): pip install "kernel-tuner>=1.5,<2".'
        ) from None
    return kernel_tuner


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
