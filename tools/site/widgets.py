"""Sliders and players of the notebooks on pages that run nothing: each answer is made beforehand.

A widget is a row of sliders. Of the settings at which they can stand it has views, each a picture
and its words, and for moves to others an answer: why there is no picture, and where the nearest
one is. A player has a slider for the frame, too, and buttons. docs/_static/widgets.js reads
`widgets/NAME.js`, which is fetched when a reader touches a slider; the pictures lie in
`widgets/NAME/`.
"""

from __future__ import annotations

import hashlib
import html
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PIL import Image

from gemmlab import files, ladder
from gemmlab.folders import NOTEBOOKS
from gemmlab.ladder import Rung, Settings
from gemmlab.lessons.warp_specialized import lab as ring_player
from gemmlab.loading import load
from gemmlab.notebook import step_player
from gemmlab.notebook.lab import NUMBERS_TITLE, known_roofs, reason_of, refusal, view_of
from gemmlab.processes import workers
from ptxsim.architectures import SIMULATED_ARCH
from tools.site.interactive import LAB, RING_PLAYER, Call, calls

FOLDER = "widgets"
FARTHEST, MOST = 2, 64  # moves from where the sliders stand at first; one where these are more
NOT_HERE = "{settings} go together, but this page has no picture of them: gl.lab in the notebook draws it."  # fmt: skip # noqa: E501
NO_SCRIPT = "The sliders need JavaScript; the picture is that of the settings shown."

Values = tuple[int, ...]  # where the sliders stand
Progress = Callable[[Iterable, int], Iterable]  # such as tqdm: of what, and how many they are


@dataclass(frozen=True)
class View:
    """`picture`: a WebP file. `sentences`: the first one stands for the picture. `numbers`:
    quantity, value and unit in words."""

    picture: bytes
    sentences: tuple[str, ...]
    numbers: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Slider:
    """`start`: the value at which it stands at first."""

    name: str
    meaning: str
    values: tuple[int, ...]
    start: int


def of_notebooks() -> list[Call]:
    """All that the notebooks show. Raises ValueError for two of one kind and rung that are not the
    same, which would have the same files."""
    by_name: dict[str, Call] = {}
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        for call in calls(notebook):
            if (other := by_name.setdefault(call.name, call)) != call:
                raise ValueError(f"{notebook.name} has {call}, which has the files of {other}.")
    return list(by_name.values())


def write(
    folder: Path, every: list[Call], progress: Progress = lambda items, total: items
) -> dict[str, str]:
    """Write what the widgets need into `folder`/widgets, and return the HTML of each by its name.

    Its links lead from a folder beside widgets/. Views are drawn on all cores. Raises OSError,
    LadderError, IllegalSetting, and what drawing raises.
    """
    tasks = [(call, settings) for call in every for settings in _drawn_at_once(call)]
    views: dict[str, dict[Values, View]] = {call.name: {} for call in every}
    with workers() as pool:
        drawn = progress([pool.submit(_views, task) for task in tasks], len(tasks))
        for (call, _), of_settings in zip(tasks, drawn, strict=True):
            views[call.name] |= of_settings.result()
    return {call.name: _write(folder / FOLDER, call, views[call.name]) for call in every}


# ---- drawing -------------------------------------------------------------------------------------


def _drawn_at_once(call: Call) -> list[Settings]:
    """The settings of its kernel, each of which is traced once."""
    rung = ladder.find(call.kernel.name)
    start = ladder.settings_for(rung, call.kernel.settings)
    if call.function == LAB:
        return rendered(rung, start)
    if call.function == RING_PLAYER:
        stages = ring_player.RingPlayer.choices(load(rung.name, **start))
        return [start | {ring_player.STAGES: value} for value in stages]
    return [start]


def rendered(rung: Rung, start: Settings) -> list[Settings]:
    """The settings of which there are views where sliders begin with `start`."""
    return ladder.near(rung, start, FARTHEST, MOST)


def _views(task: tuple[Call, Settings]) -> dict[Values, View]:
    """All views with these settings of the kernel."""
    call, settings = task
    kernel = load(call.kernel.name, **settings)
    if call.function == LAB:
        shown = view_of(kernel, kernel.rung.only_arch or SIMULATED_ARCH)
        view = View(webp(shown.picture), shown.sentences, shown.numbers)
        return {tuple(settings.values()): view}
    if call.function == RING_PLAYER:
        player, stages = ring_player.RingPlayer(kernel), settings[ring_player.STAGES]
        drawn, words = partial(player.drawn, stages), partial(player.description, stages)
        return {
            (stages, number): View(webp(drawn(number)), (words(number),))
            for number in range(1, player.moments(stages) + 1)
        }
    steps = step_player.step_player(kernel, *call.shape)
    if not steps.frames:
        raise ValueError(f"{call}: gl.step_player has no frames of these settings and sizes.")
    return {
        (number + 1,): View(webp(steps.drawn(number)), (steps.words_of(number),))
        for number in range(len(steps.frames))
    }


def webp(png: bytes) -> bytes:
    """The same pixels, without loss, in a quarter of the size."""
    drawn = io.BytesIO()
    # More work than this makes it a hundredth smaller, and takes forty times as long.
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.save(drawn, format="webp", lossless=True, method=4, quality=60)
    return drawn.getvalue()


# ---- what a page reads ---------------------------------------------------------------------------


def _write(folder: Path, call: Call, views: dict[Values, View]) -> str:
    """Write the files of one widget, and return its HTML."""
    name = call.name
    sliders = _sliders(call, views)
    # A way that ends before another one stays at its last frame.
    for values in sorted(_every_frame(call, sliders) - views.keys()):
        views[values] = views[(*values[:-1], values[-1] - 1)]
    pictures = {values: f"{_hash(view.picture)}.webp" for values, view in views.items()}
    for values, picture in pictures.items():
        files.write(folder / name / picture, views[values].picture)
    data = {
        "views": {
            _place(values): [
                pictures[values],
                view.sentences,
                [value for _, value, _ in view.numbers],
            ]
            for values, view in views.items()
        },
        "answers": _answers(call, views) if call.function == LAB else {},
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    # A script, not JSON: browsers read no other file of a site that is opened from a folder.
    files.write(folder / f"{name}.js", f'gemmlab.take("{name}",{text});\n'.encode())
    first = tuple(slider.start for slider in sliders)
    return _html(call, sliders, views[first], pictures[first])


def _sliders(call: Call, views: Mapping[Values, View]) -> list[Slider]:
    rung = ladder.find(call.kernel.name)
    start = ladder.settings_for(rung, call.kernel.settings)
    if call.function == LAB:
        return [Slider(p.name, p.meaning, tuple(p.legal), start[p.name]) for p in rung.parameters]
    last = max(values[-1] for values in views)
    if call.function != RING_PLAYER:
        return [Slider("frame", "", tuple(range(1, last + 1)), 1)]
    stages = tuple(sorted({values[0] for values in views}))
    return [
        Slider(ring_player.STAGES, "", stages, start[ring_player.STAGES]),
        Slider("moment", "", tuple(range(1, last + 1)), 1),
    ]


def _every_frame(call: Call, sliders: list[Slider]) -> set[Values]:
    if call.function != RING_PLAYER:
        return set()
    stages, moments = sliders
    return {(each, moment) for each in stages.values for moment in moments.values}


def _answers(call: Call, views: Mapping[Values, View]) -> dict[str, tuple[str, str]]:
    """To each move of one slider away from a view where none is: a sentence, and the nearest view.

    By the values of the settings, and which slider moved, as text: "32 8 0@1".
    """
    rung = ladder.find(call.kernel.name)
    names = [parameter.name for parameter in rung.parameters]
    shown = [dict(zip(names, values, strict=True)) for values in views]
    answers: dict[str, tuple[str, str]] = {}
    for settings in shown:
        for at, parameter in enumerate(rung.parameters):
            for moved in ({**settings, parameter.name: value} for value in parameter.legal):
                place = f"{_place(moved.values())}@{at}"
                if tuple(moved.values()) in views or place in answers:
                    continue
                reason = reason_of(rung, moved) or NOT_HERE.format(settings=ladder.listed(moved))
                words, changes = refusal(rung, moved, [parameter.name], reason, among=shown)
                answers[place] = words, _place((moved | changes).values())
    return answers


def _place(values: Iterable[int]) -> str:
    return " ".join(map(str, values))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


# ---- what stands on a page -----------------------------------------------------------------------


def _html(call: Call, sliders: list[Slider], view: View, picture: str) -> str:
    """The widget as it first stands."""
    name, interval = call.name, 0
    title, buttons, details = f"Sliders of {call.kernel.name}", "", ""
    if call.function == LAB:
        details = _numbers(view)
        details += "".join(f"<p>{html.escape(words)}</p>" for words in _notes(call))
    else:
        title = f"{call.function.replace('_', ' ').capitalize()} of {call.kernel.name}"
        player = ring_player if call.function == RING_PLAYER else step_player
        interval = player.INTERVAL
        buttons = "".join(f'<button type="button" disabled>{label}</button>'
                          for label in ("Back", "Play", "Next"))  # fmt: skip
        buttons = f'<div class="gemmlab-buttons">{buttons}</div>\n'
    width, height = Image.open(io.BytesIO(view.picture)).size
    controls = "\n".join(_control(name, slider) for slider in sliders)
    return f"""\
<section class="gemmlab-widget" data-name="{name}" data-folder="../{FOLDER}/" \
data-interval="{interval}" aria-label="{title}">
{buttons}<div class="gemmlab-controls">
{controls}
</div>
<p class="gemmlab-status" role="status"></p>
<button type="button" class="gemmlab-offer" hidden></button>
<figure>
<div class="gemmlab-wide" tabindex="0" role="group" aria-label="Picture">\
<img src="../{FOLDER}/{name}/{picture}" loading="lazy" width="{width}" height="{height}" \
alt="{html.escape(view.sentences[0])}"></div>
<figcaption aria-live="polite">{"<br>".join(map(html.escape, view.sentences))}</figcaption>
</figure>
{details}
<noscript><p>{NO_SCRIPT}</p></noscript>
</section>"""


def _control(widget: str, slider: Slider) -> str:
    """A slider over the places of its values; a script enables it."""
    name = f"{widget}-{slider.name}"
    return (
        f'<div class="gemmlab-control"><label for="{name}"><b>{slider.name}'
        f'<span class="gemmlab-other"></span></b> {html.escape(slider.meaning)}</label>'
        f'<span><input type="range" id="{name}" name="{slider.name}" min="0" '
        f'max="{len(slider.values) - 1}" value="{slider.values.index(slider.start)}" '
        f'data-values="{_place(slider.values)}" aria-valuetext="{slider.start}" '
        f'autocomplete="off" disabled>'
        f'<output for="{name}" aria-live="off">{slider.start}</output></span></div>'
    )


def _numbers(view: View) -> str:
    rows = "".join(
        f'<tr><th scope="row">{quantity}</th><td class="gemmlab-number">{value}</td>'
        f"<td>{unit}</td></tr>"
        for quantity, value, unit in view.numbers
    )
    return (
        f"<details><summary>{NUMBERS_TITLE}</summary><table><tbody>{rows}</tbody></table></details>"
    )


def _notes(call: Call) -> list[str]:
    """Where what is shown comes from, and what this page does not have."""
    rung = ladder.find(call.kernel.name)
    drawn, legal = len(_drawn_at_once(call)), len(ladder.legal_settings(rung))
    arch = rung.only_arch or f"{SIMULATED_ARCH}; gl.lab in the notebook has other architectures"
    notes = [f"Registers and occupancy are those of {arch}."]
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
