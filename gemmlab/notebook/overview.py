"""The ladder as a whole, from the records: for README.md, and for the last part of each notebook.

`make readme` writes the generated parts of PAGES, their pictures, and the thumbnails of
notebooks/index.ipynb. Tests compare them with records and kernels.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from PIL import Image

from gemmlab import files, ladder
from gemmlab.analysis import facts, known_differences
from gemmlab.analysis.recorded import chosen, gpus
from gemmlab.folders import RESULTS, ROOT
from gemmlab.ladder import CEILINGS, HALF, RUNGS, SINGLE, Problem
from gemmlab.loading import load
from gemmlab.measure.timing import table
from gemmlab.notebook.chapters import chapters
from gemmlab.records import best_by_shape, published, registry, roofs, runs
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord, of_each
from gemmlab.records.runs import Measured

README = ROOT / "README.md"
PAGES = (README, ROOT / "docs" / "results.md", ROOT / "docs" / "matmul.md")
PICTURES = RESULTS / "pictures"
VIEW, SHAPES, CLIMB, SHARES = (
    PICTURES / f"{name}.png"
    for name in ("03_shared_memory_view", "shape_shares", "ladder_gflops", "ladder_shares")
)
SIZE = 4096
STOPPED = 130  # as a shell says of a command that Ctrl-C ended
GPU_COLUMNS = ((gpus.TFLOPS, ".2f"), (gpus.CUBLAS, ".1f"), (gpus.ROOF, ".1f"))  # and how
CEILINGS_TITLE = "Two roofs"
BEGIN, END = "<!-- made by `make readme`: {name} -->", "<!-- end of what is made -->"


# ---- all rungs so far ----------------------------------------------------------------------------


ON_SQUARES = tuple(rung for rung in RUNGS if rung.shown_at is None)


def summit() -> str:
    """The last rung in float32 that is recorded, or the last one where none is."""
    rungs = [rung for rung in ON_SQUARES if rung.precision is SINGLE]
    return (list(filter(runs.is_recorded, rungs)) or rungs)[-1].name


def climb(last: str | None = None):
    """Figure: recorded GFLOP/s over size, for cuBLAS and the rungs of its precision up to `last`.

    If None, up to the summit in float32. Rungs before it without a current record are left out, and
    named. Raises LadderError for a name that is not there, NoRecord and StaleRecord for `last`,
    BadRecord.
    """
    from gemmlab import plots

    return plots.climb(_so_far(last or summit()))


def shares(last: str | None = None):
    """Figure: the recorded share of cuBLAS at 4096³ of the rungs up to `last`, and the sources'.

    If None, up to the summit in float32. Of rungs with its precision alone, for cuBLAS is another
    at another precision. Rungs before it without a current record are left out, and named. Raises
    LadderError for a name that is not there, NoRecord and StaleRecord for `last`, BadRecord.
    """
    from gemmlab import plots

    return plots.shares(_so_far(last or summit()), published.shares(), (SIZE, SIZE, SIZE))


def shape_shares():
    """Figure: the recorded share of cuBLAS of what gl.matmul takes, over shapes of all kinds.

    Raises NoRecord and BadRecord.
    """
    from gemmlab import plots

    return plots.shape_shares(chosen.shares())


def _so_far(last: str):
    """The recorded runs of the rungs up to `last` in its precision, as one table."""
    end = ladder.find(last)
    before = RUNGS[: RUNGS.index(end) + 1]
    rungs = [rung for rung in ON_SQUARES if rung in before and rung.precision is end.precision]
    runs.entry(Measured(end))
    return table(chain.from_iterable(of_each(map(Measured, rungs), runs.replay)))


# ---- the table --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A row of the ladder. `tflops`: at SIZE³, or where it says. `share`: of cuBLAS, such as
    "93.4 %"; "" where nothing is beside it. `day`: of the recording, such as "2026-11-21"; ""
    where nothing is recorded."""

    name: str
    title: str
    idea: str
    tflops: str
    share: str
    day: str = ""


def ladder_steps() -> list[Step]:
    """Ceilings, rungs and chapters in order: idea, recorded TFLOP/s at SIZE³, share of cuBLAS.

    Of rungs that are for other products at one of these, with the settings for it. One that nobody
    has measured says so. Raises NoRecord for the ceilings, StaleRecord and BadRecord.
    """
    found = roofs.recorded_ceilings()
    copied = f"measure the roofs first: {found.bytes_per_second / 1e12:.2f} TB/s copied"
    rate = f"{found.flop_per_second / 1e12:.1f}"
    steps = [Step(CEILINGS.name, CEILINGS_TITLE, copied, rate, "", _day(found.recorded))]
    for rung in RUNGS:
        try:
            steps.append(Step(rung.name, rung.title, rung.idea, *_speed(rung)))
        except NoRecord:
            steps.append(Step(rung.name, rung.title, rung.idea, "not recorded", ""))
    steps += [Step(one.name, one.title, one.idea, "", "") for one in chapters()]
    return sorted(steps, key=lambda step: step.name)


def _speed(rung: ladder.Rung) -> tuple[str, str, str]:
    """TFLOP/s, and at what if not at SIZE³; percent of cuBLAS; the day of the recording."""
    if (problem := rung.shown_at) is None:
        run = runs.replay_at(Measured(rung), SIZE, SIZE, SIZE)
        return f"{run.gflops / 1e3:.2f}", f"{100 * run.ratio.median:.1f} %", _day(run.recorded)
    row = best_by_shape.at(rung.name, problem)
    rate = f"{row['tflops']:.2f} at {problem}"
    return rate, f"{row['pct_cublas']:.1f} %", _day(row["recorded"])


def _day(recorded: str) -> str:
    return recorded[:10]


def _span(days: Iterable[str]) -> str:
    """From the first of some days to the last."""
    found = sorted(days)
    return " to ".join(dict.fromkeys((found[0], found[-1])))


def ladder_source() -> str:
    """Where the numbers of the ladder come from, in a sentence. Raises NoRecord and BadRecord."""
    provenance = runs.entry(Measured(RUNGS[0]))["provenance"]
    days = _span(step.day for step in ladder_steps() if step.day)
    return (
        "FP32 where a row does not say otherwise, each beside cuBLAS of the same precision, "
        f"measured on one {provenance['gpu']} with CUDA {provenance['cuda']} and cuBLAS "
        f"{provenance['cublas']}, {days}; medians, in turn with cuBLAS."
    )


def ladder_table(page: Path = README) -> str:
    """The ladder as a Markdown table: every rung, its idea, and its recorded speed at 4096³."""
    lines = [f"| rung | idea | TFLOP/s at {SIZE}³ | of cuBLAS |", "|---|---|---|---|"]
    for step in ladder_steps():
        share = f" {step.share} |" if step.share else " |"
        notebook = _path_from(page, ROOT / "notebooks" / f"{step.name}.ipynb")
        lines.append(f"| [{step.name}]({notebook}) | {step.idea} | {step.tflops} |{share}")
    return "\n".join([*lines, "", ladder_source()])


def choices_table() -> str:
    """What gl.matmul takes at every recorded shape in FP32 and FP16, as a Markdown table.

    Raises NoRecord and BadRecord.
    """
    taken = {"FP32": chosen.shares(SINGLE.name), "FP16": chosen.shares(HALF.name)}
    choices: dict[tuple[str, str], dict[str, str]] = {}
    for name, rows in taken.items():
        for row in rows.itertuples():
            shape = str(Problem(row.m, row.n, row.k, row.batch))
            choice = f"{row.kernel}, {row.pct_cublas:.1f} %"
            choices.setdefault((row.group, shape), {})[name] = choice
    groups = list(dict.fromkeys(group for group, _ in choices))
    lines = [f"| shapes | M×N×K | {' | '.join(taken)} |", "|---" * (2 + len(taken)) + "|"]
    for group, shape in sorted(choices, key=lambda place: groups.index(place[0])):
        row = " | ".join(choices[group, shape].get(name, "") for name in taken)
        lines.append(f"| {group} | {shape} | {row} |")
    days = [day for rows in taken.values() for day in rows["recorded"].map(_day)]
    (gpu,) = {name for rows in taken.values() for name in rows["gpu"]}
    source = (
        "The rung, and its share of cuBLAS of the same precision. Empty: nothing is recorded there "
        f"of what gl.matmul takes. {gpu}, {_span(days)}."
    )
    return "\n".join([*lines, "", source])


def gpus_table() -> str:
    """Rungs that are recorded on several GPUs, beside cuBLAS, as a Markdown table.

    In float32 also as a share of the FP32 roof; that of tensor cores falls with the clock. Raises
    NoRecord and BadRecord.
    """
    speeds = gpus.speeds((SIZE, SIZE, SIZE))
    names = list(speeds.columns.unique(0))
    several = speeds[speeds.xs(gpus.TFLOPS, axis=1, level=1).count(axis=1) > 1]
    head = " | ".join(f"{name}: TFLOP/s | % of cuBLAS | % of the FP32 roof" for name in names)
    lines = [f"| at {SIZE}³ | {head} |", "|---" * (1 + 3 * len(names)) + "|"]
    for rung, row in several.iterrows():
        single = ladder.find(rung).precision is SINGLE
        cells = [
            f"{row[name, column]:{form}}"
            if row.notna()[name, column] and (single or column != gpus.ROOF)
            else ""
            for name in names
            for column, form in GPU_COLUMNS
        ]
        lines.append(f"| {rung} | {' | '.join(cells)} |")
    dates = [_dates(slug, several.index) for slug in registry.gpus()]
    said = (
        "Rungs that were recorded on more than one GPU, beside cuBLAS of the same precision, and "
        "in FP32 as a share of what the FP32 units of the same GPU reach alone; empty where that "
        "is not recorded. Tensor cores are at the limit of power, where the clock falls and their "
        f"roof with it, so their rungs have no such share. Recorded: {', '.join(dates)}."
    )
    return "\n".join([*lines, "", said])


def _dates(slug: str, names: Iterable[str]) -> str:
    """The GPU, and on which days these of its rungs were recorded, from the first to the last."""
    with registry.records_of(slug):
        told = [
            runs.entry(Measured(ladder.find(name)))["provenance"]
            for name in names
            if runs.is_recorded(ladder.find(name))
        ]
    return f"{told[0]['gpu']} {_span(_day(one['recorded']) for one in told)}"


# ---- generated parts of pages --------------------------------------------------------------------


def updated(page: Path, text: str) -> str:
    """The text of a page with its generated parts renewed.

    A part stands between BEGIN with its name, one of PARTS, and END. Raises ValueError for a page
    without parts and for a name that is not there, and what making a part raises.
    """
    pattern = re.compile(
        re.escape(BEGIN).replace(r"\{name\}", r"([\w-]+)") + ".*?" + re.escape(END), re.S
    )

    def renewed(part: re.Match) -> str:
        name = part[1]
        if name not in PARTS:
            raise ValueError(f"{page.name} has a part '{name}', and there are {', '.join(PARTS)}")
        return "\n\n".join([BEGIN.format(name=name), PARTS[name](page), END])

    if not pattern.search(text):
        raise ValueError(f"{page.name} has no part between '{BEGIN}' and '{END}'")
    return pattern.sub(renewed, text)


def _view():
    from gemmlab.plots import kernel_view

    return kernel_view(facts.of(load("03_shared_memory")), roofs.recorded_ceilings())


def _shown(path: Path, draw: Callable, page: Path) -> str:
    """The picture in Markdown, with its caption as the text for those who do not see it."""
    return f"![{draw().caption}]({_path_from(page, path)})"


def _path_from(page: Path, path: Path) -> str:
    return Path(os.path.relpath(path, page.parent)).as_posix()


FIGURES = {
    "view": (VIEW, _view),
    "shapes": (SHAPES, shape_shares),
    "climb": (CLIMB, climb),
    "shares": (SHARES, shares),
}
PARTS: dict[str, Callable[[Path], str]] = {
    **{name: partial(_shown, path, draw) for name, (path, draw) in FIGURES.items()},
    "ladder": ladder_table,
    "sources": lambda page: f"The markers' sources: {published.links()}.",
    "gpus": lambda page: gpus_table(),
    "choices": lambda page: choices_table(),
    "counters": lambda page: "\n".join(
        f"- {why}" for why in dict.fromkeys(known.why for known in known_differences.DIFFERENCES)
    ),
}
"""What is generated, by the name of the part: the Markdown of it for a page."""


def thumbnails() -> dict[Path, Image.Image]:
    """For each row of the ladder its small picture, and the file that it belongs in."""
    from gemmlab.plots import thumbnails

    pictures = {CEILINGS.name: thumbnails.roofs_thumbnail(roofs.recorded_ceilings())}
    for rung in RUNGS:
        pictures[rung.name] = thumbnails.thumbnail(facts.of(load(rung.name)))
    pictures |= {one.name: one.draw() for one in chapters()}
    return {thumbnail_path(name): picture for name, picture in sorted(pictures.items())}


def thumbnail_path(name: str) -> Path:
    return PICTURES / "thumbnails" / f"{name}.png"


def main() -> None:
    for path, picture in thumbnails().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn = io.BytesIO()
        picture.save(drawn, format="png", optimize=True)
        files.write(path, drawn.getvalue())
    for path, draw in FIGURES.values():
        files.write(path, draw().png())
    for page in PAGES:
        files.write(page, updated(page, page.read_text(encoding="utf-8")).encode())


if __name__ == "__main__":
    try:
        main()
    except (files.NotWritten, BadRecord, NoRecord, StaleRecord) as error:
        sys.exit(f"gemmlab: {error}")
    except KeyboardInterrupt:
        print("gemmlab: stopped", file=sys.stderr)
        sys.exit(STOPPED)
