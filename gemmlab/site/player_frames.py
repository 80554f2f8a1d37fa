"""The frames of step players and ring players, rendered once and kept: what players.py shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from gemmlab.kernel.fingerprint import code_hash
from gemmlab.kernel.kernel import Kernel
from gemmlab.lessons.warp_specialized.lab import STAGES, RingPlayer
from gemmlab.loading import load
from gemmlab.notebook.step_player import StepPlayer, step_player
from gemmlab.processes import workers
from gemmlab.site.cache import Shelf, code_of, key_of
from gemmlab.site.interactive import RING_PLAYER, Call
from gemmlab.site.webp import webp

Task = tuple[Call, int, Path]  # a player, its stages or 0, where the cache is


def name_of(call: Call) -> str:
    """Of a player's files."""
    return f"{call.kernel.name}_{call.function}"


def shelf_of(call: Call, folder: Path) -> Shelf:
    return Shelf(folder / "players" / name_of(call))


def stages_of(call: Call) -> tuple[int, ...]:
    """What a ring player's second slider chooses from; of a step player (0,)."""
    if call.function != RING_PLAYER:
        return (0,)
    return RingPlayer.choices(load(call.kernel.name, **call.kernel.settings))


def start_of(call: Call) -> int:
    """Which of stages_of a player begins with, from 0 on."""
    if call.function != RING_PLAYER:
        return 0
    return stages_of(call).index(load(call.kernel.name, **call.kernel.settings).settings[STAGES])


def tracks(call: Call, folder: Path) -> list[dict]:
    """For each of stages_of a track: "pictures", the names of files, and "told", a sentence for
    each. Drawn where the cache in `folder` does not have them."""
    return [_kept((call, stages, folder))[1] for stages in stages_of(call)]


def draw_all(calls: Iterable[Call], folder: Path) -> Iterator[None]:
    """Draw what the cache does not have of several players, a process on each core.

    Yields once for each track. Entries that none of these players shows are removed at the end.
    """
    tasks = [(call, stages, folder) for call in calls for stages in stages_of(call)]
    keys: dict[Shelf, list[str]] = {}
    with workers() as pool:
        for (call, _, _), (key, _) in zip(tasks, pool.map(_kept, tasks), strict=True):
            keys.setdefault(shelf_of(call, folder), []).append(key)
            yield
    for shelf, kept in keys.items():
        shelf.prune(kept)


def _kept(task: Task) -> tuple[str, dict]:
    call, stages, folder = task
    settings = call.kernel.settings | ({STAGES: stages} if stages else {})
    kernel = load(call.kernel.name, **settings)
    code = code_hash(kernel.text, kernel.settings)
    key = key_of(kernel.text, code, call, stages, code_of(__name__))
    shelf = shelf_of(call, folder)
    return key, shelf.get(key, lambda: _drawn(kernel, call, stages, shelf))


def _drawn(kernel: Kernel, call: Call, stages: int, shelf: Shelf) -> dict:
    drawn: Callable[[int], bytes]
    told: Callable[[int], str]
    if stages:
        ring = RingPlayer(kernel)
        numbers = range(1, ring.moments(stages) + 1)
        drawn, told = partial(ring.drawn, stages), partial(ring.told, stages)
    else:
        player = _step_player(kernel, call)
        numbers, drawn, told = range(len(player.frames)), player.drawn, player.told
    return {
        "pictures": [shelf.keep_picture(webp(drawn(number))) for number in numbers],
        "told": [told(number) for number in numbers],
    }


def _step_player(kernel: Kernel, call: Call) -> StepPlayer:
    player = step_player(kernel, *call.shape)
    if not player.frames:
        raise ValueError(f"{call}: gl.step_player has no frames of these settings and sizes.")
    return player
