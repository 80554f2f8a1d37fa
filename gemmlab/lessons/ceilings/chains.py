"""How many independent multiply-adds a scheduler needs: chains for each thread, warps for each SM.

    python -m gemmlab record 00_chains

times the chains of 00_ceilings.cu with 1 to 16 of them in a thread, at the launch of the ceiling
and with fewer warps. results/<gpu>/chains.csv holds the rates (see gemmlab.records.registry).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel.fingerprint import Fingerprint, fingerprint
from gemmlab.ladder import CEILINGS, Launch, Settings, Target
from gemmlab.measure import ceilings
from gemmlab.measure.timing import now
from gemmlab.records.registry import DATE, POSITIVE, REPORTED, SIZE, TEXT, Say, Table
from ptxsim.architectures import WARP

if TYPE_CHECKING:
    import pandas

NAME = "00_chains"
CHAINS = (1, 2, 4, 8, 16)
WARPS = (4, 8, 16, 32, 64)
"""Warps of an SM, a quarter of them for each of its four schedulers; 64 are the ceiling's."""
MOST_IN_A_BLOCK = 32

COLUMNS = {
    **SIZE("chains", "warps"), **POSITIVE("tflops", "tflops_q1", "tflops_q3"),
    **REPORTED("sm_clock_mhz", "power_w"), **TEXT("code", "gpu", "driver", "cuda"),
    **DATE("recorded"),
}  # fmt: skip


def macros(chains: int) -> Settings:
    """Those that give a trip of the loop as many multiply-adds as it has for the ceiling."""
    in_a_trip = CEILINGS.macros["CHAINS"] * CEILINGS.macros["UNROLL"]
    return {"CHAINS": chains, "UNROLL": in_a_trip // chains}


def launch(warps: int, sm_count: int) -> Launch:
    """So many warps for each SM, in as few blocks as they fit in."""
    blocks = -(-warps // MOST_IN_A_BLOCK)
    return Launch(CEILINGS.fma_entry, (sm_count * blocks, 1, 1), (WARP * warps // blocks, 1, 1))


def record(say: Say) -> Path:
    """Time all of CHAINS with all of WARPS on the GPU here; returns the file.

    Raises NoGpu, CeilingsError.
    """
    import pandas

    here, versions = require_gpu("Measuring chains"), software_versions()
    context = {"gpu": here.name, "driver": versions["driver"], "cuda": versions["cuda"]}
    rows = []
    for chains in CHAINS:
        for warps in WARPS:
            roof = ceilings.measure_fma(launch(warps, here.sm_count), macros(chains))
            rate = roof.per_second
            rows.append({
                "chains": chains, "warps": warps, "tflops": rate.median / 1e12,
                "tflops_q1": rate.q1 / 1e12, "tflops_q3": rate.q3 / 1e12,
                "sm_clock_mhz": roof.state.sm_clock_mhz, "power_w": roof.state.power_w,
                **context, "recorded": now(),
            })  # fmt: skip
            say(f"{NAME}: {chains} chains, {warps} warps: {rate.median / 1e12:.1f} TFLOP/s")
    return EVIDENCE.write(pandas.DataFrame(rows), here.slug)


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    launches = [launch(row.warps, on.sm_count)]
    return fingerprint(CEILINGS.path, macros(row.chains), launches)


EVIDENCE = Table(
    name=NAME, file="chains.csv", remake=record, key=("chains", "warps"), columns=COLUMNS,
    fingerprint_of=_fingerprint_of,
)  # fmt: skip


def rates() -> pandas.DataFrame:
    """The recorded rates in TFLOP/s: a row for each number of chains in a thread, a column for each
    number of warps of an SM. Raises what registry.Table.read raises."""
    return EVIDENCE.read().pivot(index="chains", columns="warps", values="tflops")
