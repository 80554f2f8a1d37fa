"""Loading a rung: with the tile parameters that are named, or with those that suit a shape."""

from __future__ import annotations

from math import log2
from numbers import Integral

from gemmlab import kernel, ladder, sweeps
from gemmlab.device import gpu
from gemmlab.kernel import SIMULATED_ARCH, Kernel
from gemmlab.ladder import IllegalSetting, Settings

Shape = tuple[int, int, int]


def load(name: str, arch: str | None = None, shape: Shape | None = None, **settings: int) -> Kernel:
    """The rung `name`, such as "02_coalescing", compiled with these tile parameters.

    Without any, with its defaults or, where those ask for more than `arch` has, the tile parameters
    nearest to them that run there. With `shape`, (M, N, K), instead of tile parameters: with those
    that were the fastest in the recorded sweep, at the shape nearest to this one, and run on
    `arch`. See `settings_for`.

    Raises LadderError for a name that is not there, IllegalSetting before anything is compiled,
    also for a shape together with tile parameters, NoRecord where no sweep of the rung is recorded,
    and CompileError with the lines around the error.
    """
    rung, here = ladder.find(name), gpu()
    on = arch or (here.arch if here else SIMULATED_ARCH)
    tuned = {parameter.name for parameter in rung.parameters if parameter.tuned}
    given = {key: value for key, value in settings.items() if key in tuned}
    if shape is not None:
        if given:
            raise IllegalSetting(
                f"{name}: give a shape or parameters, not both; here are shape={shape} and "
                f"{ladder.listed(given)}"
            )
        settings = {**settings_for(rung, shape, on), **settings}
    elif not given:
        settings = ladder.nearest_on(rung, ladder.settings_for(rung, settings), on)
    return kernel.load(name, arch, **settings)


def settings_for(rung: ladder.Rung, shape: Shape, arch: str) -> Settings:
    """The fastest settings at the recorded shape that is nearest: by the factors between their
    M, N and K. Of those that run on `arch`. Raises NoRecord, and IllegalSetting for no shape."""
    sizes = shape if isinstance(shape, tuple | list) else ()
    whole = [n for n in sizes if isinstance(n, Integral) and not isinstance(n, bool) and n >= 1]
    if not len(whole) == len(sizes) == 3:
        raise IllegalSetting(f"shape is (M, N, K), three whole numbers from 1 on, not {shape!r}")

    def distance(other: Shape) -> float:
        return sum(abs(log2(a / b)) for a, b in zip(shape, other, strict=True))

    table = sweeps.kept(rung.name)
    at = sweeps.at(table, min(sweeps.shapes_of(rung), key=distance))
    names = sweeps.rung_parameters(rung)
    for row in at[names].to_dict("records"):  # the fastest first
        settings = {key: int(value) for key, value in row.items()}
        if ladder.runs_on(rung, settings, arch):
            return settings
    return ladder.settings_for(rung, {})  # which says what it needs
