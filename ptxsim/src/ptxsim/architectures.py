"""The resources of a streaming multiprocessor (SM) of each architecture.

The numbers are those of the CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability", and of its table of the throughput of arithmetic instructions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WARP = 32  # threads of a warp
SIMULATED_ARCH = "sm_90a"  # the simulator is an NVIDIA H200, from which results/ comes
MAX_THREADS_PER_BLOCK = 1024
MAX_REGISTERS_PER_THREAD = 255
REGISTERS_PER_SM = 65536  # 32-bit ones; also the most that one block can have
STATIC_SHARED_BYTES = 49152  # per block, without asking for more


@dataclass(frozen=True)
class SmLimits:
    threads: int
    blocks: int
    shared_bytes: int
    shared_unit: int = 128  # a block's shared memory is rounded up to this many bytes
    reserved_bytes: int = 1024  # of shared memory, per block, for the system
    fp32_lanes: int = 128  # float32 multiply-adds that it starts in a cycle

    @property
    def shared_bytes_per_block(self) -> int:
        """The most that one block can have, static and dynamic."""
        return self.shared_bytes - self.reserved_bytes

    @property
    def dynamic_shared_bytes(self) -> int:
        """What a block may ask for at launch, with 1 KiB left for what it declares."""
        return self.shared_bytes_per_block - 1024

    @property
    def warps(self) -> int:
        return self.threads // WARP


LIMITS = {
    "sm_70": SmLimits(2048, 32, 96 * 1024, shared_unit=256, reserved_bytes=0, fp32_lanes=64),
    "sm_72": SmLimits(2048, 32, 96 * 1024, shared_unit=256, reserved_bytes=0, fp32_lanes=64),
    "sm_75": SmLimits(1024, 16, 64 * 1024, shared_unit=256, reserved_bytes=0, fp32_lanes=64),
    "sm_80": SmLimits(2048, 32, 164 * 1024, fp32_lanes=64),
    "sm_86": SmLimits(1536, 16, 100 * 1024),
    "sm_87": SmLimits(1536, 16, 164 * 1024),
    "sm_88": SmLimits(1536, 16, 100 * 1024),
    "sm_89": SmLimits(1536, 24, 100 * 1024),
    "sm_90": SmLimits(2048, 32, 228 * 1024),
    "sm_100": SmLimits(2048, 32, 228 * 1024),
    "sm_103": SmLimits(2048, 32, 228 * 1024),
    "sm_110": SmLimits(1536, 24, 228 * 1024),
    "sm_120": SmLimits(1536, 24, 100 * 1024),
    "sm_121": SmLimits(1536, 24, 100 * 1024),
}

# With instructions that no other has: sm_90a is sm_90 with wgmma, sm_100a is sm_100 with tcgen05.
SPECIFIC = ("sm_90a", "sm_100a")

# What NVRTC 13 and 12.9 both compile for, but for sm_121, which is sm_120 in all of this.
ARCHS = (
    "sm_90a", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120",
)  # fmt: skip


def base(arch: str) -> str:
    """The architecture without its suffix: sm_90 for "sm_90a"."""
    match = re.fullmatch(r"(sm_\d+)[af]?", arch)
    return match[1] if match else arch
