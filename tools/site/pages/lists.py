"""Lists that docs/*.md name by a mark: the ladder, ways through it, the words, the kernels.

Each is Markdown, made of what the notebooks and README.md have it from.
"""

from __future__ import annotations

from gemmlab.folders import ROOT, kernel_files
from gemmlab.notebook import glossary as words
from gemmlab.notebook import index, overview, series
from gemmlab.records.registry import NoRecord
from tools.site.pages import code

THUMBNAIL = 84  # pixels on the screen


def ladder() -> str:
    """The table of the landing page: thumbnail, notebook, idea, speed, share of cuBLAS, minutes.

    Raises NoRecord, StaleRecord, BadRecord, and what series.main_path raises.
    """
    lines = [
        f"| picture | notebook | TFLOP/s at {overview.SIZE}³ | of cuBLAS | {index.MINUTES} |",
        "|---|---|---:|---:|---:|",
    ]
    for step in overview.ladder_steps():
        path = overview.thumbnail_path(step.name)
        picture = path.relative_to(ROOT).as_posix()
        if not path.is_file():
            raise NoRecord(f"{picture} is not there: run `make readme`")
        size = f"{{width={THUMBNAIL}px height={THUMBNAIL}px}}"
        lines.append(
            f"| ![{index.alt(step.name)}](../{picture}){size} "
            f"| **[{index.label(step.name)}](../notebooks/{step.name}.ipynb)**<br>{step.idea} "
            f"| {_with_unit(step.tflops)} | {step.share} | {series.both_minutes(step.name)} |"
        )
    below = (index.KEY, overview.ladder_source(), series.FORMULA)
    return "\n".join(
        ["{.ladder}", *lines, "", *(f"{{.source}}\n{sentence}\n" for sentence in below)]
    )


def _with_unit(tflops: str) -> str:
    """A speed, such as "41.58 at 64×4096×4096", with its unit for where the table has no head."""
    number, _, where = tflops.partition(" ")
    if not number[:1].isdigit():
        return tflops
    return f'{number}<span class="unit"> TFLOP/s</span> {where}'.rstrip()


def ways() -> str:
    """Each way through the series, with its notebooks in the order to read them."""
    items = []
    for title, names in index.routes().items():
        through = " · ".join(f"[{index.label(name)}](../notebooks/{name}.ipynb)" for name in names)
        head = f"{title}: {len(names)} notebooks, {series.hours(names)}"
        items.append(f"**{head}**<br>{through}\n")
    return "\n".join(items)


def glossary() -> str:
    """All terms in the order of the alphabet, each with the notebook that explains it."""
    entries = []
    for term in sorted(words.TERMS, key=lambda term: term.name.lower().strip("_")):
        where = f"[{index.label(term.notebook)}](../notebooks/{term.notebook}.ipynb)"
        names = "\n".join(map(_quoted, (term.name, *term.also)))
        entries.append(f"{names}\n  {term.meaning} {where}\n")
    return "\n".join(["```{glossary}", *entries, "```"])


def kernels() -> str:
    """All files of kernels/: of each its page, and what it is for."""
    lines = ["| file | what it is |", "|---|---|"]
    for path in kernel_files():
        about = code.about(path.name, path.read_text(encoding="utf-8"))
        lines.append(
            f"| [{path.relative_to(ROOT / 'kernels')}](../{path.relative_to(ROOT)}) | {about} |"
        )
    return "\n".join(lines)


def _quoted(name: str) -> str:
    """Markdown of a name whose underscores and asterisks are its own."""
    return name.replace("_", r"\_").replace("*", r"\*")
