"""Ablations in rounds: variants of a kernel and cuBLAS in turn, rested and without a pause.

    python -m gemmlab record hopper_ablations/roles

A question has several comparisons. All variants of one, cuBLAS, and the fastest of cuBLASLt's
proposals run in turn, after a rest before each round and then without pause, and the SMs count
their clock meanwhile; results/<gpu>/hopper_ablations.csv has the rows of all questions.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas

from gemmlab.cuda.cublaslt import SIXTEEN_BITS, CublasLt, UnscaledProduct
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.kernel.verify import check_sample
from gemmlab.ladder import Problem, Target
from gemmlab.lessons import modules
from gemmlab.measure.in_turn import Side, make_sets
from gemmlab.measure.power import Sample, in_rounds
from gemmlab.measure.timing import Arena, Spread, arena_of, require_verified
from gemmlab.records import ablations, registry
from gemmlab.records.ablations import Ablation, AblationStep, Shape
from gemmlab.records.registry import CUBLAS, LIBRARY, POSITIVE, TEXT, Row, Say
from gemmlab.records.runs import spread, taken

NAME = "hopper_ablations"
Comparison = tuple[AblationStep, ...]  # the others with the first, at its shapes
RESTED, LOADED = "rested", "without pause"
REST_S, ROUNDS = 0.3, 16
SETTLING, LOADED_ROUNDS = 24, 32  # rounds without pause, of which the first do not count
FIRST_CHOICE, FASTEST_PROPOSAL = "cuBLAS, its first choice", "cuBLASLt, the fastest proposal"
LIBRARIES = FIRST_CHOICE, FASTEST_PROPOSAL
BITS_SHAPE, BITS_SEED = (200, 328, 528), 19  # of the product whose bits are kept, tiles with edges
COLUMNS = {
    **TEXT("question", "race", "variant", "kernel"), **registry.NOTE("settings"),
    **TEXT("load", "launches"), **registry.SIZE("m", "n", "k"),
    **POSITIVE(
        "us", "us_q1", "us_q3", "tflops", "clock_mhz", "cycles", "cycles_q1", "cycles_q3",
        "pct_cublas", "pct_cublas_q1", "pct_cublas_q3", "pct_first", "pct_first_q1",
        "pct_first_q3",
    ),
    **registry.COUNTED("registers", "spilled_bytes"), **registry.REPORTED("sum_error"),
    **registry.NOTE("sha256"), **registry.WITH_CUBLAS,
}  # fmt: skip

bits_of = partial(ablations.bits_of, shape=BITS_SHAPE, seed=BITS_SEED)


def asked(
    question: str,
    comparisons: Sequence[Comparison],
    facts: Callable[[AblationStep], Row] = lambda step: {},
) -> Ablation:
    """The evidence of a question. facts: further cells of a step, known without timing it."""
    steps = tuple(chain.from_iterable(comparisons))
    return Ablation(
        name=f"{NAME}/{question}", file="hopper_ablations.csv", steps=steps, columns=COLUMNS,
        key=("question", "race", "variant", "settings", "load", "m", "n", "k"),
        measure=partial(_measured, question, comparisons, facts),
        fingerprint_of=partial(_fingerprint_of, steps), part=("question", question),
    )  # fmt: skip


def question(name: str) -> Ablation:
    """The evidence of a question. Raises KeyError for one that no lesson asks.

    race: its first variant, of which pct_first is. launches: whether those of a kernel overlap, or
    each begins when the one before has ended. pct_cublas: of cuBLAS's first choice, of 8 bits of
    the fastest of cuBLASLt's proposals; medians over rounds. cycles: of an SM, as it counted.
    """
    every = (table for lesson in modules("measure") for table in lesson.EVIDENCE)
    return {table.name: table for table in every}[f"{NAME}/{name}"]


def _measured(
    question: str, comparisons: Sequence[Comparison], facts: Callable, say: Say
) -> Iterator[Row]:
    """Raises CublasError, VerificationError, TimingError."""
    for comparison in comparisons:
        kernels = [step.kernel() for step in comparison]
        variants = [
            step.cells | _known(step, kernel) | facts(step)
            for step, kernel in zip(comparison, kernels, strict=True)
        ]
        for shape in comparison[0].shapes:
            about = {
                "question": question, "race": comparison[0].title,
                **dict(zip("mnk", shape, strict=True)),
            }  # fmt: skip
            for row in _in_rounds(kernels, variants, shape):
                say(f"{NAME}/{question}: {row['variant']} at {shape}, {row['load']}: "
                    f"{row['us']:.2f} µs, {row['pct_cublas']:.1f} % of cuBLAS")  # fmt: skip
                yield about | row


def _known(step: AblationStep, kernel: Kernel) -> Row:
    """What is known of a step without timing it."""
    require_verified(kernel)
    early = step.all_settings.get("EARLY_LAUNCH")
    return taken(kernel) | {
        "launches": "overlap" if early else "one after the other", "sha256": bits_of(kernel),
    }  # fmt: skip


def _in_rounds(kernels: list[Kernel], variants: list[Row], shape: Shape) -> Iterator[Row]:
    """Rows of the libraries and of all kernels, rested and without pause."""
    with arena_of(kernels[0], *shape) as arena, CublasLt(arena.stream) as library:
        ours = [arena.side(kernel) for kernel in kernels]
        libraries = _libraries(arena, library, shape)
        sides = [*libraries.values(), *ours]
        rested = in_rounds(sides, ROUNDS, REST_S)
        loaded = [times[SETTLING:] for times in in_rounds(sides, SETTLING + LOADED_ROUNDS)]
    of_library = {"kernel": CUBLAS, "settings": "", "launches": "one after the other"}
    every = [*({"variant": name} | of_library for name in libraries), *variants]
    for load, samples in ((RESTED, rested), (LOADED, loaded)):
        cublas, first = samples[0], samples[len(libraries)]
        for variant, times in zip(every, samples, strict=True):
            us = _spread("us", [1e3 * sample.ms for sample in times])
            yield {
                **variant, "load": load, "tflops": Problem(*shape).flop / us["us"] / 1e6,
                "clock_mhz": float(np.median([sample.clock_mhz for sample in times])), **us,
                **_spread("cycles", [sample.cycles for sample in times]),
                **_spread("pct_cublas", _shares(cublas, times)),
                **_spread("pct_first", _shares(first, times)),
            }  # fmt: skip


def _libraries(arena: Arena, library: CublasLt, shape: Shape) -> dict[str, Side]:
    """Of 16 bits cuBLAS and cuBLASLt, of 8 cuBLASLt alone."""
    name = arena.precision.name
    if name not in SIXTEEN_BITS:
        return {FASTEST_PROPOSAL: arena.cublas_side()}
    product = UnscaledProduct(library, *shape, name)
    check_sample(product, arena.problem)
    given = make_sets(arena.problem, arena.sets, arena.precision)
    inputs = [(Operands(arena.problem, arena.precision, *matrices), 1.0, 0.0) for matrices in given]
    fastest = Side(product.launch, inputs, arena.stream)
    fastest.plan()
    return {FIRST_CHOICE: arena.cublas_side(), FASTEST_PROPOSAL: fastest}


def _shares(than: list[Sample], times: list[Sample]) -> list[float]:
    """Round by round, how fast in percent of another."""
    return [100 * a.ms / b.ms for a, b in zip(than, times, strict=True)]


def _spread(column: str, values: list[float]) -> Row:
    return spread(column, Spread.of(values, min))


def _fingerprint_of(steps: tuple[AblationStep, ...], row: Any, on: Target) -> Fingerprint | None:
    if row.variant in LIBRARIES:
        return Fingerprint({}, {}, LIBRARY)
    return ablations.of_step(steps, row, on)


# ---- as recorded ---------------------------------------------------------------------------------

RACE = ["race", "m", "n", "k"]  # at a load: what was timed in turn
NAMES = {
    "variant": "variant", "tflops": "TFLOP/s", "us": "µs", "pct_first": "% of the first",
    "pct_first_q1": "from", "pct_first_q3": "to", "cycles": "cycles", "clock_mhz": "SM clock, MHz",
    FIRST_CHOICE: "% of cuBLAS", FASTEST_PROPOSAL: "% of cuBLASLt", "launches": "launches",
    "registers": "registers", "spilled_bytes": "spilled bytes", "sum_error": "error of the sums",
}  # fmt: skip
ALL_THREADS, ROLES = "barrier of all threads", "producer and consumers"
STORED, SENT = "C stored by threads", "C stored by TMA"
GRID = {  # a variant of the question of roles: what it has of 17's two changes
    "16": (ALL_THREADS, STORED), "16, C sent by tensor map": (ALL_THREADS, SENT),
    "17, C stored by its threads": (ROLES, STORED), "17": (ROLES, SENT),
}  # fmt: skip


def changes(name: str, load: str = RESTED) -> pandas.DataFrame:
    """The variants of a question, a row for each and shape, by M×N×K; `load`: RESTED or LOADED.

    The first is the first variant of the same race; from and to are the quartiles of that share.
    cycles: of an SM, for one launch, by the clock that it counted. % of cuBLAS: of its first
    choice, NaN of 8 bits; % of cuBLASLt: of its fastest proposal. Raises NoRecord, StaleRecord.
    """
    table = question(name).read()
    table = table[table["load"] == load]
    libraries = table[table["code"] == LIBRARY].pivot(index=RACE, columns="variant", values="us")
    libraries = libraries.reindex(columns=[FIRST_CHOICE, FASTEST_PROPOSAL])
    table = table[table["code"] != LIBRARY].join(libraries, on=RACE)
    of_16_bits = table[FIRST_CHOICE].notna()  # pct_cublas is of the first choice, if there is one
    table[FIRST_CHOICE] = table["pct_cublas"].where(of_16_bits)
    by_medians = 100 * table[FASTEST_PROPOSAL] / table["us"]
    table[FASTEST_PROPOSAL] = by_medians.where(of_16_bits, table["pct_cublas"])
    table["M×N×K"] = [str(Problem(row.m, row.n, row.k)) for row in table.itertuples()]
    table = table.astype({"registers": int, "spilled_bytes": int}).set_index("M×N×K")
    return table.rename(columns=NAMES)[[*NAMES.values()]]


def roles() -> pandas.DataFrame:
    """Cycles of an SM without and with 17's two changes, by shape and loop; STORED and SENT."""
    table = changes("roles", LOADED).reset_index()
    table[["loop", "C"]] = [GRID[variant] for variant in table["variant"]]
    return table.pivot(index=["M×N×K", "loop"], columns="C", values="cycles")[[STORED, SENT]]
