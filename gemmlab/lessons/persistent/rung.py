"""Rung 18: its entry on the ladder."""

from gemmlab.ladder.launch import Launch, Target
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import Constraint, Parameter, Settings
from gemmlab.ladder.shapes import ceil_div, fits
from gemmlab.lessons.tma_wgmma import rung as tma_wgmma
from gemmlab.lessons.tma_wgmma.rung import ARCH, SQUARE
from gemmlab.lessons.warp_specialized.rung import EARLY, THIN, sent, sent_bytes


def cluster_tiles(s: Settings) -> tuple[int, int]:
    """Down and across: they share A side by side, or B one below the other."""
    return (1, s["CLUSTER"]) if s["SHARE_A"] else (s["CLUSTER"], 1)


def _persistent(problem: Problem, s: Settings, target: Target) -> Launch:
    together, (down, across) = s["CLUSTER"], cluster_tiles(s)
    tiles_down, tiles_across = tma_wgmma.tiles_of(problem, s)
    tiles = ceil_div(tiles_down, down) * ceil_div(tiles_across, across)  # of a whole cluster
    clusters = tma_wgmma.clusters_for(tiles, target.sm_count, together)
    maps = tma_wgmma.maps_of(s, s["BM"] // across, s["BN"] // down)
    return sent("persistent", clusters * together, s, together, maps)


def _whole_squares(s: Settings) -> str | None:
    if not s["SHARE_A"] and s["BN"] // s["CLUSTER"] < SQUARE:
        return f"leaves each block less than the {SQUARE} columns of B that it copies at a time"
    return None


def _shared_by_some(s: Settings) -> str | None:
    return "shares A, with CLUSTER=2 or more" if s["SHARE_A"] and s["CLUSTER"] == 1 else None


RUNG = Rung(
    name="18_persistent",
    title="Persistent blocks and clusters",
    idea="blocks that stay compute tile after tile, and two of them share a tile of B",
    inner_loop=(
        ("RoundedPairs previous;", "const auto multiply_next"),
        ("multiply_stage(", "multiply_stage("),
        ("for (int piece = 0; piece < (LATER", "mbarrier_arrive_in_cluster("),
        ("round_accumulators(", "round_accumulators("),
        ("number += clusters;", "}"),
    ),
    parameters=(
        *tma_wgmma.parameters((2, 3, 4, 6, 8)),
        Parameter("CLUSTER", 2, (1, 2, 4), "blocks that share B"),
        Parameter("SHARE_A", 0, (0, 1), "1: they share A, their tiles side by side"),
        Parameter(
            "SEND_LATER", 1, (0, 1), "1: C is sent while the next tile is multiplied", tuned=False
        ),
        EARLY,
        *tma_wgmma.WHAT,
    ),
    plan=tma_wgmma.or_any_width(_persistent),
    cluster_tiles=cluster_tiles,
    constraints=(
        fits(sent_bytes, ARCH),
        Constraint("whole squares of B", _whole_squares),
        Constraint("sharing", _shared_by_some),
    ),
    tuned_shapes=(*THIN, (1024, 1024, 1024), (2048, 2048, 2048), (8192, 8192, 8192)),
    planted=Planted.beside(__file__),
    **tma_wgmma.common,
)
