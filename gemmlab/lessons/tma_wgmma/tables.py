"""The way from 16 to 18 as recorded: its steps, what each moved, and where the cycles went."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gemmlab import ladder
from gemmlab.analysis.counters import PER_WARP_FMA
from gemmlab.ladder import Problem, Target
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons.tma_wgmma.block_phases import TENSOR_FLOP_PER_CYCLE
from gemmlab.lessons.tma_wgmma.measure import ROADS, TABLE, TITLES, WAY, steps
from gemmlab.lessons.tma_wgmma.rounds import needs
from gemmlab.records import best_by_shape, roofs, runs, tuning
from gemmlab.records.ablations import HUGE
from gemmlab.records.registry import of_one_gpu
from gemmlab.records.runs import LARGE, Measured

if TYPE_CHECKING:
    import pandas

WARP_SPECIALIZED = ladder.find("17_warp_specialized")
PERSISTENT = ladder.find("18_persistent")
GB = 1e9
ORDERED_BY = ("GROUP", "CLUSTER", "SHARE_A")
ORDERS = ((1, 1, 0), (16, 1, 0), (1, 2, 0), (16, 2, 0), (16, 2, 1))
SHARES = {
    "tflops": "TFLOP/s", "pct_cublas": "% of cuBLAS", "pct_cublas_q1": "from",
    "pct_cublas_q3": "to",
}  # fmt: skip
PACED_AS = {
    "sustained_tflops": "TFLOP/s", "sustained_clock_mhz": "SM clock, MHz",
    "sustained_driver_clock_mhz": "driver's clock, MHz", "sustained_power_w": "W",
    "joules_per_tflop": "J per TFLOP",
}  # fmt: skip

SM_CYCLES = PER_WARP_FMA["SM cycles"]


def path(shape: tuple[int, int, int]) -> pandas.DataFrame:
    """For plots.path: the steps of the way at this shape (M, N, K), then roads of 18 not taken.

    Columns: step, predicted (of which rung, and what of its settings is not the default), taken,
    TFLOP/s, % of cuBLAS and its quartiles, gpu, recorded. Raises what registry.Table.read raises.
    """
    table = TABLE.read()
    table = table[(table[["m", "n", "k"]] == list(shape)).all(axis=1)]
    taken = [step.title for step in WAY]
    not_taken = [step.title for step in ROADS if step.rung is PERSISTENT]
    every = [title for title in (*taken, *not_taken) if title in set(table["step"])]
    found = table.set_index("step").loc[every].reset_index()
    return found.assign(
        predicted=found.apply(_of_rung, axis=1), taken=found["step"].isin(taken),
        step=found["step"].replace(TITLES),
    ).rename(columns=SHARES)[
        ["step", "predicted", "taken", *SHARES.values(), "gpu", "recorded"]
    ]  # fmt: skip


def energy() -> pandas.DataFrame:
    """What the steps and roads that were launched without a pause at HUGE took, in their order.

    Columns: TFLOP/s; SM clock, MHz, as the SMs counted, and as the driver says; W; J per TFLOP.
    Raises what registry.Table.read raises.
    """
    table = TABLE.read()
    return (
        table[table["joules_per_tflop"].notna()]
        .set_index("step")
        .rename(index=TITLES, columns=PACED_AS)[[*PACED_AS.values()]]
    )


def traffic() -> pandas.DataFrame:
    """What 18 asks L2 and DRAM for at HUGE, by its order of tiles and as counted.

    A row for each order and kind of cluster. Columns: GB needed, by each round once; GB asked for,
    by all blocks; shared, %: of that, what another block of the round asks for too; then as
    counted, caches cold, or nothing where it was not: L2 hits, %, and GB through L2 and from DRAM.
    Raises what registry.Table.read raises.
    """
    import pandas

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
        own = dict(zip(ORDERED_BY, values, strict=True))
        round_by_round = needs(ladder.settings_for(PERSISTENT, own), *HUGE, _sm_count())
        needed, asked = (round_by_round[f"GB {what}"].sum() for what in ("needed", "asked for"))
        how = f"clusters share {'A' if own['SHARE_A'] else 'B'}"
        rows[f"GROUP={own['GROUP']}, {how if own['CLUSTER'] > 1 else 'no clusters'}"] = {
            "GB needed": needed, "GB asked for": asked, "shared, %": 100 * (1 - needed / asked),
            **counted.get(values, {}),
        }  # fmt: skip
    return pandas.DataFrame(rows).T


def cycles(*names: str) -> pandas.DataFrame:
    """Where the cycles of all SMs went at LARGE, a column for each of 16 to 19, in percent.

    Rows: "products at full rate", TENSOR_FLOP_PER_CYCLE for each SM, of 8 bits twice as many; "SMs
    without a tile", by the tiles and the SMs, all tiles taken as equally long; "the rest"; and last
    the cycles themselves, of an SM: those that were counted while it had warps, over the share of
    SMs that had a tile. Raises LadderError, NoRecord, StaleRecord.
    """
    import pandas

    return pandas.DataFrame({name: _cycles(ladder.find(name)) for name in names})


def _cycles(rung: ladder.Rung) -> dict[str, float]:
    sms, problem = _sm_count(), Problem(*LARGE)
    _, counted = runs.counters_at(Measured(rung), *LARGE)
    rows, columns = rung.tile(rung.defaults)
    tiles = ceil_div(problem.m, rows) * ceil_div(problem.n, columns)
    busy = tiles / (ceil_div(tiles, sms) * sms)
    cycles = counted[SM_CYCLES] / sms / busy
    per_cycle = TENSOR_FLOP_PER_CYCLE * 2 // rung.precision.a.bytes
    products = problem.flop / sms / per_cycle / cycles
    return {
        "products at full rate": 100 * products, "SMs without a tile": 100 * (1 - busy),
        "the rest": 100 * (busy - products), "cycles": cycles,
    }  # fmt: skip


def recordings() -> pandas.DataFrame:
    """18 with its default settings at LARGE, wherever it is recorded. Columns: TFLOP/s, % of cuBLAS
    (its first choice). Raises NoRecord, and what registry.Table.read raises.
    """
    import pandas

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
    """Bytes of A and B for which all blocks of 17 or 18 ask; a box for a whole cluster once.

    K is a multiple of what all parts of it take in a step, 64 columns of A.
    """
    (rows, columns), (down, across) = rung.tile(settings), rung.cluster_tiles(settings)
    tiles_down = down * ceil_div(ceil_div(problem.m, rows), down)
    tiles_across = across * ceil_div(ceil_div(problem.n, columns), across)
    of_a_tile = (rows // across + columns // down) * problem.k * rung.precision_of(settings).a.bytes
    return tiles_down * tiles_across * of_a_tile


def at_l2(shape: tuple[int, int, int]) -> pandas.DataFrame:
    """What settings of 17 and 18 ask for at a shape (M, N, K) of their sweeps, the fastest first.

    Columns: tile; parts of K; cluster, "-" where blocks share nothing; blocks; MB asked for; TB/s,
    those bytes in the recorded time; of L2, %: of the recorded roof of reading it; % of cuBLAS.
    Raises what tuning.recorded and roofs.recorded_levels raise.
    """
    return of_one_gpu(partial(_at_l2, shape))


def _at_l2(shape: tuple[int, int, int]) -> pandas.DataFrame:
    import pandas

    problem, found = Problem(*shape), []
    roof = roofs.recorded_levels()["L2"].per_second.median
    for rung in (WARP_SPECIALIZED, PERSISTENT):
        for row in tuning.at(tuning.recorded(rung.name), shape).to_dict("records"):
            settings = {name: row[name] for name in tuning.rung_parameters(rung)}
            (launch,) = rung.launches(problem, settings, Target("sm_90a", _sm_count()))
            asked, cluster = asked_for(rung, settings, problem), settings.get("CLUSTER", 1)
            rate = asked / (1e-3 * row["time_ms"])
            shared = f"{cluster}, share {'A' if settings.get('SHARE_A') else 'B'}"
            found.append({
                "rung": rung.name, "tile": f"{settings['BM']}×{settings['BN']}",
                "stages": settings["STAGES"], "parts of K": settings.get("SPLIT", 1),
                "cluster": shared if cluster > 1 else "-", "blocks": launch.grid[0],
                "MB asked for": asked / 1e6, "TB/s": rate / 1e12, "of L2, %": 100 * rate / roof,
                "% of cuBLAS": row["pct_cublas"], "time": row["time_ms"],
            })  # fmt: skip
    return pandas.DataFrame(found).sort_values("time", ignore_index=True).drop(columns="time")


def shapes(table: pandas.DataFrame) -> pandas.DataFrame:
    """How often blocks of 18 with its default settings go round, a row for each shape of a table.

    table: as kernel.benchmark() gives of it. Columns: tiles; blocks; rounds; SMs busy, %, of their
    time until the last is done, all tiles taken as equally long; % of cuBLAS.
    """
    import pandas

    sms, settings, rows = _sm_count(), PERSISTENT.defaults, {}
    for row in table[table["kernel"] == PERSISTENT.name].itertuples():
        problem = Problem(row.m, row.n, row.k)
        (launch,) = PERSISTENT.launches(problem, settings, Target("sm_90a", sms))
        if launch.entry != PERSISTENT.entry(settings):
            continue  # rows off 16 bytes
        tiles = -(-row.m // settings["BM"]) * -(-row.n // settings["BN"])
        rounds = -(-tiles // launch.grid[0])
        rows[f"{row.m}×{row.n}×{row.k}"] = {
            "tiles": tiles, "blocks": launch.grid[0], "rounds": rounds,
            "SMs busy, %": 100 * tiles / (rounds * sms), "% of cuBLAS": row.pct_cublas,
        }  # fmt: skip
    found = pandas.DataFrame(rows).T.rename_axis("M×N×K").sort_values("tiles", kind="stable")
    return found.astype(dict.fromkeys(("tiles", "blocks", "rounds"), int))


def _of_rung(row: pandas.Series) -> str:
    defaults = ladder.find(row["kernel"]).defaults
    settings = ladder.read_settings(row["settings"])
    changed = {name: value for name, value in settings.items() if defaults.get(name) != value}
    return f"{row['kernel']}{f', {ladder.listed(changed)}' if changed else ''}"


def _sm_count() -> int:
    """Of the recorded GPU."""
    return runs.current()["gpu"]["sm_count"]
