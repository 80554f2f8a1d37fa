"""Rung 10: its entry on the ladder."""

from gemmlab.ladder import settings, shapes
from gemmlab.ladder.launch import PRODUCT, Argument, Plan, single
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Constraint, Parameter, Settings, enough_registers, whole_block

LARGE = {"BM": 128, "BN": 256, "BK": 32, "TM": 8, "TN": 16}  # for large products

PARAMETERS = (
    *shapes.block_tile(
        (64, 128), (64, 128, 256), (16, 32), tuple(LARGE[name] for name in ("BM", "BN", "BK"))
    ),
    Parameter("TM", LARGE["TM"], (4, 8), "rows of C that a thread computes"),
    Parameter("TN", LARGE["TN"], (8, 16), "columns of C that a thread computes"),
    Parameter("PTXAS", 1, (1, 3), "the assembler's optimization; 1 keeps the order of the FMAs"),
)
STAGES = 3  # as in the kernels' header; steps on the way to 10 have others


def _shared_bytes(s: Settings) -> int:
    """A pipeline of tiles of floats; A's have four more in a row, against bank conflicts."""
    places = max(2, s.get("STAGES", STAGES))
    return places * 4 * s["BK"] * (s["BM"] + 4 + s["BN"])


def _whole_warps(s: Settings) -> str | None:
    if s["BM"] % (4 * s["TM"]) or s["BN"] % (8 * s["TN"]):
        return f"leaves no whole warps: one computes {4 * s['TM']}×{8 * s['TN']}"
    return None


def _a_row_of_b(s: Settings) -> str | None:
    if (threads := shapes.threads_of_tiles(s)) < s["BN"]:
        return f"makes {threads} threads per block, too few to copy a row of {s['BN']} of B"
    return None


def _only_to_compare(s: Settings) -> str | None:
    if s["PTXAS"] == 3 and any(s[name] != value for name, value in LARGE.items()):
        return f"is there to compare: PTXAS=3 only with {settings.listed(LARGE)}"
    return None


CONSTRAINTS = (
    Constraint("whole warps", _whole_warps),
    Constraint("a row of B", _a_row_of_b),
    Constraint("only to compare", _only_to_compare),
    whole_block(shapes.threads_of_tiles),
    enough_registers(
        lambda s: s["TM"] * s["TN"] + 2 * (s["TM"] + s["TN"]),
        lambda s: f"{s['TM']}×{s['TN']} accumulators, two columns, two rows",
        shapes.threads_of_tiles,
    ),
)


def needs_arch(s: Settings) -> str:
    """Copies to shared memory and mbarriers."""
    return "sm_80"


def plan(entry: str, args: tuple[Argument, ...]) -> Plan:
    return single(
        entry, shapes.tiles_of_c, shapes.in_a_line(shapes.threads_of_tiles), _shared_bytes, args
    )


RUNG = Rung(
    name="10_register_banks",
    title="Register banks",
    idea="nearly every issue slot an FMA, its operands in registers ahead of it",
    inner_loop=(("copies.pipeline.release", "multiply_columns<0, 1>(accumulators"),),
    inner_loop_in="register_tile_mainloop.cuh",
    parameters=PARAMETERS,
    tile=shapes.tile,
    plan=plan("register_banks", PRODUCT),
    constraints=CONSTRAINTS,
    model_bytes=shapes.tile_reuse,
    needs_arch=needs_arch,
    tuned_shapes=(*((n, n, n) for n in (512, 1024, 2048)), (1024, 1024, 512), (128, 4096, 4096)),
)
