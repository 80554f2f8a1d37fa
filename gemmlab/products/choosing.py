"""Choose the kernel and the settings for a product: from records, else with a model.

choose() takes the fastest that is recorded at this very shape (records.best_by_shape). At any other
shape, and where it says far less than what was measured here, the model of products.model decides:
its coefficients were fitted to times at shapes drawn at random, among kernels that are made for any
shape. Batches in float32, and GPUs that these kernels do not run on, have a rule (estimate). What
was recorded in float16 alone stands for bfloat16 too: the same instructions, as fast, on as many
bytes. INT8, TF32 and FP8 have a kernel each, whose settings are those that were the fastest at this
shape, or suit the number of its tiles.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from gemmlab import ladder
from gemmlab.cuda.device import gpu
from gemmlab.kernel import prebuilt
from gemmlab.kernel.kernel import arch_here
from gemmlab.ladder import BRAIN, HALF, SINGLE, IllegalSetting, Problem, Rung, Settings
from gemmlab.ladder.precision import E4M3, INT8, SCALES, ElementType
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons import modules
from gemmlab.products import model, trees
from gemmlab.products.estimate import ROW_BYTES, seconds
from gemmlab.records import best_by_shape, registry, tuning
from gemmlab.records.registry import NoRecord, StaleRecord, target_here
from ptxsim.compile import nvrtc

TYPES = {each.name: each for each in (SINGLE, HALF, BRAIN)}
FUSED = {  # the rung that fuses an epilogue, and with which settings
    SINGLE.name: ("11_fused_epilogue", {}),
    HALF.name: ("15_mma_sync", {"BIAS": 1}),
    BRAIN.name: ("15_mma_sync", {"BIAS": 1}),
}
FP8 = "float8_e4m3fn"
OTHER_TYPES: dict[str, ElementType] = {"int8": INT8, "tf32": SINGLE.a, FP8: E4M3}
TENSOR_CORES = "tensor cores"
BY_TENSOR_CORES = "23_emulated_fp32"  # float32, where the caller says so
TOGETHER = "13_batched"  # a whole batch in float32
OLDEST = {  # where no kernel of the model runs
    SINGLE.name: "09_double_buffering", HALF.name: "14_wmma", BRAIN.name: "15_mma_sync",
}  # fmt: skip
FAR_LESS = 0.8  # of a measured time: then the model is believed instead
BELIEVED = 0.9  # of the time by the model: where the rule says less, it is believed
TURNING_S, TURNING = 3e-6, 1.5e12  # of a transposition before the product: its launch; bytes/s
COPYING_S, COPYING = 3e-6, 2.5e11  # of a copy into longer rows: its launches; elements/s
WORTH_COPYING = 0.9  # of a time by the model


@dataclass(frozen=True)
class Chosen:
    """What gl.matmul takes for a product.

    `why`: in a sentence. `share`: of cuBLAS, recorded at this very shape on the GPU that the
    sentence names; None where it is not. `turned`: which operands are transposed before, since the
    rung takes them only as they are: "", "A", "B" or "AB". `one_by_one`: the products of a batch
    are launched one after the other. `padded`: the product that is launched instead, on copies in
    rows that begin at multiples of 16 bytes; None where A, B and C are used as they are.
    """

    problem: Problem
    dtype: str
    rung: str
    settings: Settings
    why: str
    share: float | None = None
    turned: str = ""
    one_by_one: bool = False
    padded: Problem | None = None

    def __repr__(self) -> str:
        lines = [f"{self.problem} in {self.dtype}: {self.rung} with {ladder.listed(self.settings)}"]
        lines.append(f"  {self.why}")
        if self.turned:
            lines.append(f"  transposed before: {' and '.join(self.turned)}")
        if self.one_by_one:
            lines.append("  the products of the batch one after the other")
        if self.padded is not None:
            lines.append(f"  copied before into rows of {self.padded}, and C after")
        if self.share is not None:
            lines.append(f"  {100 * self.share:.1f} % of cuBLAS, as recorded")
        return "\n".join(lines)


def choose(
    problem: Problem | tuple[int, ...], dtype: str = "float32", fused: bool = False,
    scales: str = "tensors", to: str = "bfloat16", by: str | None = None,
) -> Chosen:  # fmt: skip
    """The rung and the settings that gl.matmul takes for a product, and the reason.

    `problem`: a gl.Problem, or (M, N, K), or (M, N, K, batch). `dtype`: "float32", "float16",
    "bfloat16", "int8", "tf32" or "float8_e4m3fn". `fused`: with a bias or an activation. For FP8:
    `scales`, "tensors", "rows" or "blocks", and `to`, the type of C, "bfloat16" or "float32".
    For float32: `by`, "tensor cores", or None for the FP32 units.
    Raises IllegalSetting for any other problem or type, for an option that the type does not have,
    and for a type that no rung multiplies on this GPU; BadRecord.
    """
    problem = problem if isinstance(problem, Problem) else Problem.of(problem)
    if why := refused(dtype, fused, problem.batch != 1, scales, by):
        raise IllegalSetting(why)
    if by is not None:
        return _by_tensor_cores(problem)
    if dtype in OTHER_TYPES:
        return _of_one_kernel(problem, dtype, scales, to, os.environ.get("GEMMLAB_RECORDS", ""))
    if dtype not in TYPES:
        known = ", ".join((*TYPES, *OTHER_TYPES))
        raise IllegalSetting(f"dtype is {dtype!r}; it must be one of {known}")
    return _choose(problem, dtype, fused, os.environ.get("GEMMLAB_RECORDS", ""))


@lru_cache(maxsize=4096)
def _choose(problem: Problem, dtype: str, fused: bool, folder: str) -> Chosen:
    """`folder`: that GEMMLAB_RECORDS names."""
    if fused:
        return _fused(problem, dtype)
    rows = [row for row in recorded(dtype) if _runs_here(row.rung, row.values, problem)]
    best = _from_records(problem, rows)
    if best is None:
        seconds_here, chosen = _fastest(problem, dtype)
        return _on_copies(problem, dtype, seconds_here) or chosen
    modelled = by_model(problem, dtype)
    if modelled is None or problem.flop > model.MOST_FLOP:
        return _as_recorded(problem, best)
    less = modelled[0] < FAR_LESS * best.seconds(problem)
    return modelled[1] if less else _as_recorded(problem, best)


# ---- types of one kernel -------------------------------------------------------------------------


def refused(dtype: str, fused: bool, batched: bool, scales: str, by: object) -> str | None:
    """Why what has one kernel is not multiplied so, in a sentence; None for all else."""
    if by not in (None, TENSOR_CORES):
        return f"by is {by!r}; it is {TENSOR_CORES!r}, or None"
    if by is not None and (dtype != SINGLE.name or fused or batched):
        return f"by={by!r} is for float32, without batches, bias and activation"
    kinds = [each.name for each in SCALES][: None if dtype == FP8 else 1]
    if dtype not in OTHER_TYPES or (not fused and not batched and scales in kinds):
        return None
    return f"{dtype} takes no batches, bias and activation, FP8 alone scales of rows and of blocks"


def _by_tensor_cores(problem: Problem) -> Chosen:
    rung = ladder.find(BY_TENSOR_CORES)
    ladder.require_arch(rung, rung.defaults, arch_here())
    why = "the only kernel for it: six products of bfloat16 for each of float32"
    return replace(_chosen(rung, rung.defaults, problem, why), dtype=SINGLE.name)


@lru_cache(maxsize=4096)
def _of_one_kernel(problem: Problem, dtype: str, scales: str, to: str, folder: str) -> Chosen:
    """On copies where rows of A, B or C do not begin at multiples of 16 bytes, and where the kernel
    takes an operand along K alone and it is stored otherwise. `folder`: see _choose."""
    (lesson,) = modules("one_kernel")
    rung, settings, why, share = lesson.chosen(problem, dtype, scales, to, folder)
    ladder.require_arch(rung, settings, arch_here())
    precision, ops = rung.precision_of(settings), rung.ops(settings)
    of_n, of_k = ROW_BYTES // precision.c.bytes, ROW_BYTES // precision.a.bytes
    k = of_k * max(1, ceil_div(problem.k, of_k))
    padded = Problem(problem.m, of_n * ceil_div(problem.n, of_n), k, ops=ops)
    turned = "".join(which for which, a, b in zip("AB", problem.ops, ops, strict=True) if a != b)
    return Chosen(
        problem, dtype, rung.name, settings, why, share, turned,
        padded=None if padded.shape == problem.shape else padded,
    )  # fmt: skip


# ---- an epilogue, for which there is no choice of rungs ------------------------------------------


def _fused(problem: Problem, dtype: str) -> Chosen:
    """The rung with the settings for a shape of its sweep, or those of its default."""
    name, others = FUSED[dtype]
    rung = ladder.find(name)
    others = (ladder.of_type(rung, dtype) or {}) | others
    shape = tuple(max(1, size) for size in problem.shape)
    settings = ladder.nearest_on(rung, rung.defaults | others, arch_here())
    how = "with its default settings"
    with suppress(NoRecord, StaleRecord):
        chosen, note = tuning.for_shape(rung, shape, arch_here(), others)
        if _runs_here(rung, chosen, problem):
            settings, how = chosen, note
    why = f"bias and activation are fused into this rung alone; {how}"
    return _chosen(rung, settings, problem, why)


def _chosen(
    rung: Rung, settings: Settings, problem: Problem, why: str, share: float | None = None
) -> Chosen:
    settings = ladder.settings_for(rung, settings | ladder.stored_as(rung, problem.ops))
    return Chosen(
        problem, dtype=rung.precision_of(settings).name, rung=rung.name, settings=settings, why=why,
        share=share, turned=_turned(rung, problem.ops),
        one_by_one=problem.batch != 1 and rung.batch == 1,
    )  # fmt: skip


def _turned(rung: Rung, ops: str) -> str:
    """The operands that must be transposed before, for a rung that takes them only as they are."""
    return "".join(
        name
        for name, letter in zip("AB", ops, strict=True)
        if letter == "T" and f"OP_{name}" not in rung.defaults
    )


def _turning_s(rung: Rung, problem: Problem) -> float:
    """Of the transpositions before the product."""
    sizes = {"A": problem.m * problem.k, "B": problem.k * problem.n}
    return sum(
        TURNING_S + 2 * rung.precision.a.bytes * sizes[name] * problem.batch / TURNING
        for name in _turned(rung, problem.ops)
    )


def _on_copies(problem: Problem, dtype: str, seconds_here: float) -> Chosen | None:
    """The same product with N, and of 16 bits also K, at whole 16 bytes, where copying into such
    rows is worth its time. In float32 A is loaded by single elements anyway."""
    size = TYPES[dtype].a.bytes
    elements = ROW_BYTES // size
    k = problem.k if dtype == SINGLE.name else elements * ceil_div(problem.k, elements)
    padded = Problem(problem.m, elements * ceil_div(problem.n, elements), k)
    if problem.batch != 1 or padded.shape == problem.shape or 0 in padded.shape:
        return None
    copies = [(padded.k, padded.n), (padded.m, padded.n)]
    if padded.k != problem.k:
        copies.append((padded.m, padded.k))
    copying = sum(COPYING_S + rows * columns / COPYING for rows, columns in copies)
    seconds_there, chosen = _fastest(padded, dtype)
    if seconds_there + copying >= WORTH_COPYING * seconds_here:
        return None
    turned = "".join(name for name, how in zip("AB", problem.ops, strict=True) if how == "T")
    why = f"rows begin off 16 bytes; {chosen.why}"
    return replace(chosen, problem=problem, padded=padded, turned=turned, why=why)


# ---- from records --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A row of records.best_by_shape. `share`: of cuBLAS; `recorded`: date and time, UTC.

    `of`: the type that was recorded, where it stands for another one. `nearest`: that type was
    recorded with settings that this one does not have, and these are the nearest.
    """

    rung: Rung
    settings: str
    problem: Problem
    tflops: float
    cublas_tflops: float
    share: float
    gpu: str
    recorded: str
    of: str = ""
    nearest: bool = False

    @property
    def values(self) -> Settings:
        """The settings, which are kept as text."""
        return ladder.read_settings(self.settings)

    @property
    def dtype(self) -> str:
        """What the settings multiply."""
        return self.rung.precision_of(self.values).name

    def takes(self, problem: Problem) -> bool:
        """Whether the settings multiply A and B as they are stored there, and as they did here.
        Where matrices have no tensor maps, some rungs launch another kernel."""
        there, here = (
            _entries(self.rung, self.values, each, target_here())
            for each in (problem, self.problem)
        )
        return bool(there) and there == here

    def seconds(self, problem: Problem) -> float:
        """How long a problem takes at this rate, with what must be transposed before it."""
        return problem.flop / (self.tflops * 1e12) + _turning_s(self.rung, problem)


def at(problem: Problem, dtype: str = SINGLE.name) -> Row:
    """The record of what is chosen for a problem, at this very shape. Raises NoRecord."""
    chosen = choose(problem, dtype)
    settings = ladder.written(chosen.settings)
    for row in recorded(dtype):
        if (row.problem, row.rung.name, row.settings) == (problem, chosen.rung, settings):
            return row
    raise NoRecord(f"{chosen.rung} with {settings} is not recorded at {problem}.")


def taken(dtype: str = SINGLE.name) -> dict[Problem, Row]:
    """The record of what is chosen, at every recorded shape with A and B as they are. Without those
    where what is chosen has no record of this type."""
    rows: dict[Problem, Row] = {}
    for problem in dict.fromkeys(row.problem for row in recorded(dtype) if row.problem.ops == "NN"):
        with suppress(NoRecord):
            rows[problem] = at(problem, dtype)
    return {problem: row for problem, row in rows.items() if not row.of}


def recorded(dtype: str = SINGLE.name) -> tuple[Row, ...]:
    """What is recorded of rungs without an epilogue that multiply a type, in turn with cuBLAS.

    Of those whose record is current; on a GPU only what was recorded on it, unless GEMMLAB_RECORDS
    names another. Raises BadRecord.
    """
    return _recorded(dtype, os.environ.get("GEMMLAB_RECORDS", ""))


@lru_cache(maxsize=64)
def _recorded(dtype: str, folder: str) -> tuple[Row, ...]:
    here = gpu()
    if here is None or folder:
        return tuple(_every_row(dtype))
    if here.slug not in registry.gpus():
        return ()
    with registry.records_of(here.slug):
        return tuple(_every_row(dtype))


def _every_row(dtype: str) -> list[Row]:
    """Those of the type, or of a rung that has none of bfloat16, those of float16."""
    rows: list[Row] = []
    for rung in ladder.RUNGS:
        if ladder.of_type(rung, dtype) is not None:
            with suppress(NoRecord, StaleRecord):
                every = list(_in_turn(rung))
                of_type = [row for row in every if row.dtype == dtype]
                if dtype == BRAIN.name and not of_type:
                    of_type = [_as_bfloat16(row) for row in every if row.dtype == HALF.name]
                rows += of_type
    return rows


def _in_turn(rung: Rung) -> Iterator[Row]:
    table = best_by_shape.tuned(rung.name)
    for row in table[table["way"] == "in turn"].itertuples():
        if not rung.takes_bias(ladder.read_settings(row.settings)):
            yield Row(
                rung, row.settings, Problem(row.m, row.n, row.k, row.batch, row.ops), row.tflops,
                row.cublas_tflops, row.pct_cublas / 100, row.gpu, row.recorded,
            )  # fmt: skip


def _as_bfloat16(row: Row) -> Row:
    """With the settings for bfloat16, or the nearest of them that there are."""
    of_type = ladder.of_type(row.rung, BRAIN.name) or {}
    settings = row.values | of_type
    if nearest := bool(row.rung.broken(settings)):
        settings = ladder.nearest(row.rung, settings, of_type)
    return replace(row, settings=ladder.written(settings), of=HALF.name, nearest=nearest)


def _from_records(problem: Problem, rows: list[Row]) -> Row | None:
    """The fastest at this shape; of a batch that is not recorded, of its products one by one."""
    together = _recorded_at(problem, problem.batch, rows)
    if problem.batch > 1 and not together:
        together = _recorded_at(problem, 1, rows)
    return min(together, key=lambda row: row.seconds(problem), default=None)


def _recorded_at(problem: Problem, batch: int, rows: list[Row]) -> list[Row]:
    """The rows at this shape, with A and B stored as they are there or else as they are."""
    there = [
        row
        for row in rows
        if (row.problem.shape, row.problem.batch) == (problem.shape, batch)
        and row.problem.ops in (problem.ops, "NN")
        and row.takes(problem)
    ]
    exact = {row.rung.name for row in there if row.problem.ops == problem.ops}
    return [row for row in there if row.problem.ops == problem.ops or row.rung.name not in exact]


def _as_recorded(problem: Problem, best: Row) -> Chosen:
    same = (best.problem.batch, best.problem.ops) == (problem.batch, problem.ops)
    where = "this shape" if same else f"{best.problem} {best.problem.ops}"
    why = f"the fastest that was recorded on {best.gpu} at {where}"
    if best.of:
        nearest = "the nearest settings of this type to " if best.nearest else ""
        why = f"{nearest}{why} in {best.of}; not measured in this type"
    share = best.share if same and not best.of else None
    return _chosen(best.rung, best.values, problem, why, share)


# ---- by the model --------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def by_model(problem: Problem, dtype: str = SINGLE.name) -> tuple[float, Chosen] | None:
    """Seconds by products.model of what takes least, and that: of a batch, its products one after
    the other. None where no kernel of the model runs."""
    target, alone = target_here(), replace(problem, batch=1)
    ways, modelled = [], []
    for curve in model.curves(dtype, target.arch):
        for settings in curve.variants(dtype, problem):
            if _runs_here(curve.rung, settings, problem) and (
                of_way := curve.modelled(alone, settings, target)
            ):
                ways.append((curve.rung, settings))
                modelled.append(of_way)
    if not ways:
        return None
    errors = trees.read(model.measured_for(dtype)).errors([features for _, features in modelled])
    every_s = problem.batch * errors * [alone_s for alone_s, _ in modelled]
    every_s += [_turning_s(rung, problem) for rung, _ in ways]
    fastest = int(every_s.argmin())
    seconds_here, (rung, settings) = float(every_s[fastest]), ways[fastest]
    why = f"of all kernels it takes least by the model, {seconds_here * 1e6:.3g} µs"
    return seconds_here, _chosen(rung, settings, problem, why)


def _runs_here(rung: Rung, settings: Settings, problem: Problem) -> bool:
    """Whether this GPU has the instructions, and there is a compiler, or it comes compiled."""
    stored = settings | ladder.stored_as(rung, problem.ops)
    return rung.runs_on(stored, arch_here()) and (_compiles() or prebuilt.ships(rung, stored))


@cache
def _compiles() -> bool:
    try:
        return bool(nvrtc.version())
    except nvrtc.NoCompiler:
        return False


# ---- without a record ----------------------------------------------------------------------------


def _fastest(problem: Problem, dtype: str) -> tuple[float, Chosen]:
    """Without a record: seconds of what takes least, and that. Raises IllegalSetting where no rung
    multiplies the type on this GPU."""
    ways = [by_model(problem, dtype)]
    if dtype == SINGLE.name and problem.batch > 1:
        ways.append(_together(problem))
    if there := [way for way in ways if way is not None]:
        return min(there, key=lambda way: way[0])
    arch, rung = arch_here(), ladder.find(OLDEST[dtype])
    of_type = ladder.of_type(rung, dtype) or {}
    settings = ladder.nearest_on(rung, rung.defaults | of_type, arch)
    why = f"nothing newer runs on {arch}" if _compiles() else "nothing faster comes compiled"
    return 0.0, _chosen(rung, settings, problem, why)


def _together(problem: Problem) -> tuple[float, Chosen] | None:
    """Of a batch in float32, by products.estimate. Its times are no predictions as the model's are:
    they count for somewhat more."""
    target, rung = target_here(), ladder.find(TOGETHER)
    estimates = [
        (seconds(rung, settings, problem, target), number, settings)
        for number, settings in enumerate(ladder.tuned_settings(rung))
        if _runs_here(rung, settings, problem)
        and rung.entry(settings) in _entries(rung, settings, problem, target)
    ]  # fmt: skip
    if not estimates:
        return None
    least, _, settings = min(estimates)
    why = f"by the rule for batches: its tiles for {target.sm_count} SMs"
    return least / BELIEVED, _chosen(rung, settings, problem, why)


def _entries(rung: Rung, settings: Settings, problem: Problem, target: ladder.Target) -> list[str]:
    """The kernels that multiply a problem, A and B as they are stored; none where it cannot."""
    stored = settings | ladder.stored_as(rung, problem.ops)
    if rung.broken(stored):
        return []
    launched = problem if rung.batch > 1 else replace(problem, batch=1)
    try:
        return [launch.entry for launch in rung.launches(launched, stored, target)]
    except IllegalSetting:
        return []
