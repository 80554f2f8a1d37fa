"""Kernels that are no product: what measures the ceilings, and what tells which lane holds what."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gemmlab.folders import KERNELS
from gemmlab.ladder.launch import Launch
from gemmlab.ladder.settings import Settings

MMA_SHAPE = (16, 8, 16)  # M, N and K of one mma.sync of FP16
PIECE = 16  # rows and columns of what WMMA multiplies
PIECES_PROBE = "14_fragments"  # tells which lane holds what


@dataclass(frozen=True)
class CeilingsProbe:
    """The two kernels of 00_ceilings: a copy and a chain of fused multiply-adds."""

    name: str = "00_ceilings"
    copy_entry: str = "copy"
    fma_entry: str = "fma_chain"
    macros: Settings = field(default_factory=lambda: {"CHAINS": 16, "UNROLL": 32})

    @property
    def path(self) -> Path:
        return KERNELS / f"{self.name}.cu"

    def copy_launch(self, sm_count: int) -> Launch:
        return Launch(self.copy_entry, (sm_count * 64, 1, 1), (1024, 1, 1))

    def fma_launch(self, sm_count: int) -> Launch:
        return Launch(self.fma_entry, (sm_count * 2, 1, 1), (1024, 1, 1))


@dataclass(frozen=True)
class TensorCeilingProbe:
    """The kernel of 00_tensor_ceiling: a chain of mma.sync of FP16 with FP32 sums."""

    name: str = "00_tensor_ceiling"
    entry: str = "mma_chain"
    macros: Settings = field(default_factory=lambda: {"CHAINS": 8, "UNROLL": 16})
    oldest_arch: int = 80

    @property
    def path(self) -> Path:
        return KERNELS / f"{self.name}.cu"

    def launch(self, sm_count: int) -> Launch:
        return Launch(self.entry, (sm_count * 4, 1, 1), (256, 1, 1))


CEILINGS = CeilingsProbe()
CEILINGS_NAME = CEILINGS.name
TENSOR_CEILING = TensorCeilingProbe()
