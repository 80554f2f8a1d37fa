"""The lines of a kernel that show its idea, beside those of another rung."""

from pathlib import Path

from gemmlab import ladder
from gemmlab.folders import kernel_file
from gemmlab.ladder import LadderError
from gemmlab.report import GROUND, INK, Listing, Shown

LEFT_OUT = "..."  # stands for lines between two parts


def inner_loop(name: str, beside: str | None = None) -> Shown:
    """The inner loop of rung `name`, with line numbers; `beside`: a rung to show at its left.

    Show it in a notebook, or print it: both say the same. Raises LadderError for a name that is
    not there, and for a rung whose entry does not say which lines these are.
    """
    rungs = [ladder.find(shown) for shown in (beside, name) if shown is not None]
    parts = [(_file(rung).name, lines(rung)) for rung in rungs]
    head = f"font-weight: 600; padding: 0.3em 0.5em 0; color: {INK}; background: {GROUND}"
    markup = "".join(
        f'<div style="flex: 1 1 26em; min-width: 0; background: {GROUND}">'
        f'<div style="{head}">{file}</div>{listing._repr_html_()}</div>'
        for file, listing in parts
    )
    return Shown(
        "\n\n".join(f"{file}\n{listing!r}" for file, listing in parts),
        f'<div style="display: flex; flex-wrap: wrap; gap: 0.6em">{markup}</div>',
    )


def lines(rung: ladder.Rung) -> Listing:
    """The lines that `rung.inner_loop` names. Raises LadderError where the file has none such."""
    if not rung.inner_loop:
        raise LadderError(f"{rung.name} has no inner_loop in its entry in gemmlab/lessons/")
    source = _file(rung).read_text(encoding="utf-8").splitlines()
    numbers: list[int | None] = []
    after = 0
    for first, last in rung.inner_loop:
        start = _next(source, first, after)
        after = _next(source, last, start + (first != last)) + 1
        apart = numbers and numbers[-1] != start
        numbers += [*([None] if apart else []), *range(start + 1, after + 1)]
    kept = [source[number - 1] for number in numbers if number is not None]
    margin = min(len(line) - len(line.lstrip()) for line in kept if line.strip())
    text = "\n".join(LEFT_OUT if n is None else source[n - 1][margin:] for n in numbers)
    return Listing(text, "cuda", tuple(numbers))


def _file(rung: ladder.Rung) -> Path:
    return kernel_file(rung.inner_loop_in) if rung.inner_loop_in else rung.path


def _next(source: list[str], begins: str, at: int) -> int:
    """Where the next line stands that begins so, from line `at` on, counted from 0."""
    places = range(at, len(source))
    return next(place for place in places if source[place].strip().startswith(begins))
