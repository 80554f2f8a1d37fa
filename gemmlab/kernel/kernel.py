"""A rung, compiled and ready to call: on a GPU through cupy.RawModule, else in ptxsim."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import ptxsim
from gemmlab import ladder
from gemmlab.cuda.device import gpu, require_gpu
from gemmlab.kernel import checks, compiler, faults, in_simulator, on_gpu, prebuilt
from gemmlab.kernel.arguments import ArgumentError, factor, kind_of, operands_of, problem_of
from gemmlab.kernel.fingerprint import Fingerprint, code_hash, of_rung
from gemmlab.kernel.flat import flat
from gemmlab.kernel.in_simulator import KernelMistake, findings_of
from gemmlab.kernel.operands import Operands, unwritten
from gemmlab.kernel.trace import Trace
from gemmlab.kernel.verify import PRODUCT, Report, verify
from gemmlab.ladder import SIMULATED, Launch, Problem, Rung, Settings, Target
from gemmlab.ladder.activations import ACTIVATIONS
from gemmlab.ladder.launch import POINTERS, Triple, multiplying
from gemmlab.report import Listing
from ptxsim.compile.headers import is_name_of_file
from ptxsim.metrics import Totals
from ptxsim.occupancy import occupancy

if TYPE_CHECKING:
    import pandas

EDITED = "kernel.cu"  # the name of a text that is no file of ours
# For which batches are launched: their largest product has several times as many tiles as there are
# blocks then, and takes long in the simulator if there are fewer; those of checks are small.
SMS_OF_PRODUCTS, SMS_OF_CHECKS = 8, 1


def numbered(code: str) -> Listing:
    """With the numbers of its lines."""
    text = code.rstrip()
    return Listing(text, "cuda", tuple(range(1, text.count("\n") + 2)))


def arch_here() -> str:
    """What kernels are compiled for: the GPU's own architecture, or the simulator's, sm_90a."""
    here = gpu()
    return here.arch if here else SIMULATED.arch


def arch_for(rung: Rung) -> str:
    """As arch_here, but for a rung by wgmma or tcgen05 the one architecture that has these. On a
    GPU of another one it is simulated, and its recorded speed is what is known of it."""
    return rung.only_arch or arch_here()


def by_default(rung: Rung) -> Kernel:
    """The rung with its defaults, or the nearest settings that run here. Raises IllegalSetting."""
    settings = ladder.nearest_on(rung, rung.defaults, arch_for(rung))
    return Kernel(rung, settings, None, rung.path)


def from_source(source: str | Path, like: str, arch: str | None = None, **settings: int) -> Kernel:
    """A kernel from CUDA C++ text, with the parameters and launches of rung `like`.

    `source`: the text, or the Path of a file. Raises ArgumentError for anything else, OSError for a
    file that cannot be read, and the errors of gl.load.
    """
    if isinstance(source, Path):
        source = source.read_text(encoding="utf-8")
    if not isinstance(source, str) or is_name_of_file(source):
        given = f"the name of a file, {source!r}" if isinstance(source, str) else kind_of(source)
        raise ArgumentError(
            f"source is {given}: from_source takes CUDA C++ as text, or the Path of a file with it"
        )
    rung = ladder.find(like)
    return Kernel(rung, ladder.settings_for(rung, settings), arch, source)


class Kernel:
    """C = alpha * A @ B + beta * C for row-major matrices of any size, of its precision.

    A rung that takes a bias computes `activation`(alpha * A @ B + beta * C + bias). `text` is the
    source, `compiled` NVRTC's result (given, if that was compiled elsewhere), `arch` the
    architecture: the GPU's own, or sm_90a in the simulator. `note` says why it has its settings, if
    gl.load chose others than the default. `edited`: it is a text, not a file of this project.
    `limit_s`: a product that takes longer in the simulator raises TakesTooLong.
    """

    def __init__(
        self, rung: Rung, settings: Settings, arch: str | None, source: str | Path,
        compiled: compiler.Compiled | None = None,
    ) -> None:  # fmt: skip
        self.rung, self.settings, self.precision = rung, settings, rung.precision_of(settings)
        self.macros = rung.macros(settings)
        self.name, self.dtype = rung.name, self.precision.name
        here = gpu() if arch_for(rung) == arch_here() else None
        self.on_gpu = here is not None
        self.arch = arch_for(rung) if arch is None else arch
        self.note = ""
        ladder.require_arch(rung, settings, self.arch)
        self.target = Target(self.arch, (here or SIMULATED).sm_count)
        self._source = source
        self.edited = not isinstance(source, Path)
        self.text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
        self._filename = source.name if isinstance(source, Path) else EDITED
        if compiled is not None:
            self.compiled = compiled
        else:
            compiler.require_compiles(self.text, self._filename, arch=self.arch, macros=self.macros)
        self._loaded: on_gpu.GpuKernels | None = None
        # Made once: nothing can be allocated while launches are captured into a graph.
        self._rows: dict[tuple[Problem, bool], Any] = {}
        # A step of an ablation is ours, and no rung.
        self._trusted = not self.edited and source != rung.path
        self._checked: Report | None = None
        self._before_gpu: Report | None = None
        self.limit_s: float | None = in_simulator.PATIENCE_S

    def __repr__(self) -> str:
        return f"{self.name}({ladder.listed(self.settings)}) for {self.arch}"

    @cached_property
    def compiled(self) -> compiler.Compiled:
        """PTX, machine code and resources, for `arch`."""
        return compiler.compile_kernel(
            self.text, self._filename, arch=self.arch, macros=self.macros
        )

    @property
    def activation(self) -> str:
        """What is done to each element at the end: one of ACTIVATIONS."""
        return ACTIVATIONS[self.settings.get("ACTIVATION", 0)]

    @property
    def ops(self) -> str:
        """How it takes A and B: see Problem."""
        return self.rung.ops(self.settings)

    def takes(self, name: str) -> bool:
        """Whether its launches have an argument of this name: see gemmlab.ladder.launch.NAMES."""
        return name in self._names

    def problem(self, m: int, n: int, k: int, batch: int | None = None) -> Problem:
        """The product of this shape as the rung takes it. Raises IllegalSetting. `batch`: of how
        many products, the rung's own number if it is not given."""
        return Problem(m, n, k, self.rung.batch if batch is None else batch, self.ops)

    def launches(self, problem: Problem) -> list[Launch]:
        """What is launched for it. Raises IllegalSetting for a grid that is too large."""
        return self.rung.launches(problem, self.settings, self.target)

    def scheduled_for(self, sm_count: int) -> Kernel:
        """The same kernel, launched as for a GPU of so many SMs."""
        other = copy(self)
        other.target = replace(self.target, sm_count=sm_count)
        return other

    def grid(self, m: int, n: int, k: int) -> Triple:
        """Blocks along x, y and z of what multiplies. Raises IllegalSetting."""
        launches = self.launches(self.problem(m, n, k))
        return launches[multiplying(launches)].grid

    @property
    def takes_bias(self) -> bool:
        """Whether it takes a bias, float32 (N,), for the columns of C."""
        return self.rung.takes_bias(self.settings)

    def operands(
        self, problem: Problem, seed: int, *, written: bool = True, gap: int = 0
    ) -> Operands:
        """Of a seed, with a bias if the rung takes one: see Operands.from_seed."""
        return Operands.from_seed(
            problem, self.precision, seed, bias=self.takes_bias, written=written, gap=gap
        )

    def __call__(
        self, A: Any, B: Any, C: Any = None, alpha: float = 1.0, beta: float = 0.0,
        bias: Any = None, scales: tuple[Any, Any] | None = None,
    ) -> Any:  # fmt: skip
        """alpha * A @ B + beta * C as a new array (M, N), with bias and activation if the rung has.

        `A`: (M, K), `B`: (K, N), `C`: (M, N), which is not changed and needed only if beta is not
        0, `bias`: (N,), for a rung that takes one, `scales`: of A and of B, float32, for a rung
        that takes them, see ladder.precision. A rung for batches has the batch before M, K and N,
        and a rung for transposed operands has A or B transposed. All are NumPy or all CuPy arrays
        of the rung's types, C-contiguous; for a rung that takes lda, ldb and ldc there may be gaps
        between rows and between the matrices of a batch. The result is C-contiguous. alpha and beta
        are converted to float32. Raises ArgumentError.
        """
        alpha, beta = factor("alpha", alpha), factor("beta", beta)
        if not self.takes("alpha") and (C is not None or (alpha, beta) != PRODUCT):
            raise ArgumentError(f"{self.name} computes A @ B: it takes no C, alpha or beta")
        kinds = (np.ndarray, self.array_module.ndarray)
        given = operands_of(self.rung, self.settings, A, B, C, beta, bias, scales, kinds)
        host = isinstance(A, np.ndarray)
        with faults.reported():
            if beta == 0:  # an element that the kernel forgets stays what it was: NaN
                shape = (*A.shape[:-2], given.problem.m, given.problem.n)
                given = replace(given, C=unwritten(shape, self.precision.c))
            else:
                given = replace(given, C=C.copy())
            placed = given.changed(self.to_device)
            self.launch(placed, alpha, beta)
            return self.to_host(placed.C) if host else placed.C

    def given(self, A: Any, B: Any, C: Any, bias: Any = None) -> Operands:
        """Arrays as the rung takes them, which are not looked at, as operands of `launch`."""
        return Operands(problem_of(self.ops, A, B), self.precision, A, B, C, bias)

    def launch(self, operands: Operands, alpha: float, beta: float) -> None:
        """Launch on arrays of this device; C is changed in place. On a GPU this does not wait.

        Nothing is launched for an empty C. Raises KernelMistake in the simulator, and on a GPU for
        an edited kernel in which the simulator's checks find a mistake that may fault or hang
        there: it is not launched. Raises UnknownInstruction, PtxError or TakesTooLong for an edited
        kernel that cannot be checked: see `trust`. Raises GpuFault if the GPU faults all the same,
        then and in every later launch. Ctrl-C cannot stop a kernel on a GPU: it takes effect when
        the kernel has ended.
        """
        problem = operands.problem
        if 0 in problem.shape_of_c:
            return
        if not self.on_gpu:
            self.require_time(problem)
            if findings := findings_of(self.simulate(operands, alpha, beta)):
                raise KernelMistake(findings)
            return
        if (report := self._refused()) is not None:
            raise KernelMistake(finding for _, finding in checks.distinct_findings(report))
        with faults.reported():
            faults.launched(self.name, *problem.shape)
            self._on_gpu().run(self.launches(problem), self._values(operands, alpha, beta))

    def prepared(self, operands: Operands, alpha: float, beta: float) -> Callable[[], None]:
        """What launches a rung as it is shipped each time it is called, C not empty.

        On a GPU its arguments are made once, for loops in which making them would take longer than
        the product.
        """
        if not self.on_gpu:
            return partial(self.launch, operands, alpha, beta)
        values = self._values(operands, alpha, beta)
        return self._on_gpu().prepared(self.launches(operands.problem), values)

    def packed(self, operands: Operands) -> on_gpu.PackedLaunches:
        """On a GPU: the launches for C not empty, of a rung as it is shipped, packed for arrays
        that lie as these do."""
        launches, values = self.launches(operands.problem), self._values(operands, 1.0, 0.0)
        return on_gpu.PackedLaunches(self._on_gpu(), launches, values)

    def _values(self, operands: Operands, alpha: float, beta: float) -> dict[str, Any]:
        """What each name in a launch's arguments stands for on the GPU."""
        pointers = operands.pointers if self.takes(POINTERS[0]) else {}
        return self._with_rows(operands, on_gpu=True).values(alpha, beta) | pointers

    def _with_rows(self, operands: Operands, on_gpu: bool) -> Operands:
        """Of a rung whose products may differ in height, where nothing is said: of one height."""
        if self.rung.rows is None or operands.rows is not None:
            return operands
        problem = operands.problem
        if (problem, on_gpu) not in self._rows:
            rows = self.rung.rows(problem, self.settings)
            self._rows[problem, on_gpu] = self.to_device(rows) if on_gpu else rows
        return replace(operands, rows=self._rows[problem, on_gpu])

    def made_of(self, cubin: bytes) -> Kernel:
        """The same kernel, launched on a GPU with this machine code instead of its text's.

        It is for code that was checked otherwise: see the lesson fp32_summit. Raises NoGpu without
        one, for the simulator runs PTX and no machine code.
        """
        require_gpu("Launching machine code")
        other = copy(self)
        other._loaded, other._trusted = on_gpu.from_cubin(cubin), True
        return other

    def trust(self) -> None:
        """Launch it on a GPU without the simulator's checks, whatever it does there. For an edited
        kernel that the simulator cannot check. A fault ends the session."""
        self._trusted = True

    def prepare(self) -> None:
        """On a GPU: compile and load now what the first launch would compile and load."""
        if self.on_gpu:
            for launch in self.rung.one_tile(self.settings):
                self._on_gpu().function(launch)

    # --- looking at it --------------------------------------------------------------------------

    def source(self) -> Listing:
        """The whole file, with the numbers of its lines."""
        return numbered(self.text)

    def listing(self) -> Listing:
        """All its code in one piece, for its settings: see gemmlab.kernel.flat. Raises NotFlat."""
        return numbered(flat(self._source, self.macros, self.arch))

    def diff(self, other: str) -> Listing:
        """What changed in the code since rung `other`, comments left out of neither."""
        before = ladder.find(other)
        was = before.path.read_text(encoding="utf-8").splitlines()
        names = before.path.name, self._filename
        lines = difflib.unified_diff(was, self.text.splitlines(), *names, lineterm="", n=1)
        return Listing("\n".join(lines), "diff")

    def resources(self, *archs: str) -> pandas.DataFrame:
        """pandas.DataFrame: registers, spills, shared memory and occupancy, a row for each arch.
        Comes from the compiler alone: any architecture will do, such as "sm_86"."""
        import pandas as pd

        threads = int(np.prod(self.rung.block(self.settings)))
        rows = []
        for arch in archs or (self.arch,):
            taken = self.taken(arch)
            block = {"registers": taken.registers, "shared_bytes": taken.shared_bytes}
            fits = occupancy(arch, threads=threads, **block)
            rows.append({
                "arch": arch,
                "threads per block": threads,
                "registers per thread": taken.registers,
                "spilled bytes": taken.spilled_bytes,
                "shared bytes per block": taken.shared_bytes,
                "blocks per SM": fits.blocks_per_sm,
                "occupancy": fits.occupancy,
                "limited by": fits.limited_by,
            })  # fmt: skip
        return pd.DataFrame(rows)

    def taken(self, arch: str) -> compiler.Resources:
        """What one block takes, as compiled for an architecture such as "sm_86"."""
        ladder.require_arch(self.rung, self.settings, arch)
        # A GPU gets what the NVRTC there makes, of whatever version.
        entries = compiler.resources_of(
            self.text, self._filename, arch, self.macros, anew=self.on_gpu
        )
        taken = entries[self.rung.entry(self.settings)]
        dynamic = self.rung.shared_bytes(self.settings)
        return replace(taken, shared_bytes=taken.shared_bytes + dynamic)

    def trace(
        self, m: int, n: int, k: int, *, batch: int | None = None, seed: int = 0,
        blocks: list[Triple] | None = None,
    ) -> Trace:  # fmt: skip
        """Run an m×n×k product in the simulator and count its memory accesses.

        `batch`: the number of products; the rung's own if it is not given. `blocks`: run only these
        blocks (x, y, z) of the launch that multiplies, one after the other, to look at a part of a
        large product. Raises IllegalSetting for sizes that are not valid, ArgumentError for a batch
        that the rung does not take, KernelMistake, and TakesTooLong.
        """
        batch = self.rung.batch if batch is None else batch
        if batch > 1 and self.rung.batch == 1:
            raise ArgumentError(f"batch is {batch}: {self.name} takes no batches")
        problem = self.problem(m, n, k, batch)
        if not blocks:
            self.require_time(problem)
        operands = self.operands(problem, seed, written=False)
        runs = self.simulate(operands, 1.0, 0.0, count=True, blocks=blocks)
        if findings := findings_of(runs):
            raise KernelMistake(findings)
        runs = runs if blocks is None else runs[-1:]  # without those that prepare
        counters: Counter[str] = Counter()
        for run in runs:
            counters.update(run.counters)
        launches = self.launches(problem)
        at = multiplying(launches)
        return Trace(
            self.name, *problem.shape, self.settings, launches[at].grid, launches[at].block,
            Totals(counters), self.text, runs[at if blocks is None else 0],
            self.precision.a.bytes, problem.ops, problem.batch, self.precision.c.bytes,
        )  # fmt: skip

    def verify(self, seed: int | None = None) -> Report:
        """Verify it at awkward shapes, on the device it runs on. Show the result: it is a table.

        Inputs are new in every call, or those of `seed`. Persistent kernels are launched as for a
        GPU with few SMs, so that blocks go from product to product, or from tile to tile. An edited
        kernel in which the simulator's checks find a mistake that may fault or hang a GPU is not
        launched there: the report is then that of the checks.
        """
        report = self._refused() if self.on_gpu else None
        return verify(self._in_rounds(SMS_OF_PRODUCTS), seed) if report is None else report

    def check(self) -> Report:
        """Look for mistakes that hardware hides: races, uninitialised reads, missed barriers.

        It finds races in shared and in global memory. The simulator runs small
        products with tails and factors, with all its checks; if beta is 0, C counts as
        uninitialised. Persistent kernels are launched as for a GPU with one SM, where `verify`
        assumes a few. Show the result: it is a table.
        """
        self._checked = checks.check(self._in_rounds(SMS_OF_CHECKS))
        return self._checked

    def benchmark(self) -> pandas.DataFrame:
        """pandas.DataFrame of times beside cuBLAS: measured here, or replayed without a GPU."""
        # Records stand above kernels: they are imported when they are needed.
        return import_module("gemmlab.records.runs").benchmark(self)

    def code_hash(self) -> str:
        """What is compiled: its code and settings."""
        return code_hash(self._source, self.macros)

    def fingerprint(self, problems: Iterable[Problem], on: Target) -> Fingerprint:
        """What a record of this kernel belongs to, measured at these problems on this target."""
        return of_rung(self.rung, self.settings, problems, on, self._source)

    # --- where it runs --------------------------------------------------------------------------

    @property
    def array_module(self) -> Any:
        """cupy on a GPU, else numpy."""
        if not self.on_gpu:
            return np
        import cupy

        return cupy

    def to_device(self, array: Any) -> Any:
        with faults.reported():
            return self.array_module.asarray(array)

    def to_host(self, array: Any) -> np.ndarray:
        if isinstance(array, np.ndarray):
            return array
        with faults.reported():
            return self.array_module.asnumpy(array)

    def _in_rounds(self, sm_count: int) -> Kernel:
        """As for so few SMs that blocks that go on from tile to tile do so. Of a rung of batches as
        for `sm_count`, of one that copies by tensor map or multiplies by wgmma as for one."""
        if self.rung.batch > 1:
            return self.scheduled_for(sm_count)
        persistent = self.rung.by_wgmma or self.rung.has_maps(self.settings)
        return self.scheduled_for(1) if persistent else self

    @cached_property
    def _names(self) -> frozenset[str]:
        return self.rung.names(self.settings)

    @cached_property
    def _as_shipped(self) -> bool:
        """Looked up once: it reads files, and every launch asks."""
        return prebuilt.has(self.rung, self.text)

    def _refused(self) -> Report | None:
        """What forbids a launch on a GPU: an edited kernel is checked before its first one.

        None for a rung as it is shipped, for what the reader trusts, and where nothing is found
        that may fault or hang.
        """
        if self._trusted or self._as_shipped:
            return None
        if self._before_gpu is None:
            self._before_gpu = checks.examine(self, self._checked)
        return self._before_gpu if checks.may_fault(self._before_gpu) else None

    def require_time(self, problem: Problem) -> None:
        """Raise TakesTooLong for a product that the simulator cannot finish within `limit_s`.
        Before matrices of its size are made, for which there may be no memory."""
        in_simulator.require_time(self.name, problem, self.limit_s)

    def simulate(
        self, operands: Operands, alpha: float, beta: float, **how: Any
    ) -> list[ptxsim.Run]:
        """The runs of all launches in the simulator; `how`: see in_simulator.run. Raises
        TakesTooLong."""
        operands = self._with_rows(operands, on_gpu=False)
        values = operands.values(alpha, beta)
        written = "C", "lost"
        inputs = {name: array for name, array in operands.arrays().items() if name not in written}
        values |= {name: ptxsim.read_only(array) for name, array in inputs.items()}
        if how.get("check") and beta == 0:
            values["C"] = ptxsim.uninitialised(operands.C)
        run = partial(
            in_simulator.run, self._source, self.launches(operands.problem), values,
            arch=self.arch, options=compiler.options_for(self.macros), **how,
        )  # fmt: skip
        return in_simulator.within_limit(self.name, operands.problem, self.limit_s, run)

    def _on_gpu(self) -> on_gpu.GpuKernels:
        if self._loaded is None:
            self._loaded = on_gpu.loaded(
                self.text, self._filename, self.arch, self.macros, self.code_hash()
            )
        return self._loaded
