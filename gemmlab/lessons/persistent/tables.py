"""The steps from 17 to 18 as recorded: shares of cuBLAS, cycles, bytes of L2 and DRAM."""

import pandas

from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.tma_wgmma.measure import ROADS, TABLE, TITLES, WAY
from gemmlab.lessons.tma_wgmma.tables import TENSOR_FLOP_PER_CYCLE, sm_count
from gemmlab.lessons.tma_wgmma.tables import path as path_of
from gemmlab.lessons.warp_specialized import comparisons
from gemmlab.lessons.warp_specialized.rung import RUNG as WARP_SPECIALIZED
from gemmlab.records.ablations import HUGE, Shape
from gemmlab.records.runs import LARGE
from ptxsim.metrics import SECTOR_BYTES

GB = 1e9
CLOCK = "SM clock, MHz"
LOADS = {comparisons.LOADED: "under load", comparisons.RESTED: "after a rest"}


def path(shape: Shape, *, roads: bool = False) -> pandas.DataFrame:
    """For plots.path: the steps from 17 to 18 at this shape; with `roads` those not taken, too."""
    taken = [step for step in WAY if step.rung in (WARP_SPECIALIZED, PERSISTENT)]
    return path_of(shape, *taken, *(step for step in ROADS if roads and step.rung is PERSISTENT))


def under_load() -> pandas.DataFrame:
    """The steps from 17 to 18 at HUGE, each launched for seconds: speed, clock, and their ratio.

    of full rate, %: of TENSOR_FLOP_PER_CYCLE in every cycle of all SMs, which no clock changes.
    """
    table = TABLE.read().replace({"step": TITLES}).dropna(subset="sustained_tflops")
    table = table.set_index("step").loc[path(HUGE)["step"]]
    most = sm_count() * TENSOR_FLOP_PER_CYCLE * table["sustained_clock_mhz"] / 1e6  # in TFLOP/s
    table["of full rate, %"] = 100 * table["sustained_tflops"] / most
    names = {"sustained_tflops": "TFLOP/s", "sustained_clock_mhz": CLOCK}
    return table.rename(columns=names)[[*names.values(), "of full rate, %"]]


def beside_cublas() -> pandas.DataFrame:
    """18 in turn with cuBLAS's first choice at LARGE, under load and after a rest.

    cycles: of an SM, from one launch to the next. Raises NoRecord, StaleRecord.
    """
    table = comparisons.question("overlap").read()
    sides = {comparisons.FIRST_CHOICE: "cuBLAS", "18, launches overlap": PERSISTENT.name}
    table = table[table["race"].str.startswith("18") & table["variant"].isin(sides)]
    table = table[(table[["m", "n", "k"]] == [*LARGE]).all(axis=1)].replace({"variant": sides})
    table["load"] = table["load"].map(LOADS)
    rows = table.sort_values("load", ascending=False, kind="stable").set_index(["load", "variant"])
    return rows.rename(columns=comparisons.NAMES | {"pct_cublas": "% of cuBLAS"})[
        ["cycles", CLOCK, "TFLOP/s", "% of cuBLAS"]
    ]


def traffic() -> pandas.DataFrame:
    """What 18 moves at HUGE, caches cold: the steps and roads of which it was counted.

    into shared memory: what arrives there by TMA, in each block of a cluster.
    """
    table = TABLE.read().replace({"step": TITLES}).dropna(subset="l2_hit_pct").set_index("step")
    return pandas.DataFrame({
        "L2 hits, %": table["l2_hit_pct"], "GB through L2": table["l2_bytes"] / GB,
        "GB from DRAM": table["dram_bytes"] / GB,
        "GB into shared memory": SECTOR_BYTES * table["tma_sectors"] / GB,
    })  # fmt: skip
