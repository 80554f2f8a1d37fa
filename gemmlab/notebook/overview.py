"""The ladder as a whole, from the records: its steps, and its speeds up to one of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pandas

from gemmlab import ladder, plots
from gemmlab.folders import RESULTS
from gemmlab.ladder import CEILINGS, RUNGS, SINGLE
from gemmlab.measure.timing import table
from gemmlab.notebook.series import CEILINGS_TITLE, Chapter, chapters
from gemmlab.plots.page import Picture
from gemmlab.records import best_by_shape, published, roofs, runs
from gemmlab.records.registry import NoRecord, of_each
from gemmlab.records.runs import Measured

PICTURES = RESULTS / "pictures"
SIZE = 4096
ON_SQUARES = tuple(rung for rung in RUNGS if rung.shown_at is None)


def summit() -> str:
    """The last rung in float32 that is recorded, or the last one where none is."""
    rungs = [rung for rung in ON_SQUARES if rung.precision is SINGLE]
    return (list(filter(runs.is_recorded, rungs)) or rungs)[-1].name


def climb(last: str | None = None) -> Picture:
    """Figure: recorded GFLOP/s over size, for cuBLAS and the rungs of its precision up to `last`.

    If None, up to the summit in float32. Rungs before it without a current record are left out, and
    named. Raises LadderError for a name that is not there, NoRecord and StaleRecord for `last`,
    BadRecord.
    """
    return plots.climb(_so_far(last or summit()))


def shares(last: str | None = None) -> Picture:
    """Figure: the recorded share of cuBLAS at 4096³ of the rungs that `climb` shows, and the
    sources'. Raises what `climb` raises."""
    return plots.shares(_so_far(last or summit()), published.shares(), (SIZE, SIZE, SIZE))


def _so_far(last: str) -> pandas.DataFrame:
    """The recorded runs of the rungs up to `last` in its precision, as one table."""
    end = ladder.find(last)
    before = RUNGS[: RUNGS.index(end) + 1]
    rungs = [rung for rung in ON_SQUARES if rung in before and rung.precision is end.precision]
    runs.entry(Measured(end))
    return table(chain.from_iterable(of_each(map(Measured, rungs), runs.replay)))


@dataclass(frozen=True)
class Step:
    """A row of the ladder. `tflops`: at SIZE³, or where it says. `share`: of cuBLAS, such as
    "93.4 %". `recorded`: ISO date and time. "" where nothing is recorded."""

    name: str
    title: str
    idea: str
    tflops: str
    share: str
    recorded: str = ""


def ladder_steps() -> list[Step]:
    """Ceilings, rungs and chapters in order: idea, recorded TFLOP/s at SIZE³, share of cuBLAS.

    Of rungs that are for other products at one of these, with the settings for it. One that nobody
    has measured says so. Raises NoRecord for the ceilings, StaleRecord and BadRecord.
    """
    measured = roofs.recorded_ceilings()
    copied = f"measure the roofs first: {measured.bytes_per_second / 1e12:.2f} TB/s copied"
    rate = f"{measured.flop_per_second / 1e12:.1f}"
    steps = [Step(CEILINGS.name, CEILINGS_TITLE, copied, rate, "", measured.recorded)]
    steps += [Step(rung.name, rung.title, rung.idea, *_speed(rung)) for rung in RUNGS]
    steps += [Step(each.name, each.title, each.idea, *_speed(each)) for each in chapters()]
    return sorted(steps, key=lambda step: step.name)


def _speed(rung: ladder.Rung | Chapter) -> tuple[str, str, str]:
    """TFLOP/s, and at what if not at SIZE³; percent of cuBLAS; the time of the recording."""
    try:
        if isinstance(rung, Chapter):
            if rung.speed is None:
                return "", "", ""
            row, at = rung.speed()
        elif rung.shown_at is not None:
            row, at = best_by_shape.at(rung.name, rung.shown_at), f" at {rung.shown_at}"
        else:
            run, at = runs.replay_at(Measured(rung), SIZE, SIZE, SIZE), ""
            row = runs.cells_of(run, run.problem) | {"recorded": run.recorded}
    except NoRecord:
        return "not recorded", "", ""
    return f"{row['tflops']:.2f}{at}", f"{row['pct_cublas']:.1f} %", row["recorded"]


def span(times: Iterable[str]) -> str:
    """From the day of the first of some times to that of the last."""
    days = sorted(time[:10] for time in times)
    return " to ".join(dict.fromkeys((days[0], days[-1])))


def ladder_source() -> str:
    """Where the numbers of the ladder come from, in a sentence. Raises NoRecord and BadRecord."""
    provenance = runs.entry(Measured(RUNGS[0]))["provenance"]
    days = span(step.recorded for step in ladder_steps() if step.recorded)
    return (
        "FP32 where a row does not say otherwise, each beside cuBLAS of the same precision, "
        f"measured on one {provenance['gpu']} with CUDA {provenance['cuda']} and cuBLAS "
        f"{provenance['cublas']}, {days}; medians, in turn with cuBLAS."
    )


def thumbnail_path(name: str) -> Path:
    return PICTURES / "thumbnails" / f"{name}.png"
