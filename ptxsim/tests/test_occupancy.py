"""Occupancy against NVIDIA's own calculator, and what must hold for any block."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxsim.occupancy import LIMITS, OccupancyError, occupancy

# Printed by cudaOccMaxActiveBlocksPerMultiprocessor of cuda_occupancy.h, CUDA 13.0: architecture,
# threads, registers, shared bytes; blocks by threads, slots, registers, shared memory; blocks.
CALCULATOR = [
    ("sm_70", 256, 64, 0, 8, 32, 4, None, 4),
    ("sm_70", 128, 32, 40000, 16, 32, 16, 2, 2),
    ("sm_72", 1024, 32, 0, 2, 32, 2, None, 2),
    ("sm_75", 256, 32, 0, 4, 16, 8, None, 4),
    ("sm_75", 64, 40, 4097, 16, 16, 24, 15, 15),
    ("sm_80", 128, 168, 33000, 16, 32, 3, 4, 3),
    ("sm_80", 32, 16, 0, 64, 32, 128, 164, 32),
    ("sm_86", 256, 40, 0, 6, 16, 6, 100, 6),
    ("sm_86", 512, 64, 20000, 3, 16, 2, 4, 2),
    ("sm_87", 96, 255, 0, 16, 16, 2, 164, 2),
    ("sm_89", 32, 24, 0, 48, 24, 84, 100, 24),
    ("sm_89", 384, 72, 50000, 4, 24, 2, 2, 2),
    ("sm_90", 1024, 32, 0, 2, 32, 2, 228, 2),
    ("sm_90", 1024, 33, 0, 2, 32, 1, 228, 1),
    ("sm_90", 256, 128, 32768, 8, 32, 2, 6, 2),
    ("sm_90", 288, 100, 0, 7, 32, 1, 228, 1),
    ("sm_90", 384, 168, 232448, 5, 32, 1, 1, 1),
    ("sm_90", 384, 168, 232449, 5, 32, 1, 0, 0),
    ("sm_90", 544, 120, 0, 3, 32, 0, 228, 0),
    ("sm_100", 128, 64, 16384, 16, 32, 8, 13, 8),
    ("sm_103", 992, 65, 0, 2, 32, 0, 228, 0),
    ("sm_120", 32, 16, 0, 48, 24, 128, 100, 24),
    ("sm_120", 256, 48, 34000, 6, 24, 5, 2, 2),
]

archs = st.sampled_from(sorted(LIMITS))
blocks = {
    "arch": archs,
    "threads": st.integers(1, 1024),
    "registers": st.integers(0, 255),
    "shared_bytes": st.integers(0, 240 * 1024),
}


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "by_threads", "by_slots", "by_registers",
     "by_shared", "expected"),
    CALCULATOR,
)  # fmt: skip
def test_agrees_with_nvidias_calculator(
    arch, threads, registers, shared, by_threads, by_slots, by_registers, by_shared, expected
):
    fit = occupancy(arch, threads=threads, registers=registers, shared_bytes=shared)
    assert fit.blocks_by == {
        "threads": by_threads,
        "blocks": by_slots,
        "registers": by_registers,
        "shared memory": by_shared,
    }
    assert fit.blocks_per_sm == expected


@given(**blocks)
def test_never_over_any_limit(arch, threads, registers, shared_bytes):
    sm = LIMITS[arch]
    fit = occupancy(arch, threads=threads, registers=registers, shared_bytes=shared_bytes)
    assert fit.blocks_per_sm <= sm.blocks
    assert fit.blocks_per_sm * threads <= sm.threads
    assert fit.blocks_per_sm * threads * registers <= 65536
    assert fit.blocks_per_sm * shared_bytes <= sm.shared_bytes
    assert 0 <= fit.occupancy <= 1
    assert fit.warps_per_sm == fit.occupancy * sm.threads / 32
    limits = [limit for limit in fit.blocks_by.values() if limit is not None]
    assert fit.blocks_per_sm == min(limits) == fit.blocks_by[fit.limited_by]


@pytest.mark.parametrize("arch", ["sm_61", "sm_90z", "compute_90", "90", ""])
def test_an_unknown_architecture_is_refused_with_the_known_ones(arch):
    with pytest.raises(OccupancyError, match=r"known are sm_70, .*sm_90, .*sm_120"):
        occupancy(arch, threads=32, registers=32)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"threads": 0}, "threads is 0; a block has 1 to 1024"),
        ({"threads": 32.0}, "threads is 32.0; it must be a whole number"),
        ({"registers": 256}, "registers is 256; a thread has 0 to 255"),
        ({"shared_bytes": -4}, "shared_bytes is -4; a block has 0 or more"),
    ],
)
def test_bad_input_is_refused_with_the_value_and_the_range(bad, message):
    good = {"threads": 256, "registers": 32, "shared_bytes": 0}
    with pytest.raises(OccupancyError, match=message):
        occupancy("sm_90", **{**good, **bad})
