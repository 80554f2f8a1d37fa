"""Loading a rung: with the tile parameters that are named, or with those that suit a shape."""

import sys
from functools import cache

from gemmlab import ladder
from gemmlab.kernel.kernel import Kernel, arch_for
from gemmlab.ladder import IllegalSetting, Settings
from gemmlab.records import tuning
from gemmlab.records.tuning import Shape


def load(name: str, arch: str | None = None, shape: Shape | None = None, **settings: int) -> Kernel:
    """The rung `name`, such as "02_coalescing", compiled with these tile parameters.

    Without any, with its defaults or, where those need more than `arch` has, the tile parameters
    nearest to them that run there. With `shape`, (M, N, K), instead of tile parameters: with those
    that were the fastest in the recorded sweep, at the shape nearest to this one, and run on
    `arch`.

    The kernel's `note` says why it has settings that are neither given nor the default. What is
    passed over because it does not run on `arch` is also said on standard error, once.

    Raises LadderError for a name that is not there, IllegalSetting before anything is compiled,
    also for a shape together with tile parameters and for an `arch` that nothing is compiled for,
    NoRecord where no sweep of the rung is recorded, and CompileError with the lines around the
    error.
    """
    rung = ladder.find(name)
    on = arch_for(rung) if arch is None else arch
    ladder.require_compiled(on)
    given = tile_parameters(rung, settings)
    note, passed_over = "", False
    if shape is not None:
        if given:
            raise IllegalSetting(
                f"{name}: give a shape or parameters, not both; here are shape={shape} and "
                f"{ladder.listed(given)}"
            )
        chosen = tuning.for_shape(rung, shape, on, settings)
        note, passed_over = chosen.note, chosen.passed_over
        settings = chosen.settings
    elif not given:
        default = ladder.settings_for(rung, settings)
        settings = ladder.nearest_on(rung, default, on)
        if lacks := rung.lacks(default, on):
            passed_over = True
            note = f"the nearest to the default that runs on {on}; the default needs {lacks}"
    kernel = Kernel(rung, ladder.settings_for(rung, settings), on, rung.path)
    kernel.note = note
    if passed_over:
        _tell(f"{name} with {ladder.listed(kernel.settings)}: {note}.")
    return kernel


def tile_parameters(rung: ladder.Rung, settings: Settings) -> Settings:
    """Those of the settings that a sweep looks for; the others say what is computed."""
    tuned = {parameter.name for parameter in rung.parameters if parameter.tuned}
    return {name: value for name, value in settings.items() if name in tuned}


@cache
def _tell(sentence: str) -> None:
    """On standard error, for the output of a command is data; cached, so each sentence once."""
    print(sentence, file=sys.stderr)
