"""One step of the ladder: its file, its parameters, what it launches, what it can run on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gemmlab.folders import KERNELS, NOTEBOOKS
from gemmlab.ladder.launch import SIMULATED, Launch, MapOf, Plan, Target, Triple, multiplying
from gemmlab.ladder.precision import SINGLE, Precision
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.settings import Constraint, IllegalSetting, Parameter, Settings
from ptxsim.architectures import LIMITS, STATIC_SHARED_BYTES, base

MAX_GRID = (2**31 - 1, 65535, 65535)  # blocks along x, y and z
STEP = 64  # of k: rows so long begin at whole 16 bytes, as tensor maps need it


@dataclass(frozen=True)
class Planted:
    """One mistake in the kernel of a rung: `old`, which stands there once, became `new`.

    `what`: the mistake in a sentence. `kind`: of what kernel.check() finds, None where it finds
    nothing and only verification shows it. `seen`: how it is found. `hint`: what to try next.
    """

    old: str
    new: str
    what: str
    kind: str | None
    seen: str
    hint: str
    settings: Settings = field(default_factory=dict)

    @classmethod
    def beside(cls, module: str) -> Planted:
        """That of planted.json in the folder of a module, given by its file."""
        return cls(**json.loads(Path(module).with_name("planted.json").read_text("utf-8")))


@dataclass(frozen=True, eq=False)  # compared by identity
class Rung:
    """One kernel of the ladder: C = alpha * A @ B + beta * C, or more where it has an epilogue."""

    name: str
    title: str
    idea: str
    parameters: tuple[Parameter, ...]
    tile: Callable[[Settings], tuple[int, int]]  # rows and columns of C that a block computes
    plan: Plan  # makes the launches of a problem
    constraints: tuple[Constraint, ...]  # under which settings go together
    model_bytes: Callable[[Problem, Settings], int]  # what its idea requests of global memory
    # How far along K a block goes with one step, 0 where it takes none.
    depth: Callable[[Settings], int] = lambda settings: settings.get("BK", 0)
    # Of a rung whose workers share tiles of C along K: (workers, tiles that are cut, workers that
    # share those); a worker is a cluster, and computes the tiles of one.
    divided: Callable[[Problem, Settings, Target], tuple[int, int, int]] | None = None
    # Tiles, down and across, that the blocks of a cluster compute side by side.
    cluster_tiles: Callable[[Settings], tuple[int, int]] = lambda settings: (1, 1)
    # The architecture that the settings need, "" for any: "sm_80" is that or a newer one, "sm_90a"
    # is that alone, for no other has its instructions.
    needs_arch: Callable[[Settings], str] = lambda settings: ""
    precision: Precision = SINGLE  # of A, B, C and the sums; alpha and beta are float32
    by_type: Callable[[Settings], Precision] | None = None  # where the settings choose it
    # (m, n, k) or (m, n, k, batch) at which a sweep measures its settings besides those of all ...
    tuned_shapes: tuple[tuple[int, ...], ...] = ()
    # ... and which settings it tries where.
    swept: Callable[[Problem, Settings], bool] = lambda problem, settings: True
    # Of a rung that is swept for several things that it computes: the values of the parameters that
    # say which, those of the default among them.
    computed: tuple[Settings, ...] = ({},)
    # Of settings, those that follow from the problem: how wide loads can be.
    suited: Callable[[Problem, Settings], Settings] = lambda problem, settings: {}
    # N and K must be multiples of these, K not 0 then; (1, 1) of a rung that takes any.
    multiples: Callable[[Settings], tuple[int, int]] = lambda settings: (1, 1)
    # Values of some parameters that go together; where there are any, no others are legal.
    families: tuple[Settings, ...] = ()
    # Whether it takes a bias for each column, and has a parameter ACTIVATION.
    takes_bias: Callable[[Settings], bool] = lambda settings: False
    # Of a rung whose products may differ in height: `rows` of a batch of one height.
    rows: Callable[[Problem, Settings], np.ndarray] | None = None
    ops: Callable[[Settings], str] = lambda settings: "NN"  # how it takes A and B, see Problem
    batch: int = 1  # products of the launch that is verified; more than 1 if it takes batches
    shown_at: Problem | None = None  # in its row of the ladder, instead of at a large square
    by_wgmma: bool = False  # warpgroups multiply, by wgmma: not each warp by mma.sync
    by_tcgen05: bool = False  # a thread multiplies, by tcgen05, into tensor memory
    planted: Planted | None = None  # a mistake for readers to find
    # The lines that the idea stands in, from above, each part as how its first and its last line
    # begin; empty for a rung that has no notebook yet.
    inner_loop: tuple[tuple[str, str], ...] = ()
    inner_loop_in: str = ""  # the header that they stand in, if it is not the rung's own file

    @property
    def path(self) -> Path:
        return KERNELS / f"{self.name}.cu"

    @property
    def notebook(self) -> Path:
        return NOTEBOOKS / f"{self.name}.ipynb"

    @property
    def only_arch(self) -> str:
        """The architecture that alone has what it multiplies by; "" where others have it."""
        return self.needs_arch(self.defaults) if self.by_wgmma or self.by_tcgen05 else ""

    @property
    def defaults(self) -> Settings:
        return {parameter.name: parameter.default for parameter in self.parameters}

    def taken(self, m: int, n: int, k: int, settings: Settings) -> tuple[int, int, int]:
        """The smallest shape that it takes and that holds this one."""
        of_n, of_k = self.multiples(settings)
        least_k = max(k, 1) if of_k > 1 else k
        return m, -(-n // of_n) * of_n, -(-least_k // of_k) * of_k

    def macros(self, settings: Settings) -> Settings:
        """What the kernel is compiled with."""
        apart = {parameter.name for parameter in self.parameters if not parameter.macro}
        return {name: value for name, value in settings.items() if name not in apart}

    def entry(self, settings: Settings) -> str:
        """The kernel that multiplies."""
        return self.product(settings).entry

    def product(self, settings: Settings) -> Launch:
        """The launch that multiplies, for one tile of C."""
        every = self.one_tile(settings)
        return every[multiplying(every)]

    def launches(self, problem: Problem, settings: Settings, target: Target) -> list[Launch]:
        """What is launched for a problem, in order. Raises IllegalSetting if no grid covers it."""
        launches = self.plan(problem, settings, target)
        for launch in launches:
            for blocks, limit, axis in zip(launch.grid, MAX_GRID, "xyz", strict=True):
                if blocks > limit:
                    raise IllegalSetting(
                        f"{self.name} at {problem} needs {blocks} blocks along {axis}, "
                        f"a grid has at most {limit}: choose larger blocks"
                    )
        return launches

    def one_tile(self, settings: Settings) -> list[Launch]:
        """The launches for one tile of C, STEP of k: what a block is, whatever the problem."""
        return self.plan(
            Problem(*self.tile(settings), STEP, 1, self.ops(settings)), settings, SIMULATED
        )

    def broken(self, settings: Settings) -> str | None:
        """Why settings do not go together, as the end of a sentence; None where they do."""
        if self.families and not any(each.items() <= settings.items() for each in self.families):
            names = ", ".join(self.families[0])
            return f"is not among the {len(self.families)} choices of {names} that go together"
        return next(filter(None, (each.broken(settings) for each in self.constraints)), None)

    def block(self, settings: Settings) -> Triple:
        """Threads of a block of what multiplies."""
        return self.product(settings).block

    def names(self, settings: Settings) -> frozenset[str]:
        """What its launches name among their arguments: see gemmlab.ladder.launch.NAMES."""
        args = (argument for launch in self.one_tile(settings) for argument in launch.args)
        return frozenset(argument for argument in args if isinstance(argument, str))

    def has_maps(self, settings: Settings) -> bool:
        """Whether it takes tensor maps, where rows of the matrices begin at whole 16 bytes."""
        return any(
            isinstance(argument, MapOf)
            for launch in self.one_tile(settings)
            for argument in launch.args
        )

    def precision_of(self, settings: Settings) -> Precision:
        """Of A, B, C and the sums with these settings."""
        return self.precision if self.by_type is None else self.by_type(settings)

    def shared_bytes(self, settings: Settings) -> int:
        """Dynamic shared memory of a block, the most among the launches."""
        return max(launch.shared_bytes for launch in self.one_tile(settings))

    def runs_on(self, settings: Settings, arch: str) -> bool:
        """Whether the settings run on an architecture such as "sm_75"."""
        return self.lacks(settings, arch) is None

    def lacks(self, settings: Settings, arch: str) -> str | None:
        """What the settings need that `arch` does not have, in words; None where they run."""
        needs = self.needs_arch(settings)
        if needs.endswith("a"):
            if arch != needs:
                return needs
        elif number(arch) < number(needs):
            return f"{needs} or newer"
        limits = LIMITS.get(base(arch))
        most = limits.dynamic_shared_bytes if limits else STATIC_SHARED_BYTES
        if (shared := self.shared_bytes(settings)) > most:
            return f"{shared} bytes of shared memory per block"
        return None


def number(arch: str) -> int:
    """Of an architecture, to compare with others: 90 for "sm_90a", 0 for none."""
    return int(re.sub(r"\D", "", arch) or 0)
