"""What is measured for this lesson: 19 with its kinds of scales, quantizers, two accumulators.

    python -m gemmlab record 19_steps
    python -m gemmlab record 19_quantizing
    python -m gemmlab record hopper_ablations

The first also times rung 18 in BF16, and keeps the bits of a small product;
results/<gpu>/fp8_steps.csv. The second times the quantizers and keeps their bits;
results/<gpu>/quantizing.csv. The third: see warp_specialized.comparisons. `errors` measures how
wrong products are, `types` how fast kernels of other types are.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas

from gemmlab.cuda.device import require_gpu
from gemmlab.kernel.fingerprint import Fingerprint, fingerprint
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import random_values
from gemmlab.ladder import Settings, Target, written
from gemmlab.ladder.precision import BFLOAT16, E4M3, OF_BLOCKS, OF_ROWS, OF_TENSORS
from gemmlab.lessons.fp8 import errors, types
from gemmlab.lessons.fp8.quantize import PATH, Quantizer
from gemmlab.lessons.fp8.rung import RUNG
from gemmlab.lessons.persistent import measure as persistent
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.warp_specialized import comparisons
from gemmlab.lessons.warp_specialized import measure as warp_specialized
from gemmlab.lessons.warp_specialized.comparisons import bits_of
from gemmlab.lessons.warp_specialized.measure import FEW_ROWS, MANY_ROWS, NARROW, overlap_of
from gemmlab.lessons.warp_specialized.rung import RUNG as WARP_SPECIALIZED
from gemmlab.measure.in_turn import Side, input_sets
from gemmlab.measure.timing import Spread, arena_of
from gemmlab.records import registry
from gemmlab.records.ablations import AblationStep, Shape, ablation, against_cublas, steps_beside
from gemmlab.records.registry import POSITIVE, SIZE, TEXT, Row, Say, Table
from gemmlab.records.runs import LARGE, spread

PAIRS = 16  # of samples, in turn with cuBLASLt
TENSORS, BY_ROWS, BY_BLOCKS = steps_beside(__file__, "kinds")
THIN_TENSORS, THIN_BLOCKS, BESIDE, OTHERS = (
    steps_beside(__file__, group) for group in ("thin tensors", "thin blocks", "beside", "others")
)
STEPS = (TENSORS, BY_ROWS, BY_BLOCKS, *THIN_TENSORS, *THIN_BLOCKS, *BESIDE, *OTHERS)


def _rows(step: AblationStep, kernel: Kernel, shape: Shape) -> Iterator[Row]:
    with arena_of(kernel, *shape) as arena:
        scales = arena.their_precision.scales
    yield against_cublas(kernel, shape, PAIRS) | {
        "cublas_scales": "none" if scales is None else scales.name, "sha256": bits_of(kernel),
    }  # fmt: skip


BY_STEPS = ablation(
    "19_steps", "fp8_steps.csv", STEPS,
    {
        **TEXT("step", "kernel", "settings"), **SIZE("m", "n", "k"),
        **POSITIVE("us", "tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
        **POSITIVE("cublas_tflops"), **TEXT("cublas_scales"),
        **registry.REPORTED("sm_clock_mhz", "power_w"),
        **TEXT("sha256"), **registry.WITH_CUBLAS,
    },
    ("step", "kernel", "settings", "m", "n", "k"), _rows,
)  # fmt: skip


def steps(*chosen: AblationStep) -> pandas.DataFrame:
    """What was recorded of these: a row for each step and shape, in their order."""
    labels = {
        "step": "step", "M×N×K": "M×N×K", "us": "µs", "tflops": "TFLOP/s",
        "pct_cublas": "% of cuBLASLt", "cublas_tflops": "cuBLASLt", "cublas_scales": "its scales",
        "sm_clock_mhz": "SM clock, MHz", "power_w": "power, W",
    }  # fmt: skip
    return BY_STEPS.rows_of(chosen)[[*labels]].rename(columns=labels)


# ---- quantizers ----------------------------------------------------------------------------------

MATRICES = ((4096, 4096), (8192, 8192), (7168, 2048))  # rows and columns
BITS_SHAPE, BITS_SEED = (136, 264), 19
SAMPLES = 9
QUANTIZERS = tuple(
    Quantizer(scales, which, transpose, BFLOAT16, E4M3)
    for scales in (OF_TENSORS, OF_ROWS, OF_BLOCKS)
    for which in ("AB" if scales is OF_BLOCKS else "A")
    for transpose in (False, True)
)


def bits_of_quantized(quantizer: Quantizer) -> str:
    """The SHA-256 of a small matrix of a seed, quantized, and of its scales."""
    values = random_values(BITS_SHAPE[0] * BITS_SHAPE[1], BITS_SEED).reshape(BITS_SHAPE)
    Q, scales = quantizer(BFLOAT16.encode(values, BFLOAT16.storage))
    return hashlib.sha256(Q.tobytes() + scales.tobytes()).hexdigest()


def _measure_quantizers(say: Say) -> Iterator[Row]:
    """All of QUANTIZERS on matrices that rotate past the L2."""
    import cupy

    l2_bytes = require_gpu("Timing quantizers").l2_bytes
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for quantizer in QUANTIZERS:
            for shape in MATRICES:
                moved = 3 * shape[0] * shape[1]  # 16 bits in, 8 bits out
                us = Spread.of(_times_us(quantizer, shape, moved, l2_bytes, stream), min)
                say(f"19_quantizing: {written(quantizer.macros)}: {us.median:.1f} µs at {shape}")
                yield {
                    "scales": quantizer.scales.name, "which": quantizer.which,
                    "transposed": "yes" if quantizer.transpose else "no",
                    "settings": written(quantizer.macros), "rows": shape[0], "cols": shape[1],
                    **spread("us", us), "tbytes_per_s": moved / us.median / 1e6,
                    "sha256": bits_of_quantized(quantizer),
                }  # fmt: skip


def _times_us(quantizer: Quantizer, shape, moved: int, l2_bytes: int, stream) -> list[float]:
    """Microseconds of each sample, in launches captured into a graph."""
    import cupy

    random, sets = cupy.random.RandomState(2024), []
    of_q, of_scales = quantizer.shapes(*shape)
    for _ in range(input_sets(moved, l2_bytes)):
        values = random.uniform(-1, 1, shape, dtype=cupy.float32)
        X = BFLOAT16.encode(values, BFLOAT16.storage)
        Q, scales = cupy.empty(of_q, np.uint8), cupy.ones(of_scales, np.float32)
        arguments = quantizer.values(X, Q, scales, cupy)
        sets.append((quantizer.loaded().prepared(quantizer.launches(*shape), arguments),))
    side = Side(lambda launch: launch(), sets, stream)
    side.plan()
    return [1e3 * side.elapsed_ms() / side.launches for _ in range(SAMPLES)]


def _fingerprint_of_quantizer(row: Any, on: Target) -> Fingerprint:
    (quantizer,) = (each for each in QUANTIZERS if written(each.macros) == row.settings)
    launches = quantizer.launches(int(row.rows), int(row.cols))
    return fingerprint(PATH, quantizer.macros, launches)


QUANTIZING = Table(
    name="19_quantizing", file="quantizing.csv", key=("settings", "rows", "cols"),
    columns={
        **TEXT("scales", "which", "transposed", "settings"), **SIZE("rows", "cols"),
        **POSITIVE("us", "us_q1", "us_q3", "tbytes_per_s"), **TEXT("sha256"),
        **registry.provenance(),
    },
    measure=_measure_quantizers, fingerprint_of=_fingerprint_of_quantizer,
)  # fmt: skip

# ---- questions -----------------------------------------------------------------------------------

ONE_SET = (  # 19 waits for a sum before it starts the next
    (
        "int interval = 0;\n            start(partial[0], partial_scales[0], 0);",
        "for (int interval = 0; interval < intervals; ++interval) {\n"
        "                start(partial[0], partial_scales[0], interval);\n"
        "                wgmma_wait<0>();\n"
        "                finish(partial[0], partial_scales[0], interval);\n"
        "            }\n"
        "#if 0",
    ),
    ("finish(partial[0], partial_scales[0], interval);\n            }\n#else", "#endif\n#else"),
)
ERROR_DEPTH = 4096  # K of the products whose sums are compared with float64


def _variant(title: str, settings: Settings, one_set: bool = False) -> AblationStep:
    changes = ONE_SET if one_set else ()
    return AblationStep(
        title=title, rung=RUNG, settings=settings, shapes=TENSORS.shapes, changes=changes
    )


ACCUMULATORS = (
    (
        _variant("two sets", {}),
        _variant("one set", {}, one_set=True),
        _variant("two sets, promoted every 256", {"PROMOTE": 256}),
        _variant("never promoted", {"PROMOTE": 0}),
        _variant("never promoted, 128×256", OTHERS[0].settings),
    ),
    (_variant("row scales, two sets", BY_ROWS.settings),),
    (
        _variant("block scales, two sets", BY_BLOCKS.settings),
        _variant("block scales, one set", BY_BLOCKS.settings, one_set=True),
    ),
)
OVERLAP = {
    LARGE: overlap_of(RUNG, LARGE, {}),
    FEW_ROWS: overlap_of(RUNG, FEW_ROWS, NARROW),
    MANY_ROWS: overlap_of(RUNG, MANY_ROWS, NARROW | {"BN": 128}),
}

HOPPER = WARP_SPECIALIZED, PERSISTENT, RUNG
OVERLAPS = warp_specialized.OVERLAP, persistent.OVERLAP, OVERLAP


def error_of(step: AblationStep) -> float:
    """How wrong the sums of a step of 19 are: see errors.errors_of, at K=ERROR_DEPTH."""
    settings = step.all_settings
    case = errors.Case("even", 0, settings["SCALES"], settings["PROMOTE"], ERROR_DEPTH)
    return errors.errors(case, replace(step, settings=step.settings | {"OUT32": 1}).kernel())[0]


EVIDENCE = (
    comparisons.asked("accumulators", ACCUMULATORS, lambda step: {"sum_error": error_of(step)}),
    comparisons.asked("registers", [warp_specialized.registers_of(rung) for rung in HOPPER]),
    comparisons.asked("overlap", [overlap[shape] for shape in OVERLAP for overlap in OVERLAPS]),
    BY_STEPS, errors.ERRORS, QUANTIZING, *types.EVIDENCE,
)  # fmt: skip
