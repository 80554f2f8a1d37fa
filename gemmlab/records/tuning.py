"""Every tuned setting of a rung against cuBLAS: measured on a GPU, read anywhere.

One CSV file for each rung, results/<gpu>/tuning/<rung>.csv: a row for each setting and shape, with
the settings first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from math import log2
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu
from gemmlab.kernel.compiler import Compiled
from gemmlab.kernel.fingerprint import Fingerprint, of_rung, shortened
from gemmlab.kernel.kernel import Kernel, arch_here
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import IllegalSetting, Problem, Settings, Target
from gemmlab.measure.timing import Arena, TimingError, require_verified
from gemmlab.processes import workers
from gemmlab.records import registry
from gemmlab.records.registry import BATCH, POSITIVE, SIZE, TEXT, WHOLE, NoRecord, Row, Say
from gemmlab.records.runs import LARGE, cells_of, taken
from ptxsim import CompileError

if TYPE_CHECKING:
    import pandas

# (M, N, K) at which settings are measured: a large one, and one where nothing is round. A rung may
# have further ones, its tuned_shapes.
SHAPES = (LARGE, (1001, 777, 513))
Shape = tuple[int, ...]  # (M, N, K), or (M, N, K, batch)
PAIRS = 4  # of samples, ours and cuBLAS in turn: enough to tell settings apart
SIZES = ("m", "n", "k", "batch")
MEASURED = {
    **SIZE("m", "n", "k"), **TEXT("dtype"),
    **POSITIVE("time_ms", "time_q1_ms", "time_q3_ms", "cublas_ms", "pct_cublas"),
    **WHOLE("registers", "spilled_bytes"), **registry.provenance("driver", "cuda", "cublas"),
    **BATCH("batch"),
}  # fmt: skip


def evidence(rung: ladder.Rung) -> registry.Table:
    """The sweep of a rung, as it is kept."""
    names = [*rung.defaults]
    parameters = {  # a file that is older than a parameter has its default
        parameter.name: replace(WHOLE, unnamed=str(parameter.default))
        for parameter in rung.parameters
    }

    def fingerprint_of(row: Any, on: Target) -> Fingerprint:
        settings = {name: int(getattr(row, name)) for name in names}
        return of_rung(rung, settings, [registry.problem_in(row, rung.ops(settings))], on)

    return registry.Table(
        name=f"tuning/{rung.name}", file=f"tuning/{rung.name}.csv", measure=partial(_measure, rung),
        key=(*names, *SIZES), columns=parameters | MEASURED, fingerprint_of=fingerprint_of,
    )  # fmt: skip


def recorded(name: str, **computed: int) -> pandas.DataFrame:
    """The recorded sweep of the rung `name`: a row for each tuned setting and shape.

    `computed`: of a rung that is swept for several things that it computes, which, such as DTYPE=1;
    else the default. Columns: the rung's parameters, those of MEASURED, and gflops. Times are
    medians and quartiles in milliseconds, pct_cublas is the median ratio in percent, registers and
    spilled_bytes are per thread. Raises LadderError.
    """
    return _computing(ladder.find(name), _every_row(name), computed).reset_index(drop=True)


def _every_row(name: str) -> pandas.DataFrame:
    rung = ladder.find(name)
    table = evidence(rung).read()
    flop = 2 * table[list(SIZES)].prod(axis=1)
    table.insert(len(rung.parameters) + 5, "gflops", flop / (table["time_ms"] * 1e6))
    return table


kept = lru_cache(_every_row)  # of all that the rung is swept for, read once; nobody may change it


def _computing(rung: ladder.Rung, table: pandas.DataFrame, given: Settings) -> pandas.DataFrame:
    """The rows that compute what the settings say, and by default what they do not say."""
    computed = _computed(rung, given)
    return table[(table[list(computed)] == list(computed.values())).all(axis=1)]


def _computed(rung: ladder.Rung, given: Settings) -> Settings:
    """Of settings, the values of what the rung is swept for."""
    return {name: given.get(name, rung.defaults[name]) for name in rung.computed[0]}


def at(table: pandas.DataFrame, shape: Shape) -> pandas.DataFrame:
    """The rows of a sweep at one shape (M, N, K), or (M, N, K, batch), the fastest first. Raises
    NoRecord."""
    rows = registry.at_shape(table, shape, "no setting is recorded")
    return rows.sort_values("time_ms", kind="stable")


def sizes_of(shape: Shape) -> Shape:
    """(M, N, K, batch), whether or not the shape has a batch."""
    return (*shape, 1)[:4]


def best(table: pandas.DataFrame, shape: Shape = SHAPES[0]) -> pandas.Series:
    """The row of the fastest setting at one shape (M, N, K). Raises NoRecord."""
    return at(table, shape).iloc[0]


def fastest(name: str) -> pandas.DataFrame:
    """The fastest setting at each shape, of all that a rung is swept for.

    Columns: M×N×K, dtype, the parameters that the sweep chooses, TFLOP/s (of int8 operations) and
    % of cuBLAS. Raises what `recorded` raises.
    """
    import pandas

    rung = ladder.find(name)
    tuned = [parameter.name for parameter in rung.parameters if parameter.tuned]
    rows = [
        {"M×N×K": str(Problem.of(shape)), **best(recorded(name, **computed), shape)}
        for computed in rung.computed
        for shape in shapes_of(rung, computed)
    ]
    table = pandas.DataFrame(rows).assign(tflops=lambda every: every["gflops"] / 1e3)
    shown = table[["M×N×K", "dtype", *tuned, "tflops", "pct_cublas"]]
    return shown.rename(columns={"tflops": "TFLOP/s", "pct_cublas": "% of cuBLAS"})


def of(kernel: Kernel, shape: Shape = SHAPES[0]) -> pandas.Series:
    """The row of one kernel's settings. Raises NoRecord, and StaleRecord for another code."""
    table = at(kept(kernel.name), shape)
    for name, value in kernel.settings.items():
        table = table[table[name] == value] if name in table else table[:0]
    if table.empty:
        raise NoRecord(f"{kernel!r} is not in the sweep.")
    row = table.iloc[0]
    if not row["code"].startswith(shortened(kernel.code_hash())):
        raise registry.stale(f"tuning/{kernel.name}")
    return row


# ---- which settings for a shape ------------------------------------------------------------------


def for_shape(
    rung: ladder.Rung, shape: Shape, arch: str, others: Settings | None = None
) -> tuple[Settings, str]:
    """The fastest settings at the recorded shape that is nearest, by the factors between their
    sizes; and in words, why. Of those that run on `arch`, if any does. A shape at which the rung
    launches another kernel says nothing of this one, unless there is no other.

    `others`: what is set besides, which no sweep chooses; the settings go together with it. Raises
    NoRecord, and IllegalSetting for no shape, and for others that go together with nothing that the
    sweep tried.
    """
    others = others or {}
    Problem.of(shape)
    nearest = min(_alike(rung, shape, others), key=lambda other: distance(shape, other))
    table = at(_computing(rung, kept(rung.name), others), nearest)
    every = [
        {key: int(value) for key, value in row.items()} | others
        for row in table[[*rung.defaults]].to_dict("records")
    ]
    fastest_first = [settings for settings in every if rung.broken(settings) is None]
    if not fastest_first:
        ladder.settings_for(rung, every[0])  # says what is wrong
    runs = (settings for settings in fastest_first if rung.runs_on(settings, arch))
    settings = next(runs, fastest_first[0])  # where none runs, the kernel says what it needs
    where = Problem.of(nearest)
    note = f"the fastest in the sweep recorded on {table.iloc[0]['gpu']} at {where}"
    if settings != fastest_first[0]:
        note += f", of those that run on {arch}"
    return settings, note


def _alike(rung: ladder.Rung, shape: Shape, others: Settings) -> tuple[Shape, ...]:
    """Of the shapes of its sweep those at which the rung launches what it launches at a shape."""

    def entries(at: Shape) -> list[str]:
        settings = rung.defaults | others
        try:
            launches = rung.plan(Problem.of(at), settings, ladder.SIMULATED)
        except ladder.IllegalSetting:  # of a shape that it does not take
            return []
        return [launch.entry for launch in launches]

    every = shapes_of(rung, others)
    return tuple(other for other in every if entries(other) == entries(shape)) or every


def distance(shape: Shape, other: Shape) -> float:
    """How far apart two shapes are: the sum of the powers of two between their sizes."""
    pairs = zip(sizes_of(shape), sizes_of(other), strict=True)
    return sum(abs(log2(max(a, 1) / max(b, 1))) for a, b in pairs)


def kernel_for(rung: ladder.Rung, shape: Shape, **others: int) -> Kernel:
    """The rung with the settings for a shape on the GPU here, and others that no sweep chooses."""
    settings, _ = for_shape(rung, shape, arch_here(), others)
    return Kernel(rung, ladder.settings_for(rung, settings), None, rung.path)


# ---- measuring -----------------------------------------------------------------------------------


def shapes_of(rung: ladder.Rung, given: Settings | None = None) -> tuple[Shape, ...]:
    """(M, N, K), or (M, N, K, batch), of the sweep of a rung that computes what settings say."""
    every = dict.fromkeys((*SHAPES, *rung.tuned_shapes))
    return tuple(shape for shape in every if swept(rung, shape, given))


def swept(rung: ladder.Rung, shape: Shape, given: Settings | None = None) -> list[Settings]:
    """The settings that a sweep tries at a shape, for what the rung computes by default or so."""
    problem, computed = Problem.of(shape), _computed(rung, given or {})
    tuned = ladder.tuned_settings(rung, computed)
    return [settings for settings in tuned if rung.swept(problem, settings)]


def _measure(rung: ladder.Rung, say: Say) -> Iterator[Row]:
    """A row for each shape and each setting that is tried there and runs on the architecture of the
    GPU here. What does not compile, launch or pass is named, and the others go on. Raises GpuFault.
    """
    here = require_gpu("A sweep")
    tried = [
        (shape, [each for each in swept(rung, shape, computed) if rung.runs_on(each, here.arch)])
        for computed in rung.computed
        for shape in shapes_of(rung, computed)
    ]
    # NVRTC takes a second for each, so other processes compile ahead.
    with workers(get_context("spawn")) as pool:
        every = {ladder.written(each): each for _, several in tried for each in several}
        compiled = {name: pool.submit(_compile, rung.name, every[name]) for name in every}
        kernels: dict[str, Kernel | None] = {}  # None: it failed
        for shape, several in tried:
            if not several:
                continue
            problem, rows = Problem.of(shape, rung.ops(several[0])), []
            with Arena(problem, rung.precision_of(several[0])) as arena:
                for settings in tqdm(several, desc=f"{rung.name} {problem}", leave=False):
                    name = ladder.written(settings)
                    try:
                        if name not in kernels:
                            kernels[name] = None
                            made = compiled[name].result()
                            kernel = Kernel(rung, settings, here.arch, rung.path, compiled=made)
                            require_verified(kernel)
                            kernels[name] = kernel
                        if (ready := kernels[name]) is not None:
                            race = arena.race(ready, arena.side(ready), PAIRS)
                            cells = cells_of(race, problem) | taken(ready)
                            rows.append({**settings, "dtype": ready.dtype, **cells})
                            yield rows[-1]
                    except failures() as error:
                        kernels[name] = None
                        say(f"{rung.name} with {name}: {error}; left out")
            if rows:
                fastest = min(rows, key=lambda row: row["time_ms"])
                chosen = ladder.written({name: fastest[name] for name in [*rung.defaults]})
                share = f"{fastest['pct_cublas']:.1f} % of cuBLAS"
                say(f"{rung.name} {problem}: {share} with {chosen}")


def failures() -> tuple[type[Exception], ...]:
    """What is raised where settings do not compile, load, launch or pass: they alone fail."""
    from cupy.cuda import compiler, driver, memory, runtime

    return (
        CompileError, IllegalSetting, TimingError, VerificationError,
        compiler.CompileException, driver.CUDADriverError, memory.OutOfMemoryError,
        runtime.CUDARuntimeError,
    )  # fmt: skip


def _compile(name: str, settings: Settings) -> Compiled:
    """Compile in another process; CuPy keeps what it compiles on disk, where the first finds it."""
    rung = ladder.find(name)
    kernel = Kernel(rung, settings, None, rung.path)
    kernel.prepare()
    return kernel.compiled
