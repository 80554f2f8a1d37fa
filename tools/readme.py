"""`make readme`: the ladder's pictures, README.md's table, the thumbnails of notebooks/index.ipynb.

Tests compare them with records and kernels, so they cannot grow stale.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from gemmlab import files, ladder, plots
from gemmlab.analysis import facts, recorded
from gemmlab.folders import ROOT
from gemmlab.ladder import CEILINGS, RUNGS, SINGLE
from gemmlab.loading import load
from gemmlab.notebook import overview
from gemmlab.notebook.chapters import chapters
from gemmlab.notebook.overview import PICTURES, SIZE
from gemmlab.plots import thumbnails
from gemmlab.records import published, registry, roofs, runs
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord
from gemmlab.records.runs import Measured

README = ROOT / "README.md"
STOPPED = 130  # as a shell says of a command that Ctrl-C ended
GPU_COLUMNS = (
    (recorded.TFLOPS, ".2f"),
    (recorded.CUBLAS, ".1f"),
    (recorded.ROOF, ".1f"),
)
BEGIN, END = "<!-- made by `make readme`, not by hand -->", "<!-- end of what is made -->"


def made() -> str:
    """The part of README.md between BEGIN and END, both included, from kernels and records."""
    view, *figures = (_shown(path, draw()) for path, draw in FIGURES.items())
    markers = f"The markers' sources: {published.links()}."
    parts = (view, ladder_table(), *figures, markers, gpus_table())
    return "\n\n".join([BEGIN, *parts, END])


def updated(readme: str) -> str:
    """`readme` with the made part renewed. Raises ValueError where its markers are not there."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    if not pattern.search(readme):
        raise ValueError(f"README.md has no part between '{BEGIN}' and '{END}'")
    return pattern.sub(lambda _: made(), readme)


def _shown(path: Path, picture) -> str:
    return f"![{picture.caption}]({path.relative_to(ROOT).as_posix()})"


def _view():
    return plots.kernel_view(facts.of(load("03_shared_memory")), roofs.recorded_ceilings())


FIGURES = {
    PICTURES / "03_shared_memory_view.png": _view,
    PICTURES / "shape_shares.png": lambda: plots.shape_shares(recorded.chosen_shares()),
    PICTURES / "ladder_gflops.png": overview.climb,
    PICTURES / "ladder_shares.png": overview.shares,
}


def ladder_table() -> str:
    """The ladder as a Markdown table: every rung, its idea, and its recorded speed at 4096³."""
    lines = [f"| rung | idea | TFLOP/s at {SIZE}³ | of cuBLAS |", "|---|---|---|---|"]
    for step in overview.ladder_steps():
        share = f" {step.share} |" if step.share else " |"
        lines.append(
            f"| [{step.name}](notebooks/{step.name}.ipynb) | {step.idea} | {step.tflops} |{share}"
        )
    return "\n".join([*lines, "", overview.ladder_source()])


def gpus_table() -> str:
    """Rungs that are recorded on several GPUs, beside cuBLAS, as a Markdown table.

    In float32 also as a share of the FP32 roof; that of tensor cores falls with the clock. Raises
    NoRecord and BadRecord.
    """
    speeds = recorded.gpu_speeds((SIZE, SIZE, SIZE))
    names = list(speeds.columns.unique(0))
    several = speeds[speeds.xs(recorded.TFLOPS, axis=1, level=1).count(axis=1) > 1]
    head = " | ".join(f"{name}: TFLOP/s | % of cuBLAS | % of the FP32 roof" for name in names)
    lines = [f"| at {SIZE}³ | {head} |", "|---" * (1 + 3 * len(names)) + "|"]
    for rung, row in several.iterrows():
        single = ladder.find(rung).precision is SINGLE
        cells = [
            f"{row[name, column]:{form}}"
            if row.notna()[name, column] and (single or column != recorded.ROOF)
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
    return f"{told[0]['gpu']} {overview.span(overview.day_of(one['recorded']) for one in told)}"


def pictures() -> dict[Path, Image.Image]:
    """For each row of the ladder its small picture, and the file that it belongs in."""
    drawn = {CEILINGS.name: thumbnails.roofs_thumbnail(roofs.recorded_ceilings())}
    for rung in RUNGS:
        drawn[rung.name] = thumbnails.thumbnail(facts.of(load(rung.name)))
    drawn |= {one.name: one.draw() for one in chapters()}
    return {overview.thumbnail_path(name): picture for name, picture in sorted(drawn.items())}


def main() -> None:
    for path, picture in pictures().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn = io.BytesIO()
        picture.save(drawn, format="png", optimize=True)
        files.write(path, drawn.getvalue())
    for path, draw in FIGURES.items():
        files.write(path, draw().png())
    files.write(README, updated(README.read_text(encoding="utf-8")).encode())


if __name__ == "__main__":
    try:
        main()
    except (files.NotWritten, BadRecord, NoRecord, StaleRecord) as error:
        sys.exit(f"gemmlab: {error}")
    except KeyboardInterrupt:
        print("gemmlab: stopped", file=sys.stderr)
        sys.exit(STOPPED)
