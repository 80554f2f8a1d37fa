"""INT8, TF32 and FP8 with scales of blocks, in the ways of 18 and 19, beside NVIDIA's libraries.

    python -m gemmlab record hopper_types/int8 hopper_types/tf32 hopper_types/fp8

results/<gpu>/hopper_types.csv. cuBLASLt multiplies 8 bits, by the fastest of its proposals. TF32 is
timed beside the first choice of cuBLAS, and once more beside the fastest proposal of cuBLASLt.
"""

from collections.abc import Iterator

import pandas

from gemmlab.cuda.cublaslt import CublasLt, NoAlgorithm, Product
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import read_settings
from gemmlab.ladder.precision import TF32
from gemmlab.ladder.shapes import tile
from gemmlab.measure.in_turn import make_sets
from gemmlab.measure.timing import arena_of
from gemmlab.records import registry
from gemmlab.records.ablations import AblationStep, Shape, ablation, against_cublas, steps_beside
from gemmlab.records.registry import POSITIVE, REPORTED, SIZE, TEXT, WHOLE, Row
from gemmlab.records.runs import result_digest

PAIRS = 16  # of samples, in turn with the library
BITS_SHAPE, BITS_SEED = (136, 144, 272), 24  # of a product whose bits are kept; factors 1 and 0
TYPES = ("int8", "tf32", "fp8")


def _rows(step: AblationStep, kernel: Kernel, shape: Shape) -> Iterator[Row]:
    kernel.trust()  # the project's own, whether or not it comes compiled
    with arena_of(kernel, *shape) as arena:
        scales = arena.their_precision.scales
    beside_proposals = _beside_proposals(kernel, shape) if kernel.precision is TF32 else None
    yield against_cublas(kernel, shape, PAIRS) | {
        "cublas_scales": "none" if scales is None else scales.name,
        "pct_proposal": beside_proposals,
        "sha256": result_digest(kernel, *BITS_SHAPE, 1.0, 0.0, BITS_SEED),
    }  # fmt: skip


def _beside_proposals(kernel: Kernel, shape: Shape) -> float | None:
    """The time of the fastest proposal of cuBLASLt over the kernel's, in percent; None where none
    runs."""
    with arena_of(kernel, *shape) as arena, CublasLt(arena.stream) as library:
        turned = arena.problem.ops[1] == "T"
        product = Product(library, shape, ("float32",) * 3, TF32.name, b_transposed=turned)
        (given,) = make_sets(arena.problem, 1, TF32)
        try:
            product.choose(*given)
        except NoAlgorithm:
            return None
        arena.cublas = product
        return 100 * arena.race(kernel, arena.side(kernel), PAIRS).ratio.median


EVIDENCE = tuple(
    ablation(
        f"hopper_types/{name}", "hopper_types.csv", steps_beside(__file__, name),
        {
            **TEXT("type", "step", "kernel", "settings"), **SIZE("m", "n", "k"),
            **POSITIVE("us", "tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
            **POSITIVE("cublas_tflops"), **TEXT("cublas_scales"), **REPORTED("pct_proposal"),
            **REPORTED("sm_clock_mhz", "power_w"), **SIZE("registers"), **WHOLE("spilled_bytes"),
            **TEXT("sha256"), **registry.WITH_CUBLAS,
        },
        ("type", "step", "kernel", "settings", "m", "n", "k"), _rows, ("type", name),
    )
    for name in TYPES
)  # fmt: skip


def fastest(name: str) -> pandas.DataFrame:
    """What was recorded of a type, one of TYPES: of each step the fastest settings at each shape.

    TFLOP/s of int8 are operations. % of cuBLASLt: for TF32 it is of the first choice of cuBLAS,
    and a column of its own is of the fastest that cuBLASLt proposes.
    """
    (table,) = (each for each in EVIDENCE if each.part == ("type", name))
    rows = table.rows_of(table.steps, complete=False).sort_values("pct_cublas", ascending=False)
    best = rows.drop_duplicates(["step", "M×N×K"]).sort_values(["m", "n", "k", "step"])
    tiles = [map(str, tile(read_settings(settings))) for settings in best["settings"]]
    labels = {
        "M×N×K": "M×N×K", "step": "kernel", "tile": "tile", "tflops": "TFLOP/s",
        "pct_cublas": "% of cuBLASLt", "pct_proposal": "% of its fastest proposal",
    }  # fmt: skip
    best = best.assign(tile=["×".join(sizes) for sizes in tiles])[[*labels]]
    return best.rename(columns=labels).dropna(axis="columns", how="all").reset_index(drop=True)
