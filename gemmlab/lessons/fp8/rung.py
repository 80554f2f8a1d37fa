"""Rung 19: 8-bit floats with scales, on top of rung 18, for sm_90a alone."""

from functools import cache
from itertools import product

from gemmlab.ladder import precision as precisions
from gemmlab.ladder.launch import Launch, MapOf, Target
from gemmlab.ladder.precision import BFLOAT16, E4M3, E5M2, FLOAT32, PROMOTED, SCALES, Precision
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import Constraint, Parameter, Settings
from gemmlab.ladder.shapes import ceil_div, fits, tile, tile_reuse
from gemmlab.lessons.tma_wgmma import rung as tma_wgmma
from gemmlab.lessons.tma_wgmma.rung import ARCH, GROUP_ROWS, GROUP_THREADS, ROW_BYTES
from gemmlab.lessons.warp_specialized.rung import EARLY, THIN, c_columns, sent, sent_bytes

FACTORS = ((E4M3, E4M3), (E5M2, E4M3), (E4M3, E5M2))  # A and B, by the value of DTYPE
THREE_SETS = 128  # columns of C for which a thread has room for totals and two sets of sums


@cache
def _by_warpgroups(
    a: precisions.ElementType, b: precisions.ElementType, c: precisions.ElementType,
    scales: precisions.Scales, promoted: int,
) -> Precision:  # fmt: skip
    """Of 8-bit floats with scales, by wgmma. What its sums lose is in gemmlab.kernel.bounds.

    Here are the roundings to float32: one for each sum that is promoted, and five for scales and
    what they multiply.
    """
    types = a.name if a is b else f"{a.name} × {b.name}"
    name = f"{types} to {c.name}, scales of {scales.name}"
    if promoted != PROMOTED:
        name += f", sums of {promoted}" if promoted else ", one sum"

    def errors(k: int) -> tuple[float, float]:
        return (-(-k // promoted) if promoted else 1) + 5, FLOAT32.unit_roundoff

    return Precision(
        name, a, b, c, FLOAT32, errors, on_tensor_cores=True, scales=scales, promoted=promoted
    )


def precision(s: Settings) -> Precision:
    c = FLOAT32 if s["OUT32"] else BFLOAT16
    return _by_warpgroups(*FACTORS[s["DTYPE"]], c, SCALES[s["SCALES"]], s["PROMOTE"])


def _has_maps(problem: Problem) -> bool:
    """Whether rows of A, B and a C of 16 bits begin at multiples of 16 bytes, and K is not 0."""
    return (
        problem.k > 0
        and problem.k % tma_wgmma.MAP_ALIGNMENT == 0
        and problem.n * BFLOAT16.bytes % tma_wgmma.MAP_ALIGNMENT == 0
    )


def _plan(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    args = ("C", "scale_a", "scale_b", "M", "N", "K", "alpha", "beta")
    if not _has_maps(problem):
        grid = (ceil_div(problem.n, GROUP_ROWS), ceil_div(problem.m, GROUP_ROWS), 1)
        return [Launch("any_width", grid, (GROUP_THREADS, 1, 1), args=("A", "B", *args))]
    together = s["CLUSTER"]
    down, across = ceil_div(problem.m, s["BM"] * together), ceil_div(problem.n, s["BN"])
    clusters = tma_wgmma.clusters_for(down * across, target.sm_count, together)
    maps = (
        MapOf("A", (s["BM"], ROW_BYTES), "128B"),
        MapOf("B", (s["BN"] // together, ROW_BYTES), "128B"),
    )
    return [sent("fp8", clusters * together, s, together, maps, args)]


def _no_room_for_sums(s: Settings) -> str | None:
    if s["PROMOTE"] and s["BN"] > THREE_SETS:
        return (
            f"keeps two sets of sums of {s['BN']} columns beside their totals, and a thread has "
            f"registers for {THREE_SETS} columns: BN up to {THREE_SETS}, or PROMOTE 0"
        )
    return None


def _too_few_stages(s: Settings) -> str | None:
    needed = 2 * s["PROMOTE"] // PROMOTED
    if s["STAGES"] < needed:
        return f"has two sums of {s['PROMOTE']} products under way: STAGES from {needed} on"
    return None


def _scales_along_k(s: Settings) -> str | None:
    if SCALES[s["SCALES"]].depth and s["PROMOTE"] != PROMOTED:
        return f"has another scale after every {PROMOTED} of K: PROMOTE is {PROMOTED}"
    return None


def _whole_squares(s: Settings) -> str | None:
    if s["BN"] < c_columns(s):
        return f"computes less than the {c_columns(s)} columns of C that are copied together"
    return None


def _swept(problem: Problem, s: Settings) -> bool:
    """Small tiles where C is small; none where rows suit neither tensor maps nor cuBLASLt."""
    if not _has_maps(problem):
        return False
    return problem.m * problem.n < tma_wgmma.SMALL_C or s["BM"] * s["BN"] >= tma_wgmma.LARGE_TILE


def _suited(problem: Problem, s: Settings) -> Settings:
    """Small tiles where large ones would leave SMs idle."""
    squares = ceil_div(problem.m, GROUP_ROWS) * ceil_div(problem.n, GROUP_ROWS)
    if problem.m > GROUP_ROWS and squares > 264:
        return {}
    return {"BM": 64, "BN": 128 if squares > 132 else 64, "STAGES": 8}


RUNG = Rung(
    name="19_fp8",
    title="FP8 with scales",
    idea="8 bits and scales; sums of 13 bits, added every 128 products to others in float32",
    inner_loop=(
        ("const auto start = [&]", "};"),
        ("const auto finish = [&]", "};"),
        ("for (; interval + 2 < intervals; interval += 2) {", "}"),
    ),
    parameters=(
        Parameter("BM", 128, (64, 128), "rows of C that a block computes"),
        Parameter("BN", 128, (32, 64, 128, 256), "columns of C that a block computes"),
        Parameter("STAGES", 6, (2, 3, 4, 6, 8), "pairs of tiles in shared memory"),
        Parameter("GROUP", 16, (1, 4, 8, 16, 32), "rows of tiles that are computed together"),
        Parameter("CLUSTER", 1, (1, 2), "blocks that share B"),
        EARLY,
        Parameter("SCALES", 0, (0, 1, 2), "0 of tensors, 1 of rows, 2 of blocks", tuned=False),
        Parameter("PROMOTE", 128, (0, 128, 256, 512), "products of one sum, 0: all", tuned=False),
        Parameter("DTYPE", 0, (0, 1, 2), "0 E4M3, 1 A in E5M2, 2 B in E5M2", tuned=False),
        Parameter("OUT32", 0, (0, 1), "0: C is bfloat16, 1: float32", tuned=False),
    ),
    tile=tile,
    depth=lambda s: PROMOTED,
    plan=_plan,
    cluster_tiles=lambda s: (s["CLUSTER"], 1),
    by_wgmma=True,
    constraints=(
        fits(sent_bytes, ARCH),
        Constraint("three sets of sums", _no_room_for_sums),
        Constraint("stages of two sums", _too_few_stages),
        Constraint("scales along K", _scales_along_k),
        Constraint("whole squares of C", _whole_squares),
    ),
    model_bytes=lambda problem, s: tile_reuse(problem, s, precision(s)),
    needs_arch=lambda s: ARCH,
    precision=_by_warpgroups(E4M3, E4M3, BFLOAT16, precisions.OF_TENSORS, PROMOTED),
    by_type=precision,
    ops=lambda s: "NT",
    tuned_shapes=(*THIN, (8192, 8192, 8192)),
    swept=_swept,
    suited=_suited,
    planted=Planted.beside(__file__),
)

# The kernels that quantize, see quantize.py: all of them come compiled.
PROBES: dict[str, tuple[Settings, ...]] = {
    "19_quantize": tuple(
        dict(zip(("KIND", "TRANSPOSE", "IN32", "DTYPE"), values, strict=True))
        for values in product(range(4), range(2), range(2), range(2))
    )
}
