"""The path to a rung: the steps from the one before it, each a kernel of its own, against cuBLAS.

    python benchmarks/register_banks_path.py

measures them and writes results/<gpu>-path.csv, a row for each step and shape. A row belongs to the
code that was measured: a step that has changed since is not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gemmlab import ladder
from gemmlab.compiler import Compiled
from gemmlab.device import replayed_file
from gemmlab.fingerprint import short_code
from gemmlab.kernel import Kernel
from gemmlab.ladder import RESULTS, ROOT, LadderError, Settings
from gemmlab.records import LARGE, NoRecord, StaleRecord

if TYPE_CHECKING:
    import pandas

SHAPES = (LARGE, (8192, 8192, 8192))
"""(M, N, K) at which every step is measured."""

COLUMNS = (
    "path", "file", "settings", "m", "n", "k", "tflops", "pct_cublas", "pct_cublas_q1",
    "pct_cublas_q3", "noise_q1", "noise_q3", "cublas_tflops", "sm_clock_mhz", "power_w",
    "registers", "spilled_bytes", "slots", "ffma", "bank_0", "bank_1", "two_in_a_bank", "waits",
    "reuse_pct", "code", "gpu", "driver", "cuda", "nvrtc", "cublas", "recorded",
)  # fmt: skip
SCRIPT = "benchmarks/register_banks_path.py"


@dataclass(frozen=True)
class Step:
    """One kernel on the way: what was changed, and what that let expect.

    `like` is the rung that it is launched and verified as; `settings` come on top of the rung's
    defaults, and may be any macros of the file, which is the rung's own if `file` is empty, else
    one below the project's root. `taken` is false for a road that led nowhere.
    """

    title: str
    predicted: str
    like: str
    settings: Settings = field(default_factory=dict)
    file: str = ""
    taken: bool = True

    @property
    def path(self) -> Path:
        return ROOT / self.file if self.file else ladder.find(self.like).path

    @property
    def all_settings(self) -> Settings:
        return {**ladder.settings_for(ladder.find(self.like), {}), **self.settings}

    @property
    def code(self) -> str:
        """The hash of the code that is measured."""
        return short_code(self.path, self.all_settings)

    def kernel(self, compiled: Compiled | None = None) -> Kernel:
        """Ready to call: with what was compiled elsewhere, or compiled now. Raises CompileError."""
        return Kernel(ladder.find(self.like), self.all_settings, None, self.path, compiled)


def _banks(title: str, predicted: str, taken: bool = True, **settings: int) -> Step:
    return Step(title, predicted, "10_register_banks", settings, taken=taken)


_AHEAD = {"BK": 8, "STAGES": 1, "GROUP": 1, "PAIRS": 1}
_RING = {"BK": 16, "STAGES": 3, "GROUP": 1}

PATHS: dict[str, tuple[Step, ...]] = {
    "10_register_banks": (
        Step("09 as it is", "", "09_double_buffering"),
        Step(
            "a tile of 128×256, warps of 64×64",
            "8×16 sums a thread: 6 loads for 128 FMAs instead of 4 for 64",
            "09_double_buffering",
            {"BM": 128, "BN": 256, "BK": 8, "WM": 64, "WN": 64, "STAGES": 1},
        ),
        _banks(
            "the next column and row in registers ahead",
            "they are read while these are multiplied: no FMA waits for shared memory",
            **_AHEAD, ORDER=0, PTXAS=3,
        ),
        _banks(
            "ptxas at -O1",
            "keeps the order of the FMAs that is written: more operands reused",
            **_AHEAD, ORDER=0, PTXAS=1,
        ),
        _banks(
            "FMAs in snaking columns",
            "every FMA reuses an operand, also at the turns",
            **_AHEAD, ORDER=1, PTXAS=1,
        ),
        _banks(
            "lanes of a warp row by row",
            "more wavefronts of shared memory, so slower",
            **(_AHEAD | {"PAIRS": 0}),
        ),
        _banks(
            "a ring of tiles, asynchronous copies, mbarriers",
            "no barrier of the block, no registers for tiles on their way",
            **_RING,
        ),
        _banks("32 steps along K in a stage", "half as many changes of stage", GROUP=1),
        _banks(
            "blocks in groups of 8 rows: the rung as it is",
            "tiles are shared in L2: fewer bytes from DRAM",
        ),
        _banks("a loop of 32 steps written out", "fewer branches and addresses", False, CHUNK=32),
        _banks("a loop of 4 steps written out", "less code, more branches", False, CHUNK=4),
        _banks("lanes in pairs that read the same", "fewer wavefronts, so faster", False, PAIRS=1),
        _banks(
            "8×8 sums a thread, twice the warps",
            "16 warps hide what 8 cannot; a third more loads for each FMA",
            False, TN=8,
        ),
        _banks("ptxas at its default", "reuses fewer operands, so slower", False, PTXAS=3),
        _banks("FMAs row by row", "reuses no operand at the end of a row, so slower", False,
               ORDER=0),
    ),
}  # fmt: skip


def steps(name: str) -> tuple[Step, ...]:
    """The steps of the path to the rung `name`. Raises LadderError where there is none."""
    if name not in PATHS:
        raise LadderError(f"no path to {name!r} is kept; there is one to {', '.join(PATHS)}")
    return PATHS[name]


def file_of(slug: str) -> Path:
    """Where the measurements of the GPU `slug` are kept."""
    return RESULTS / f"{slug}-path.csv"


def path(name: str, shape: Sequence[int] = SHAPES[0]) -> pandas.DataFrame:
    """The steps to the rung `name` in their order, as they were recorded at one shape (M, N, K).

    step, predicted: what was changed, and what was expected of it; taken: whether it was kept.
    TFLOP/s, and % of cuBLAS with its quartiles, are medians of the same pairs. Of one trip through
    the inner loop, from the cubin: the share of FFMAs in the issue slots; the shares of FFMAs that
    mark an operand for reuse, and that need two registers of one bank; and of all cycles the share
    that is lost to waits for banks, as issue_slots.waits() counts them. cuBLAS TFLOP/s, SM clock in
    MHz, gpu, recorded.

    Raises LadderError, NoRecord, StaleRecord.
    """
    import pandas

    wanted = steps(name)
    table = _recorded(name)
    m, n, k = shape
    rows = table[(table["m"] == m) & (table["n"] == n) & (table["k"] == k)]
    if rows.empty:
        there = sorted(set(zip(table["m"], table["n"], table["k"], strict=True)))
        raise NoRecord(f"the path to {name} was not measured at {shape}; measured are {there}.")
    return pandas.DataFrame([_row(step, rows) for step in wanted])


def _recorded(name: str) -> pandas.DataFrame:
    import pandas

    file = replayed_file()
    kept = file_of(file.stem) if file else None
    table = pandas.read_csv(kept) if kept and kept.is_file() else pandas.DataFrame()
    if table.empty:
        raise NoRecord(f"the path to {name} is not recorded; run `python {SCRIPT}` on a GPU.")
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing:
        raise NoRecord(f"{kept.name} lacks {', '.join(missing)}.")
    return table[table["path"] == name]


def _row(step: Step, rows: pandas.DataFrame) -> dict[str, object]:
    found = rows[rows["code"] == step.code]
    if found.empty:
        raise StaleRecord(
            f"{step.title}: not recorded, or recorded for other code; "
            f"run `python {SCRIPT}` on a GPU."
        )
    row = found.iloc[-1]
    return {
        "step": step.title,
        "predicted": step.predicted,
        "taken": step.taken,
        "TFLOP/s": round(row["tflops"], 1),
        "% of cuBLAS": round(row["pct_cublas"], 1),
        "% of cuBLAS, quartiles": f"{row['pct_cublas_q1']:.1f} to {row['pct_cublas_q3']:.1f}",
        "FFMA, % of slots": round(100 * row["ffma"] / row["slots"], 1),
        "FFMA with reuse, %": round(row["reuse_pct"], 1),
        "two in a bank, % of FFMA": round(100 * row["two_in_a_bank"] / row["ffma"], 1),
        "waits, % of cycles": round(100 * row["waits"] / (row["slots"] + row["waits"]), 1),
        "registers": row["registers"],
        "cuBLAS TFLOP/s": round(row["cublas_tflops"], 1),
        "SM clock, MHz": row["sm_clock_mhz"],
        "gpu": row["gpu"],
        "recorded": row["recorded"],
    }
