"""What is measured for this lesson: an SM between two tiles.

    python -m gemmlab record 18_tiles

puts marks into 17 and 18, which read the SM's clock and number, and keeps those of the SM that had
block 0, in the last of many launches; results/<gpu>/hopper_tiles.csv.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pandas

from gemmlab import ladder
from gemmlab.kernel.fingerprint import Fingerprint, of_rung
from gemmlab.ladder import Problem, Rung, Settings, Target
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.tma_wgmma.clock_readings import FULL_17, MEMORY, launched, marks_in
from gemmlab.lessons.tma_wgmma.measure import ALONE
from gemmlab.lessons.warp_specialized.measure import FEW_ROWS, MANY_ROWS, NARROW, SEND, overlap_of
from gemmlab.lessons.warp_specialized.rung import RUNG as WARP_SPECIALIZED
from gemmlab.records import registry
from gemmlab.records.ablations import AblationStep
from gemmlab.records.registry import SIZE, TEXT, Row, Say, Table, provenance
from gemmlab.records.runs import LARGE

ROLES = ("warpgroup 0", "warpgroup 1", "producer")
EVENTS = ("begins", "starts", "ends", "sends", "sent", "gone")
SM = len(EVENTS)  # where a tile's marks have the number of the SM
MOST = 2048  # tiles of the product
MARKS = marks_in(Path(__file__).with_name("tile_marks.cuh"))
# A line of the kernel, and what stands there with marks. The producer "starts" when it has room for
# the first boxes of a tile, and "ends" when it has it for the last ones.
EXPECT = "mbarrier_arrive_expect(stage_full, sizeof(Stage));"
DONE = "wgmma_wait<0>();"
GONE_17 = "if (leader) tma_store_wait();"
SENDS_18 = """store_accumulators(accumulators, shared.store_buffers[warpgroup], map_c, m, n,
                               warpgroup);"""
FIRST_18 = "int k_tile = 0;\n"
LATER_18 = "if (previous_tile.m >= 0)"  # a piece of the tile before, between the steps of this one
REST_18 = "while (k_tile < k_tiles) multiply_next();"  # when all its pieces are stored
LAST_18 = "if (thread == 0) tma_store_wait();"  # those of the last tile too


def _marked(
    rung: Rung, settings: Settings, tile: str, before: str, lines: tuple[tuple[str, str], ...]
) -> AblationStep:
    """A rung with marks. tile: at which one a thread is, before: at which it was."""
    in_both = (
        (EXPECT, f"BEGINS(k_tile == 0) MARK(2, k_tile == k_tiles - 1) {EXPECT}"),
        (DONE, f"{DONE} MARK(2, true)"),
    )
    which = f"#define TILE ({tile})\n#define TILE_BEFORE ({before})"
    start = ('extern "C"', f'{which}\n{MARKS}\nextern "C"')
    return AblationStep(
        title=rung.name, rung=rung, settings=settings, changes=(*in_both, *lines, start)
    )


OF_17 = (
    (FULL_17, f"{FULL_17} BEGINS(k_tile == 0)"),
    (MEMORY, f"{MEMORY} MARK(0, true)"), (SEND, f"MARK(3, true) {SEND} MARK(4, true)"),
    (GONE_17, f"{GONE_17} MARK(5, true)"),
)  # fmt: skip
OF_18 = (
    (FIRST_18, f"{FULL_17} BEGINS(true) {FIRST_18}"),  # it may wait twice
    (SENDS_18, f"{{ MARK(3, true) {SENDS_18} MARK(4, true) }}"),
    (LATER_18, f"MARK_BEFORE(3, piece == 0 && previous_tile.m >= 0) {LATER_18}"),
    (REST_18, f"MARK_BEFORE(4, LATER && previous_tile.m >= 0) {REST_18}"),
    (LAST_18, f"MARK_BEFORE(4, LATER) {LAST_18}"),
)
PLACE_18 = "({}) * CLUSTER + rank"
MARKED = (
    _marked(WARP_SPECIALIZED, {}, "blockIdx.x", "blockIdx.x", OF_17),
    *(
        _marked(
            PERSISTENT, settings, PLACE_18.format("number"), PLACE_18.format("number - clusters"),
            OF_18,
        )
        for settings in ({"CLUSTER": 1, "SEND_LATER": 0}, {"CLUSTER": 1}, {"CLUSTER": 2})
    ),
)  # fmt: skip


def _measure_tiles(say: Say) -> Iterator[Row]:
    for step in MARKED:
        kernels, _ = launched(step)
        taken = kernels.variable("marks", (MOST, len(ROLES), SM + 1), "int64")
        say(f"18_tiles: {step.title}, {step.cells['settings']}")
        for row in on_one_sm(taken):
            yield step.cells | row


def on_one_sm(marks: numpy.ndarray) -> list[dict]:
    """Of the SM that had the first tile: a row for each of its tiles and each role.

    marks: int64 (tiles, roles, events + 1), 0 where there is none; the last is the SM. Clocks count
    from the first of them on.
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


def _fingerprint_of_tiles(row: Any, on: Target) -> Fingerprint:
    settings = ladder.read_settings(row.settings)
    return of_rung(ladder.find(row.kernel), settings, [Problem(*LARGE)], on)


TILES = Table(
    name="18_tiles", file="hopper_tiles.csv", key=("kernel", "settings", "role", "turn"),
    columns={
        **TEXT("kernel", "settings", "role"), **SIZE("turn"), **registry.REPORTED(*EVENTS),
        **provenance("driver", "cuda"),
    },
    measure=_measure_tiles, fingerprint_of=_fingerprint_of_tiles,
)  # fmt: skip


def tiles() -> pandas.DataFrame:
    """As recorded: kernel, how, role, turn from 1 on, cycles since the first mark.

    how: of 18, in which clusters, and whether sums are sent later. begins: the block does (of 17);
    starts, ends: the first pair of tiles is there and the last products are done, or there is room
    for the first and the last boxes; sends: sums begin to go to shared memory and on to C; sent:
    all are on their way; gone: they are there (of 17).
    """
    table = TILES.read()
    how = [_how(ladder.read_settings(cell)) for cell in table["settings"]]
    return table.assign(how=how)[["kernel", "how", "role", "turn", *EVENTS]]


def _how(settings: Settings) -> str:
    if "SEND_LATER" not in settings:
        return ""
    together = settings["CLUSTER"]
    when = "C stored during the next tile" if settings["SEND_LATER"] else "C stored at once"
    return f"{f'clusters of {together}' if together > 1 else 'no clusters'}, {when}"


EVIDENCE = (TILES,)
OVERLAP = {  # by shape: see the lesson below
    LARGE: overlap_of(PERSISTENT, LARGE, {}),
    FEW_ROWS: overlap_of(PERSISTENT, FEW_ROWS, NARROW | ALONE),
    MANY_ROWS: overlap_of(PERSISTENT, MANY_ROWS, NARROW | {"BM": 128, "CLUSTER": 4, "SHARE_A": 1}),
}
