"""Loading a rung: with the tile parameters that are named, or with those that suit a shape."""

import sys
from functools import cache

from gemmlab import ladder
from gemmlab.kernel.kernel import Kernel, arch_for
from gemmlab.ladder import IllegalSetting, Settings
from gemmlab.records import tuning
from gemmlab.records.tuning import Shape


def load(name: str, arch: str | None = None, shape: Shape | None = None, **settings: int) -> Kernel:
    """Load the rung `name`, such as "02_coalescing", compiled with these tile parameters.

    Without tile parameters it has its defaults or, if `arch` cannot run these, the nearest ones
    that it can. With `shape`, (M, N, K), instead of tile parameters it has those that were the
    fastest in the recorded sweep at the nearest shape, among those that run on `arch`.

    The kernel's `note` says why settings are neither given nor the default. If `arch` cannot run
    the defaults, a line on standard error says so, once.

    Raises LadderError for an unknown name; IllegalSetting, before anything is compiled, for illegal
    settings, for a shape together with tile parameters and for an `arch` that cannot be compiled
    for; NoRecord if no sweep of the rung is recorded; CompileError with the lines around the error.
    """
    rung = ladder.find(name)
    on = arch_for(rung) if arch is None else arch
    ladder.require_compiled(on)
    given = tile_parameters(rung, settings)
    note = ""
    if shape is not None:
        if given:
            raise IllegalSetting(
                f"{name}: give a shape or parameters, not both; here are shape={shape} and "
                f"{ladder.listed(given)}"
            )
        settings, note = tuning.for_shape(rung, shape, on, settings)
    elif not given:
        default = ladder.settings_for(rung, settings)
        settings = ladder.nearest_on(rung, default, on)
        if lacks := rung.lacks(default, on):
            note = f"the nearest to the default that runs on {on}; the default needs {lacks}"
            _tell(f"{name} with {ladder.listed(settings)}: {note}.")
    kernel = Kernel(rung, ladder.settings_for(rung, settings), on, rung.path)
    kernel.note = note
    return kernel


def tile_parameters(rung: ladder.Rung, settings: Settings) -> Settings:
    """Those of the settings that a sweep looks for; the others say what is computed."""
    tuned = {parameter.name for parameter in rung.parameters if parameter.tuned}
    return {name: value for name, value in settings.items() if name in tuned}


@cache
def _tell(sentence: str) -> None:
    """On standard error, for the output of a command is data; cached, so each sentence once."""
    print(sentence, file=sys.stderr)
