"""The steps from 14_wmma to 15_mma_sync, one change at a time, each against cuBLAS.

    python -m gemmlab record 15_steps

times them, paces them in a burst and sustained, and counts their cycles, the bytes of L2 and the
wavefronts of one launch; results/<gpu>/mma_steps.csv holds them (see gemmlab.records.registry).
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import Problem, Target
from gemmlab.measure import profiler
from gemmlab.measure.in_turn import make_sets
from gemmlab.measure.power import Pace, Work
from gemmlab.measure.timing import compare, gflops, now
from gemmlab.records import runs
from gemmlab.records.ablations import Step, compile_step
from gemmlab.records.registry import (
    DATE,
    POSITIVE,
    REPORTED,
    SIZE,
    TEXT,
    WHOLE,
    Kind,
    Say,
    Table,
    stale,
)
from gemmlab.records.runs import LARGE
from gemmlab.records.wgmma_ceilings import LOADS
from ptxsim.metrics import SECTOR_BYTES

if TYPE_CHECKING:
    import pandas

NAME = "15_steps"
SHAPES = (LARGE, (8192, 8192, 8192))
COUNTED_AT = LARGE
COUNTERS = {  # summed over all SMs, of one launch
    "sm_cycles": "sm__cycles_active.sum",
    "l2_bytes": "lts__t_bytes.sum",
    "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "wavefronts": "l1tex__data_pipe_lsu_wavefronts.sum",
}
PACES = {  # -> what is kept of a gemmlab.measure.power.Pace; the clock is counted by the SMs
    "burst_tflops": ("burst", lambda pace: pace.flop_per_second / 1e12),
    "burst_mhz": ("burst", lambda pace: pace.sm_clock_mhz),
    "sustained_tflops": ("sustained", lambda pace: pace.flop_per_second / 1e12),
    "sustained_mhz": ("sustained", lambda pace: pace.sm_clock_mhz),
    "sustained_w": ("sustained", lambda pace: pace.power_w),
}
# 0: not measured, as at other shapes than COUNTED_AT, or before there was the column.
OR_ZERO = Kind("a number from 0 on", r"[-+.\deE]+", -1, unnamed="0")
COLUMNS = {
    **TEXT("file", "settings"), **SIZE("m", "n", "k"),
    **POSITIVE("tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3", "cublas_tflops"),
    **REPORTED("sm_clock_mhz", "power_w"), **SIZE("registers"), **WHOLE("spilled_bytes"),
    **OR_ZERO(*PACES, *COUNTERS),
    **TEXT("code", "gpu", "driver", "cuda", "nvrtc", "cublas"), **DATE("recorded"),
}  # fmt: skip


def _ours(title: str, predicted: str = "", taken: bool = True, **settings: int) -> Step:
    return Step(title, predicted, "15_mma_sync", settings, taken=taken)


def _apart(title: str, predicted: str, taken: bool = True, **settings: int) -> Step:
    """The ideas of the rung apart."""
    file = "15_steps.cu"
    return Step(title, predicted, "15_mma_sync", FIRST | settings, file, taken)


FIRST = {"STAGES": 3, "GROUP": 1}
STEPS = (
    Step("14 as it is", "", "14_wmma"),
    _apart("mma.sync and ldmatrix by hand", "the instructions that WMMA became: nothing to see",
           PADDING=1, STRIPS=1),
    _apart("C from registers", "once for each element of C: little", PADDING=1),
    _ours("swizzled tiles instead of padding", "copies fill whole sectors: fewer bytes of L2",
          **FIRST),
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
    _apart("swizzled tiles, C through strips", "as fast as with C from registers", False, STRIPS=1),
    _apart("rows padded by 32 bytes, C from registers",
           "whole sectors, but rows meet in the banks in pairs", False, PADDING=2),
    Step("14 with rows padded by 32 bytes", "whole sectors, but rows meet in the banks in pairs",
         "14_wmma", {"ROW_PAD": 16}, "14_steps.cu", taken=False),
)  # fmt: skip


def record(say: Say) -> Path:
    """Measure every step; returns the file.

    Raises NoGpu, VerificationError, TimingError, CountersUnavailable.
    """
    import pandas

    here, versions = require_gpu("Measuring steps"), software_versions()
    rows = []
    # NVRTC takes seconds for each, so other processes compile ahead.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        every = list(pool.map(compile_step, STEPS))
    for step, compiled in zip(STEPS, every, strict=True):
        kernel = step.kernel(compiled)
        taken = compiled.entries[kernel.rung.entry(kernel.settings)]
        metrics = tuple(COUNTERS.values())
        (counted,) = profiler.counters(
            kernel.rung, step.all_settings, [COUNTED_AT], metrics, step.path
        )
        for shape in SHAPES:
            found = compare(kernel, *shape)
            paces = _paces(kernel, *shape)
            here_counted = counted if shape == COUNTED_AT else dict.fromkeys(metrics, 0)
            file, settings = step.row
            rows.append({
                "file": file, "settings": settings, "m": found.m, "n": found.n, "k": found.k,
                "tflops": found.gflops / 1e3, "pct_cublas": 100 * found.ratio.median,
                "pct_cublas_q1": 100 * found.ratio.q1, "pct_cublas_q3": 100 * found.ratio.q3,
                "cublas_tflops": gflops(*shape, found.cublas_ms.median) / 1e3,
                "sm_clock_mhz": found.sm_clock_mhz, "power_w": found.power_w,
                "registers": taken.registers,
                "spilled_bytes": taken.spill_store_bytes + taken.spill_load_bytes,
                **{name: of(paces[load]) for name, (load, of) in PACES.items()},
                **{name: here_counted[metric] for name, metric in COUNTERS.items()},
                "gpu": here.name,
                **{name: versions[name] for name in ("driver", "cuda", "nvrtc", "cublas")},
                "recorded": now(),
            })  # fmt: skip
            say(f"{NAME}: {step.title} at {shape}: {rows[-1]['tflops']:.0f} TFLOP/s")
            EVIDENCE.write(pandas.DataFrame(rows), here.slug, whole=False)
    return EVIDENCE.write(pandas.DataFrame(rows), here.slug)


def _paces(kernel: Kernel, m: int, n: int, k: int) -> dict[str, Pace]:
    """In a burst and sustained, on random numbers."""
    problem = kernel.problem(m, n, k)
    operands = Operands(problem, kernel.precision, *make_sets(problem, 1, kernel.precision)[0])
    work = Work(kernel.prepared(operands, 1.0, 0.0), problem.flop)
    return {load: pace(work) for load, pace in LOADS.items()}


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
    TFLOP/s and % of cuBLAS are medians of the same pairs; registers of a thread. TFLOP/s in a burst
    and sustained, with the clock that the SMs counted in MHz, and power in W. Of one launch at
    COUNTED_AT, where it was counted: thousands of cycles of an SM, bytes of L2 for each that
    loads move, thousands of wavefronts of an SM. gpu, recorded. Raises StaleRecord where a step was
    not measured, and what registry.Table.read raises.
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
            "registers": row["registers"], **_counted(row), "gpu": row["gpu"],
            "recorded": row["recorded"],
        }
        for step in STEPS
        for row in [found[step.row]]
    )  # fmt: skip


def title_of(name: str) -> str:
    """Which step a rung is, with its default settings."""
    (title,) = (step.title for step in STEPS if step.row == Step("", "", name).row)
    return title


def _counted(row: dict[str, Any]) -> dict[str, float]:
    sms = 1e3 * runs.current()["gpu"]["sm_count"]
    shown = {
        "burst TFLOP/s": row["burst_tflops"], "burst MHz": row["burst_mhz"],
        "sustained TFLOP/s": row["sustained_tflops"], "sustained MHz": row["sustained_mhz"],
        "sustained W": row["sustained_w"],
    }  # fmt: skip
    if row["sm_cycles"]:
        shown |= {
            "1000 cycles": row["sm_cycles"] / sms,
            "L2 bytes per byte loaded": row["l2_bytes"] / (SECTOR_BYTES * row["load_sectors"]),
            "1000 wavefronts": row["wavefronts"] / sms,
        }
    return shown
