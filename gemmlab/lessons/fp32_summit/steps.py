"""The way from rung 10 to rung 22, and 22 with its loop written anew, each against cuBLAS.

    python -m gemmlab record 22_steps

verifies each, times it in turn with cuBLAS, and holds its errors against those of cuBLAS;
results/<gpu>/summit_steps.csv has them (see gemmlab.records.registry). What is written anew is the
cubin that NVRTC makes here: the column `nvrtc` says of which version. Another version may order the
same instructions otherwise; where the loop cannot be rewritten, its rows are left out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.cuda.disassembler import NoListing
from gemmlab.cuda.options import options_for
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import SINGLE, Problem, Rung, Settings, Target
from gemmlab.lessons.fp32_summit.rewriting import Change, rewritten
from gemmlab.lessons.fp32_summit.rung import RUNG as FP32_SUMMIT
from gemmlab.lessons.register_banks.rung import RUNG as REGISTER_BANKS
from gemmlab.lessons.tma_wgmma.steps import shown
from gemmlab.measure.in_turn import make_sets
from gemmlab.measure.timing import Arena, Spread, gflops, now, require_verified
from gemmlab.records.best_by_shape import LOAD_S, PAUSE_S
from gemmlab.records.registry import DATE, POSITIVE, REPORTED, SIZE, TEXT, Say, Table, of_row
from ptxsim.compile import nvrtc

if TYPE_CHECKING:
    import pandas

NAME = "22_steps"
IN_TURN, BURST, SUSTAINED = "in turn", "burst", "sustained"
PAIRS = {2048: 20, 4096: 20, 8192: 8, 16384: 4}  # of samples, by M
LARGE, HUGE = 4096, 8192
ERROR_ROWS = 64  # of C, that are held against float64


@dataclass(frozen=True)
class Step:
    """One kernel: `what` it does, its settings, and what is changed in its machine code.

    `sizes`: the squares at which it is timed; `at_length`: also after a pause, and for seconds.
    """

    what: str
    rung: Rung = FP32_SUMMIT
    settings: Settings | None = None
    change: Change | None = None
    sizes: tuple[int, ...] = (LARGE, HUGE)
    at_length: bool = False

    @property
    def full(self) -> Settings:
        return ladder.settings_for(self.rung, self.settings or {})

    def kernel(self) -> Kernel:
        """To be launched here. Raises NoListing where its loop cannot be rewritten."""
        kernel = Kernel(self.rung, self.full, None, self.rung.path)
        options = options_for(self.full)
        name, arch = self.rung.path.name, kernel.arch
        cubin = nvrtc.compile_anew(kernel.text, name, arch=arch, options=options).cubin
        if self.change is not None:
            cubin = rewritten(cubin, self.rung.entry(self.full), self.change)
        return kernel.made_of(cubin)


WAY = (
    Step("rung 10 as it is", REGISTER_BANKS, sizes=(2048, LARGE, HUGE), at_length=True),
    Step(
        "four warps bring the tiles",
        settings={"BK": 32, "STAGES": 4, "STREAM_K": 0, "MAPPED": 0},
    ),
    Step("B comes by tensor map", settings={"BK": 32, "STAGES": 4, "STREAM_K": 0}),
    Step("the last tiles are cut", settings={"BK": 32, "STAGES": 4}),
    Step("stages of 64: 22 as it is", sizes=(2048, LARGE, HUGE, 16384), at_length=True),
)
REWRITTEN = (
    Step("the change of stage behind the loop", change=Change(behind=True)),
    Step("that, and loads 12 multiply-adds apart", change=Change(spacing=12, behind=True)),
    Step("no reuse across a load", change=Change(reuse=False), sizes=(LARGE,)),
    Step("yields after 16 multiply-adds", change=Change(yields=16), sizes=(LARGE,)),
    *(
        Step(f"loads {n} multiply-adds apart", change=Change(spacing=n), sizes=(LARGE,))
        for n in (8, 12)
    ),
    Step("loads 16 multiply-adds apart", change=Change(spacing=16)),
    Step("loads 20 multiply-adds apart", change=Change(spacing=20), sizes=(LARGE,)),
    Step(
        "loads 15 multiply-adds apart, the first 6 later",
        change=Change(spacing=15, first=6),
        at_length=True,
    ),
)
ROADS = (
    Step("whole tiles, stages of 64", settings={"STREAM_K": 0}),
    Step("groups of 4", settings={"GROUP": 4}),
    Step("groups of 16", settings={"GROUP": 16}),
)
EVERY = (*WAY, *REWRITTEN, *ROADS)
COLUMNS = {
    **TEXT("step", "kernel", "settings"), **SIZE("m", "n", "k"), **TEXT("way"),
    **POSITIVE("tflops", "cublas_tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
    **SIZE("pairs"), **REPORTED("sm_clock_mhz", "power_w", "error", "cublas_error"),
    **TEXT("code", "gpu", "driver", "cuda", "nvrtc", "cublas"), **DATE("recorded"),
}  # fmt: skip


def record(say: Say) -> Path:
    """Measure all of EVERY at their sizes; returns the file.

    Raises NoGpu, CublasError, VerificationError, TimingError, NoDisassembler.
    """
    import pandas

    here, rows = require_gpu("Measuring steps"), []
    kernels: list[tuple[Step, Kernel]] = []
    for step in EVERY:
        try:
            kernels.append((step, step.kernel()))
        except NoListing as error:
            say(f"{NAME}: {step.what} is left out. {error}")
    for step, kernel in kernels:
        if step in (WAY[0], WAY[-1]):
            require_verified(kernel)
    for size in sorted(PAIRS):
        with Arena(Problem(size, size, size), SINGLE) as arena:
            for step, kernel in kernels:
                if size not in step.sizes:
                    continue
                for row in _rows(step, kernel, arena):
                    rows.append(row)
                    say(f"{NAME}: {step.what} at {size}, {row['way']}: {row['tflops']:.1f} "
                        f"TFLOP/s, {row['pct_cublas']:.1f} % of cuBLAS")  # fmt: skip
                EVIDENCE.write(pandas.DataFrame(rows), here.slug, whole=False)
    return EVIDENCE.write(pandas.DataFrame(rows), here.slug)


def _rows(step: Step, kernel: Kernel, arena: Arena):
    """Of one kernel at one size: in turn, and where it is asked for after a pause and at length."""
    size, side, versions = arena.problem.m, arena.side(kernel), software_versions()
    found = None
    for way in (IN_TURN, *((BURST, SUSTAINED) if step.at_length and size in (LARGE, HUGE) else ())):
        pairs = PAIRS[size]
        if way == BURST:
            time.sleep(PAUSE_S)
        elif way == SUSTAINED:
            both_s = (found.time_ms.median + Spread.of(found.cublas_ms, min).median) / 1e3
            pairs = ceil(LOAD_S / both_s / side.launches)
        found = arena.race(kernel, side, pairs)
        errors = _errors(kernel, arena) if (way, size) == (IN_TURN, LARGE) else (None, None)
        ratio = found.ratio
        yield {
            "step": step.what, "kernel": step.rung.name, "settings": ladder.written(step.full),
            "m": size, "n": size, "k": size, "way": way,
            "tflops": gflops(size, size, size, found.time_ms.median) / 1e3,
            "cublas_tflops":
                gflops(size, size, size, Spread.of(found.cublas_ms, min).median) / 1e3,
            "pct_cublas": 100 * ratio.median, "pct_cublas_q1": 100 * ratio.q1,
            "pct_cublas_q3": 100 * ratio.q3, "pairs": pairs,
            "sm_clock_mhz": found.state.sm_clock_mhz, "power_w": found.state.power_w,
            **dict(zip(("error", "cublas_error"), errors, strict=True)),
            "gpu": arena.here.name,
            **{name: versions[name] for name in ("driver", "cuda", "nvrtc", "cublas")},
            "recorded": now(),
        }  # fmt: skip


def _errors(kernel: Kernel, arena: Arena) -> tuple[float, float]:
    """Of some rows of C, ours and cuBLAS's: the distance from float64, as a share of its length."""
    import cupy

    problem = arena.problem
    operands = Operands(problem, SINGLE, *make_sets(problem, 1)[0])
    rows = cupy.arange(0, problem.m, problem.m // ERROR_ROWS)
    expected = operands.A[rows].astype("float64") @ operands.B.astype("float64")
    found = []
    for one in (kernel, arena.cublas):
        one.launch(operands, 1.0, 0.0)
        distance = cupy.linalg.norm(operands.C[rows] - expected)
        found.append(float(distance / cupy.linalg.norm(expected)))
    return found[0], found[1]


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    (rung,) = (rung for rung in (REGISTER_BANKS, FP32_SUMMIT) if rung.name == row.kernel)
    return of_row(rung, row, on)


EVIDENCE = Table(
    name=NAME, file="summit_steps.csv", remake=record,
    key=("step", "kernel", "settings", "m", "n", "k", "way"), columns=COLUMNS,
    fingerprint_of=_fingerprint_of,
)  # fmt: skip


def steps(chosen: tuple[Step, ...] = WAY, way: str = IN_TURN) -> pandas.DataFrame:
    """What was recorded of these: a row for each step and size, in their order.

    Columns: step, M×N×K, TFLOP/s, % of cuBLAS and its quartiles, that of cuBLAS, SM clock in MHz
    and power in W. Raises what registry.Table.read raises.
    """
    table = EVIDENCE.read()
    table = table[table["way"] == way].set_index("step")
    names = [step.what for step in chosen if step.what in table.index]
    found = table.loc[names].reset_index()
    return shown(found)
