"""The way from one box and one warpgroup to persistent clusters, rungs 16 to 18, against cuBLAS.

    python -m gemmlab record 18_steps

verifies each step, times it in turn with cuBLAS of the same types, counts what it moves, and keeps
the bits of a small product; results/<gpu>/hopper_steps.csv holds it (see
gemmlab.records.registry).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel.fingerprint import short_code, shortened
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Rung, Settings
from gemmlab.ladder.rungs.hopper import PERSISTENT, RUNGS, TMA_WGMMA, WARP_SPECIALIZED
from gemmlab.measure import profiler
from gemmlab.measure.timing import Measurement, compare, gflops, now
from gemmlab.records.registry import DATE, POSITIVE, REPORTED, SIZE, TEXT, Say, Table
from gemmlab.records.runs import LARGE

if TYPE_CHECKING:
    import pandas

NAME = "18_steps"
PAIRS = 8  # of samples, in turn with cuBLAS
HUGE = (8192, 8192, 8192)
BITS_SHAPE = (200, 328, 264)  # of the product whose bits are kept; tiles have edges
BITS_SEED = 18


@dataclass(frozen=True)
class Step:
    """One kernel of the way, or of a road that was not taken: `what` it does."""

    what: str
    rung: Rung
    settings: Settings
    shapes: tuple[tuple[int, int, int], ...] = (LARGE, HUGE)
    counted: bool = False  # at HUGE

    @property
    def full(self) -> Settings:
        return ladder.settings_for(self.rung, self.settings)

    def kernel(self) -> Kernel:
        return Kernel(self.rung, self.full, None, self.rung.path)


BF16, NT, ALONE = {"DTYPE": 1}, {"OP_B": 1}, {"CLUSTER": 1}
WAY = (
    Step("a box, 64 rows and 64 columns", TMA_WGMMA, {"BM": 64, "BN": 64, "STAGES": 1}),
    Step("two warpgroups, 128×128", TMA_WGMMA, {"BN": 128, "STAGES": 1}),
    Step("four pairs of tiles", TMA_WGMMA, {"BN": 128}),
    Step("128×256", TMA_WGMMA, {}),
    Step("a warp that only copies", WARP_SPECIALIZED, {}),
    Step("blocks that stay", PERSISTENT, ALONE, counted=True),
    Step("clusters of two", PERSISTENT, {}, counted=True),
)
SMALL_TILES = (
    (WARP_SPECIALIZED, {"BN": 64, "STAGES": 6}),
    (WARP_SPECIALIZED, {"BM": 64, "BN": 128, "STAGES": 6}),
    (TMA_WGMMA, {"BM": 64, "BN": 128, "STAGES": 6}),
    (PERSISTENT, {"BM": 64, "BN": 128, "STAGES": 6}),
    (PERSISTENT, {"BM": 64, "BN": 128, "STAGES": 6, **ALONE}),
    (PERSISTENT, {"BM": 64, "BN": 128, "STAGES": 6, **ALONE, **BF16}),
)
OTHERS = (
    (2048, 2048, 2048), (4096, 7168, 2048), (4096, 4096, 8192), (8192, 8192, 4096),
    (16384, 16384, 16384),
)  # fmt: skip
SHAPES = (
    *(Step("small tiles", rung, tile, ((1024, 1024, 1024),)) for rung, tile in SMALL_TILES),
    Step("other shapes", PERSISTENT, ALONE, OTHERS),
    Step("other shapes", PERSISTENT, {}, OTHERS),
    Step("other shapes", PERSISTENT, BF16, OTHERS),
    Step("other shapes", PERSISTENT, {**ALONE, **BF16}, OTHERS[:2]),
    Step("other shapes", PERSISTENT, {"BN": 128, "STAGES": 6, **ALONE}, OTHERS[:1]),
    Step("other shapes", WARP_SPECIALIZED, {}, OTHERS[:1]),
)
TYPES = tuple(
    Step(f"{rung.name[:2]}, {name}", rung, settings)
    for name, settings, some in (
        ("BF16", BF16, RUNGS), ("B transposed", NT, RUNGS),
        ("BF16, B transposed", BF16 | NT, (PERSISTENT,)),
        ("BF16, C in FP32", {**BF16, "OUT32": 1}, (PERSISTENT,)),
    )
    for rung in some
)  # fmt: skip
ROADS = (
    Step("128×128, two blocks on an SM", TMA_WGMMA, {"BN": 128, "STAGES": 3}),
    Step("17 with tiles row by row", WARP_SPECIALIZED, {"GROUP": 1}, (HUGE,)),
    Step("18 with tiles row by row", PERSISTENT, {**ALONE, "GROUP": 1}, (HUGE,), counted=True),
    Step("18 with groups of 8", PERSISTENT, {**ALONE, "GROUP": 8}, (HUGE,)),
    Step("18 with three pairs of tiles", PERSISTENT, {**ALONE, "STAGES": 3}, (LARGE,)),
)
EVERY = (*WAY, *TYPES, *SHAPES, *ROADS)
MOVED = {  # column -> what Nsight Compute counts, caches cold
    "l2_bytes": "lts__t_bytes.sum",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    "dram_bytes": "dram__bytes_read.sum",
    "tma_sectors": "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",
}
COLUMNS = {
    **TEXT("step", "kernel", "settings"), **SIZE("m", "n", "k"),
    **POSITIVE("tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3", "cublas_tflops"),
    **REPORTED("sm_clock_mhz", "power_w", *MOVED), **TEXT("sha256", "code"),
    **TEXT("gpu", "driver", "cuda", "nvrtc", "cublas"), **DATE("recorded"),
}  # fmt: skip


def bits_of(kernel: Kernel) -> str:
    """The SHA-256 of C, as it is stored, of a small product of a seed."""
    operands = kernel.operands(kernel.problem(*BITS_SHAPE), BITS_SEED)
    C = kernel(operands.A, operands.B, operands.C, 0.5, 2.0)
    return hashlib.sha256(C.tobytes()).hexdigest()


def record(say: Say) -> Path:
    """Measure all of EVERY at their shapes; returns the file.

    What is moved stays empty where Nsight Compute does not count. Raises NoGpu, CublasError,
    VerificationError, TimingError.
    """
    import pandas

    here, versions = require_gpu("Measuring steps"), software_versions()
    rows = []

    def write() -> None:
        EVIDENCE.write(pandas.DataFrame(rows), here.slug)

    for step in EVERY:
        kernel = step.kernel()
        for shape in step.shapes:
            found = compare(kernel, *shape, pairs=PAIRS)
            rows.append({
                "step": step.what, "kernel": step.rung.name, "settings": ladder.written(step.full),
                **_timed(found), **dict.fromkeys(MOVED),
                "sha256": bits_of(kernel), "code": shortened(kernel.code_hash()), "gpu": here.name,
                **{name: versions[name] for name in ("driver", "cuda", "nvrtc", "cublas")},
                "recorded": now(),
            })  # fmt: skip
            say(f"{NAME}: {step.what} at {shape}: {rows[-1]['pct_cublas']:.1f} % of cuBLAS")
            write()
    for step in EVERY:
        if step.counted:
            try:
                found = profiler.counters(step.rung, step.full, [HUGE], tuple(MOVED.values()))
            except profiler.CountersUnavailable as error:
                say(f"{NAME}: bytes are not counted. {error}")
                break
            (row,) = (r for r in rows if r["step"] == step.what and r["k"] == HUGE[2])
            row |= {column: found[0][metric] for column, metric in MOVED.items()}
            write()
    return EVIDENCE.path_of(here.slug)


def _timed(found: Measurement) -> dict[str, float | int | None]:
    shape = found.m, found.n, found.k
    return {
        "m": found.m, "n": found.n, "k": found.k, "tflops": found.gflops / 1e3,
        "pct_cublas": 100 * found.ratio.median, "pct_cublas_q1": 100 * found.ratio.q1,
        "pct_cublas_q3": 100 * found.ratio.q3,
        "cublas_tflops": gflops(*shape, found.cublas_ms.median) / 1e3,
        "sm_clock_mhz": found.sm_clock_mhz, "power_w": found.power_w,
    }  # fmt: skip


def _code_of_row(row) -> str:
    (rung,) = (one for one in RUNGS if one.name == row.kernel)
    return short_code(rung.path, ladder.read_settings(row.settings))


EVIDENCE = Table(
    name=NAME, file="hopper_steps.csv", remake=record,
    key=("step", "kernel", "settings", "m", "n", "k"), columns=COLUMNS, code_of_row=_code_of_row,
)  # fmt: skip


def steps(*chosen: Step) -> pandas.DataFrame:
    """What was recorded of these, or of WAY: a row for each step and shape, in their order.

    Columns: step, M×N×K, TFLOP/s, % of cuBLAS and its quartiles, that of cuBLAS, SM clock in MHz
    and power in W. Raises what registry.Table.read raises.
    """
    table = EVIDENCE.read().set_index("step")
    found = table.loc[[step.what for step in chosen or WAY]].reset_index()
    found["M×N×K"] = [f"{row.m}×{row.n}×{row.k}" for row in found.itertuples()]
    return found.rename(
        columns={
            "tflops": "TFLOP/s", "pct_cublas": "% of cuBLAS", "pct_cublas_q1": "from",
            "pct_cublas_q3": "to", "cublas_tflops": "cuBLAS", "sm_clock_mhz": "SM clock, MHz",
            "power_w": "power, W",
        }
    )[[
        "step", "M×N×K", "TFLOP/s", "% of cuBLAS", "from", "to", "cuBLAS", "SM clock, MHz",
        "power, W",
    ]]  # fmt: skip
