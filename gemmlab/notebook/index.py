"""Contents of notebooks/index.ipynb: the ladder with thumbnails, and ways through it."""

import base64
import html

from gemmlab.ladder import CEILINGS, RUNGS, SINGLE, find
from gemmlab.notebook import overview, series
from gemmlab.plots.style import FAINT
from gemmlab.report import PAPER, RULE, Shown, aligned

THUMBNAIL = 84  # pixels on the screen
MINUTES = "minutes: student / engineer"
CELL = f"padding: 0.35em 0.7em; border: 0; border-bottom: 1px solid {RULE}; vertical-align: middle"
KEY = (
    "Pictures: A at the left, B above, C in the corner, traced from the compiled kernel. Pale: "
    "what one block touches. Darker: its first step along K. Full colour: what a warp loads first, "
    "and all that it stores. Black: one thread of it. Grey lines: where the next blocks begin. "
    "Notebooks without a kernel of the ladder have pictures of their own."
)
EACH_BY_ITSELF = (
    "Each row is a recording of its own. The speed of cuBLAS beside it differs between recordings, "
    "in FP16 by a few percent: small differences between rows say little."
)


def ladder() -> Shown:
    """The ladder as a table: picture, notebook, idea, recorded speed, minutes to read.

    Raises NoRecord, StaleRecord, BadRecord, and what series.main_path raises.
    """
    steps = overview.ladder_steps()
    below = (KEY, overview.ladder_source(), EACH_BY_ITSELF, series.FORMULA)
    heads = ("", "notebook", f"TFLOP/s at {overview.SIZE}³", "of cuBLAS", MINUTES)
    notes = (f'<p style="margin: 0.6em 0; color: {FAINT}">{words}</p>' for words in below)
    markup = (
        f'<div style="{PAPER}; padding: 0.5em 0.8em; overflow-x: auto">'
        f'<table style="border-collapse: collapse; border: 0; font-size: 14px; {PAPER}">'
        f'<thead><tr style="{PAPER}">{"".join(map(_head, heads))}</tr></thead>'
        f"<tbody>{''.join(map(_row, steps))}</tbody></table>{''.join(notes)}</div>"
    )
    rows = [(s.name, s.title, s.idea, *_numbers(s)) for s in steps]
    table = aligned([("notebook", "title", "idea", *heads[2:]), *rows], left=(0, 1, 2))
    return Shown("\n".join([table, "", *below]), markup)


def _numbers(step: overview.Step) -> tuple[str, str, str]:
    return step.tflops, step.share, series.both_minutes(step.name)


def ways() -> Shown:
    """Three ways through the series: notebooks in the order to read them, none without what it
    needs."""
    lines, items = [], []
    for title, names in routes().items():
        head = f"{title} ({len(names)} notebooks, {series.hours(names)})"
        lines.append(f"{head}: {', '.join(names)}")
        links = " · ".join(link(name, label(name)) for name in names)
        items.append(f'<p style="margin: 0.6em 0"><b>{head}</b><br>{links}</p>')
    markup = f'<div style="{PAPER}; padding: 0.1em 0.8em">{"".join(items)}</div>'
    return Shown("\n".join(lines), markup)


def routes() -> dict[str, list[str]]:
    """Names of notebooks for each way. Raises what series.needed raises."""
    every = [series.HOST_CODE, *series.names()]
    fp32 = series.with_needed(rung.name for rung in RUNGS if rung.precision is SINGLE)
    tensor = series.with_needed(rung.name for rung in RUNGS if rung.precision.on_tensor_cores)
    return {
        "All": every,
        "FP32, with what it needs": [name for name in every if name in fp32],
        "Tensor cores, with what they need": [name for name in every if name in tensor],
    }


def label(name: str) -> str:
    """A notebook in a few words: "08 Warp tiling"."""
    if name == series.HOST_CODE:
        return "Host code"
    return f"{short(name)} {series.titles()[name]}"


def short(name: str) -> str:
    """A notebook in a word: "08"; "host" for the page of host code."""
    return name.partition("_")[0]


def link(name: str, words: str) -> str:
    """HTML: a link to a notebook of this folder, which JupyterLab opens in a tab of its own."""
    return f'<a href="{name}.ipynb">{html.escape(words)}</a>'


def _head(words: str) -> str:
    side = "left" if words == "notebook" else "right"
    return f'<th scope="col" style="text-align: {side}; {CELL}">{words}</th>'


def alt(name: str) -> str:
    """What is to be seen in a thumbnail, for those who cannot see it."""
    known = {CEILINGS.name: "A slope that ends in a flat roof."}
    known |= {chapter.name: chapter.alt for chapter in series.chapters()}
    if name in known:
        return known[name]
    rung = find(name)
    rows, columns = rung.tile(rung.defaults)
    return f"A block computes {rows} × {columns} elements of C."


def _row(step: overview.Step) -> str:
    path = overview.thumbnail_path(step.name)
    # In the page itself, so that every viewer of the notebook shows it.
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    size = f'width="{THUMBNAIL}" height="{THUMBNAIL}"'
    picture = f'<img src="data:image/png;base64,{data}" alt="{alt(step.name)}" {size}>'
    words = f"<b>{link(step.name, label(step.name))}</b><br>{html.escape(step.idea)}"
    cells = [f'<td style="{CELL}">{picture}</td><td style="text-align: left; {CELL}">{words}</td>']
    cells += [f'<td style="text-align: right; {CELL}">{text}</td>' for text in _numbers(step)]
    return f'<tr style="{PAPER}">{"".join(cells)}</tr>'
