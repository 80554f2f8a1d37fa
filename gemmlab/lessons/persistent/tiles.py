"""What happens on one SM between two tiles, in 17 and in 18: clock readings, tile by tile.

    python -m gemmlab record 18_tiles

puts marks into the two kernels, which write down the SM's clock and number, launches each until
the GPU is warm, and keeps the last launch, of the SM that had block 0;
results/<gpu>/hopper_tiles.csv holds it (see gemmlab.records.registry). There are few marks to a
tile, so they cost little.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel import on_gpu
from gemmlab.kernel.fingerprint import Fingerprint, code_hash, of_rung
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import Problem, Rung, Settings, Target
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.tma_wgmma.timeline import (
    FULL_17,
    MEMORY,
    READ,
    ROLES,
    replaced,
)
from gemmlab.lessons.warp_specialized.rung import RUNG as WARP_SPECIALIZED
from gemmlab.measure.in_turn import make_sets
from gemmlab.measure.timing import now
from gemmlab.records.registry import DATE, REPORTED, SIZE, TEXT, Say, Table
from gemmlab.records.runs import LARGE

if TYPE_CHECKING:
    import numpy
    import pandas

NAME = "18_tiles"
EVENTS = ("begins", "starts", "ends", "sends", "sent", "gone")
SM = len(EVENTS)  # where a tile's marks have the number of the SM
MOST = 2048  # tiles of the product
WARM = 50  # launches before the one that is kept
MARKS = f"""{READ}
__device__ long long marks[{MOST}][{len(ROLES)}][{len(EVENTS) + 1}];
#define MARK(event, reads) \\
    read_clock(&marks[TILE][threadIdx.x / 128][event], threadIdx.x % 128 == 0 && (reads));
__device__ __forceinline__ void read_sm(long long* to, bool reads)
{{
    asm volatile("{{ .reg .pred p; .reg .b32 t; .reg .b64 u; setp.ne.u32 p, %1, 0;"
                 " @p mov.u32 t, %%smid; @p cvt.u64.u32 u, t; @p st.global.b64 [%0], u; }}"
                 :: "l"(to), "r"((int)reads) : "memory");
}}
#define MARK_BEFORE(event, reads) \\
    read_clock(&marks[TILE_BEFORE][threadIdx.x / 128][event], \\
               threadIdx.x % 128 == 0 && (reads));
#define BEGINS(reads) MARK(1, reads) \\
    read_sm(&marks[TILE][threadIdx.x / 128][{SM}], threadIdx.x % 128 == 0 && (reads));
"""
# A line of the kernel, and what stands there with marks. The producer "starts" when it has room for
# the first boxes of a tile, and "ends" when it has it for the last ones.
ROOM = "expect_bytes(told, sizeof(Stage));"
DONE = "wait_for_products<0>();"
IN_BOTH = (
    (ROOM, f"BEGINS(step == 0) MARK(2, step == steps - 1) {ROOM}"),
    (DONE, f"{DONE} MARK(2, true)"),
)
SENDS_17 = "send_sums(sums, shared.rooms[group], map_c, row, left, group);"
GONE_17 = "if (leads) wait_until_sent();"
SENDS_18 = "send_sums(sums, shared.rooms[group], map_c, from.row, from.col, group);"
FIRST_18 = "int step = 0;\n"
LATER_18 = "if (from.row >= 0)"  # a piece of the tile before, between the steps of this one
REST_18 = "while (step < steps) multiply();"  # when all its pieces are sent
LAST_18 = "if (thread == 0) wait_until_sent();"  # those of the last tile too


@dataclass(frozen=True)
class Marked:
    """A rung, which tile a thread is at, and which before, what is marked besides IN_BOTH."""

    rung: Rung
    settings: Settings
    tile: str
    before: str
    lines: tuple[tuple[str, str], ...]

    @property
    def full(self) -> Settings:
        return ladder.settings_for(self.rung, self.settings)

    @property
    def text(self) -> str:
        """The kernel with marks. Raises ValueError where a line does not stand there once."""
        text = self.rung.path.read_text(encoding="utf-8")
        for line, marked in (*IN_BOTH, *self.lines):
            text = replaced(text, line, marked)
        which = f"#define TILE ({self.tile})\n#define TILE_BEFORE ({self.before})"
        return replaced(text, 'extern "C"', f'{which}\n{MARKS}\nextern "C"')


OF_17 = (
    (FULL_17, f"{FULL_17} BEGINS(step == 0)"),
    (MEMORY, f"{MEMORY} MARK(0, true)"), (SENDS_17, f"MARK(3, true) {SENDS_17} MARK(4, true)"),
    (GONE_17, f"{GONE_17} MARK(5, true)"),
)  # fmt: skip
OF_18 = (
    (FIRST_18, f"{FULL_17} BEGINS(true) {FIRST_18}"),  # it may wait twice
    (SENDS_18, f"{{ MARK(3, true) {SENDS_18} MARK(4, true) }}"),
    (LATER_18, f"MARK_BEFORE(3, piece == 0 && from.row >= 0) {LATER_18}"),
    (REST_18, f"MARK_BEFORE(4, LATER && from.row >= 0) {REST_18}"),
    (LAST_18, f"MARK_BEFORE(4, LATER) {LAST_18}"),
)
PLACE_18 = "({}) * CLUSTER + rank"
MARKED = (
    Marked(WARP_SPECIALIZED, {}, "blockIdx.x", "blockIdx.x", OF_17),
    *(
        Marked(PERSISTENT, settings, PLACE_18.format("tile"), PLACE_18.format("tile - clusters"),
               OF_18)
        for settings in ({"CLUSTER": 1, "SEND_LATER": 0}, {"CLUSTER": 1}, {"CLUSTER": 2})
    ),
)  # fmt: skip
COLUMNS = {
    **TEXT("kernel", "settings", "role"), **SIZE("turn"), **REPORTED(*EVENTS),
    **TEXT("code", "gpu", "driver", "cuda"), **DATE("recorded"),
}  # fmt: skip


def record(say: Say) -> Path:
    """Take the marks of all; returns the file. Raises NoGpu and TimingError."""
    import cupy
    import pandas

    here, versions = require_gpu("Taking marks"), software_versions()
    context = {"gpu": here.name, "driver": versions["driver"], "cuda": versions["cuda"]}
    rows: list[dict] = []
    for marked in MARKED:
        rung, settings = marked.rung, marked.full
        code = code_hash(rung.path, settings)
        kernels = on_gpu.loaded(marked.text, rung.path.name, here.arch, settings, f"{code}tiles")
        problem, precision = Problem(*LARGE), rung.precision
        operands = Operands(problem, precision, *make_sets(problem, 1, precision)[0])
        launches = rung.launches(problem, settings, Target(here.arch, here.sm_count))
        for _ in range(WARM):
            kernels.run(launches, operands.values(1.0, 0.0))
        cupy.cuda.get_current_stream().synchronize()
        taken = kernels.variable("marks", (MOST, len(ROLES), SM + 1), "int64")
        of_kernel = {
            "kernel": rung.name, "settings": ladder.written(settings), **context,
            "recorded": now(),
        }  # fmt: skip
        rows += [of_kernel | row for row in on_one_sm(taken)]
        say(f"{NAME}: {rung.name}, {ladder.written(settings)}")
        EVIDENCE.write(pandas.DataFrame(rows)[[*COLUMNS]], here.slug, whole=False)
    return EVIDENCE.write(pandas.DataFrame(rows)[[*COLUMNS]], here.slug)


def on_one_sm(marks: numpy.ndarray) -> list[dict]:
    """Of the SM that had the first tile: a row for each of its tiles and each role.

    marks: int64 (tiles, roles, events + 1), 0 where there is none; the last is the SM. Clocks count
    from the first of them on, in the order of the tiles.
    """
    mine = marks[(marks[:, 0, SM] == marks[0, 0, SM]) & (marks[:, 0, 1] > 0)]
    mine = mine[mine[:, 0, 1].argsort()]
    clocks = mine[:, :, :SM]
    first = clocks[clocks > 0].min() - 1
    return [
        {
            "role": role, "turn": turn,
            **{event: int(clock - first) if clock else None
               for event, clock in zip(EVENTS, of_role, strict=True)},
        }
        for turn, of_tile in enumerate(clocks, start=1)
        for role, of_role in zip(ROLES, of_tile, strict=True)
    ]  # fmt: skip


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    (rung,) = {marked.rung for marked in MARKED if marked.rung.name == row.kernel}
    settings = ladder.read_settings(row.settings)
    return of_rung(rung, settings, [Problem(*LARGE)], on)


EVIDENCE = Table(
    name=NAME, file="hopper_tiles.csv", remake=record, key=("kernel", "settings", "role", "turn"),
    columns=COLUMNS, fingerprint_of=_fingerprint_of,
)  # fmt: skip


def tiles() -> pandas.DataFrame:
    """As recorded: kernel, how, role, turn from 1 on, cycles since the first mark.

    how: of 18, in which clusters, and whether sums are sent later; of 17, nothing.

    begins: the block does (of 17); starts: the first pair of tiles is there, or there is room for
    it; ends: the last products are done, or there is room for the last boxes; sends: the sums begin
    to go to shared memory and on to C; sent: all are on their way; gone: they are there (of 17).
    Raises what registry.Table.read raises.
    """
    table = EVIDENCE.read()
    how = [_how(ladder.read_settings(one)) for one in table["settings"]]
    return table.assign(how=how)[["kernel", "how", "role", "turn", *EVENTS]]


def _how(settings: Settings) -> str:
    if "SEND_LATER" not in settings:
        return ""
    together = settings["CLUSTER"]
    when = "sums sent later" if settings["SEND_LATER"] else "sums sent at once"
    return f"{f'clusters of {together}' if together > 1 else 'no clusters'}, {when}"
