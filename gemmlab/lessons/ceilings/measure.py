"""How many independent multiply-adds a scheduler needs: chains for each thread, warps for each SM.

    python -m gemmlab record 00_chains

times 1 to 16 chains in a thread with different numbers of warps; results/<gpu>/chains.csv.
"""

from typing import Any

import pandas

from gemmlab.cuda.device import require_gpu
from gemmlab.kernel.fingerprint import Fingerprint, fingerprint
from gemmlab.ladder import CEILINGS, Launch, Settings, Target
from gemmlab.lessons.ceilings import pitfalls
from gemmlab.measure import ceilings
from gemmlab.records.registry import POSITIVE, REPORTED, SIZE, Row, Say, Table, provenance
from gemmlab.records.roofs import cells_of_roof
from ptxsim.architectures import LIMITS, WARP

NAME = "00_chains"
CHAINS = (1, 2, 4, 8, 16)
WARPS = (4, 8, 16, 32, 64)
"""Warps of an SM, a quarter of them for each of its four schedulers; 64 are the ceiling's."""
MOST_IN_A_BLOCK = 32


def macros(chains: int) -> Settings:
    """Those that give a trip of the loop as many multiply-adds as it has for the ceiling."""
    in_a_trip = CEILINGS.macros["CHAINS"] * CEILINGS.macros["UNROLL"]
    return {"CHAINS": chains, "UNROLL": in_a_trip // chains}


def launch(warps: int, sm_count: int) -> Launch:
    """So many warps for each SM, in as few blocks as they fit in."""
    blocks = -(-warps // MOST_IN_A_BLOCK)
    return Launch(CEILINGS.entry, (sm_count * blocks, 1, 1), (WARP * warps // blocks, 1, 1))


def _measure(say: Say) -> list[Row]:
    """A row for each of CHAINS and WARPS, all or none. Raises CeilingsError."""
    sm_count, rows = require_gpu("Measuring chains").sm_count, []
    for chains in CHAINS:
        for warps in WARPS:
            roof = ceilings.measure_fma(launch(warps, sm_count), macros(chains))
            rows.append({"chains": chains, "warps": warps, **cells_of_roof(roof)})
            say(f"{NAME}: {chains} chains, {warps} warps: {rows[-1]['tflops']:.1f} TFLOP/s")
    return rows


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    return fingerprint(CEILINGS.path, macros(row.chains), [launch(row.warps, on.sm_count)])


TABLE = Table(
    name=NAME, file="chains.csv", by_default=True, key=("chains", "warps"), measure=_measure,
    columns={
        **SIZE("chains", "warps"), **POSITIVE("tflops", "tflops_q1", "tflops_q3"),
        **REPORTED("sm_clock_mhz", "power_w"), **provenance("driver", "cuda"),
    },
    fingerprint_of=_fingerprint_of,
)  # fmt: skip
EVIDENCE = (TABLE, pitfalls.PART)


def fp32_units(arch: str) -> int:
    """FP32 multiply-adds that an SM of an architecture such as "sm_90" can start in a cycle."""
    return LIMITS[arch].fp32_lanes


def rates() -> pandas.DataFrame:
    """Recorded TFLOP/s: a row for each chains in a thread, a column for each warps of an SM."""
    return TABLE.read().pivot(index="chains", columns="warps", values="tflops")
