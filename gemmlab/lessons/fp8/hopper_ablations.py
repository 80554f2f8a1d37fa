"""What single changes of rungs 16 to 19 are worth: each is raced with the rung as it is.

    python -m gemmlab record hopper_ablations

Four questions, of which `record hopper_ablations/roles` measures one again: `roles` and the way of
C, by which 17 differs from 16; the two sets of `accumulators` of 19; whether `registers` move
between warpgroups; whether launches `overlap`. All variants of a race and cuBLAS run in turn, after
a rest before each round and then without pause, and the SMs count their clock meanwhile;
results/<gpu>/hopper_ablations.csv holds it (see gemmlab.records.registry).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmlab import ladder
from gemmlab.cuda.cublaslt import SIXTEEN_BITS, CublasLt, SixteenBitProduct
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel.compiler import resources_of
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.kernel.verify import check_sample
from gemmlab.ladder import Launch, Problem, Settings, Target
from gemmlab.ladder.launch import MapOf
from gemmlab.lessons.fp8 import errors
from gemmlab.lessons.fp8 import steps as fp8_steps
from gemmlab.lessons.fp8.rung import RUNG as FP8
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.tma_wgmma.rung import GROUP_ROWS, ROW_BYTES, SQUARE_BYTES
from gemmlab.lessons.tma_wgmma.rung import RUNG as TMA_WGMMA
from gemmlab.lessons.tma_wgmma.steps import ALONE, AT_THE_END, HUGE, Step
from gemmlab.lessons.warp_specialized.rung import RUNG as WARP_SPECIALIZED
from gemmlab.measure.in_turn import Side, make_sets
from gemmlab.measure.power import Sample, in_rounds
from gemmlab.measure.timing import Arena, Spread, arena_of, gflops, now, require_verified
from gemmlab.records.registry import COUNTED, DATE, NOTE, POSITIVE, REPORTED, SIZE, TEXT, Say, Table
from gemmlab.records.runs import LARGE

if TYPE_CHECKING:
    import pandas

NAME = "hopper_ablations"
Shape = tuple[int, int, int]
Race = tuple[Step, ...]  # the first is what the others are compared with, at its shapes
RESTED, LOADED = "rested", "without pause"
REST_S, ROUNDS = 0.3, 16
SETTLING, LOADED_ROUNDS = 24, 32  # rounds without pause, of which the first do not count
ERROR_DEPTH = 4096  # K of the products whose sums are compared with float64
LIBRARY = "library"  # instead of a hash of its code
FIRST_CHOICE, FASTEST_PROPOSAL = "cuBLAS, its first choice", "cuBLASLt, the fastest proposal"

# ---- what is changed -----------------------------------------------------------------------------


def _sends_c(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    """16 with a tensor map of C and two buffers for each warpgroup, as 17 has them."""
    (launch,) = TMA_WGMMA.plan(problem, s, target)
    if launch.entry != TMA_WGMMA.entry(s):
        return [launch]
    columns = ROW_BYTES // TMA_WGMMA.precision_of(s).c.bytes
    buffers = s["BM"] // GROUP_ROWS * min(2, s["BN"] // columns)
    map_of_c = MapOf("C", (GROUP_ROWS, columns), "128B")
    return [
        replace(
            launch, shared_bytes=launch.shared_bytes + buffers * SQUARE_BYTES,
            args=(*launch.args[:2], map_of_c, *launch.args[2:]),
        )
    ]  # fmt: skip


STORE = "store(sums, C, row, left, M, N);"
SEND = "send_sums(sums, shared.rooms[group], map_c, row, left, group);"
C_BY_MAP = (  # 16 sends C as 17 does
    ('#include "warpgroup_tiles.cuh"', '#include "warpgroup_tiles.cuh"\n#include "send_tile.cuh"'),
    ("Stage stages[STAGES];", "Stage stages[STAGES];\n    Room rooms[GROUPS][ROOMS];"),
    ("OfC* __restrict__ C,", "const __grid_constant__ TensorMap map_c, OfC* __restrict__ C,"),
    ("announce(map_b);", "announce(map_b);\n        announce(map_c);"),
    (STORE, f"{SEND}\n    if (threadIdx.x % GROUP_THREADS == 0) wait_until_sent();"),
)
C_BY_THREADS = ((SEND, STORE), ("if (leads) wait_until_sent();", ""))  # 17 stores C as 16 does
ONE_SET = (  # 19 waits for a sum before it starts the next
    (
        "int unit = 0;\n            begin(one, of_one, 0);",
        "for (int unit = 0; unit < units; ++unit) {\n"
        "                begin(one, of_one, unit);\n"
        "                wait_for_products<0>();\n"
        "                end(one, of_one, unit);\n"
        "            }\n"
        "#if 0",
    ),
    ("end(one, of_one, unit);\n            }\n#else", "#endif\n#else"),
)
REGISTERS_STAY = (("give_registers_back();", ""), ("take_registers();", ""))

# ---- races ---------------------------------------------------------------------------------------

SQUARES = LARGE, HUGE
MANY_ROWS, FEW_ROWS = (128, 7168, 2048), (64, 4096, 7168)
FP8_SHAPES = (*SQUARES, fp8_steps.SHALLOW)
BLOCKS = fp8_steps.BLOCKS


def _overlapping(number: str, rung: ladder.Rung, settings: Settings, shape: Shape) -> Race:
    return (
        Step(f"{number}, one launch after the other", rung, settings | AT_THE_END, (shape,)),
        Step(f"{number}, launches overlap", rung, settings, (shape,)),
    )


def _register_race(number: str, rung: ladder.Rung, settings: Settings) -> Race:
    """With launches that do not overlap."""
    about = settings | AT_THE_END
    return (
        Step(f"{number}, registers move", rung, about),
        Step(f"{number}, registers stay", rung, about, changes=REGISTERS_STAY),
    )


QUESTIONS: dict[str, tuple[Race, ...]] = {
    "roles": (
        (
            Step("16", TMA_WGMMA, {}),
            Step("16, C sent by tensor map", TMA_WGMMA, {}, changes=C_BY_MAP, plan=_sends_c),
            Step("17, C stored by its threads", WARP_SPECIALIZED, AT_THE_END, changes=C_BY_THREADS),
            Step("17", WARP_SPECIALIZED, AT_THE_END),
        ),
    ),
    "accumulators": (
        (
            Step("two sets", FP8, {}, FP8_SHAPES),
            Step("one set", FP8, {}, FP8_SHAPES, changes=ONE_SET),
            Step("two sets, promoted every 256", FP8, {"PROMOTE": 256}, FP8_SHAPES),
            Step("never promoted", FP8, {"PROMOTE": 0}, FP8_SHAPES),
            Step("never promoted, 128×256", FP8, fp8_steps.ONE_SUM.settings, FP8_SHAPES),
        ),
        (Step("row scales, two sets", FP8, fp8_steps.ROWS, FP8_SHAPES),),
        (
            Step("block scales, two sets", FP8, BLOCKS, FP8_SHAPES),
            Step("block scales, one set", FP8, BLOCKS, FP8_SHAPES, changes=ONE_SET),
        ),
    ),
    "registers": (
        _register_race("17", WARP_SPECIALIZED, {}),
        _register_race("18", PERSISTENT, {}),
        _register_race("19", FP8, {}),
    ),
    "overlap": (
        _overlapping("17", WARP_SPECIALIZED, {}, LARGE),
        _overlapping("18", PERSISTENT, {}, LARGE),
        _overlapping("19", FP8, {}, LARGE),
        _overlapping("17", WARP_SPECIALIZED, {"BM": 64, "BN": 64, "STAGES": 8, "SPLIT": 2},
                     FEW_ROWS),
        _overlapping("18", PERSISTENT, {"BM": 64, "BN": 64, "STAGES": 8, **ALONE}, FEW_ROWS),
        _overlapping("19", FP8, {"BM": 64, "BN": 64, "STAGES": 8}, FEW_ROWS),
        _overlapping("17", WARP_SPECIALIZED, {"BM": 128, "BN": 64, "STAGES": 8}, MANY_ROWS),
        _overlapping("18", PERSISTENT,
                     {"BM": 128, "BN": 64, "STAGES": 8, "CLUSTER": 4, "SHARE_A": 1}, MANY_ROWS),
        _overlapping("19", FP8, {"BM": 64, "BN": 128, "STAGES": 8}, MANY_ROWS),
    ),
}  # fmt: skip

COLUMNS = {
    **TEXT("question", "race", "variant", "kernel"), **NOTE("settings"), **TEXT("load", "launches"),
    **SIZE("m", "n", "k"),
    **POSITIVE(
        "us", "us_q1", "us_q3", "tflops", "clock_mhz", "cycles", "cycles_q1", "cycles_q3",
        "pct_cublas", "pct_cublas_q1", "pct_cublas_q3", "pct_first", "pct_first_q1",
        "pct_first_q3",
    ),
    **COUNTED("registers", "spilled_bytes"), **REPORTED("sum_error"), **NOTE("sha256"),
    **TEXT("code", "gpu", "driver", "cuda", "nvrtc", "cublas"), **DATE("recorded"),
}  # fmt: skip


def error_of(step: Step) -> float:
    """How wrong the sums of a step of 19 are: see fp8.errors.errors_of, at K=ERROR_DEPTH."""
    case = errors.Case("even", 0, step.full["SCALES"], step.full["PROMOTE"], ERROR_DEPTH)
    return errors.errors(case, replace(step, settings=step.settings | {"OUT32": 1}).kernel())[0]


# ---- measuring -----------------------------------------------------------------------------------


def record(question: str, say: Say) -> Path:
    """Run the races of a question on the GPU here; returns the file.

    Raises NoGpu, CublasError, VerificationError, TimingError.
    """
    import pandas

    here, versions = require_gpu("Measuring ablations"), software_versions()
    rows: list[dict[str, Any]] = []
    for race in QUESTIONS[question]:
        kernels = [step.kernel() for step in race]
        facts = [_facts(question, *both) for both in zip(race, kernels, strict=True)]
        for shape in race[0].shapes:
            about = {
                "question": question, "race": race[0].what,
                **dict(zip("mnk", shape, strict=True)), "gpu": here.name,
                **{name: versions[name] for name in ("driver", "cuda", "nvrtc", "cublas")},
                "recorded": now(),
            }  # fmt: skip
            rows += [about | row for row in _raced(kernels, facts, shape)]
            for row in rows[-len(race) :]:
                say(f"{NAME}/{question}: {row['variant']} at {shape}: {row['us']:.2f} µs, "
                    f"{row['pct_cublas']:.1f} % of cuBLAS")  # fmt: skip
            TABLES[question].write(pandas.DataFrame(rows), here.slug, whole=False)
    return TABLES[question].write(pandas.DataFrame(rows), here.slug)


def _facts(question: str, step: Step, kernel: Kernel) -> dict[str, Any]:
    """What is known of a step without timing it."""
    require_verified(kernel)
    entry = step.rung.entry(step.full)
    taken = resources_of(kernel.text, step.rung.path.name, kernel.arch, step.full)[entry]
    return {
        "variant": step.what, "kernel": step.rung.name, "settings": ladder.written(step.full),
        "launches": "overlap" if step.full.get("EARLY_LAUNCH") else "one after the other",
        "registers": taken.registers,
        "spilled_bytes": taken.spill_store_bytes + taken.spill_load_bytes,
        "sum_error": error_of(step) if question == "accumulators" else None,
        "sha256": fp8_steps.bits_of(kernel),
    }  # fmt: skip


def _raced(
    kernels: list[Kernel], facts: list[dict[str, Any]], shape: Shape
) -> Iterator[dict[str, Any]]:
    """Rows of the libraries and of all kernels, rested and without pause."""
    with arena_of(kernels[0], *shape) as arena, CublasLt(arena.stream) as library:
        ours = [arena.side(kernel) for kernel in kernels]
        libraries = _libraries(arena, library, shape)
        sides = [*libraries.values(), *ours]
        rested = in_rounds(sides, ROUNDS, REST_S)
        loaded = [taken[SETTLING:] for taken in in_rounds(sides, SETTLING + LOADED_ROUNDS)]
    about = [*map(_of_library, libraries), *facts]
    for load, samples in ((RESTED, rested), (LOADED, loaded)):
        cublas, first = samples[0], samples[len(libraries)]
        for fact, taken in zip(about, samples, strict=True):
            yield {
                **fact, "load": load, "tflops": gflops(*shape, _median(taken, "ms")) / 1e3,
                "clock_mhz": _median(taken, "clock_mhz"),
                **_spread("us", [1e3 * one.ms for one in taken]),
                **_spread("cycles", [one.cycles for one in taken]),
                **_spread("pct_cublas", _shares(cublas, taken)),
                **_spread("pct_first", _shares(first, taken)),
            }  # fmt: skip


def _libraries(arena: Arena, library: CublasLt, shape: Shape) -> dict[str, Side]:
    """Of 16 bits cuBLAS and cuBLASLt, of 8 cuBLASLt alone."""
    name = arena.precision.name
    if name not in SIXTEEN_BITS:
        return {FASTEST_PROPOSAL: arena.cublas_side()}
    product = SixteenBitProduct(library, *shape, name)
    check_sample(product, arena.problem)
    given = make_sets(arena.problem, arena.sets, arena.precision)
    inputs = [(Operands(arena.problem, arena.precision, *one), 1.0, 0.0) for one in given]
    fastest = Side(product.launch, inputs, arena.stream)
    fastest.plan()
    return {FIRST_CHOICE: arena.cublas_side(), FASTEST_PROPOSAL: fastest}


def _of_library(variant: str) -> dict[str, Any]:
    return {
        "variant": variant, "kernel": "cublas", "settings": "", "launches": "one after the other",
        "registers": None, "spilled_bytes": None, "sum_error": None, "sha256": "",
    }  # fmt: skip


def _median(taken: list[Sample], name: str) -> float:
    return float(np.median([getattr(one, name) for one in taken]))


def _shares(than: list[Sample], taken: list[Sample]) -> list[float]:
    """Round by round, how fast in percent of another."""
    return [100 * a.ms / b.ms for a, b in zip(than, taken, strict=True)]


def _spread(name: str, values: list[float]) -> dict[str, float]:
    found = Spread.of(values, min)
    return {name: found.median, f"{name}_q1": found.q1, f"{name}_q3": found.q3}


# ---- what is kept --------------------------------------------------------------------------------


def _fingerprint_of(row: Any, on: Target) -> Fingerprint | None:
    if row.variant in (FIRST_CHOICE, FASTEST_PROPOSAL):
        return Fingerprint({}, {}, LIBRARY)
    for step in (step for race in QUESTIONS[row.question] for step in race):
        if step.what == row.variant and ladder.written(step.full) == row.settings:
            return step.fingerprint([Problem(int(row.m), int(row.n), int(row.k))], on)
    return None  # of a former step


TABLES = {
    question: Table(
        name=f"{NAME}/{question}", file="hopper_ablations.csv", remake=partial(record, question),
        key=("question", "race", "variant", "settings", "load", "m", "n", "k"), columns=COLUMNS,
        fingerprint_of=_fingerprint_of, part=("question", question),
    )
    for question in QUESTIONS
}  # fmt: skip


def rows(question: str) -> pandas.DataFrame:
    """What was recorded of a question, with the columns of COLUMNS.

    race: its first variant, of which pct_first is. launches: whether those of a kernel overlap, or
    each begins when the one before has ended. pct_cublas: of cuBLAS's first choice, of 8 bits of
    the fastest of cuBLASLt's proposals; both are medians over rounds. cycles: of an SM, by the
    clock that it counted. Raises what registry.Table.read raises.
    """
    return TABLES[question].read()
