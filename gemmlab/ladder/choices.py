"""Finding a rung by its name, and settings of it: which it takes, which run, the nearest."""

from collections.abc import Collection
from functools import cache
from itertools import product
from math import log2

from gemmlab.ladder.rung import Rung, number
from gemmlab.ladder.settings import IllegalSetting, Settings, is_whole, listed
from gemmlab.lessons import modules
from ptxsim.architectures import ARCHS, SPECIFIC
from ptxsim.compile import nvrtc

RUNGS: tuple[Rung, ...] = tuple(
    sorted((lesson.RUNG for lesson in modules("rung")), key=lambda rung: rung.name)
)

OTHERS: tuple[Rung, ...] = tuple(
    kernel for lesson in modules("kernels") for kernel in lesson.KERNELS
)  # of gl.matmul and gl.grouped_matmul, no steps of the ladder


class LadderError(Exception):
    """There is no such rung. The message names those there are."""


def find(name: str) -> Rung:
    """The rung called `name`. Raises LadderError, naming all others."""
    for rung in (*RUNGS, *OTHERS):
        if rung.name == name:
            return rung
    there = ", ".join(rung.name for rung in RUNGS)
    raise LadderError(f"there is no rung {name!r}: the ladder has {there}")


def settings_for(rung: Rung, given: Settings) -> Settings:
    """The rung's parameters with defaults filled in.

    Raises IllegalSetting, with the reason and the nearest legal choice, for a parameter that the
    rung does not have, a value that it cannot take, and values that do not go together. Whole
    numbers of other libraries, such as np.int64, become int.
    """
    settings = filled_in(rung, given)
    if reason := rung.broken(settings):
        raise IllegalSetting(
            f"{rung.name}: {listed(settings)} {reason}; the nearest legal choice is "
            f"{listed(nearest(rung, settings))}"
        )
    return settings


def filled_in(rung: Rung, given: Settings) -> Settings:
    """As settings_for, but values that are legal each for itself need not go together."""
    known = {parameter.name: parameter for parameter in rung.parameters}
    for name in given:
        if name not in known:
            raise IllegalSetting(f"{rung.name} has no parameter {name}; it has {', '.join(known)}")
    settings = {name: given.get(name, parameter.default) for name, parameter in known.items()}
    integers = {name: int(value) for name, value in settings.items() if is_whole(value)}
    for name, value in settings.items():
        if name not in integers or value not in known[name].legal:
            legal = ", ".join(str(v) for v in known[name].legal)
            raise IllegalSetting(
                f"{rung.name}: {name}={value!r} is not legal, the values are {legal}"
            )
    return integers


def require_compiled(arch: str) -> None:
    """Raise IllegalSetting, naming those there are, unless there is a compiler for `arch`."""
    if arch in (*SPECIFIC, *ARCHS):  # where it is, CuPy need not be loaded
        return
    try:
        there = nvrtc.archs()
    except nvrtc.NoCompiler:
        there = ARCHS
    if arch not in there:
        raise IllegalSetting(
            f"{arch!r} cannot be compiled for here; choose one of {', '.join(there)}"
        )


def require_arch(rung: Rung, settings: Settings, arch: str) -> None:
    """Raise IllegalSetting where the settings need what `arch`, such as "sm_75", does not have."""
    require_compiled(arch)
    if needs := rung.lacks(settings, arch):
        raise IllegalSetting(
            f"{rung.name}: {listed(settings)} needs {needs}, this is {arch}; "
            f"the nearest choice for {arch} is {listed(nearest_on(rung, settings, arch))}"
        )


def nearest_on(rung: Rung, wanted: Settings, arch: str) -> Settings:
    """The settings closest to these that run on `arch`. Raises IllegalSetting if there are none."""
    every = legal_settings(rung)
    if running := [settings for settings in every if rung.runs_on(settings, arch)]:
        return nearest(rung, wanted, among=running)
    least = min(every, key=lambda s: (number(rung.needs_arch(s)), rung.shared_bytes(s)))
    raise IllegalSetting(f"{rung.name} needs {rung.lacks(least, arch)}, this is {arch}")


@cache
def legal_settings(rung: Rung) -> list[Settings]:
    """Every combination of parameter values that the rung takes; nobody may change them."""
    legal: list[Settings] = []
    for family in rung.families or ({},):  # which has values of some parameters; the rest are open
        open_to = {parameter.name: parameter.legal for parameter in rung.parameters}
        open_to |= {name: (value,) for name, value in family.items()}
        for values in product(*open_to.values()):
            settings = dict(zip(open_to, values, strict=True))
            if rung.broken(settings) is None:
                legal.append(settings)
    return legal


def near(rung: Rung, start: Settings, moves: int, most: int | None = None) -> list[Settings]:
    """The legal settings to which so many moves of sliders lead from `start`; with one move alone
    where they are more than `most`. Values of a family go together: they are one move."""
    family = {name for each in rung.families for name in each}

    def far(settings: Settings) -> int:
        moved = {name for name, value in settings.items() if value != start[name]}
        return len(moved - family) + bool(moved & family)

    reached = [settings for settings in legal_settings(rung) if far(settings) <= moves]
    if most and len(reached) > most:
        return [settings for settings in reached if far(settings) <= 1]
    return reached


def tuned_settings(rung: Rung, computed: Settings | None = None) -> list[Settings]:
    """The legal settings among which a sweep looks for the fastest: the default of all else.
    `computed`: values of parameters that say what is computed, instead of their defaults."""
    fixed = {
        parameter.name: parameter.default for parameter in rung.parameters if not parameter.tuned
    } | (computed or {})
    return [settings for settings in legal_settings(rung) if fixed.items() <= settings.items()]


def of_type(rung: Rung, dtype: str) -> Settings | None:
    """The settings by which the rung multiplies a type, a Precision's name; None if it does not."""
    legal = {parameter.name: parameter.legal for parameter in rung.parameters}
    for settings in [{"DTYPE": value} for value in legal.get("DTYPE", ())] or [{}]:
        if rung.precision_of(rung.defaults | settings).name == dtype:
            return settings
    return None


def stored_as(rung: Rung, ops: str) -> Settings:
    """OP_A and OP_B for the two letters of a Problem; nothing of a rung that does not have them."""
    letters = zip(("OP_A", "OP_B"), ops, strict=True)
    return {name: "NT".index(letter) for name, letter in letters if name in rung.defaults}


def nearest(
    rung: Rung,
    wanted: Settings,
    keep: Collection[str] = (),
    among: Collection[Settings] | None = None,
) -> Settings:
    """The legal combination that changes the fewest parameters, and those the least.

    keep: parameters that come before the others. As many of them as some legal combination allows
    have the wanted value, whatever that changes of the rest. among: the combinations to choose
    from, all legal ones if None.
    """

    def distance(settings: Settings) -> tuple[int, int, int]:
        # In billionths of a doubling of value + 1: whole, so that sums are the same in every order.
        steps = {
            name: round(1e9 * abs(log2((settings[name] + 1) / (value + 1))))
            for name, value in wanted.items()
            if settings[name] != value
        }
        return sum(name in keep for name in steps), len(steps), sum(steps.values())

    closest = min(legal_settings(rung) if among is None else among, key=distance)
    return dict(closest)
