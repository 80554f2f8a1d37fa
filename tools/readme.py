"""`make readme`: the generated parts of PAGES, their pictures, the thumbnails of the index.

Tests compare them with records and kernels, so they cannot grow stale.
"""

import io
import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from PIL import Image

from gemmlab import files, ladder, plots
from gemmlab.analysis import facts, recorded
from gemmlab.folders import ROOT
from gemmlab.ladder import CEILINGS, RUNGS, SINGLE
from gemmlab.lessons.autotuning import drawn_shapes
from gemmlab.lessons.emulated_fp32 import figures, tables
from gemmlab.lessons.fp8 import tables as fp8
from gemmlab.lessons.grouped import tables as grouped
from gemmlab.loading import load
from gemmlab.notebook import overview
from gemmlab.notebook.overview import PICTURES, SIZE
from gemmlab.notebook.series import chapters
from gemmlab.plots import thumbnails
from gemmlab.plots.page import Picture
from gemmlab.records import published, registry, roofs, runs
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord
from gemmlab.records.runs import Measured

README = ROOT / "README.md"
PAGES = (README, ROOT / "docs" / "results.md", ROOT / "docs" / "matmul.md")
GPU_COLUMNS = ((recorded.TFLOPS, ".2f"), (recorded.CUBLAS, ".1f"), (recorded.ROOF, ".1f"))
BEGIN, END = "<!-- made by `make readme`: {name} -->", "<!-- end -->"


def ladder_table(page: Path = README) -> str:
    """The ladder as a Markdown table: every rung, its idea, and its recorded speed at 4096³."""
    lines = [f"| rung | idea | TFLOP/s at {SIZE}³ | of cuBLAS |", "|---|---|---|---|"]
    for step in overview.ladder_steps():
        notebook = _path_from(page, ROOT / "notebooks" / f"{step.name}.ipynb")
        lines.append(f"| [{step.name}]({notebook}) | {step.idea} | {step.tflops} | {step.share} |")
    return "\n".join([*lines, "", overview.ladder_source()])


def judged_table() -> str:
    """gl.matmul at drawn shapes, a row for each family, as a Markdown table. Raises NoRecord."""
    judged = drawn_shapes.recorded()
    table = drawn_shapes.by_family(judged).unstack(level=0)
    types = table.columns.unique(level=1)
    counts = (f"{dtype}, {table['shapes', dtype]['all']:.0f} shapes" for dtype in types)
    lines = [f"| shapes | {' | '.join(counts)} |", "|---" * (1 + len(types)) + "|"]
    for family, row in table.iterrows():
        cells = (
            f"{row['mean', dtype]:.2f} ({row['below 0.9', dtype] / row['shapes', dtype]:.0%}, "
            f"{row['least', dtype]:.2f})"
            for dtype in types
        )
        lines.append(f"| {family} | {' | '.join(cells)} |")
    beside = table.loc["all"]["beside proposals"].dropna()  # of types whose proposals were timed
    means = plots.style.listed([f"{mean:.2f} in {dtype}" for dtype, mean in beside.items()])
    source = f"{plots.style.provenance(judged)}; the seed is {judged['seed'].iloc[0]}."
    note = f"Beside the fastest that cuBLASLt proposes the mean is {means}."
    return "\n".join([*lines, "", f"{source} {note}"])


def judged_sentence() -> str:
    """The same in a sentence. Raises NoRecord."""
    judged = drawn_shapes.recorded()
    means = [
        f"{row['mean']:.2f} at {row['shapes']:.0f} shapes in {dtype}"
        for (dtype, family), row in drawn_shapes.by_family(judged).iterrows()
        if family == "all"
    ]
    return (
        "At shapes drawn at random after the choice was fixed, the geometric mean of cuBLAS's time "
        f"over that of `gl.matmul` is {plots.style.listed(means)} "
        f"({plots.style.provenance(judged)})."
    )


def ways_table() -> str:
    """FP32 by its own units and by tensor cores, as a Markdown table. Raises NoRecord."""
    table, source = tables.both_ways().reset_index(), plots.style.provenance(tables.speeds())
    rows = (table.columns, ["---"] * len(table.columns), *table.to_numpy())
    lines = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([*lines, "", f"{source}; medians, in turn with cuBLAS."])


def gpus_table() -> str:
    """Rungs that are recorded on several GPUs, beside cuBLAS, as a Markdown table.

    In float32 also as a share of the FP32 roof. Raises NoRecord and BadRecord.
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
    note = (
        "Rungs that were recorded on more than one GPU, beside cuBLAS of the same precision, and "
        "in FP32 as a share of what the FP32 units of the same GPU reach alone; empty where that "
        "is not recorded. Tensor cores are at the limit of power, where the clock falls and their "
        f"roof with it, so their rungs have no such share. Recorded: {', '.join(dates)}."
    )
    return "\n".join([*lines, "", note])


def _dates(slug: str, names: Iterable[str]) -> str:
    """The GPU, and on which days these of its rungs were recorded, from the first to the last."""
    with registry.records_of(slug):
        provenances = [
            runs.entry(Measured(ladder.find(name)))["provenance"]
            for name in names
            if runs.is_recorded(ladder.find(name))
        ]
    days = overview.span(entry["recorded"] for entry in provenances)
    return f"{provenances[0]['gpu']} {days}"


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


def _view() -> Picture:
    return plots.kernel_view(facts.of(load("03_shared_memory")), roofs.recorded_ceilings())


def _shown(path: Path, draw: Callable[[], Picture], page: Path) -> str:
    """The picture in Markdown, with its caption as the text for those who do not see it."""
    return f"![{draw().caption}]({_path_from(page, path)})"


def _path_from(page: Path, path: Path) -> str:
    return Path(os.path.relpath(path, page.parent)).as_posix()


FIGURES = {
    "view": (PICTURES / "03_shared_memory_view.png", _view),
    "shapes": (PICTURES / "shape_shares.png", lambda: plots.shape_shares(recorded.chosen_shares())),
    "climb": (PICTURES / "ladder_gflops.png", overview.climb),
    "shares": (PICTURES / "ladder_shares.png", overview.shares),
    "fp32": (PICTURES / "fp32_speed_and_error.png", figures.speed_against_error),
    "drawn": (PICTURES / "drawn_shapes.png", lambda: drawn_shapes.shares(drawn_shapes.recorded())),
}
PARTS: dict[str, Callable[[Path], str]] = {
    **{name: partial(_shown, path, draw) for name, (path, draw) in FIGURES.items()},
    "ladder": ladder_table,
    "ways": lambda page: ways_table(),
    "sources": lambda page: f"The markers' sources: {published.links()}.",
    "gpus": lambda page: gpus_table(),
    "types": lambda page: fp8.types_beside_libraries(),
    "groups": lambda page: grouped.groups_beside_libraries(),
    "judged": lambda page: judged_sentence() if page == README else judged_table(),
}
"""What is generated, by the name of the part: the Markdown of it for a page."""


def pictures() -> dict[Path, Image.Image]:
    """For each row of the ladder its small picture, and the file that it belongs in."""
    drawn = {CEILINGS.name: thumbnails.roofs_thumbnail(roofs.recorded_ceilings())}
    drawn |= {rung.name: thumbnails.thumbnail(facts.of(load(rung.name))) for rung in RUNGS}
    drawn |= {chapter.name: chapter.draw() for chapter in chapters()}
    return {overview.thumbnail_path(name): picture for name, picture in sorted(drawn.items())}


def main() -> None:
    for path, picture in pictures().items():
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
    except (OSError, BadRecord, NoRecord, StaleRecord) as error:
        sys.exit(f"gemmlab: {error}")
