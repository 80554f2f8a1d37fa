"""Rung 19 with its kinds of scales, against cuBLASLt, and rung 18 in BF16 at the same shapes.

    python -m gemmlab record 19_steps

verifies each, times it in turn with cuBLASLt of the same types (rung 18: with cuBLAS), and keeps
the bits of a small product; results/<gpu>/fp8_steps.csv holds it (see gemmlab.records.registry).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Rung, Settings, Target
from gemmlab.lessons.fp8.rung import RUNG as FP8
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.measure.timing import arena_of, gflops, now, require_verified
from gemmlab.records.registry import DATE, POSITIVE, REPORTED, SIZE, TEXT, Say, Table, of_row

if TYPE_CHECKING:
    import pandas

NAME = "19_steps"
PAIRS = 16  # of samples, in turn with cuBLASLt
Shape = tuple[int, int, int]
LARGE, HUGE, SHALLOW = (4096, 4096, 4096), (8192, 8192, 8192), (4096, 7168, 2048)
THIN = tuple((m, n, k) for m in (64, 128) for n, k in ((7168, 2048), (4096, 7168)))
BITS_SHAPE = (200, 328, 528)  # of the product whose bits are kept; its tiles have edges
BITS_SEED = 19


@dataclass(frozen=True)
class Step:
    """A kernel with its settings, and the shapes (M, N, K) at which it is measured."""

    what: str
    settings: Settings
    shapes: tuple[Shape, ...]
    rung: Rung = FP8

    @property
    def full(self) -> Settings:
        return ladder.settings_for(self.rung, self.settings)

    def kernel(self) -> Kernel:
        return Kernel(self.rung, self.full, None, self.rung.path)


SQUARES = LARGE, HUGE
BLOCKS, ROWS, PAIR = {"SCALES": 2}, {"SCALES": 1}, {"CLUSTER": 2}
NARROW = {"BM": 64, "BN": 64, "STAGES": 8}
BF16 = {"DTYPE": 1, "OP_B": 1}
TENSORS = Step("scales of tensors", {}, (*SQUARES, SHALLOW))
BY_ROWS = Step("scales of rows", ROWS, (*SQUARES, SHALLOW))
BY_BLOCKS = Step("scales of blocks", BLOCKS, (*SQUARES, SHALLOW))
THIN_BLOCKS = (
    Step("scales of blocks, 64×64", {**BLOCKS, **NARROW}, THIN),
    Step("scales of blocks, 64×128", {**BLOCKS, **NARROW, "BN": 128}, THIN[2:]),
)
THIN_TENSORS = (
    Step("scales of tensors, 64×64", NARROW, THIN),
    Step("scales of tensors, 64×128", {**NARROW, "BN": 128}, THIN[2:]),
)
BESIDE = (
    Step("18 in BF16", BF16, (*SQUARES, SHALLOW), PERSISTENT),
    Step("18 in BF16, 64×64", {**BF16, "BM": 64, "BN": 64, "STAGES": 6, "CLUSTER": 1}, THIN,
         PERSISTENT),
    Step("18 in BF16, 64×128", {**BF16, "BM": 64, "BN": 128, "STAGES": 6, "CLUSTER": 1}, THIN,
         PERSISTENT),
)  # fmt: skip
ONE_SUM = Step("one sum, 128×256", {"PROMOTE": 0, "BN": 256, "STAGES": 4, **PAIR}, SQUARES)
BLOCKS_IN_PAIRS = Step("scales of blocks, clusters of two", {**BLOCKS, **PAIR}, (*SQUARES, SHALLOW))
OTHERS = (
    ONE_SUM,
    Step("clusters of two", PAIR, SQUARES),
    Step("groups of 8", {"GROUP": 8}, SQUARES),
    Step("groups of 32", {"GROUP": 32}, SQUARES),
    BLOCKS_IN_PAIRS,
    Step("A in E5M2", {"DTYPE": 1}, SQUARES[:1]),
    Step("C in FP32", {"OUT32": 1}, SQUARES[:1]),
)
EVERY = (TENSORS, BY_ROWS, BY_BLOCKS, *THIN_TENSORS, *THIN_BLOCKS, *BESIDE, *OTHERS)
COLUMNS = {
    **TEXT("step", "kernel", "settings"), **SIZE("m", "n", "k"),
    **POSITIVE("us", "tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3", "cublas_tflops"),
    **TEXT("cublas_scales"), **REPORTED("sm_clock_mhz", "power_w"), **TEXT("sha256", "code"),
    **TEXT("gpu", "driver", "cuda", "nvrtc", "cublas"), **DATE("recorded"),
}  # fmt: skip


def bits_of(kernel: Kernel) -> str:
    """The SHA-256 of C, as it is stored, of a small product of a seed."""
    given = kernel.operands(kernel.problem(*BITS_SHAPE), BITS_SEED)
    C = kernel(given.A, given.B, given.C, 0.5, 2.0, scales=given.scales)
    return hashlib.sha256(C.tobytes()).hexdigest()


def record(say: Say) -> Path:
    """Measure all of EVERY at their shapes; returns the file.

    Raises NoGpu, CublasError, VerificationError, TimingError.
    """
    import pandas

    here, versions = require_gpu("Measuring steps"), software_versions()
    rows = []
    for step in EVERY:
        kernel = step.kernel()
        require_verified(kernel)
        for shape in step.shapes:
            rows.append({
                "step": step.what, "kernel": step.rung.name, "settings": ladder.written(step.full),
                "m": shape[0], "n": shape[1], "k": shape[2], **_raced(kernel, shape),
                "sha256": bits_of(kernel), "gpu": here.name,
                **{name: versions[name] for name in ("driver", "cuda", "nvrtc", "cublas")},
                "recorded": now(),
            })  # fmt: skip
            say(f"{NAME}: {step.what} at {shape}: {rows[-1]['pct_cublas']:.1f} % of cuBLASLt")
            EVIDENCE.write(pandas.DataFrame(rows), here.slug, whole=False)
    return EVIDENCE.write(pandas.DataFrame(rows), here.slug)


def _raced(kernel: Kernel, shape: Shape) -> dict[str, float | int | str | None]:
    with arena_of(kernel, *shape) as arena:
        race = arena.race(kernel, arena.side(kernel), PAIRS)
        scales = arena.their_precision.scales
    ratio, state = race.ratio, race.state
    return {
        "us": 1e3 * race.time_ms.median, "tflops": gflops(*shape, race.time_ms.median) / 1e3,
        "pct_cublas": 100 * ratio.median, "pct_cublas_q1": 100 * ratio.q1,
        "pct_cublas_q3": 100 * ratio.q3,
        "cublas_tflops": gflops(*shape, race.time_ms.median * ratio.median) / 1e3,
        "cublas_scales": "none" if scales is None else scales.name,
        "sm_clock_mhz": state.sm_clock_mhz, "power_w": state.power_w,
    }  # fmt: skip


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    (rung,) = (rung for rung in (FP8, PERSISTENT) if rung.name == row.kernel)
    return of_row(rung, row, on)


EVIDENCE = Table(
    name=NAME, file="fp8_steps.csv", remake=record,
    key=("step", "kernel", "settings", "m", "n", "k"), columns=COLUMNS,
    fingerprint_of=_fingerprint_of,
)  # fmt: skip


def steps(*chosen: Step) -> pandas.DataFrame:
    """What was recorded of these, or of all: a row for each step and shape, in their order.

    Columns: step, M×N×K, µs, TFLOP/s, % of cuBLASLt, that of cuBLASLt and its scales, SM clock in
    MHz, power in W. Raises what registry.Table.read raises.
    """
    table = EVIDENCE.read().set_index("step")
    found = table.loc[[step.what for step in chosen or EVERY]].reset_index()
    found["M×N×K"] = [f"{row.m}×{row.n}×{row.k}" for row in found.itertuples()]
    return found.rename(
        columns={
            "us": "µs", "tflops": "TFLOP/s", "pct_cublas": "% of cuBLASLt",
            "cublas_tflops": "cuBLASLt", "cublas_scales": "its scales",
            "sm_clock_mhz": "SM clock, MHz", "power_w": "power, W",
        }
    )[[
        "step", "M×N×K", "µs", "TFLOP/s", "% of cuBLASLt", "cuBLASLt", "its scales",
        "SM clock, MHz", "power, W",
    ]]  # fmt: skip
