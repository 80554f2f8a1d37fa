"""The step player and the ring player on a page: HTML, and the files that a script plays from.

`write` makes `players/NAME.js` with the frames' sentences, and their pictures in `players/NAME/`,
for every player of the notebooks. These are fetched when the reader moves it.
"""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from gemmlab import files
from gemmlab.folders import NOTEBOOKS
from gemmlab.lessons.warp_specialized import lab as ring_player
from gemmlab.notebook import step_player
from gemmlab.site import cache as kept
from gemmlab.site.interactive import LAB, RING_PLAYER, Call, calls
from gemmlab.site.labs import Progress
from gemmlab.site.player_frames import draw_all, name_of, shelf_of, stages_of, start_of, tracks

FOLDER = "players"
NO_SCRIPT = "Playing needs JavaScript; the picture is the first one."
INTERVALS = {RING_PLAYER: ring_player.INTERVAL}  # milliseconds; of all others step_player's
NAMES = {RING_PLAYER: ("Ring player", "moment"), "": ("Step player", "frame")}


def of_notebooks() -> list[Call]:
    """The players that the notebooks show. Raises ValueError for two of one kind and rung that are
    not the same, which would have the same files."""
    found: dict[str, Call] = {}
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        for call in calls(notebook):
            if call.function == LAB:
                continue
            if (other := found.setdefault(name_of(call), call)) != call:
                raise ValueError(
                    f"{notebook.name} has {call}, which is not {other}: of one kind and rung the "
                    "site has one player."
                )
    return list(found.values())


def write(
    folder: Path,
    progress: Progress = lambda items, total: items,
    wanted: Iterable[Call] | None = None,
    cache_folder: Path = kept.FOLDER,
) -> None:
    """Write what the players need into `folder`/players; `wanted`: those of the notebooks if None.

    Raises NotWritten, and what drawing raises.
    """
    every = of_notebooks() if wanted is None else list(wanted)
    count = sum(len(stages_of(call)) for call in every)
    for _ in progress(draw_all(every, cache_folder), count):
        pass
    for call in every:
        _write_player(folder / FOLDER, call, cache_folder)


def _write_player(folder: Path, call: Call, cache_folder: Path) -> None:
    every = tracks(call, cache_folder)
    data = [
        {"value": str(value), "frames": list(zip(track["pictures"], track["told"], strict=True))}
        for value, track in zip(stages_of(call), every, strict=True)
    ]
    name = name_of(call)
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    files.write(folder / f"{name}.js", f'gemmlab.take("{name}",{text});\n'.encode())
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / name).mkdir(parents=True)
    shelf = shelf_of(call, cache_folder)
    for picture in {one for track in every for one in track["pictures"]}:
        shutil.copyfile(shelf.folder / picture, folder / name / picture)


def placeholder(call: Call, root: str = "../", cache_folder: Path = kept.FOLDER) -> str:
    """HTML of a player as it first stands. root: from the page to the folder that `write` got."""
    stages, start = stages_of(call), start_of(call)
    track = tracks(call, cache_folder)[start]
    picture, told = track["pictures"][0], track["told"][0]
    width, height = shelf_of(call, cache_folder).size_of(picture)
    name = name_of(call)
    title, frame = NAMES.get(call.function, NAMES[""])
    count = len(track["pictures"])
    controls = _control(f"{name}-frame", "frame", frame, (1, count), 1, f"1 of {count}")
    if len(stages) > 1:
        places, shown = (0, len(stages) - 1), str(stages[start])
        label = ring_player.STAGES
        controls = _control(f"{name}-track", "track", label, places, start, shown) + controls
    interval = INTERVALS.get(call.function, step_player.INTERVAL)
    words = html.escape(told)
    return f"""\
<section class="gemmlab-player" data-name="{name}" data-data="{root}{FOLDER}/{name}.js" \
data-pictures="{root}{FOLDER}/{name}/" data-interval="{interval}" \
aria-label="{title} of {call.kernel.name}">
<div class="gemmlab-buttons">
<button type="button" disabled>Back</button>
<button type="button" disabled>Play</button>
<button type="button" disabled>Next</button>
</div>
<div class="gemmlab-controls">
{controls}
</div>
<figure>
<div class="gemmlab-wide" tabindex="0" role="group" aria-label="Picture">\
<img src="{root}{FOLDER}/{name}/{picture}" loading="lazy" width="{width}" height="{height}" \
alt="{words}"></div>
<figcaption aria-live="polite">{words}</figcaption>
</figure>
<noscript><p>{NO_SCRIPT}</p></noscript>
</section>"""


def _control(
    ident: str, kind: str, label: str, ends: tuple[int, int], value: int, words: str
) -> str:
    """A slider, which a script enables; `words` say its value."""
    least, most = ends
    return (
        f'<div class="gemmlab-control"><label for="{ident}"><b>{label}</b></label>'
        f'<span><input type="range" class="gemmlab-{kind}" id="{ident}" min="{least}" '
        f'max="{most}" value="{value}" autocomplete="off" disabled>'
        f'<output for="{ident}" aria-live="off">{words}</output></span></div>'
    )
