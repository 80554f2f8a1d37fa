"""Who waits for whom in 16 and in 17: clock readings of one block, step by step.

    python -m gemmlab record 17_timeline

puts marks into the two kernels, which write down the SM's clock, launches each until the GPU is
warm, and keeps the last launch; results/<gpu>/hopper_timeline.csv holds it (see
gemmlab.records.registry). Marks cost time themselves: what they tell is the order and the
proportions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel import on_gpu
from gemmlab.kernel.fingerprint import short_code
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import Problem, Rung, Target
from gemmlab.ladder.rungs.hopper import TMA_WGMMA, WARP_SPECIALIZED
from gemmlab.measure.in_turn import make_sets
from gemmlab.measure.timing import now
from gemmlab.records.registry import DATE, POSITIVE, REPORTED, SIZE, TEXT, Say, Table
from gemmlab.records.runs import LARGE

if TYPE_CHECKING:
    import pandas

NAME = "17_timeline"
STEPS = LARGE[2] // 64
ROLES = ("warpgroup 0", "warpgroup 1", "producer")
EVENTS = ("waits", "goes_on", "done", "met")
WARM = 50  # launches before the one that is kept
MARK = f"""\
__device__ long long marks[{len(ROLES)}][{STEPS}][{len(EVENTS)}];
#define MARK(event) \\
    if (blockIdx.x == 0 && threadIdx.x % 128 == 0 && step < {STEPS}) \\
        marks[group][step][event] = clock64()
"""


@dataclass(frozen=True)
class Marked:
    """A kernel, and after which of its lines a mark stands: (line, event), `None` before it."""

    rung: Rung
    before: tuple[tuple[str, int], ...]
    after: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """The kernel with marks. Raises ValueError where a line does not stand there once."""
        text = self.rung.path.read_text(encoding="utf-8")
        for line, event in self.before:
            text = replaced(text, line, f"MARK({event}); {line}")
        for line, event in self.after:
            text = replaced(text, line, f"{line} MARK({event});")
        return replaced(text, 'extern "C"', f'{MARK}\nextern "C"')


def replaced(text: str, old: str, new: str) -> str:
    if (times := text.count(old)) != 1:
        raise ValueError(f"{old!r} stands {times} times in the kernel, it must stand there once")
    return text.replace(old, new)


FULL = "wait_for(full + 8 * (step % STAGES), step / STAGES % 2);"
MARKED = (
    Marked(
        TMA_WGMMA,
        ((FULL, 0),),
        (
            (f"MARK(0); {FULL}", 1),
            ("wait_for_products<LAG>();", 2),
            ("if (threadIdx.x == 0 && next >= STAGES && next < steps) fetch(next);", 3),
        ),
    ),
    Marked(
        WARP_SPECIALIZED,
        (
            ("wait_for(full + 8 * at.stage, at.parity);", 0),
            ("wait_for(empty + 8 * at.stage, at.parity ^ 1);", 0),
            ("at.go_on();\n        }", 3),
        ),
        (
            ("MARK(0); wait_for(full + 8 * at.stage, at.parity);", 1),
            ("MARK(0); wait_for(empty + 8 * at.stage, at.parity ^ 1);", 1),
            ("bring(to, map_b, row, col, told); });", 2),
            ("wait_for_products<1>();", 2),
        ),
    ),
)
COLUMNS = {
    **TEXT("kernel", "role"), **SIZE("step"), **POSITIVE("waits", "goes_on", "done"),
    **REPORTED("met"), **TEXT("code", "gpu", "driver", "cuda"), **DATE("recorded"),
}  # fmt: skip


def record(say: Say) -> Path:
    """Take the marks of both kernels; returns the file. Raises NoGpu and TimingError."""
    import cupy
    import pandas

    here, versions = require_gpu("Taking marks"), software_versions()
    rows = []
    for marked in MARKED:
        rung, settings = marked.rung, ladder.settings_for(marked.rung, {})
        code = short_code(rung.path, settings)
        kernels = on_gpu.loaded(marked.text, rung.path.name, here.arch, settings, f"{code}marks")
        problem, precision = Problem(*LARGE), rung.precision
        operands = Operands(problem, precision, *make_sets(problem, 1, precision)[0])
        launches = rung.launches(problem, settings, Target(here.arch, here.sm_count))
        for _ in range(WARM):
            kernels.run(launches, operands.values(1.0, 0.0))
        cupy.cuda.get_current_stream().synchronize()
        taken = kernels.variable("marks", (len(ROLES), STEPS, len(EVENTS)), "int64")
        first = taken[taken > 0].min() - 1
        for role, of_role in zip(ROLES, taken, strict=True):
            for step, clocks in enumerate(of_role, start=1):
                if not clocks.any():
                    continue
                since = {
                    event: int(clock - first) if clock else None
                    for event, clock in zip(EVENTS, clocks, strict=True)
                }
                rows.append({
                    "kernel": rung.name, "role": role, "step": step, **since, "code": code,
                    "gpu": here.name, "driver": versions["driver"], "cuda": versions["cuda"],
                    "recorded": now(),
                })  # fmt: skip
        say(f"{NAME}: {rung.name}, {len(rows)} rows")
        EVIDENCE.write(pandas.DataFrame(rows), here.slug)
    return EVIDENCE.path_of(here.slug)


def _code_of_row(row) -> str:
    (rung,) = (one.rung for one in MARKED if one.rung.name == row.kernel)
    return short_code(rung.path, rung.defaults)


EVIDENCE = Table(
    name=NAME, file="hopper_timeline.csv", remake=record, key=("kernel", "role", "step"),
    columns=COLUMNS, code_of_row=_code_of_row,
)  # fmt: skip


def marks() -> pandas.DataFrame:
    """As recorded: kernel, role, step from 1 on, and cycles since the first mark of the kernel.

    waits: it begins to wait for its stage; goes_on: it has it; done: the products of the step
    before are there, or the copies are started; met: it goes to the next step. Raises what
    registry.Table.read raises.
    """
    return EVIDENCE.read()[["kernel", "role", "step", *EVENTS]]
