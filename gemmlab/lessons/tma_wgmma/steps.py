"""The way from one box and one warpgroup to persistent clusters, rungs 16 to 18, against cuBLAS.

    python -m gemmlab record 18_steps

verifies each step, times it in turn with cuBLAS of the same types, lets some run without a pause
for power and clock, counts what they move, and keeps the bits of a small product;
results/<gpu>/hopper_steps.csv holds it (see gemmlab.records.registry). Roads that were not taken
are steps too: ROADS.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.folders import kernel_file
from gemmlab.kernel.fingerprint import Fingerprint, of_rung
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import Launch, Problem, Rung, Settings, Target
from gemmlab.ladder.launch import Plan
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons.tma_wgmma.rung import SQUARE_BYTES
from gemmlab.measure import profiler
from gemmlab.measure.in_turn import make_sets
from gemmlab.measure.power import Work, sustained
from gemmlab.measure.timing import Measurement, compare, gflops, now
from gemmlab.records.registry import DATE, POSITIVE, REPORTED, SIZE, TEXT, Say, Table
from gemmlab.records.runs import LARGE

if TYPE_CHECKING:
    import pandas

TMA_WGMMA = ladder.find("16_tma_wgmma")
WARP_SPECIALIZED = ladder.find("17_warp_specialized")
PERSISTENT = ladder.find("18_persistent")
HOPPER = (TMA_WGMMA, WARP_SPECIALIZED, PERSISTENT)
NAME = "18_steps"
PAIRS = 8  # of samples, in turn with cuBLAS
HUGE = (8192, 8192, 8192)
BITS_SHAPE = (200, 328, 264)  # of the product whose bits are kept; tiles have edges
BITS_SEED = 18


@dataclass(frozen=True)
class Step:
    """One kernel of the way, or of a road that was not taken: `what` it does.

    `changes`: what is replaced in the text of the rung, each found there once. `file`: the
    name of another text in kernels/. `plan`: how it is launched, if not as the rung. `counted` and
    `paced`: at HUGE.
    """

    what: str
    rung: Rung
    settings: Settings
    shapes: tuple[tuple[int, int, int], ...] = (LARGE, HUGE)
    counted: bool = False
    paced: bool = False
    changes: tuple[tuple[str, str], ...] = ()
    file: str = ""
    plan: Plan | None = None

    @property
    def full(self) -> Settings:
        return ladder.settings_for(self.rung, self.settings)

    @property
    def source(self) -> str | Path:
        """The kernel's file, or its text where something is replaced."""
        path = kernel_file(self.file) if self.file else self.rung.path
        if not self.changes:
            return path
        text = path.read_text(encoding="utf-8")
        for old, new in self.changes:
            if (times := text.count(old)) != 1:
                raise ValueError(f"{old!r} stands {times} times in {path.name}, not once")
            text = text.replace(old, new)
        return text

    @property
    def launched(self) -> Rung:
        """The rung with the launches of this step."""
        return replace(self.rung, plan=self.plan) if self.plan else self.rung

    def fingerprint(self, problems: Sequence[Problem], on: Target) -> Fingerprint:
        """Of what is measured at these problems."""
        return of_rung(self.launched, self.full, problems, on, self.source)

    def kernel(self) -> Kernel:
        found = Kernel(self.launched, self.full, None, self.source)
        if self.source != self.rung.path:
            found.trust()  # it is ours, though no rung
        return found


def _on_all_sms(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    """A block for each SM, also where fewer need no more rounds."""
    (launch,) = PERSISTENT.plan(problem, s, target)
    if launch.entry != "persistent":
        return [launch]
    of_a_cluster = launch.cluster[0]
    rows, columns = (
        side * tiles for side, tiles in zip(
            PERSISTENT.tile(s), PERSISTENT.cluster_tiles(s), strict=True
        )
    )  # fmt: skip
    tiles = ceil_div(problem.m, rows) * ceil_div(problem.n, columns)
    clusters = min(tiles, max(1, target.sm_count // of_a_cluster))
    return [replace(launch, grid=(clusters * of_a_cluster, 1, 1))]


def _ping_pong(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    """As 18_ping_pong.cu wants it: two warpgroups that multiply, a tile of 64 rows for each."""
    (launch,) = PERSISTENT.plan(problem, s, target)
    if launch.entry != "persistent":
        return [launch]
    one_more_group = 2 * SQUARE_BYTES  # of rooms
    return [replace(launch, block=(384, 1, 1), shared_bytes=launch.shared_bytes + one_more_group)]


BF16, NT, ALONE = {"DTYPE": 1}, {"OP_B": 1}, {"CLUSTER": 1}
AT_THE_END = {"EARLY_LAUNCH": 0}  # a launch begins when the one before has ended
AT_ONCE = {"SEND_LATER": 0}
WAY = (
    Step("a box, 64 rows and 64 columns", TMA_WGMMA, {"BM": 64, "BN": 64, "STAGES": 1}),
    Step("two warpgroups, 128×128", TMA_WGMMA, {"BN": 128, "STAGES": 1}),
    Step("four pairs of tiles", TMA_WGMMA, {"BN": 128}),
    Step("128×256", TMA_WGMMA, {}, paced=True),
    Step("a warp that only copies", WARP_SPECIALIZED, AT_THE_END, paced=True),
    Step("blocks that stay", PERSISTENT, ALONE | AT_THE_END | AT_ONCE, counted=True, paced=True),
    Step("C sent while the next tile is multiplied", PERSISTENT, ALONE | AT_THE_END, paced=True),
    Step("clusters of two", PERSISTENT, AT_THE_END, counted=True, paced=True),
    Step("launches that begin early", PERSISTENT, {}, paced=True),
)
TITLES = {"a warp that only copies": "C sent by tensor map; a warp that only copies"}
"""Of some rows: what readers see instead of the step."""

SQUARES_OF_1024, SQUARES_OF_2048 = (1024, 1024, 1024), (2048, 2048, 2048)
SMALL_TILES = (
    (WARP_SPECIALIZED, {"BM": 64, "BN": 128, "STAGES": 8}),
    (WARP_SPECIALIZED, {"BM": 64, "BN": 128, "STAGES": 8, **AT_THE_END}),
    (WARP_SPECIALIZED, {"BM": 128, "BN": 64, "STAGES": 8}),
    (TMA_WGMMA, {"BM": 64, "BN": 128, "STAGES": 6}),
    (PERSISTENT, {"BM": 64, "BN": 128, "STAGES": 8, **ALONE}),
    (WARP_SPECIALIZED, {"BM": 64, "BN": 128, "STAGES": 8, **BF16}),
)
OTHERS = (
    SQUARES_OF_2048, (4096, 7168, 2048), (4096, 4096, 8192), (8192, 8192, 4096),
    (16384, 16384, 16384),
)  # fmt: skip
THIN = (
    ((64, 4096, 7168), WARP_SPECIALIZED, {"BM": 64, "BN": 64, "STAGES": 8}),
    ((64, 4096, 7168), WARP_SPECIALIZED, {"BM": 64, "BN": 64, "STAGES": 8, "SPLIT": 2}),
    ((64, 4096, 7168), WARP_SPECIALIZED,
     {"BM": 64, "BN": 64, "STAGES": 8, "SPLIT": 2, **AT_THE_END}),
    ((128, 7168, 2048), WARP_SPECIALIZED, {"BM": 128, "BN": 64, "STAGES": 8}),
    ((128, 7168, 2048), PERSISTENT, {"BM": 128, "BN": 64, "STAGES": 8, "SHARE_A": 1}),
    ((128, 7168, 2048), PERSISTENT, {"BM": 128, "BN": 64, "STAGES": 8, "SHARE_A": 1, "CLUSTER": 4}),
)  # fmt: skip
SHAPES = (
    *(Step("small tiles", rung, tile, (SQUARES_OF_1024,)) for rung, tile in SMALL_TILES),
    *(Step("few rows", rung, tile, (shape,)) for shape, rung, tile in THIN),
    Step("other shapes", PERSISTENT, ALONE, OTHERS),
    Step("other shapes", PERSISTENT, {}, OTHERS),
    Step("other shapes", PERSISTENT, BF16, OTHERS),
    Step("other shapes", WARP_SPECIALIZED, {}, OTHERS[:1]),
    Step("other shapes", WARP_SPECIALIZED, AT_THE_END, OTHERS[:1]),
)
TYPES = tuple(
    Step(f"{rung.name[:2]}, {name}", rung, settings)
    for name, settings, some in (
        ("BF16", BF16, HOPPER), ("B transposed", NT, HOPPER),
        ("BF16, B transposed", BF16 | NT, (PERSISTENT,)),
        ("BF16, C in FP32", {**BF16, "OUT32": 1}, (PERSISTENT,)),
    )
    for rung in some
)  # fmt: skip
HILBERT = (
    ('#include "cluster.cuh"', '#include "cluster.cuh"\n#include "hilbert.cuh"'),
    ("= tile_at(tile, ", "= hilbert_at(tile, "),
)
ROADS = (
    Step("128×128, two blocks on an SM", TMA_WGMMA, {"BN": 128, "STAGES": 3}),
    Step("17 with tiles row by row", WARP_SPECIALIZED, {"GROUP": 1}, (HUGE,)),
    Step("tiles row by row", PERSISTENT, {"GROUP": 1}, counted=True, paced=True),
    Step("groups of 8", PERSISTENT, {"GROUP": 8}),
    Step("groups of 32", PERSISTENT, {"GROUP": 32}),
    Step("tiles by Hilbert's curve", PERSISTENT, {}, changes=HILBERT, paced=True),
    Step("a block on each SM", PERSISTENT, {}, plan=_on_all_sms),
    Step("clusters side by side, which share A", PERSISTENT, {"SHARE_A": 1}, counted=True),
    Step("no clusters", PERSISTENT, ALONE, paced=True),
    Step("three pairs of tiles", PERSISTENT, {"STAGES": 3}),
    Step("warpgroups in turn, each with its tile", PERSISTENT, {"BM": 64, **ALONE},
         file="18_ping_pong.cu", plan=_ping_pong, paced=True),
)  # fmt: skip
EVERY = (*WAY, *TYPES, *SHAPES, *ROADS)
MOVED = {  # column -> what Nsight Compute counts, caches cold
    "l2_bytes": "lts__t_bytes.sum",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    "dram_bytes": "dram__bytes_read.sum",
    "tma_sectors": "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",
}
PACED = (  # without a pause
    "sustained_tflops", "sustained_clock_mhz", "sustained_driver_clock_mhz", "sustained_power_w",
    "joules_per_tflop",
)  # fmt: skip
COLUMNS = {
    **TEXT("step", "kernel", "settings"), **SIZE("m", "n", "k"),
    **POSITIVE("tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3", "cublas_tflops"),
    **REPORTED("sm_clock_mhz", "power_w", *PACED, *MOVED), **TEXT("sha256", "code"),
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

    def write(whole: bool = False) -> Path:
        return EVIDENCE.write(pandas.DataFrame(rows), here.slug, whole)

    for step in EVERY:
        kernel = step.kernel()
        for shape in step.shapes:
            found = compare(kernel, *shape, pairs=PAIRS)
            rows.append({
                "step": step.what, "kernel": step.rung.name, "settings": ladder.written(step.full),
                **_timed(found), **dict.fromkeys((*PACED, *MOVED)),
                "sha256": bits_of(kernel), "gpu": here.name,
                **{name: versions[name] for name in ("driver", "cuda", "nvrtc", "cublas")},
                "recorded": now(),
            })  # fmt: skip
            if step.paced and shape == HUGE:
                rows[-1] |= _paced(kernel)
            say(f"{NAME}: {step.what} at {shape}: {rows[-1]['pct_cublas']:.1f} % of cuBLAS")
            write()
    for step in EVERY:
        if step.counted:
            try:
                found = profiler.counters(step.rung, step.full, [HUGE], tuple(MOVED.values()))
            except profiler.CountersUnavailable as error:
                say(f"{NAME}: bytes are not counted. {error}")
                break
            (row,) = (r for r in rows if r["step"] == step.what and (r["m"], r["k"]) == HUGE[1:])
            row |= {column: found[0][metric] for column, metric in MOVED.items()}
            write()
    return write(whole=True)


def _timed(found: Measurement) -> dict[str, float | int | None]:
    shape = found.m, found.n, found.k
    return {
        "m": found.m, "n": found.n, "k": found.k, "tflops": found.gflops / 1e3,
        "pct_cublas": 100 * found.ratio.median, "pct_cublas_q1": 100 * found.ratio.q1,
        "pct_cublas_q3": 100 * found.ratio.q3,
        "cublas_tflops": gflops(*shape, found.cublas_ms.median) / 1e3,
        "sm_clock_mhz": found.sm_clock_mhz, "power_w": found.power_w,
    }  # fmt: skip


def _paced(kernel: Kernel) -> dict[str, float | None]:
    """What PACED names, at HUGE."""
    problem = kernel.problem(*HUGE)
    operands = Operands(problem, kernel.precision, *make_sets(problem, 1, kernel.precision)[0])
    pace = sustained(Work(kernel.prepared(operands, 1.0, 0.0), problem.flop))
    found = (
        pace.flop_per_second / 1e12, pace.sm_clock_mhz, pace.driver_clock_mhz, pace.power_w,
        pace.joules_per_tflop,
    )  # fmt: skip
    return dict(zip(PACED, found, strict=True))


def _fingerprint_of(row: Any, on: Target) -> Fingerprint | None:
    for step in EVERY:
        if step.what == row.step and ladder.written(step.full) == row.settings:
            return step.fingerprint([Problem(int(row.m), int(row.n), int(row.k))], on)
    return None  # of a former step


EVIDENCE = Table(
    name=NAME, file="hopper_steps.csv", remake=record,
    key=("step", "kernel", "settings", "m", "n", "k"), columns=COLUMNS,
    fingerprint_of=_fingerprint_of,
)  # fmt: skip


def steps(*chosen: Step) -> pandas.DataFrame:
    """What was recorded of these, or of WAY: a row for each step and shape, in their order.

    Columns: step, M×N×K, TFLOP/s, % of cuBLAS and its quartiles, that of cuBLAS, SM clock in MHz
    and power in W. Raises what registry.Table.read raises.
    """
    table = EVIDENCE.read().set_index("step")
    found = table.loc[[step.what for step in chosen or WAY]].reset_index()
    return shown(found)


def shown(found: pandas.DataFrame) -> pandas.DataFrame:
    """Rows of steps, with the columns that readers see."""
    found = found.copy()
    found["M×N×K"] = [f"{row.m}×{row.n}×{row.k}" for row in found.itertuples()]
    found["step"] = found["step"].replace(TITLES)
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
