"""What single changes of rungs 16 to 19 are worth, as recorded: hopper_ablations.csv."""

from __future__ import annotations

import pandas

from gemmlab.ladder import Problem
from gemmlab.lessons.warp_specialized import comparisons
from gemmlab.lessons.warp_specialized.comparisons import (
    FASTEST_PROPOSAL,
    FIRST_CHOICE,
    LOADED,
    RESTED,
)
from gemmlab.records.registry import LIBRARY

__all__ = ["LOADED", "RESTED", "changes", "roles"]

RACE = ["race", "m", "n", "k"]  # at a load: what was timed in turn
NAMES = {
    "variant": "variant", "tflops": "TFLOP/s", "us": "µs", "pct_first": "% of the first",
    "pct_first_q1": "from", "pct_first_q3": "to", "cycles": "cycles", "clock_mhz": "SM clock, MHz",
    FIRST_CHOICE: "% of cuBLAS", FASTEST_PROPOSAL: "% of cuBLASLt", "launches": "launches",
    "registers": "registers", "spilled_bytes": "spilled bytes", "sum_error": "error of the sums",
}  # fmt: skip
ALL_THREADS, ROLES = "all threads meet", "roles"
STORED, SENT = "C stored by threads", "C sent by tensor map"
GRID = {  # a variant of the question of roles: what it has of 17's two changes
    "16": (ALL_THREADS, STORED), "16, C sent by tensor map": (ALL_THREADS, SENT),
    "17, C stored by its threads": (ROLES, STORED), "17": (ROLES, SENT),
}  # fmt: skip


def changes(question: str, load: str = RESTED) -> pandas.DataFrame:
    """The variants of a question, a row for each and shape, by M×N×K; `load`: RESTED or LOADED.

    The first is the first variant of the same race; from and to are the quartiles of that share.
    cycles: of an SM, for one launch, by the clock that it counted. % of cuBLAS: of its first
    choice, NaN of 8 bits; % of cuBLASLt: of the fastest of its proposals. Raises NoRecord,
    StaleRecord.
    """
    table = comparisons.question(question).read()
    table = table[table["load"] == load]
    libraries = table[table["code"] == LIBRARY].pivot(index=RACE, columns="variant", values="us")
    libraries = libraries.reindex(columns=[FIRST_CHOICE, FASTEST_PROPOSAL])
    table = table[table["code"] != LIBRARY].join(libraries, on=RACE)
    of_16_bits = table[FIRST_CHOICE].notna()  # pct_cublas is of the first choice, if there is one
    table[FIRST_CHOICE] = table["pct_cublas"].where(of_16_bits)
    by_medians = 100 * table[FASTEST_PROPOSAL] / table["us"]
    table[FASTEST_PROPOSAL] = by_medians.where(of_16_bits, table["pct_cublas"])
    table["M×N×K"] = [str(Problem(row.m, row.n, row.k)) for row in table.itertuples()]
    table = table.astype({"registers": int, "spilled_bytes": int}).set_index("M×N×K")
    return table.rename(columns=NAMES)[[*NAMES.values()]]


def roles(load: str = RESTED) -> pandas.DataFrame:
    """Cycles of an SM with and without 17's two changes: a row for each shape and ALL_THREADS or
    ROLES, the columns STORED and SENT.
    """
    table = changes("roles", load).reset_index()
    table[["loop", "C"]] = [GRID[variant] for variant in table["variant"]]
    return table.pivot(index=["M×N×K", "loop"], columns="C", values="cycles")[[STORED, SENT]]
