"""The exercises of 20_autotuning: they check what a reader writes, and never give it away."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from statistics import median

from gemmlab import ladder
from gemmlab.ladder import Constraint
from gemmlab.lessons.autotuning import space as landscape
from gemmlab.lessons.autotuning.space import Point, Recorded, Space, space_of
from gemmlab.lessons.autotuning.tuner import NEAR

SEEDS = 20
LACKING = "even shares"  # the restriction that somebody forgot

Step = Callable[[Point, Sequence[Point], Callable[[Point], float]], Point | None]
"""Where a search goes from a point: one of its neighbours, or None for a new random point. The
third argument gives the milliseconds of a point; asking for a new one is an evaluation."""


def _by_name(space: Space) -> dict[str, Constraint]:
    return {constraint.name: constraint for constraint in space.restrictions}


def check_restriction(allows: Callable[..., bool], name: str, restriction: str) -> None:
    """Compare a reader's restriction of a rung with the ladder's constraint of that name.

    allows: takes the rung's tuned parameters by name, and says whether they go together.
    """
    space = space_of(name, (4096, 4096, 4096))
    wanted = _by_name(space)[restriction]
    points, count = list(product(*space.values.values())), 0
    for point in points:
        settings = space.settings(point)
        reason = wanted.broken(settings)
        count += reason is None
        if allows(**dict(zip(space.names, point, strict=True))):
            if reason:
                print(f"Not yet: it allows {ladder.listed(settings)}, which {reason}.")
                return
        elif not reason:
            print(f"Not yet: it forbids {ladder.listed(settings)}, which the ladder allows.")
            return
    print(f"Right: it allows the same {count} of {len(points)} combinations as the ladder.")


def check_step(step: Step, known: Recorded) -> None:
    """Search recorded times with the reader's step, from random points on, and count evaluations
    until NEAR of the fastest's speed; the random search is what it must beat."""
    land = landscape.landscape(known)
    yours = median(_evaluations(step, known, land.neighbours, seed) for seed in range(SEEDS))
    blind = median(
        _evaluations(lambda *_: None, known, land.neighbours, seed) for seed in range(SEEDS)
    )
    sentence = (
        f"to {100 * NEAR:.0f} % of the fastest's speed it takes {yours:g} evaluations, the median "
        f"of {SEEDS} seeds; new random points alone take {blind:g}"
    )
    print(f"Right: {sentence}." if yours < blind else f"Not yet: {sentence}.")


def _evaluations(
    step: Step, known: Recorded, neighbours: dict[Point, tuple[Point, ...]], seed: int
) -> int:
    draw, evaluated = random.Random(seed), dict[Point, None]()  # in order

    def time_of(point: Point) -> float:
        if point not in known.times_ms:
            raise ValueError(f"{point} is no recorded setting of {known.space.rung.name}")
        evaluated[point] = None
        return known.times_ms[point]

    order = list(known.times_ms)
    draw.shuffle(order)
    for start in order:
        at: Point | None = start if start not in evaluated else None
        while at is not None:
            here, near = time_of(at), list(neighbours[at])
            draw.shuffle(near)
            after = step(at, near, time_of)
            if after is not None and after in evaluated and known.times_ms[after] >= here:
                break  # it goes up or in circles
            at = after
    return next(at for at, point in enumerate(evaluated, 1) if known.share(point) >= NEAR)


def forgotten(name: str) -> Space:
    """The space of a rung with one of its restrictions forgotten."""
    space = space_of(name, (4096, 4096, 4096))
    kept = _by_name(space)
    del kept[LACKING]
    return replace(space, restrictions=tuple(kept.values()))


def proposed_wrongly(space: Space) -> list[Point]:
    """What a search may propose that the ladder forbids: it meets the space's restrictions."""
    legal, constraints = set(space.legal()), space.restrictions
    return [
        point
        for point in product(*space.values.values())
        if point not in legal and not any(c.broken(space.settings(point)) for c in constraints)
    ]


def find_forgotten(space: Space, answer: str | None) -> None:
    """Say whether `answer` names the restriction that `forgotten` left out. None: no answer yet."""
    names = [*_by_name(space_of(space.rung.name, (1, 1, 1)))]
    (right,) = {*names} - {*_by_name(space)}
    if answer is None:
        print(f"Not answered yet: put one of these in place of None: {', '.join(names)}.")
    elif answer == right:
        count = len(proposed_wrongly(space))
        print(f"Right: without {right!r} a search may propose {count} settings that cannot run.")
    elif answer in names:
        print(f"Not yet: {answer!r} is there.")
    else:
        print(f"Not yet: {answer!r} is none of {', '.join(names)}.")
