"""Ablations: kernels that differ by a change each, verified, timed beside cuBLAS, and kept.

A lesson lists the steps and says what it keeps of each, see `ablation`. An ablation that explains
how a rung came from the one before it is a path:

    python -m gemmlab record path/10_register_banks

measures one, and also takes every step apart; results/<gpu>/path.csv has the rows of all paths.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas

from gemmlab import ladder
from gemmlab.cuda.disassembler import NoListing
from gemmlab.files import rows_beside
from gemmlab.folders import kernel_file
from gemmlab.kernel.compiler import Compiled, options_for, resources
from gemmlab.kernel.fingerprint import Fingerprint, of_rung
from gemmlab.kernel.kernel import EDITED, Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import LadderError, Problem, Rung, Settings, Target
from gemmlab.ladder.launch import Plan
from gemmlab.lessons import modules
from gemmlab.measure.in_turn import make_sets
from gemmlab.measure.power import Work
from gemmlab.measure.timing import PAIRS as TIMED_PAIRS
from gemmlab.measure.timing import compare
from gemmlab.processes import workers
from gemmlab.records import registry
from gemmlab.records.registry import NUMBER, POSITIVE, REPORTED, SIZE, TEXT, WHOLE, Kind, Row, Say
from gemmlab.records.runs import LARGE, cells_of, result_digest, taken
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import register_reads
from ptxsim.compile import nvrtc

Shape = tuple[int, int, int]
HUGE = (8192, 8192, 8192)
SQUARES = (LARGE, HUGE)


@dataclass(frozen=True, kw_only=True)
class AblationStep:
    """One kernel of an ablation.

    title: what was changed; predicted: what that suggested. rung: as which it is launched and
    verified. settings: on top of its defaults, any macros of its file. shapes: the (M, N, K) at
    which it is measured. taken: false for a road that led nowhere. file: the name of its text in
    kernels/ or a folder of it, where that is not the rung's. changes: what is replaced there, each
    found once. plan: how it is launched, if not as the rung. also: what else a lesson measures of
    it.
    """

    title: str
    rung: Rung
    settings: Settings = field(default_factory=dict)
    shapes: tuple[Shape, ...] = SQUARES
    predicted: str = ""
    taken: bool = True
    file: str = ""
    changes: tuple[tuple[str, str], ...] = ()
    plan: Plan | None = None
    also: tuple[str, ...] = ()

    @property
    def all_settings(self) -> Settings:
        return {**self.rung.defaults, **self.settings}

    @property
    def path(self) -> Path:
        return kernel_file(self.file) if self.file else self.rung.path

    @property
    def source(self) -> str | Path:
        """The kernel's file, or its text where something is replaced. Raises ValueError."""
        if not self.changes:
            return self.path
        text = self.path.read_text(encoding="utf-8")
        for old, new in self.changes:
            if (times := text.count(old)) != 1:
                raise ValueError(f"{old!r} stands {times} times in {self.path.name}, not once")
            text = text.replace(old, new)
        return text

    @property
    def launched(self) -> Rung:
        """The rung with the launches of this step."""
        return replace(self.rung, plan=self.plan) if self.plan else self.rung

    @property
    def cells(self) -> Row:
        """What tells its rows apart; a table has some of these columns. `file` is kernels/ and a
        name, whichever folder of kernels/ it lies in."""
        return {
            "step": self.title, "variant": self.title, "dtype": self.title,
            "kernel": self.rung.name, "file": f"kernels/{self.path.name}",
            "settings": ladder.written(self.all_settings),
        }  # fmt: skip

    def fingerprint(self, problems: Sequence[Problem], on: Target) -> Fingerprint:
        """Of what is measured at these problems."""
        return of_rung(self.launched, self.all_settings, problems, on, self.source)

    def kernel(self, compiled: Compiled | None = None) -> Kernel:
        """Ready to call: with what was compiled elsewhere, or compiled now. Raises CompileError."""
        kernel = Kernel(self.launched, self.all_settings, None, self.source, compiled)
        if self.changes:
            kernel.trust()  # the text is the project's, though no file
        return kernel


def steps_beside(
    module: str, group: str = "", shapes: tuple[Shape, ...] = SQUARES
) -> tuple[AblationStep, ...]:
    """Those of a group in steps.csv in the folder of a module, given by its file.

    Columns, of which a file has some: group; rung, file, title, predicted and also of AblationStep;
    settings as ladder.written writes them; taken, "no" of a road that led nowhere; shapes, such as
    "4096x4096x4096 64x64x128", where they are others.
    """
    return tuple(
        AblationStep(
            title=row["title"], predicted=row.get("predicted", ""),
            taken=row.get("taken") != "no", rung=ladder.find(row["rung"]),
            file=row.get("file", ""), also=tuple(row.get("also", "").split()),
            settings=ladder.read_settings(row["settings"]),
            shapes=tuple(map(_read_shape, row.get("shapes", "").split())) or shapes,
        )
        for row in rows_beside(module, "steps.csv")
        if row.get("group", "") == group
    )  # fmt: skip


def _read_shape(text: str) -> Shape:
    m, n, k = map(int, text.split("x"))
    return m, n, k


# ---- the form ------------------------------------------------------------------------------------


def against_cublas(kernel: Kernel, shape: Shape, pairs: int = TIMED_PAIRS) -> Row:
    """A kernel in turn with cuBLAS, verified before: runs.cells_of and runs.taken."""
    run = compare(kernel, *shape, pairs=pairs)
    return cells_of(run, run.problem) | taken(kernel)


def work_of(kernel: Kernel, shape: Shape) -> Work:
    """Its launch on random numbers, to be paced."""
    problem = kernel.problem(*shape)
    operands = Operands(problem, kernel.precision, *make_sets(problem, 1, kernel.precision)[0])
    return Work(kernel.prepared(operands, 1.0, 0.0), problem.flop)


def bits_of(kernel: Kernel, shape: Shape, seed: int) -> str:
    """The SHA-256 of C, as it is stored, of a product of a seed; alpha is 0.5, beta 2."""
    return result_digest(kernel, *shape, 0.5, 2.0, seed)


@dataclass(frozen=True, kw_only=True)
class Ablation(registry.Table):
    """A table with a row, or several, for each step and shape. See `ablation`."""

    steps: tuple[AblationStep, ...]

    def rows_of(
        self, steps: Iterable[AblationStep], shape: Sequence[int] | None = None,
        complete: bool = True,
    ) -> pandas.DataFrame:  # fmt: skip
        """The rows of these steps in their order, at one shape (M, N, K) or at all.

        With the columns `step`, the titles, and M×N×K. Raises NoRecord for a shape at which nothing
        was measured, and StaleRecord where a step was not, if they are to be `complete`.
        """
        table = self.read()
        if shape is not None:
            table = registry.at_shape(table, shape, f"{self.name} is not recorded")
        identity = [name for name in self.steps[0].cells if name in self.key]
        places, titles = table.groupby(identity, sort=False).groups, []
        chosen: list[int] = []
        for step in steps:
            if (key := tuple(step.cells[name] for name in identity)) in places:
                chosen += list(places[key])
                titles += [step.title] * len(places[key])
            elif complete:
                raise registry.stale(self.name)
        return _with_shapes(table.loc[chosen].reset_index(drop=True).assign(step=titles))


def ablation(
    name: str, file: str, steps: Sequence[AblationStep], columns: dict[str, Kind],
    key: tuple[str, ...],
    rows: Callable[[AblationStep, Kernel, Shape], Iterator[Row]],
    part: tuple[str, str] | None = None,
) -> Ablation:  # fmt: skip
    """The evidence of these steps. rows: measures a step, compiled, at a shape."""
    return Ablation(
        name=name, file=file, steps=tuple(steps), columns=columns, key=key, part=part,
        measure=partial(_measured, name, steps, rows, dict([part] if part else [])),
        fingerprint_of=partial(of_step, steps),
    )  # fmt: skip


def _measured(
    name: str, steps: Sequence[AblationStep], rows: Callable, part: Row, say: Say
) -> Iterator[Row]:
    for step, kernel in kernels(name, steps, say):
        for shape in step.shapes:
            for row in rows(step, kernel, shape):
                say(
                    f"{name}: {step.title} at {Problem(*shape)}: {row['tflops']:.1f} TFLOP/s, "
                    f"{row['pct_cublas']:.1f} % of cuBLAS"
                )
                yield part | step.cells | row


def of_step(steps: Sequence[AblationStep], row: Any, on: Target) -> Fingerprint | None:
    """None for a row of a former step."""
    for step in steps:
        if all(getattr(row, name, cell) == cell for name, cell in step.cells.items()):
            ops = step.rung.ops(step.all_settings)
            return step.fingerprint([registry.problem_in(row, ops)], on)
    return None


def kernels(
    name: str, steps: Sequence[AblationStep], say: Say
) -> Iterator[tuple[AblationStep, Kernel]]:
    """The steps with their kernels. One whose machine code cannot be taken apart is left out."""
    # NVRTC takes seconds for each, so other processes compile ahead.
    given = [(step.rung.name, step.all_settings, step.source) for step in steps]
    with workers(get_context("spawn")) as pool:
        results = [pool.submit(_compiled, each) for each in given]
        for step, compiled in zip(steps, results, strict=True):
            try:
                yield step, step.kernel(compiled.result())
            except NoListing as error:
                say(f"{name}: {step.title} is left out. {error}")


def _compiled(given: tuple[str, Settings, str | Path]) -> Compiled:
    """Compiled in this process; CuPy keeps what it compiles on disk, where the first finds it."""
    name, settings, source = given
    kernel = Kernel(ladder.find(name), settings, None, source)
    kernel.prepare()
    file, options = source.name if isinstance(source, Path) else EDITED, options_for(settings)
    program = nvrtc.compile_anew(kernel.text, file, arch=kernel.arch, options=options)
    return Compiled(program.ptx, program.cubin, resources(program.log))


SHOWN = {
    "step": "step", "M×N×K": "M×N×K", "tflops": "TFLOP/s", "pct_cublas": "% of cuBLAS",
    "pct_cublas_q1": "from", "pct_cublas_q3": "to", "cublas_tflops": "cuBLAS",
    "sm_clock_mhz": "SM clock, MHz", "power_w": "power, W",
}  # fmt: skip


def shown(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Rows of a table that has steps, with the columns that readers see."""
    return _with_shapes(rows).rename(columns=SHOWN)[[*SHOWN.values()]]


def _with_shapes(rows: pandas.DataFrame) -> pandas.DataFrame:
    """With a column M×N×K."""
    shapes = rows[["m", "n", "k"]].itertuples(index=False)
    return rows.assign(**{"M×N×K": [f"{row.m}×{row.n}×{row.k}" for row in shapes]})


# ---- paths ---------------------------------------------------------------------------------------

PATH_PAIRS = {512: 20, 4096: 20, 8192: 10}  # of launches, by M
PATH_COLUMNS = {
    **TEXT("path", "file", "settings"), **SIZE("m", "n", "k"),
    **POSITIVE("tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
    **POSITIVE("noise_q1", "noise_q3", "cublas_tflops"), **REPORTED("sm_clock_mhz", "power_w"),
    **SIZE("registers"), **WHOLE("spilled_bytes"), **SIZE("slots", "ffma"),
    **WHOLE("bank_0", "bank_1", "two_in_a_bank", "waits"), **NUMBER("reuse_pct"),
    **registry.WITH_CUBLAS,
}  # fmt: skip


def path_to(rung: Rung, steps: Sequence[AblationStep]) -> Ablation:
    """The path to a rung, of which every step is also taken apart."""
    return ablation(
        f"path/{rung.name}", "path.csv", steps, PATH_COLUMNS,
        ("path", "file", "settings", "m", "n", "k"), _taken_apart, ("path", rung.name),
    )  # fmt: skip


def _taken_apart(step: AblationStep, kernel: Kernel, shape: Shape) -> Iterator[Row]:
    """Raises NoDisassembler."""
    entry = kernel.rung.entry(kernel.settings)
    loop = loops.analyse(kernel.compiled.cubin, entry, loops.adds_per_tile(kernel))
    yield against_cublas(kernel, shape, PATH_PAIRS[shape[0]]) | register_reads(loop)


def paths() -> dict[str, Ablation]:
    """By the name of the rung that they lead to."""
    tables = [table for lesson in modules("measure") for table in lesson.EVIDENCE]
    by_rung = {table.part[1]: table for table in tables if table.name.startswith("path/")}
    return dict(sorted(by_rung.items()))


def path_of(name: str) -> Ablation:
    """The path to the rung `name`. Raises LadderError where there is none."""
    every = paths()
    if name not in every:
        raise LadderError(f"no path to {name!r} is kept; there is one to {', '.join(every)}")
    return every[name]


def path(name: str, shape: Sequence[int] = LARGE) -> pandas.DataFrame:
    """The steps to the rung `name` in their order, as they were recorded at one shape (M, N, K).

    step, predicted: what was changed, and what was expected of it; taken: whether it was kept.
    TFLOP/s, and % of cuBLAS with its quartiles, are medians of the same pairs. Of one trip through
    the inner loop, from the cubin: the issue slots and the share of FFMAs in them; the shares of
    FFMAs that mark an operand for reuse, and that need two registers of one bank; and of all cycles
    the share that is lost to waits for banks. Registers and spilled bytes of a thread.

    Raises LadderError, and what Ablation.rows_of raises.
    """
    table = path_of(name)
    rows = table.rows_of(table.steps, tuple(shape))
    return pandas.DataFrame({
        "step": rows["step"],
        "predicted": [step.predicted for step in table.steps],
        "taken": [step.taken for step in table.steps],
        "TFLOP/s": rows["tflops"].round(1),
        "% of cuBLAS": rows["pct_cublas"].round(1),
        "% of cuBLAS, quartiles": [
            f"{row.pct_cublas_q1:.1f} to {row.pct_cublas_q3:.1f}" for row in rows.itertuples()
        ],
        "issue slots": rows["slots"],
        "FFMA, % of slots": (100 * rows["ffma"] / rows["slots"]).round(1),
        "FFMA with reuse, %": rows["reuse_pct"].round(1),
        "two in a bank, % of FFMA": (100 * rows["two_in_a_bank"] / rows["ffma"]).round(1),
        "waits, % of cycles": (100 * rows["waits"] / (rows["slots"] + rows["waits"])).round(1),
        "registers": rows["registers"],
        "spilled bytes": rows["spilled_bytes"],
        "cuBLAS TFLOP/s": rows["cublas_tflops"].round(1),
        "SM clock, MHz": rows["sm_clock_mhz"],
        "gpu": rows["gpu"],
        "recorded": rows["recorded"],
    })  # fmt: skip
