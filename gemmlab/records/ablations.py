"""The path to a rung: the steps from the one before it, each a kernel of its own, against cuBLAS.

    python -m gemmlab record path/10_register_banks

measures them and writes results/<gpu>/path.csv, a row for each step and shape (see
gemmlab.records.registry). Every step is verified, timed in turn with cuBLAS as any kernel is, and
taken apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.folders import kernel_file
from gemmlab.kernel.compiler import Compiled, options_for, resources
from gemmlab.kernel.fingerprint import Fingerprint, of_rung, shortened
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import LadderError, Problem, Settings, Target
from gemmlab.measure.timing import compare, gflops
from gemmlab.records.registry import (
    DATE,
    NUMBER,
    POSITIVE,
    REPORTED,
    SIZE,
    TEXT,
    WHOLE,
    NoRecord,
    Say,
    Table,
    stale,
)
from gemmlab.records.runs import LARGE
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import register_reads
from ptxsim.compile import nvrtc

if TYPE_CHECKING:
    import pandas

SHAPES = (LARGE, (8192, 8192, 8192))
"""(M, N, K) at which every step of every path is measured."""

FURTHER = {"09_double_buffering": ((512, 512, 512),)}
"""Further shapes of a path. At 512 each block of 128×128 has an SM for itself."""

PAIRS = {512: 20, 4096: 20, 8192: 10}  # of launches, by M

COLUMNS = {
    **TEXT("path", "file", "settings"), **SIZE("m", "n", "k"),
    **POSITIVE("tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
    **POSITIVE("noise_q1", "noise_q3", "cublas_tflops"), **REPORTED("sm_clock_mhz", "power_w"),
    **SIZE("registers"), **WHOLE("spilled_bytes"), **SIZE("slots", "ffma"),
    **WHOLE("bank_0", "bank_1", "two_in_a_bank", "waits"), **NUMBER("reuse_pct"),
    **TEXT("code", "gpu", "driver", "cuda", "nvrtc", "cublas"), **DATE("recorded"),
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One kernel on the way: what was changed, and what that let expect.

    `like` is the rung that it is launched and verified as; `settings` come on top of the rung's
    defaults, and may be any macros of the file, which is the rung's own if `file` is empty, else
    the one of that name in `kernels/`. `taken` is false for a road that led nowhere.
    """

    title: str
    predicted: str
    like: str
    settings: Settings = field(default_factory=dict)
    file: str = ""
    taken: bool = True

    @property
    def path(self) -> Path:
        return kernel_file(self.file) if self.file else ladder.find(self.like).path

    @property
    def all_settings(self) -> Settings:
        return {**ladder.settings_for(ladder.find(self.like), {}), **self.settings}

    def fingerprint(self, problems: Sequence[Problem], on: Target) -> Fingerprint:
        """Of what is measured at these problems."""
        rung = ladder.find(self.like)
        return of_rung(rung, self.all_settings, problems, on, self.path)

    @property
    def row(self) -> tuple[str, str]:
        """What tells its rows apart: the file, wherever below kernels/ it lies, and settings."""
        return f"kernels/{self.path.name}", ladder.written(self.all_settings)

    def kernel(self, compiled: Compiled | None = None) -> Kernel:
        """Ready to call: with what was compiled elsewhere, or compiled now. Raises CompileError."""
        return Kernel(ladder.find(self.like), self.all_settings, None, self.path, compiled)


def _banks(title: str, predicted: str, taken: bool = True, **settings: int) -> Step:
    return Step(title, predicted, "10_register_banks", settings, taken=taken)


def _before(title: str, predicted: str, taken: bool = True, **settings: int) -> Step:
    return Step(title, predicted, "10_register_banks", settings, "10_steps.cu", taken)


_AHEAD = {"BK": 8, "STAGES": 1, "GROUP": 1, "PAIRS": 1}  # through registers, before the ring


def _part(title: str, predicted: str, taken: bool, **settings: int) -> Step:
    """05 with the tile of 06, and some of what else changed."""
    tile = {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8}
    file = "06_parts.cu" if settings else ""
    return Step(title, predicted, "05_thread_tile_2d", tile | settings, file, taken)


def _lanes(title: str, predicted: str, taken: bool = True, **settings: int) -> Step:
    """08 whose lanes stand elsewhere in the warp's tile."""
    return Step(title, predicted, "08_warp_tiling", settings, "08_lanes.cu", taken)


def _copies(title: str, predicted: str, **settings: int) -> Step:
    """09 whose asynchronous copies are written otherwise, or whose tile of A lies by rows."""
    about = {"BY_ROWS": 1, "MIN_BLOCKS": 2} | settings
    return Step(title, predicted, "09_double_buffering", about, "09_a_by_rows.cu", False)


_SQUARE = {"WM": 64, "WN": 64}

PATHS: dict[str, tuple[Step, ...]] = {
    "06_vectorized_loads": (
        Step("05 as it is", "", "05_thread_tile_2d"),
        _part(
            "the tile of 06: 128×128, 8×8 sums a thread",
            "fewer loads for each FMA, but registers for one block only: slower",
            True,
        ),
        _part(
            "two blocks asked for",
            "the compiler spills, but a second block hides that",
            True, BLOCKS=2,
        ),
        _part(
            "A and B loaded 16 bytes at a time",
            "a fourth of the loads and their addresses, and nothing spills",
            True, BLOCKS=2, WIDE=1,
        ),
        _part(
            "C stored 16 bytes at a time",
            "once for each element of C: nothing to see",
            True, BLOCKS=2, WIDE=1, WIDE_C=1,
        ),
        Step(
            "A's tile transposed: 06 as it is",
            "as many loads from shared memory, and conflicts of the stores: slower",
            "06_vectorized_loads",
        ),
        _part("06 with C stored 4 bytes at a time", "nothing to see", False,
              WIDE=1, TRANSPOSED=1),
        _part("06 with A and B loaded 4 bytes at a time",
              "two blocks fit, but the 16 lanes of a row of A store into one bank", False,
              TRANSPOSED=1, WIDE_C=1),
        _part("the transposition alone, all else 4 bytes at a time", "as the one before", False,
              TRANSPOSED=1),
        _part("06 with registers that do nothing, so that one block fits",
              "nobody hides its waiting: slower", False,
              WIDE=1, TRANSPOSED=1, WIDE_C=1, IDLE=48),
        _part("06 with neighbouring lanes on neighbouring rows of A",
              "stores without conflicts, but each load of A falls into 32 sectors", False,
              WIDE=1, TRANSPOSED=1, WIDE_C=1, ROWS_FIRST=1),
    ),
    "08_warp_tiling": (
        Step("07 as it is", "", "07_bank_conflicts"),
        Step(
            "a step of 8 instead of 16",
            "twice as many barriers: slower",
            "07_bank_conflicts",
            {"BK": 8},
        ),
        _lanes(
            "tiles by way of registers, A's padded",
            "a wait before the barrier instead of after it, and addresses that are sums",
            LANES_ACROSS=16, SQUARES=0, WM=16, WN=128,
        ),
        _lanes(
            "a warp tile of 32×64, lanes row by row",
            "as many wavefronts: nothing to see",
            SQUARES=0, WM=32,
        ),
        Step(
            "lanes in squares",
            "a third fewer wavefronts of loads: faster",
            "08_warp_tiling",
            {"WM": 32},
        ),
        Step(
            "16×8 sums a thread: 08 as it is",
            "a fourth fewer wavefronts of loads, and half the warps",
            "08_warp_tiling",
        ),
        _lanes("08 with its lanes row by row", "a third more wavefronts of loads: slower", False,
               SQUARES=0),
        Step("08 with a step of 16", "half as many barriers: faster", "08_warp_tiling", {"BK": 16},
             taken=False),
    ),
    "09_double_buffering": (
        Step("08 as it is", "", "08_warp_tiling"),
        Step(
            "a warp tile of 32×64",
            "more reads of shared memory for each FMA: slower",
            "08_warp_tiling",
            {"WM": 32},
        ),
        Step(
            "the next tiles loaded while these are multiplied: 09 as it is",
            "most where an SM has one block",
            "09_double_buffering",
        ),
        *(
            Step(
                f"{stages} stages of copies: 09 with STAGES={stages}",
                "A in copies of 4 bytes: more instructions, so slower",
                "09_double_buffering",
                {"STAGES": stages},
                taken=False,
            )
            for stages in (2, 3, 4)
        ),
        *(
            _copies(
                f"{stages} stages of 4-byte copies, their addresses kept, two blocks",
                "fewer instructions than it was, and a second block",
                BY_ROWS=0, STAGES=stages,
            )
            for stages in (2, 3, 4)
        ),
        _copies("A by rows: through registers, one block",
                "stores of 16 bytes for both tiles", STAGES=1, MIN_BLOCKS=1),
        *(
            _copies(
                f"A by rows: {stages} stages of 16-byte copies, two blocks",
                "three instructions bring a step's tiles: faster than 4-byte copies",
                STAGES=stages,
            )
            for stages in (2, 3, 4)
        ),
        _copies("A by rows: 2 stages of 16-byte copies, one block",
                "all the registers that it wants, but nobody to hide its waiting", STAGES=2,
                MIN_BLOCKS=1),
        Step("09 with the warp tile of 08, 64×64", "as fast, with 235 registers",
             "09_double_buffering", _SQUARE, taken=False),
        _copies("64×64: 2 stages of 4-byte copies, their addresses kept",
                "fewer loads for each FMA, and no tiles in registers", BY_ROWS=0, STAGES=2,
                **_SQUARE),
        _copies("64×64: A by rows, 2 stages of 16-byte copies", "the same with copies of 16 bytes",
                STAGES=2, **_SQUARE),
    ),
    "10_register_banks": (
        Step("09 as it is", "", "09_double_buffering"),
        Step(
            "a tile of 128×256, warps of 64×64",
            "8×16 sums a thread: 6 loads for 128 FMAs instead of 4 for 64",
            "09_double_buffering",
            {"BM": 128, "BN": 256, "BK": 8, "WM": 64, "WN": 64, "STAGES": 1},
        ),
        _before(
            "the next column and row in registers ahead",
            "they are read while these are multiplied: no FMA waits for shared memory",
            **_AHEAD, ORDER=0, PTXAS=3,
        ),
        _before(
            "ptxas at -O1",
            "keeps the order of the FMAs that is written: more operands reused",
            **_AHEAD, ORDER=0, PTXAS=1,
        ),
        _before(
            "FMAs in snaking columns",
            "every FMA reuses an operand, also at the turns",
            **_AHEAD, ORDER=1, PTXAS=1,
        ),
        _before(
            "lanes of a warp row by row",
            "more wavefronts of shared memory, so slower",
            **(_AHEAD | {"PAIRS": 0}),
        ),
        _banks(
            "a ring of tiles, asynchronous copies, mbarriers",
            "no barrier of the block, no registers for tiles on their way",
            BK=16, GROUP=1,
        ),
        _banks("32 steps along K in a stage", "half as many changes of stage", GROUP=1),
        _banks(
            "blocks in groups of 8 rows: the rung as it is",
            "tiles are shared in L2: fewer bytes from DRAM",
        ),
        _banks(
            "a ring that begins 48 bytes into shared memory",
            "a copy of a row of B lies in five sectors instead of four: more bytes from L2",
            False, RING_ALIGN=16,
        ),
        _banks("a loop of 32 steps written out", "fewer branches and addresses", False, CHUNK=32),
        _banks("a loop of 4 steps written out", "less code, more branches", False, CHUNK=4),
        _before("lanes in pairs that read the same", "fewer wavefronts, so faster", False, PAIRS=1),
        _banks(
            "8×8 sums a thread, twice the warps",
            "16 warps hide what 8 cannot; a third more loads for each FMA",
            False, TN=8,
        ),
        _banks("ptxas at its default", "reuses fewer operands, so slower", False, PTXAS=3),
        _before("FMAs row by row", "reuses no operand at the end of a row, so slower", False,
                ORDER=0),
    ),
}  # fmt: skip


def steps(name: str) -> tuple[Step, ...]:
    """The steps of the path to the rung `name`. Raises LadderError where there is none."""
    if name not in PATHS:
        raise LadderError(f"no path to {name!r} is kept; there is one to {', '.join(PATHS)}")
    return PATHS[name]


def shapes_of(name: str) -> tuple[tuple[int, int, int], ...]:
    """(M, N, K) at which the steps to the rung `name` are measured."""
    return (*SHAPES, *FURTHER.get(name, ()))


def evidence(name: str) -> Table:
    """What is kept of the path to the rung `name`. Raises LadderError."""
    by_row = {step.row: step for step in steps(name)}

    def fingerprint_of(row: Any, on: Target) -> Fingerprint | None:
        step = by_row.get((row.file, row.settings))  # None of a former step
        return step and step.fingerprint([Problem(int(row.m), int(row.n), int(row.k))], on)

    return Table(
        name=f"path/{name}", file="path.csv", remake=partial(record, name),
        key=("path", "file", "settings", "m", "n", "k"), columns=COLUMNS, part=("path", name),
        fingerprint_of=fingerprint_of,
    )  # fmt: skip


def path(name: str, shape: Sequence[int] = SHAPES[0]) -> pandas.DataFrame:
    """The steps to the rung `name` in their order, as they were recorded at one shape (M, N, K).

    step, predicted: what was changed, and what was expected of it; taken: whether it was kept.
    TFLOP/s, and % of cuBLAS with its quartiles, are medians of the same pairs. Of one trip through
    the inner loop, from the cubin: the issue slots and the share of FFMAs in them; the shares of
    FFMAs that mark an operand for reuse, and that need two registers of one bank; and of all cycles
    the share that is lost to waits for banks, as issue_slots.waits() counts them. Registers and
    spilled bytes of a thread. cuBLAS TFLOP/s, SM clock in MHz, gpu, recorded.

    Raises LadderError, StaleRecord where a step was not measured, and what registry.Table.read
    raises.
    """
    import pandas

    at = _rows(name, shape)
    if any(step.row not in at for step in steps(name)):
        raise stale(f"path/{name}")
    return pandas.DataFrame([_shown(step, at[step.row]) for step in steps(name)])


def rate_of(name: str, kernel: Kernel, shape: Sequence[int] = SHAPES[0]) -> float:
    """TFLOP/s of a kernel that is a step of the path to the rung `name`, at one shape (M, N, K).

    Raises what path() raises, and NoRecord for a kernel that is none of its steps.
    """
    code = shortened(kernel.code_hash())
    for row in _rows(name, shape).values():
        if row["code"].startswith(code):
            return row["tflops"]
    raise NoRecord(f"{kernel!r} is no step of the path to {name}.")


def _rows(name: str, shape: Sequence[int]) -> dict[tuple[str, str], dict[str, Any]]:
    """What was recorded at one shape, by Step.row."""
    table = evidence(name).read()
    m, n, k = shape
    rows = table[(table["m"] == m) & (table["n"] == n) & (table["k"] == k)]
    if rows.empty:
        there = sorted(set(zip(table["m"], table["n"], table["k"], strict=True)))
        raise NoRecord(f"the path to {name} was not measured at {shape}; measured are {there}.")
    return {(row["file"], row["settings"]): row for row in rows.to_dict("records")}


def _shown(step: Step, row: dict[str, Any]) -> dict[str, object]:
    return {
        "step": step.title,
        "predicted": step.predicted,
        "taken": step.taken,
        "TFLOP/s": round(row["tflops"], 1),
        "% of cuBLAS": round(row["pct_cublas"], 1),
        "% of cuBLAS, quartiles": f"{row['pct_cublas_q1']:.1f} to {row['pct_cublas_q3']:.1f}",
        "issue slots": row["slots"],
        "FFMA, % of slots": round(100 * row["ffma"] / row["slots"], 1),
        "FFMA with reuse, %": round(row["reuse_pct"], 1),
        "two in a bank, % of FFMA": round(100 * row["two_in_a_bank"] / row["ffma"], 1),
        "waits, % of cycles": round(100 * row["waits"] / (row["slots"] + row["waits"]), 1),
        "registers": row["registers"],
        "spilled bytes": row["spilled_bytes"],
        "cuBLAS TFLOP/s": round(row["cublas_tflops"], 1),
        "SM clock, MHz": row["sm_clock_mhz"],
        "gpu": row["gpu"],
        "recorded": row["recorded"],
    }


# ---- measuring -----------------------------------------------------------------------------------


def record(name: str, say: Say) -> Path:
    """Measure every step to the rung `name` on the GPU here, and write them; returns the file.

    What is there of former steps goes. Raises LadderError, NoGpu, NoDisassembler,
    VerificationError.
    """
    import pandas

    wanted, here = steps(name), require_gpu("Measuring the path")
    # NVRTC takes a second or two for each, so other processes compile ahead.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        rows = [
            row
            for step, compiled in zip(wanted, pool.map(compile_step, wanted), strict=True)
            for row in _measure(name, step, compiled, say)
        ]
    return evidence(name).write(pandas.DataFrame(rows), here.slug)


def compile_step(step: Step) -> Compiled:
    """Compile in another process; CuPy keeps what it compiles on disk, where the first finds it."""
    kernel = step.kernel()
    kernel.prepare()
    options = options_for(kernel.settings)
    anew = nvrtc.compile_anew(kernel.text, step.path.name, arch=kernel.arch, options=options)
    return Compiled(kernel.arch, anew.ptx, anew.cubin, resources(anew.log))


def _measure(name: str, step: Step, compiled: Compiled, say: Say) -> list[dict[str, object]]:
    """The rows of one step, one for each shape."""
    kernel, versions = step.kernel(compiled), software_versions()
    entry = kernel.rung.entry(kernel.settings)
    taken = compiled.entries[entry]
    loop = loops.analyse(compiled.cubin, entry, loops.adds_per_tile(kernel))
    file, settings = step.row
    about = {
        "path": name,
        "file": file,
        "settings": settings,
        "registers": taken.registers,
        "spilled_bytes": taken.spill_store_bytes + taken.spill_load_bytes,
        **register_reads(loop),
        **{which: versions[which] for which in ("driver", "cuda", "nvrtc", "cublas")},
    }
    rows = []
    for m, n, k in shapes_of(name):
        run = compare(kernel, m, n, k, pairs=PAIRS[m])
        rows.append({
            **about, "m": m, "n": n, "k": k, "tflops": run.gflops / 1e3,
            "pct_cublas": 100 * run.ratio.median, "pct_cublas_q1": 100 * run.ratio.q1,
            "pct_cublas_q3": 100 * run.ratio.q3, "noise_q1": 100 * run.noise.q1,
            "noise_q3": 100 * run.noise.q3,
            "cublas_tflops": gflops(m, n, k, run.cublas_ms.median) / 1e3,
            "sm_clock_mhz": run.sm_clock_mhz, "power_w": run.power_w, "gpu": run.gpu,
            "recorded": run.recorded,
        })  # fmt: skip
        say(f"{step.title}, {m}: {run.gflops / 1e3:.1f} TFLOP/s, "
            f"{100 * run.ratio.median:.1f} % of cuBLAS")  # fmt: skip
    return rows
