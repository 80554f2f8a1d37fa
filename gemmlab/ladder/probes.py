"""Kernels that are no product: what measures the ceilings, and what tells which lane holds what."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gemmlab.folders import kernel_file
from gemmlab.ladder.launch import Launch
from gemmlab.ladder.precision import (
    BRAIN,
    FP8_E4M3,
    FP8_E5M2,
    HALF,
    INTEGER,
    TF32,
    Precision,
)
from gemmlab.ladder.settings import Settings

MMA_TYPES = (HALF, BRAIN, TF32, INTEGER, FP8_E4M3, FP8_E5M2)  # of mma.sync, by the value of DTYPE
MMA_SHAPE = (16, 8, 16)  # M, N and K of one mma.sync of FP16
MMA_ROW_BYTES = 32  # what one mma.sync takes of a row of A, whatever its type
PIECE = 16  # rows and columns of what WMMA multiplies
PIECES_PROBE = "14_fragments"  # tells which lane holds what
LANES_PROBE = "15_lanes"  # the same of mma.sync, of each type


def mma_shape(precision: Precision) -> tuple[int, int, int]:
    """M, N and K of one mma.sync of a type."""
    return *MMA_SHAPE[:2], MMA_ROW_BYTES // precision.a.bytes


def lanes_macros(dtype: int, precision: Precision) -> Settings:
    """Of LANES_PROBE: one piece of A, two steps along K, and rows of B of all 32 banks."""
    rows, _, depth = mma_shape(precision)
    columns = 4 * MMA_ROW_BYTES // precision.a.bytes
    return {
        "DTYPE": dtype, "BM": rows, "BN": columns, "BK": 2 * depth, "WM": rows, "WN": columns,
    }  # fmt: skip


@dataclass(frozen=True)
class CeilingsProbe:
    """The two kernels of 00_ceilings: a copy and a chain of fused multiply-adds."""

    name: str = "00_ceilings"
    copy_entry: str = "copy"
    fma_entry: str = "fma_chain"
    macros: Settings = field(default_factory=lambda: {"CHAINS": 16, "UNROLL": 32})

    @property
    def path(self) -> Path:
        return kernel_file(f"{self.name}.cu")

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
        return kernel_file(f"{self.name}.cu")

    def launch(self, sm_count: int) -> Launch:
        return Launch(self.entry, (sm_count * 4, 1, 1), (256, 1, 1))


@dataclass(frozen=True)
class MmaCeilingsProbe:
    """The kernel of 00_mma_ceilings: the same chain for each type of DTYPE."""

    name: str = "00_mma_ceilings"
    entry: str = "mma_chain"

    @property
    def path(self) -> Path:
        return kernel_file(f"{self.name}.cu")

    def macros(self, dtype: int) -> Settings:
        return {**TENSOR_CEILING.macros, "DTYPE": dtype}

    def launch(self, sm_count: int) -> Launch:
        return TENSOR_CEILING.launch(sm_count)


@dataclass(frozen=True)
class WgmmaCeilingsProbe:
    """The kernel of 00_wgmma_ceilings: nothing but wgmma, with A and B there from the start."""

    name: str = "00_wgmma_ceilings"
    entry: str = "wgmma_chain"
    groups: int = 2  # warpgroups of a block
    group_rows: int = 64  # of A
    row_bytes: int = 128  # of A and of B, along K
    arch: str = "sm_90a"

    @property
    def path(self) -> Path:
        return kernel_file(f"{self.name}.cu")

    def macros(self, dtype: int, columns: int, in_registers: bool) -> Settings:
        return {"DTYPE": dtype, "COLUMNS": columns, "A_IN_REGISTERS": int(in_registers)}

    def launch(self, sm_count: int) -> Launch:
        return Launch(self.entry, (sm_count, 1, 1), (self.groups * 128, 1, 1))


@dataclass(frozen=True)
class SmClockProbe:
    """The kernel of 00_sm_clock: cycles and nanoseconds, as each SM has counted them."""

    name: str = "00_sm_clock"
    entry: str = "read_clocks"

    @property
    def path(self) -> Path:
        return kernel_file(f"{self.name}.cu")

    def launch(self, sm_count: int) -> Launch:
        return Launch(self.entry, (2 * sm_count, 1, 1), (1024, 1, 1))


@dataclass(frozen=True)
class Read:
    """How a kernel of 00_levels is launched to read one level of memory."""

    entry: str
    blocks: int  # for each SM
    threads: int  # of a block
    set_bytes: int  # at most; of each block, unless all blocks read together
    ahead: int = 4  # pieces of 16 bytes that a thread reads before it adds the first
    in_l1: bool = False

    @property
    def together(self) -> bool:
        """Whether the threads of all blocks share the set, and not those of each block."""
        return self.entry == "read_together"

    @property
    def macros(self) -> Settings:
        return {"AHEAD": self.ahead, "IN_L1": int(self.in_l1)}

    def launch(self, sm_count: int) -> Launch:
        shared_bytes = self.set_bytes if self.entry == "read_shared" else 0
        return Launch(
            self.entry, (sm_count * self.blocks, 1, 1), (self.threads, 1, 1), shared_bytes
        )


@dataclass(frozen=True)
class LevelsProbe:
    """The kernels of 00_levels: each level of memory is read, by the launch that was fastest."""

    name: str = "00_levels"
    reads: dict[str, Read] = field(
        default_factory=lambda: {
            "DRAM": Read("read_together", 2, 1024, 2 * 2**30, ahead=8),
            "L2": Read("read_together", 4, 256, 26 * 2**20),
            "L1": Read("read_alone", 2, 1024, 64 * 2**10, ahead=2, in_l1=True),
            "shared memory": Read("read_shared", 1, 1024, 64 * 2**10),
        }
    )

    @property
    def path(self) -> Path:
        return kernel_file(f"{self.name}.cu")


CEILINGS = CeilingsProbe()
CEILINGS_NAME = CEILINGS.name
TENSOR_CEILING = TensorCeilingProbe()
MMA_CEILINGS = MmaCeilingsProbe()
WGMMA_CEILINGS = WgmmaCeilingsProbe()
SM_CLOCK = SmClockProbe()
LEVELS = LevelsProbe()
