"""What is measured of several GPUs: rungs and shapes, schedules, and the columns that are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gemmlab import ladder
from gemmlab.ladder import Precision, Problem, Rung, Settings
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu.in_turn import ByKernel
from gemmlab.lessons.multi_gpu.schedule import Schedule, squarest
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.register_banks.rung import RUNG as REGISTER_BANKS
from gemmlab.lessons.warp_specialized.rung import RUNG as WARP_SPECIALIZED
from gemmlab.records.registry import COUNTED, DATE, NOTE, NUMBER, POSITIVE, SIZE, TEXT, WHOLE

NAME = "21_multi_gpu"
CHUNKS, REPEATS = 8, 9
COUNTS = (2, 4, 8)
SMALL = Problem(264, 136, 520)  # for which each schedule is held to its bound
SEED = 21


@dataclass(frozen=True)
class Case:
    """A rung with settings, which may be any macros of its file, and the shapes it is measured at.

    `grown`: the shape of one GPU, of which p GPUs get p times the rows.
    """

    rung: Rung
    settings: Settings
    problems: tuple[Problem, ...]
    grown: Problem | None = None

    @property
    def full(self) -> Settings:
        return ladder.settings_for(self.rung, {}) | self.settings

    @property
    def precision(self) -> Precision:
        return self.rung.precision_of(self.full)

    @property
    def arithmetic(self) -> Callable[[], ByKernel]:
        return partial(ByKernel.of, self.rung.name, dict(self.full))

    def shapes(self, ranks: int) -> list[Problem]:
        """With one GPU those of all numbers of GPUs: what the others are held against."""
        counts = COUNTS if ranks == 1 else (ranks,)
        grown = [
            Problem(n * self.grown.m, self.grown.n, self.grown.k) for n in counts if self.grown
        ]
        return list(dict.fromkeys([*self.problems, *grown]))


CUBE = Problem(16384, 16384, 16384)
CASES = (
    Case(PERSISTENT, {"DTYPE": 1}, (CUBE, Problem(8192, 8192, 8192)), Problem(8192, 8192, 8192)),
    # With its ring where it was when two GPUs were at hand: the same machine code as then.
    Case(REGISTER_BANKS, {"RING_ALIGN": 16}, (CUBE,)),
    Case(WARP_SPECIALIZED, {"DTYPE": 1}, (CUBE, Problem(8192, 8192, 8192))),
)


def of(kernel: str) -> Case:
    """The case whose products a rung computes. Raises KeyError for another rung."""
    return {case.rung.name: case for case in CASES}[kernel]


MAKERS: dict[str, Callable[..., Schedule]] = {  # of a problem, ranks and, if not CHUNKS, chunks
    make.COLUMN: partial(make.column_parallel, chunks=CHUNKS),
    make.ROW: partial(make.row_parallel, chunks=CHUNKS),
    make.SUMMA: lambda problem, ranks, chunks=CHUNKS: make.summa(problem, squarest(ranks), chunks),
}
CODE = {**TEXT("code", "gpu"), **DATE("recorded")}
KEY = ("schedule", "kernel", "settings", "moved_by", "ranks", "m", "n", "k")
WHAT = {
    **TEXT("schedule", "dtype", "kernel"), **NOTE("settings"), **TEXT("moved_by"),
    **SIZE("ranks", "m", "n", "k"),
}  # fmt: skip
COLUMNS = {
    **WHAT, **SIZE("chunks"), **POSITIVE("ms", "ms_q1", "ms_q3", "tflops", "one_gpu_ms"),
    **POSITIVE("pct_of_ranks"), **COUNTED("hidden_pct", "all_reduce_gbytes", "peer_copy_gbytes"),
    **TEXT("driver", "cuda", "nvrtc", "nccl"), **CODE,
}  # fmt: skip
STEPS = {**WHAT, **WHOLE("rank"), **TEXT("stream", "step", "kind"), **NUMBER("start_ms", "end_ms"), **CODE}  # fmt: skip # noqa: E501


def kept_name(schedule: Schedule) -> str:
    """What a record calls it: one of MAKERS, without the grid of SUMMA."""
    return make.SUMMA if schedule.name.startswith(make.SUMMA) else schedule.name
