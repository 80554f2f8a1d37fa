"""The work of `python -m gemmlab tune RUNG --strategy ... --budget ...`.

On a GPU each measurement goes into a journal, results/<gpu>/searches/<rung>_MxNxK.csv, and is not
repeated by a later search. Without a GPU the recorded sweep is replayed, and the output says so.
"""

import csv
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gemmlab import ladder
from gemmlab.cuda.device import Gpu, gpu, require_gpu
from gemmlab.folders import RESULTS
from gemmlab.kernel.fingerprint import of_rung
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import IllegalSetting, Settings
from gemmlab.lessons.autotuning import tuner
from gemmlab.lessons.autotuning.space import Point, Space, recorded, space_of
from gemmlab.lessons.autotuning.tuner import Search
from gemmlab.measure.timing import Arena, require_verified
from gemmlab.records import tuning
from gemmlab.records.registry import Say, bad, target_here

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

    Raises LadderError, IllegalSetting, NoTuner, NoRecord, BadRecord and GpuFault.
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
    path = journal_path(wanted, here.slug)
    with _gpu_timer(space, here) as timer:
        result = search(space, wanted, path, timer, say)
    return [*_lines(result, len(runs_here)), f"  measured: {path}"]


def journal_path(wanted: Wanted, slug: str) -> Path:
    """Where the measurements of a rung at a shape are kept, whatever strategy asked for them."""
    sizes = "x".join(map(str, wanted.shape))
    return RESULTS / slug / "searches" / f"{wanted.rung}_{sizes}.csv"


def search(space: Space, wanted: Wanted, path: Path, timer: Timer, say: Say) -> Search:
    """Search a space; what the journal at `path` has, of the same code, is not measured again.

    A setting for which `timer` raises one of tuning.failures() is noted with its reason.
    """
    from tqdm.auto import tqdm

    columns = (*space.rung.defaults, *tuning.MEASURED, "failed")
    with journal(path, columns) as (rows, append):
        known = dict(_kept(space, rows))
        if known:
            say(f"{space.rung.name}: {len(known)} settings are measured already, in {path}")
        total = min(wanted.budget, len(space.legal()))
        with tqdm(total=total, desc=f"{space.rung.name} {space.problem}", disable=None) as bar:

            def measure(point: Point) -> float | None:
                settings = space.settings(point)
                try:
                    row = timer(settings) | {"failed": ""}
                except tuning.failures() as error:
                    say(f"{space.rung.name} with {ladder.written(settings)}: {error}; left out")
                    why = " ".join(str(error).split())
                    row = settings | dict.fromkeys(tuning.MEASURED, "") | {"failed": why}
                append(row | {"code": _code(space, settings)})
                return float(row["time_ms"]) if row["time_ms"] != "" else None

            return tuner.search(
                space, wanted.strategy, wanted.budget, wanted.seed, known, measure, bar.update
            )


@contextmanager
def journal(
    path: Path, columns: tuple[str, ...]
) -> Iterator[tuple[list[dict[str, str]], Callable[[Row], None]]]:
    """The rows of a CSV file, and a function that appends a row and returns when it is on disk.

    A program that is stopped loses only the measurement under way; an unfinished last line is
    dropped here. Raises BadRecord for a file with other columns, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    content = path.read_bytes() if path.exists() else b""
    complete = content[: content.rfind(b"\n") + 1]
    reader = csv.DictReader(io.StringIO(complete.decode("utf-8")))
    rows = list(reader)
    if complete and tuple(reader.fieldnames or ()) != columns:
        raise bad(path, f"its columns are not {', '.join(columns)}")
    with open(path, "a", newline="", encoding="utf-8") as file:
        file.truncate(len(complete))
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if not complete:
            writer.writeheader()

        def append(row: Row) -> None:
            writer.writerow(row)
            file.flush()
            os.fsync(file.fileno())

        yield rows, append


def _kept(space: Space, rows: list[dict[str, str]]) -> Iterator[tuple[Point, float | None]]:
    """Of a journal's rows the points of the kernel's code as it stands, and their times."""
    for row in rows:
        settings = {name: int(row[name]) for name in space.rung.defaults}
        if row["code"] == _code(space, settings):
            yield space.point(settings), float(row["time_ms"]) if row["time_ms"] else None


def _code(space: Space, settings: Settings) -> str:
    problem = replace(space.problem, ops=space.rung.ops(settings))
    return str(of_rung(space.rung, settings, [problem], target_here()))


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
