"""Kernels that are not products: they measure ceilings, or show which lane holds which element."""

from dataclasses import dataclass, field
from pathlib import Path

from gemmlab.folders import kernel_file
from gemmlab.ladder.launch import Launch
from gemmlab.ladder.precision import BRAIN, FP8_E4M3, FP8_E5M2, HALF, INTEGER, TF32, Precision
from gemmlab.ladder.settings import Settings

MMA_TYPES = (HALF, BRAIN, TF32, INTEGER, FP8_E4M3, FP8_E5M2)  # of mma.sync, by the value of DTYPE
MMA_SHAPE = (16, 8, 16)  # M, N and K of one mma.sync of FP16
MMA_ROW_BYTES = 32  # what one mma.sync takes of a row of A, whatever its type
PIECE = 16  # rows and columns of what WMMA multiplies
PIECES_PROBE = "14_fragments"  # tells which lane holds what
LANES_PROBE = "15_lanes"  # the same of mma.sync
# One piece of A in FP16, two steps along K, and rows of B of all 32 banks.
LANES_MACROS: Settings = {"DTYPE": 0, "BM": 16, "BN": 64, "BK": 32, "WM": 16, "WN": 64}


def mma_shape(precision: Precision) -> tuple[int, int, int]:
    """M, N and K of one mma.sync of a type."""
    return *MMA_SHAPE[:2], MMA_ROW_BYTES // precision.a.bytes


@dataclass(frozen=True)
class Probe:
    """A file of kernels that measure something; `entry` is launched with `blocks` for each SM."""

    name: str
    entry: str = ""
    blocks: int = 1
    threads: int = 1024  # of a block
    macros: Settings = field(default_factory=dict)
    oldest_arch: int = 0  # that has the instructions

    @property
    def path(self) -> Path:
        return kernel_file(f"{self.name}.cu")

    def launch(self, sm_count: int) -> Launch:
        return Launch(self.entry, (sm_count * self.blocks, 1, 1), (self.threads, 1, 1))


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


# A chain of fused multiply-adds, and a copy.
CEILINGS = Probe("00_ceilings", "fma_chain", 2, macros={"CHAINS": 16, "UNROLL": 32})
COPY = Probe(CEILINGS.name, "copy", 64)
# A chain of mma.sync: of FP16 with FP32 sums, and of the type that DTYPE says.
TENSOR_CEILING = Probe(
    "00_tensor_ceiling", "mma_chain", 4, 256, {"CHAINS": 8, "UNROLL": 16}, oldest_arch=80
)
MMA_CEILINGS = Probe("00_mma_ceilings", "mma_chain", 4, 256, TENSOR_CEILING.macros)
# Nothing but wgmma, with A and B there from the start, by two warpgroups of a block.
WGMMA_CEILINGS = Probe("00_wgmma_ceilings", "wgmma_chain", 1, 256)
# Cycles and nanoseconds, as each SM has counted them.
SM_CLOCK = Probe("00_sm_clock", "read_clocks", 2)
LEVELS = Probe("00_levels")
READS = {  # each level of memory, by the launch that was fastest
    "DRAM": Read("read_together", 2, 1024, 2 * 2**30, ahead=8),
    "L2": Read("read_together", 4, 256, 26 * 2**20),
    "L1": Read("read_alone", 2, 1024, 64 * 2**10, ahead=2, in_l1=True),
    "shared memory": Read("read_shared", 1, 1024, 64 * 2**10),
}
