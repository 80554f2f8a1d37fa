"""What notebook 00 shows of the core: constants of probes, samples of times, units of an SM."""

from __future__ import annotations

from gemmlab.lessons.ceilings.pitfalls import Samples, recorded
from gemmlab.measure.ceilings import ADDEND, MULTIPLIER, SAMPLES, fma_chain
from ptxsim.architectures import LIMITS

__all__ = ["ADDEND", "MULTIPLIER", "SAMPLES", "fma_chain", "fp32_units", "pitfalls"]


def fp32_units(arch: str) -> int:
    """FP32 multiply-adds that an SM of an architecture such as "sm_90" can start in a cycle."""
    return LIMITS[arch].fp32_lanes


def pitfalls() -> Samples:
    """Recorded milliseconds of one product, by the way in which it was timed. Raises NoRecord."""
    return recorded()
