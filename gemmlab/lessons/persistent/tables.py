"""The steps from 17 to 18 as recorded, and what 18 requests of L2 and DRAM by its order of tiles.

The order is what kernels/common/tile_order.cuh computes in the simulator; nothing is multiplied.
"""

from functools import partial
from pathlib import Path

import numpy as np
import pandas

import ptxsim
from gemmlab import ladder
from gemmlab.cuda.options import options_for
from gemmlab.ladder import Problem, Settings, Target
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.tma_wgmma.measure import ROADS, TABLE, TITLES, WAY, steps
from gemmlab.lessons.tma_wgmma.tables import TENSOR_FLOP_PER_CYCLE, sm_count
from gemmlab.lessons.tma_wgmma.tables import path as path_of
from gemmlab.lessons.warp_specialized import comparisons
from gemmlab.lessons.warp_specialized.rung import RUNG as WARP_SPECIALIZED
from gemmlab.records import best_by_shape, roofs, runs, tuning
from gemmlab.records.ablations import HUGE, Shape
from gemmlab.records.registry import of_one_gpu
from gemmlab.records.runs import LARGE, Measured

PLACES = Path(__file__).with_name("places.cu")
THREADS = 128
ORDERED_BY = ("GROUP", "CLUSTER", "SHARE_A")
ORDERS = ((1, 1, 0), (16, 1, 0), (1, 2, 0), (16, 2, 0), (16, 2, 1))
GB = 1e9
CLOCK = "SM clock, MHz"
LOADS = {comparisons.LOADED: "under load", comparisons.RESTED: "after a rest"}
PACED_AS = {
    "sustained_tflops": "TFLOP/s", "sustained_clock_mhz": CLOCK,
    "sustained_driver_clock_mhz": "driver's clock, MHz", "sustained_power_w": "W",
    "joules_per_tflop": "J per TFLOP",
}  # fmt: skip


def order(settings: Settings, m: int, n: int) -> np.ndarray:
    """int (tiles, 2): row and column of each cluster's tile, by its number, for settings of 18."""
    down, across = (-(-end // size) for end, size in zip((m, n), _size(settings), strict=True))
    rows, columns = np.full((2, down * across), -1, np.int32)
    group = -(-settings["GROUP"] // PERSISTENT.cluster_tiles(settings)[0])
    ptxsim.launch(
        PLACES, "places", (-(-rows.size // THREADS), 1, 1), (THREADS, 1, 1),
        [rows, columns, rows.size, down, across, group], options=options_for({}),
    )  # fmt: skip
    return np.stack([rows, columns], axis=1)


def needs(settings: Settings, m: int, n: int, k: int, sm_count: int) -> pandas.DataFrame:
    """Of each round: its tiles, and what of A and B its blocks need and request.

    settings: of 18_persistent. Needed: rows of A and columns of B once, times K; requested: by all
    blocks together, boxes for a whole cluster once.
    """
    together, size = settings["CLUSTER"], _size(settings)
    (launch,) = PERSISTENT.launches(Problem(m, n, k), settings, Target("sm_90a", sm_count))
    clusters = launch.grid[0] // together
    bytes_of_k = k * PERSISTENT.precision_of(settings).a.bytes
    every = order(settings, m, n)
    rows = []
    for first in range(0, len(every), clusters):
        some = every[first : first + clusters]
        needed = [_covered(np.unique(some[:, axis]), size[axis], (m, n)[axis]) for axis in (0, 1)]
        rows.append({
            "tiles": len(some) * together, "rows of A": needed[0], "columns of B": needed[1],
            "GB needed": sum(needed) * bytes_of_k / 1e9,
            "GB requested": len(some) * sum(size) * bytes_of_k / 1e9,
        })  # fmt: skip
    return pandas.DataFrame(rows, index=pandas.RangeIndex(len(rows), name="round"))


def _size(settings: Settings) -> tuple[int, int]:
    down, across = PERSISTENT.cluster_tiles(settings)
    return settings["BM"] * down, settings["BN"] * across


def _covered(tiles: np.ndarray, size: int, end: int) -> int:
    return int(np.minimum(size, end - tiles * size).sum())


def path(shape: Shape, *, roads: bool = False) -> pandas.DataFrame:
    """For plots.path: the steps from 17 to 18 at this shape; with `roads` those not taken, too."""
    taken = [step for step in WAY if step.rung in (WARP_SPECIALIZED, PERSISTENT)]
    return path_of(shape, *taken, *(step for step in ROADS if roads and step.rung is PERSISTENT))


def energy() -> pandas.DataFrame:
    """What the steps and roads that were launched without a pause at HUGE took, in their order."""
    table = TABLE.read()
    return (
        table[table["joules_per_tflop"].notna()]
        .set_index("step")
        .rename(index=TITLES, columns=PACED_AS)[[*PACED_AS.values()]]
    )


def under_load() -> pandas.DataFrame:
    """The steps from 17 to 18 at HUGE, each launched for seconds: speed, clock, and their ratio.

    of full rate, %: of TENSOR_FLOP_PER_CYCLE in every cycle of all SMs, which no clock changes.
    """
    table = energy()[["TFLOP/s", CLOCK]].loc[path(HUGE)["step"]]
    most = sm_count() * TENSOR_FLOP_PER_CYCLE * table[CLOCK] / 1e6  # in TFLOP/s
    return table.assign(**{"of full rate, %": 100 * table["TFLOP/s"] / most})


def beside_cublas() -> pandas.DataFrame:
    """18 in turn with cuBLAS's first choice at LARGE, under load and after a rest.

    cycles: of an SM, from one launch to the next. Raises NoRecord, StaleRecord.
    """
    table = comparisons.question("overlap").read()
    sides = {comparisons.FIRST_CHOICE: "cuBLAS", "18, launches overlap": PERSISTENT.name}
    table = table[table["race"].str.startswith("18") & table["variant"].isin(sides)]
    table = table[(table[["m", "n", "k"]] == LARGE).all(axis=1)].replace({"variant": sides})
    table["load"] = table["load"].map(LOADS)
    rows = table.sort_values("load", ascending=False, kind="stable").set_index(["load", "variant"])
    return rows.rename(columns=comparisons.NAMES | {"pct_cublas": "% of cuBLAS"})[
        ["cycles", CLOCK, "TFLOP/s", "% of cuBLAS"]
    ]


def traffic() -> pandas.DataFrame:
    """What 18 requests of L2 and DRAM at HUGE, by its order of tiles and as counted, caches cold.

    A row for each order and kind of cluster. shared: what another block of the round requests too.
    """
    table = TABLE.read()
    counted = {}
    for row in table[
        table["l2_hit_pct"].notna() & (table["kernel"] == PERSISTENT.name)
    ].itertuples():
        settings = ladder.read_settings(row.settings)
        counted[tuple(settings[name] for name in ORDERED_BY)] = {
            "L2 hits, %": row.l2_hit_pct, "GB through L2": row.l2_bytes / GB,
            "GB from DRAM": row.dram_bytes / GB,
        }  # fmt: skip
    rows = {}
    for values in ORDERS:
        group, cluster, share_a = values
        changed = dict(zip(ORDERED_BY, values, strict=True))
        round_by_round = needs(ladder.settings_for(PERSISTENT, changed), *HUGE, sm_count())
        needed, asked = (round_by_round[f"GB {what}"].sum() for what in ("needed", "requested"))
        how = f"clusters share {'A' if share_a else 'B'}" if cluster > 1 else "no clusters"
        rows[f"GROUP={group}, {how}"] = {
            "GB needed": needed, "GB requested": asked, "shared, %": 100 * (1 - needed / asked),
            **counted.get(values, {}),
        }  # fmt: skip
    return pandas.DataFrame(rows).T


def recordings() -> pandas.DataFrame:
    """18 with its default settings at LARGE, wherever it is recorded. Columns: TFLOP/s, % of cuBLAS
    (its first choice). Raises NoRecord, and what registry.Table.read raises.
    """
    kernel = Measured(PERSISTENT)
    run = runs.replay_at(kernel, *LARGE)
    (step,) = steps(WAY[-1]).head(1).to_dict("records")
    shape = best_by_shape.at(PERSISTENT.name, Problem(*LARGE))
    swept = tuning.at(tuning.recorded(PERSISTENT.name), LARGE)
    defaults = PERSISTENT.defaults
    (sweep,) = swept[(swept[[*defaults]] == [*defaults.values()]).all(axis=1)].to_dict("records")
    rows = {
        "the record, runs.json": (run.gflops / 1e3, 100 * run.ratio.median),
        "its steps, hopper_steps.csv": (step["TFLOP/s"], step["% of cuBLAS"]),
        "the sweep, tuning/18_persistent.csv": (
            Problem(*LARGE).flop / sweep["time_ms"] / 1e9, sweep["pct_cublas"],
        ),
        "for gl.choose, best_by_shape.csv": (shape["tflops"], shape["pct_cublas"]),
    }  # fmt: skip
    return pandas.DataFrame.from_dict(rows, orient="index", columns=["TFLOP/s", "% of cuBLAS"])


def asked_for(rung: ladder.Rung, settings: ladder.Settings, problem: Problem) -> int:
    """Bytes of A and B that all blocks of 17 or 18 request; a box for a whole cluster once.

    K is a multiple of what all parts of it take in a step, 64 columns of A.
    """
    (rows, columns), (down, across) = rung.tile(settings), rung.cluster_tiles(settings)
    tiles_down = down * ceil_div(ceil_div(problem.m, rows), down)
    tiles_across = across * ceil_div(ceil_div(problem.n, columns), across)
    of_a_tile = (rows // across + columns // down) * problem.k * rung.precision_of(settings).a.bytes
    return tiles_down * tiles_across * of_a_tile


def at_l2(shape: tuple[int, int, int]) -> pandas.DataFrame:
    """What settings of 17 and 18 request at a shape (M, N, K) of their sweeps, the fastest first.

    cluster: "-" where blocks share nothing. of L2: of the recorded roof of reading it.
    """
    return of_one_gpu(partial(_at_l2, shape))


def _at_l2(shape: tuple[int, int, int]) -> pandas.DataFrame:
    problem, rows = Problem(*shape), []
    roof = roofs.LEVELS_PART.read()["L2"].per_second.median
    for rung in (WARP_SPECIALIZED, PERSISTENT):
        for row in tuning.at(tuning.recorded(rung.name), shape).to_dict("records"):
            settings = {name: row[name] for name in rung.defaults}
            (launch,) = rung.launches(problem, settings, Target("sm_90a", sm_count()))
            asked, cluster = asked_for(rung, settings, problem), settings.get("CLUSTER", 1)
            rate = asked / (1e-3 * row["time_ms"])
            shared = f"{cluster}, share {'A' if settings.get('SHARE_A') else 'B'}"
            rows.append({
                "rung": rung.name, "tile": f"{settings['BM']}×{settings['BN']}",
                "stages": settings["STAGES"], "parts of K": settings.get("SPLIT", 1),
                "cluster": shared if cluster > 1 else "-", "blocks": launch.grid[0],
                "MB requested": asked / 1e6, "TB/s": rate / 1e12, "of L2, %": 100 * rate / roof,
                "% of cuBLAS": row["pct_cublas"], "time": row["time_ms"],
            })  # fmt: skip
    return pandas.DataFrame(rows).sort_values("time", ignore_index=True).drop(columns="time")


def shapes(table: pandas.DataFrame) -> pandas.DataFrame:
    """How many waves of tiles blocks of 18 compute with its default settings, a row for each shape.

    table: the runs of 17 and 18 at these shapes. SMs busy: if all tiles take as long.
    """
    sms, settings, rows = sm_count(), PERSISTENT.defaults, {}
    before = table[table["kernel"] == WARP_SPECIALIZED.name].set_index(["m", "n", "k"])
    for row in table[table["kernel"] == PERSISTENT.name].itertuples():
        problem = Problem(row.m, row.n, row.k)
        (launch,) = PERSISTENT.launches(problem, settings, Target("sm_90a", sms))
        if launch.entry != PERSISTENT.entry(settings):
            continue  # rows off 16 bytes
        tiles = -(-row.m // settings["BM"]) * -(-row.n // settings["BN"])
        waves = -(-tiles // launch.grid[0])
        rows[f"{row.m}×{row.n}×{row.k}"] = {
            "tiles": tiles, "blocks": launch.grid[0], "waves": waves,
            "SMs busy, %": 100 * tiles / (waves * sms),
            "17, % of cuBLAS": before.loc[(row.m, row.n, row.k), "pct_cublas"],
            "18, % of cuBLAS": row.pct_cublas,
        }  # fmt: skip
    result = pandas.DataFrame(rows).T.rename_axis("M×N×K").sort_values("tiles", kind="stable")
    return result.astype(dict.fromkeys(("tiles", "blocks", "waves"), int))
