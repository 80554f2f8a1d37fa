"""The lab's views of a rung, rendered once and kept: what labs.py puts on a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from gemmlab import ladder
from gemmlab.analysis.facts import recorded_speed
from gemmlab.cuda.architectures import SIMULATED_ARCH
from gemmlab.cuda.device import simulator_wanted
from gemmlab.kernel.fingerprint import code_hash
from gemmlab.ladder import Rung, Settings
from gemmlab.loading import load
from gemmlab.notebook.heat import Heat
from gemmlab.notebook.lab import known_roofs, view_of
from gemmlab.processes import workers
from gemmlab.site import cache as kept
from gemmlab.site.cache import Shelf, code_of, key_of
from gemmlab.site.webp import webp

Task = tuple[str, Settings, Path]  # a rung's name, settings, and where the cache is


def shelf_of(name: str, folder: Path) -> Shelf:
    return Shelf(folder / "labs" / name)


def view(name: str, settings: Settings, folder: Path = kept.FOLDER) -> dict:
    """One view as a dict for JSON, drawn where the cache in `folder` does not have it.

    "pictures": one file's name. "said": sentences, the caption first. "lines": of the heat, with
    "caption", "kinds" and "rows": of a line its number and, for each kind, a count, its share in
    words and as part of 1; a whole number below 0 for so many lines that are left out. "numbers":
    quantity, value and unit in words. Raises RuntimeError where a GPU would be asked for the speed.
    """
    return _kept((name, settings, folder))[1]


def views(tasks: Iterable[tuple[str, Settings]], folder: Path) -> Iterator[tuple[str, dict]]:
    """The key and the view of each rung's name and settings, in the order given.

    A process on each core draws those that the cache in `folder` does not have.
    """
    with workers() as pool:
        yield from pool.map(_kept, [(*task, folder) for task in tasks])


def _kept(task: Task) -> tuple[str, dict]:
    name, settings, folder = task
    if not simulator_wanted():
        raise RuntimeError(
            "The site shows recorded speeds alone: set GEMMLAB_DEVICE=simulator to build it."
        )
    shelf, key = shelf_of(name, folder), _key(name, settings)
    return key, shelf.get(key, lambda: _drawn(name, settings, shelf))


def _key(name: str, settings: Settings) -> str:
    """Of all that a view shows: the kernel's text, what was compiled, what is recorded, the code
    that draws."""
    kernel = load(name, **settings)
    return key_of(
        kernel.text, code_hash(kernel.text, settings), settings, kernel.taken(SIMULATED_ARCH),
        recorded_speed(kernel), _roofs(), code_of(__name__),
    )  # fmt: skip


@cache
def _roofs():
    return known_roofs()


def _drawn(name: str, settings: Settings, shelf: Shelf) -> dict:
    found = view_of(load(name, **settings), SIMULATED_ARCH, *_roofs())
    return {
        "pictures": [shelf.keep_picture(webp(found.picture))],
        "said": found.said,
        "lines": _lines(found.lines),
        "numbers": found.numbers,
    }


def _lines(heat: Heat) -> dict:
    kinds, rows = heat.kinds(), []
    for row in heat.rows():
        if row.folded:
            rows.append(-row.folded)
            continue
        cells = [row.cells[kind] for kind in kinds]
        if not any(count for count, _, _ in cells):
            rows.append([row.line])
            continue
        rows.append([row.line, *((n, words, round(part, 3)) for n, words, part in cells)])
    return {"caption": heat.caption, "kinds": kinds, "rows": rows}


def rendered(rung: Rung) -> list[Settings]:
    """The settings of which there are views: all that a rung ships."""
    return [settings for settings in ladder.legal_settings(rung) if rung.ships(settings)]
