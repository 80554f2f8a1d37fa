"""The steps from 14_wmma to 15_mma_sync, one change at a time, each against cuBLAS.

    python -m gemmlab record 15_steps

measures them; results/<gpu>/mma_steps.csv holds them (see gemmlab.records.registry).
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.ladder import Problem, Target
from gemmlab.measure.timing import compare, gflops, now
from gemmlab.records.ablations import Step, compile_step
from gemmlab.records.registry import DATE, POSITIVE, REPORTED, SIZE, TEXT, WHOLE, Say, Table, stale
from gemmlab.records.runs import LARGE

if TYPE_CHECKING:
    import pandas

NAME = "15_steps"
SHAPES = (LARGE, (8192, 8192, 8192))
COLUMNS = {
    **TEXT("file", "settings"), **SIZE("m", "n", "k"),
    **POSITIVE("tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3", "cublas_tflops"),
    **REPORTED("sm_clock_mhz", "power_w"), **SIZE("registers"), **WHOLE("spilled_bytes"),
    **TEXT("code", "gpu", "driver", "cuda", "nvrtc", "cublas"), **DATE("recorded"),
}  # fmt: skip


def _ours(title: str, predicted: str = "", taken: bool = True, **settings: int) -> Step:
    return Step(title, predicted, "15_mma_sync", settings, taken=taken)


FIRST = {"STAGES": 3, "GROUP": 1}
STEPS = (
    Step("14 as it is", "", "14_wmma"),
    _ours("swizzled tiles, C from registers", "no padding, no strips for C", **FIRST),
    _ours("blocks in groups of 8 rows", "tiles are shared in L2", STAGES=3),
    _ours("four stages: 15 as it is", "copies have longer to arrive"),
    _ours("rows of tiles as they are", "eight lanes meet in the same banks: much slower", False,
          SWIZZLE=0),
    _ours("operands of one step", "products wait for ldmatrix, or for another warp", False,
          SETS=1),
    _ours("32 along K in a stage", "twice as many barriers", False, BK=32),
    _ours("tiles of 128×128, two blocks on an SM",
          "each byte used less often; one block's barriers hidden by the other", False,
          BN=128, STAGES=3),
)  # fmt: skip


def record(say: Say) -> Path:
    """Measure every step; returns the file. Raises NoGpu, VerificationError, TimingError."""
    import pandas

    here, versions = require_gpu("Measuring steps"), software_versions()
    rows = []
    # NVRTC takes seconds for each, so other processes compile ahead.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        every = list(pool.map(compile_step, STEPS))
    for step, compiled in zip(STEPS, every, strict=True):
        kernel = step.kernel(compiled)
        taken = compiled.entries[kernel.rung.entry(kernel.settings)]
        for shape in SHAPES:
            found = compare(kernel, *shape)
            file, settings = step.row
            rows.append({
                "file": file, "settings": settings, "m": found.m, "n": found.n, "k": found.k,
                "tflops": found.gflops / 1e3, "pct_cublas": 100 * found.ratio.median,
                "pct_cublas_q1": 100 * found.ratio.q1, "pct_cublas_q3": 100 * found.ratio.q3,
                "cublas_tflops": gflops(*shape, found.cublas_ms.median) / 1e3,
                "sm_clock_mhz": found.sm_clock_mhz, "power_w": found.power_w,
                "registers": taken.registers,
                "spilled_bytes": taken.spill_store_bytes + taken.spill_load_bytes,
                "gpu": here.name,
                **{name: versions[name] for name in ("driver", "cuda", "nvrtc", "cublas")},
                "recorded": now(),
            })  # fmt: skip
            say(f"{NAME}: {step.title} at {shape}: {rows[-1]['tflops']:.0f} TFLOP/s")
            EVIDENCE.write(pandas.DataFrame(rows), here.slug, whole=False)
    return EVIDENCE.write(pandas.DataFrame(rows), here.slug)


def _fingerprint_of(row: Any, on: Target) -> Fingerprint | None:
    for step in STEPS:
        if step.row == (row.file, row.settings):
            return step.fingerprint([Problem(int(row.m), int(row.n), int(row.k))], on)
    return None  # of a former step


EVIDENCE = Table(
    name=NAME, file="mma_steps.csv", remake=record, key=("file", "settings", "m", "n", "k"),
    columns=COLUMNS, fingerprint_of=_fingerprint_of,
)  # fmt: skip


def steps(shape: tuple[int, int, int] = LARGE) -> pandas.DataFrame:
    """The steps in their order, as they were recorded at one shape (M, N, K).

    step, predicted: what was changed, and what was expected of it; taken: whether it was kept.
    TFLOP/s and % of cuBLAS are medians of the same pairs; SM clock in MHz, power in W; registers of
    a thread; gpu, recorded. Raises StaleRecord where a step was not measured, and what
    registry.Table.read raises.
    """
    import pandas

    table = EVIDENCE.read()
    at = table[[tuple(row) == tuple(shape) for row in table[["m", "n", "k"]].to_numpy()]]
    found = {(row["file"], row["settings"]): row for row in at.to_dict("records")}
    if any(step.row not in found for step in STEPS):
        raise stale(NAME)
    return pandas.DataFrame(
        {
            "step": step.title, "predicted": step.predicted, "taken": step.taken,
            "TFLOP/s": row["tflops"], "% of cuBLAS": row["pct_cublas"],
            "SM clock, MHz": row["sm_clock_mhz"], "power, W": row["power_w"],
            "registers": row["registers"], "gpu": row["gpu"], "recorded": row["recorded"],
        }
        for step in STEPS
        for row in [found[step.row]]
    )  # fmt: skip
