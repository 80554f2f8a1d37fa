"""The lab on a page: its sliders as HTML, and the files from which a script answers their moves.

`write` makes `labs/NAME.js` of each rung, with conditions, sentences, words and numbers, and the
pictures in `labs/NAME/`. These are fetched when the reader touches a slider.
"""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from gemmlab import files, ladder
from gemmlab.cuda.architectures import SIMULATED_ARCH
from gemmlab.ladder import RUNGS, Rung, Settings
from gemmlab.notebook import lab as refusal
from gemmlab.notebook.lab import LINES_TITLE, NUMBERS_TITLE, known_roofs
from gemmlab.site import cache as kept
from gemmlab.site import lab_views
from gemmlab.site.constraint_tables import tables

FOLDER = "labs"
NOT_HERE = (
    "{settings} go together, but this page has no picture of them: gl.lab in the notebook draws it."
)
HERE = "The nearest that this page has"
HERE_WITH = "The nearest with {moved} that this page has"
NOTHING_HERE_WITH = "This page has nothing with {moved}. The nearest"
NO_SCRIPT = "The sliders need JavaScript; the picture is that of the settings shown."
Progress = Callable[[Iterable, int], Iterable]
"""Given what to go through and how many they are, such as tqdm: it shows how far they are."""


def write(
    folder: Path,
    progress: Progress = lambda items, total: items,
    rungs: Iterable[Rung] = RUNGS,
    cache_folder: Path = kept.FOLDER,
) -> None:
    """Write what the labs of all rungs need into `folder`/labs.

    Views that the cache does not have are drawn, on all cores. Raises NotWritten, RuntimeError
    where GEMMLAB_DEVICE is not "simulator", and what drawing raises.
    """
    rungs = list(rungs)
    shown = {rung.name: lab_views.rendered(rung) for rung in rungs}
    tasks = [(name, settings) for name, every in shown.items() for settings in every]
    # The slowest first, for then the cores end together.
    tasks.sort(key=lambda task: task[0] != "12_split_k")
    drawn: dict[str, dict[str, dict]] = {name: {} for name in shown}
    keys: dict[str, list[str]] = {name: [] for name in shown}
    done = progress(lab_views.views(tasks, cache_folder), len(tasks))
    for (name, settings), (key, view) in zip(tasks, done, strict=True):
        drawn[name][_place(settings)] = view
        keys[name].append(key)
    for rung in rungs:
        lab_views.shelf_of(rung.name, cache_folder).prune(keys[rung.name])
        _write_rung(folder / FOLDER, rung, drawn[rung.name], cache_folder)


def _write_rung(folder: Path, rung: Rung, views: dict[str, dict], cache_folder: Path) -> None:
    data = json.dumps(data_of(rung, views), ensure_ascii=False, separators=(",", ":"))
    # A script, not JSON: browsers read no other file of a site that is opened from a folder.
    files.write(folder / f"{rung.name}.js", f'gemmlab.take("{rung.name}",{data});\n'.encode())
    pictures = folder / rung.name
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir(parents=True)
    shelf = lab_views.shelf_of(rung.name, cache_folder)
    for view in views.values():
        for name in view["pictures"]:
            shutil.copyfile(shelf.folder / name, pictures / name)


def data_of(rung: Rung, views: dict[str, dict]) -> dict:
    """What a script needs to answer as gl.lab does, as a dict for JSON.

    views: by the values of the settings, as text: "32 64 0". "distances" of a parameter: between
    each two of its values, see ladder.nearest.
    """
    first = next(iter(views.values()))
    return {
        "parameters": [
            {
                "name": one.name,
                "legal": one.legal,
                "distances": [
                    [ladder.distance_between(value, other) for other in one.legal]
                    for value in one.legal
                ],
            }
            for one in rung.parameters
        ],
        "constraints": tables(rung),
        "sentences": {
            "no_picture": refusal.NO_PICTURE, "reason": refusal.REASON, "use": refusal.USE,
            "change": refusal.CHANGE, "not_here": NOT_HERE,
            "legal": [refusal.NEAREST, refusal.NEAREST_WITH, refusal.NOTHING_WITH],
            "here": [HERE, HERE_WITH, NOTHING_HERE_WITH],
        },
        "source": rung.path.read_text(encoding="utf-8").rstrip().splitlines(),
        "numbers": [[quantity, unit] for quantity, _, unit in first["numbers"]],
        "views": {
            place: {
                "picture": view["pictures"][0],
                "said": view["said"],
                "lines": view["lines"],
                "numbers": [value for _, value, _ in view["numbers"]],
            }
            for place, view in views.items()
        },
    }  # fmt: skip


def placeholder(
    name: str, settings: Settings, root: str = "../", cache_folder: Path = kept.FOLDER
) -> str:
    """HTML of the lab of a rung as it first stands, with all its sliders.

    settings: where these stand, the default of all others. root: from the page to the folder that
    `write` got. Raises LadderError and IllegalSetting as gl.lab does, and IllegalSetting for
    settings of which there is no picture.
    """
    rung = ladder.find(name)
    start = ladder.settings_for(rung, settings)
    if not rung.ships(start):
        raise ladder.IllegalSetting(
            f"{name} with {ladder.listed(start)} has no picture on the site: begin with settings "
            "that come compiled."
        )
    view = lab_views.view(name, start, cache_folder)
    picture = view["pictures"][0]
    width, height = lab_views.shelf_of(name, cache_folder).size_of(picture)
    controls = "\n".join(_control(rung, at, start) for at in range(len(rung.parameters)))
    said = "<br>".join(map(html.escape, view["said"]))
    alt = html.escape(view["said"][0])
    notes = "".join(f"<p>{html.escape(words)}</p>" for words in _notes(rung))
    return f"""\
<section class="gemmlab-lab" data-rung="{name}" data-data="{root}{FOLDER}/{name}.js" \
data-pictures="{root}{FOLDER}/{name}/" aria-label="Sliders of {name}">
<div class="gemmlab-controls">
{controls}
</div>
<p class="gemmlab-status" role="status"></p>
<button type="button" class="gemmlab-offer" hidden></button>
<figure>
<div class="gemmlab-wide" tabindex="0" role="group" aria-label="Picture">\
<img src="{root}{FOLDER}/{name}/{picture}" loading="lazy" width="{width}" height="{height}" \
alt="{alt}"></div>
<figcaption aria-live="polite">{said}</figcaption>
</figure>
<details class="gemmlab-lines"><summary>{LINES_TITLE}</summary><div></div></details>
<details class="gemmlab-numbers"><summary>{NUMBERS_TITLE}</summary><div></div></details>
<div class="gemmlab-notes">{notes}</div>
<noscript><p>{NO_SCRIPT}</p></noscript>
</section>"""


def _control(rung: Rung, at: int, start: Settings) -> str:
    """A slider over the places of a parameter's values; a script enables it."""
    one = rung.parameters[at]
    name = f"lab-{rung.name}-{one.name}"
    value = start[one.name]
    return (
        f'<div class="gemmlab-control"><label for="{name}"><b>{one.name}'
        f'<span class="gemmlab-other"></span></b> {html.escape(one.meaning)}</label>'
        f'<span><input type="range" id="{name}" name="{one.name}" min="0" '
        f'max="{len(one.legal) - 1}" value="{one.legal.index(value)}" '
        f'data-values="{" ".join(map(str, one.legal))}" aria-valuetext="{value}" '
        f'autocomplete="off" disabled>'
        f'<output for="{name}" aria-live="off">{value}</output></span></div>'
    )


def _notes(rung: Rung) -> list[str]:
    """Where what is shown comes from, and what this page does not have."""
    notes = [f"Registers and occupancy are those of {SIMULATED_ARCH}, the one architecture for "
             "which all of these are compiled; gl.lab in the notebook has the others."]  # fmt: skip
    drawn, legal = len(lab_views.rendered(rung)), len(_legal(rung))
    if drawn < legal:
        notes.append(
            f"Of {legal:,} choices that go together this page has {drawn:,}; gl.lab in the "
            "notebook compiles and draws the others."
        )
    roofs, no_roofs = known_roofs()
    if roofs:
        notes.append(
            "Nothing is measured here: a speed is a recorded one, with its GPU and date below the "
            f"picture. The roofs are those of one {roofs.gpu}, recorded {roofs.recorded[:10]}."
        )
    return [*notes, *filter(None, [no_roofs])]


@cache
def _legal(rung: Rung) -> list[Settings]:
    return ladder.legal_settings(rung)


def _place(settings: Settings) -> str:
    return " ".join(map(str, settings.values()))
