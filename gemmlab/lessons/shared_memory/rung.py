"""Rung 03: its entry on the ladder."""

from gemmlab.ladder.launch import single
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import Constraint, Parameter, Settings, fits
from gemmlab.ladder.shapes import ceil_div, tile_reuse


def _threads_without_work(s: Settings) -> str | None:
    if s["BK"] < s["TILE"]:
        return (
            f"leaves threads without work: TILE={s['TILE']} loads {s['TILE']} elements along K "
            "at least"
        )
    return None


RUNG = Rung(
    name="03_shared_memory",
    title="Shared-memory tiling",
    idea="a block loads a tile once, and all its threads reuse it",
    inner_loop=(
        ("for (int tile_k", "}"),
        ("__syncthreads", "__syncthreads();                         // all threads"),
    ),
    parameters=(
        Parameter("TILE", 32, (8, 16, 32), "rows and columns of the tiles of A, B and C"),
        Parameter("BK", 64, (8, 16, 32, 64), "how far along K one step goes"),
        Parameter("PAD", 0, (0, 1), "unused floats at the end of a tile's row"),
    ),
    tile=lambda s: (s["TILE"], s["TILE"]),
    plan=single(
        "shared_memory",
        lambda m, n, s: (ceil_div(n, s["TILE"]), ceil_div(m, s["TILE"]), 1),
        lambda s: (s["TILE"], s["TILE"], 1),
    ),
    constraints=(
        Constraint("work for all threads", _threads_without_work),
        *fits(
            lambda s: s["TILE"] ** 2,
            lambda s: (1, 1),
            lambda s: s["TILE"] * (s["BK"] + s["PAD"]) + s["BK"] * (s["TILE"] + s["PAD"]),
        ),
    ),
    model_bytes=lambda problem, s: tile_reuse(problem, {"BM": s["TILE"], "BN": s["TILE"]}),
    planted=Planted.beside(__file__),
)
