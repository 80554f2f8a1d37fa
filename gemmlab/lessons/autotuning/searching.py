"""The work of `python -m gemmlab tune RUNG --strategy ... --budget ...`.

Without a GPU the recorded sweep is replayed, and the output says so.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from gemmlab import ladder
from gemmlab.cuda.device import Gpu, gpu, require_gpu
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import IllegalSetting, Settings
from gemmlab.lessons.autotuning import tuner
from gemmlab.lessons.autotuning.space import Point, Space, recorded, space_of
from gemmlab.lessons.autotuning.tuner import Search
from gemmlab.measure.timing import Arena, require_verified
from gemmlab.records import tuning
from gemmlab.records.registry import Say

BUDGET = 40  # evaluations
Row = dict[str, Any]
Timer = Callable[[Settings], Row]
"""Measures settings that passed the gate: the columns tuning.MEASURED. Raises tuning.failures()."""


@dataclass(frozen=True)
class Wanted:
    rung: str
    shape: tuple[int, int, int]
    strategy: str
    budget: int
    seed: int


def run(wanted: Wanted, say: Say) -> list[str]:
    """Search, on the GPU here or in the record; the lines that tell what was found.

    Raises LadderError, IllegalSetting, NoTuner, NoRecord and GpuFault.
    """
    return _on_gpu(wanted, say) if gpu() is not None else _replayed(wanted)


def _replayed(wanted: Wanted) -> list[str]:
    known = recorded(wanted.rung, wanted.shape)
    result = tuner.replay(known, wanted.strategy, wanted.budget, wanted.seed)
    _, best_ms = result.best
    return [
        f"No GPU here: replayed from the sweep of {known.source}.",
        *_lines(result, len(known.space.legal())),
        f"  of the fastest recorded {100 * known.best_ms / best_ms:.1f} %",
    ]


def _on_gpu(wanted: Wanted, say: Say) -> list[str]:
    here = require_gpu("A search")
    space = space_of(wanted.rung, wanted.shape)
    runs_here = [
        point for point in space.legal() if space.rung.runs_on(space.settings(point), here.arch)
    ]
    if not runs_here:
        raise IllegalSetting(f"nothing of {wanted.rung} runs on {here.arch}")
    space = space_of(wanted.rung, wanted.shape, runs_here)
    with _gpu_timer(space, here) as timer:
        return _lines(search(space, wanted, timer, say), len(runs_here))


def search(space: Space, wanted: Wanted, timer: Timer, say: Say) -> Search:
    """Search a space. A setting for which `timer` raises one of tuning.failures() has no time."""
    from tqdm.auto import tqdm

    total = min(wanted.budget, len(space.legal()))
    with tqdm(total=total, desc=f"{space.rung.name} {space.problem}", disable=None) as bar:

        def measure(point: Point) -> float | None:
            settings = space.settings(point)
            bar.update()
            try:
                return float(timer(settings)["time_ms"])
            except tuning.failures() as error:
                say(f"{space.rung.name} with {ladder.written(settings)}: {error}; left out")
                return None

        return tuner.search(space, wanted.strategy, wanted.budget, wanted.seed, measure=measure)


@contextmanager
def _gpu_timer(space: Space, here: Gpu) -> Iterator[Timer]:
    """Times settings of a space on the GPU here: compiled, through the gate, against cuBLAS."""
    rung, some = space.rung, space.settings(space.legal()[0])
    problem = replace(space.problem, ops=rung.ops(some))
    with Arena(problem, rung.precision_of(some)) as arena:

        def timed(settings: Settings) -> Row:
            kernel = Kernel(rung, settings, here.arch, rung.path)
            require_verified(kernel)
            return tuning.row_of(kernel, arena)

        yield timed


def _lines(result: Search, settings: int) -> list[str]:
    space = result.space
    failed = sum(time_ms is None for _, time_ms in result.evaluated)
    lines = [
        f"{space.rung.name} at {space.problem}: {result.strategy}, seed {result.seed}, "
        f"{len(result.evaluated)} of {settings} settings"
    ]
    if failed < len(result.evaluated):
        best, best_ms = result.best
        rate = space.problem.flop / (best_ms * 1e9)
        lines.append(
            f"  the fastest: {best_ms:.4g} ms, {rate:.1f} TFLOP/s with {ladder.written(best)}"
        )
    return [*lines, f"  failed: {failed}"] if failed else lines
