"""GEMMs of CUTLASS, which compile_cutlass.py compiled from its headers."""

import lzma
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import ptxsim
from ptxsim.testing import assert_bank_conflicts, assert_sectors

RECORDED = Path(__file__).parent / "recorded"
TILE, SECTOR = 128, 32  # rows and columns of a block's tile; bytes
M, N, K = 200, 144, 112
HGMMA = "sm__inst_executed_pipe_tensor_op_gmma.sum"
HMMA = "sm__inst_executed_pipe_tensor_op_hmma.sum"


@cache
def compiled(name: str) -> str:
    return lzma.decompress((RECORDED / f"{name}.ptx.xz").read_bytes()).decode()


def operands(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """float16: A (m, k), B as (n, k), of small integers, whose sums are exact; D (m, n) of NaN."""
    random = np.random.default_rng(41)
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    return a, b, np.full((m, n), np.nan, np.float16)


def product(a, b) -> np.ndarray:
    return (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)


def tiles(*extents: int) -> tuple[int, ...]:
    return tuple(-(-extent // TILE) for extent in extents)


def gemm_sm80(m, n, k, ptx=None, **how):
    """D, A @ B.T and the Run of CUTLASS 2's kernel."""
    a, b, d = operands(m, n, k)
    ptx = ptx or compiled("cutlass_sm80")
    shared_bytes = np.zeros(1, np.int32)
    ptxsim.launch_ptx(ptx, "shared_bytes", 1, 1, [shared_bytes])
    args, how = [a, b, d, m, n, k], {"names": ("a", "b", "d", "m", "n", "k"), **how}
    shared = {"shared_bytes": int(shared_bytes[0])}
    return d, product(a, b), ptxsim.launch_ptx(ptx, "gemm", tiles(m, n), 128, args, **shared, **how)


def gemm_sm90(m, n, k, ptx=None, **how):
    """D, A @ B.T and the Run of CUTLASS 3's kernel: its parameters with the two tensor maps."""
    a, b, d = operands(m, n, k)
    ptx = ptx or compiled("cutlass_sm90")
    room, places = np.zeros(4096, np.uint8), np.zeros(5, np.int32)
    ptxsim.launch_ptx(ptx, "parameters", 1, 1, [a, b, d, m, n, k, room, places])
    map_a, map_b, pointer, size, shared_bytes = map(int, places)
    boxes = (1, 128, 64), (1, 64, 64)  # of a batch of one; each block loads half of the tile of B
    maps = [
        ptxsim.TensorMap(array.reshape(1, *array.shape), box, swizzle="128B")
        for array, box in zip((a, b), boxes, strict=True)
    ]
    parameters = ptxsim.Structure(
        room[:map_a].tobytes(), maps[0], room[map_a + 128 : map_b].tobytes(), maps[1],
        room[map_b + 128 : pointer].tobytes(), d, room[pointer + 8 : size].tobytes(),
    )  # fmt: skip
    how = {"shared_bytes": shared_bytes, **how}
    return d, product(a, b), ptxsim.launch_ptx(ptx, "gemm", tiles(m, n), 256, [parameters], **how)


@pytest.mark.parametrize("gemm, shape", [
    (gemm_sm80, (M, N, K)), (gemm_sm80, (1, 8, 8)), (gemm_sm80, (128, 256, 64)),
    (gemm_sm90, (256, 136, 200)), (gemm_sm90, (129, 8, 64)),
])  # fmt: skip
def test_the_product_is_right_and_nothing_is_found(gemm, shape):
    d, expected, run = gemm(*shape, check=True)
    np.testing.assert_array_equal(d, expected)
    assert run.findings == []


def test_cutlass_2_reads_each_tile_once_without_bank_conflicts():
    *_, run = gemm_sm80(M, N, K, count=True)
    rows, columns = tiles(M, N)
    assert_sectors(run, "a", loads=M * K * 2 // SECTOR * columns)
    assert_sectors(run, "b", loads=N * K * 2 // SECTOR * rows)
    assert_sectors(run, "d", stores=M * N * 2 // SECTOR, loads=0)
    assert_bank_conflicts(run)
    padded_k = -(-K // 32) * 32
    assert run.counters[HMMA] == rows * columns * TILE * TILE * padded_k // (16 * 8 * 16)


def test_cutlass_3_loads_by_tma_and_multiplies_by_wgmma():
    m, n, k = 256, 256, 192
    *_, run = gemm_sm90(m, n, k, count=True)
    blocks, steps = m * n // TILE**2, k // 64
    assert run.counters[HGMMA] == 4 * blocks * steps * (TILE // 64) * (64 // 16)  # 4 warps
    received = run.counters["l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum"]
    assert received == blocks * steps * 2 * TILE * 64 * 2 // SECTOR
    # A block loads its tile of A, and half of the tile of B for both blocks of the cluster.
    assert run.counters["smsp__sass_inst_executed_op_tma_ld.sum"] == blocks * steps * 2
    # Its epilogue goes past shared memory: a request stores a half of each lane, in 8 rows of D.
    assert run.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == m * n // 32 * 8
    assert_bank_conflicts(run)


@pytest.mark.parametrize("gemm, name, statement", [
    (gemm_sm80, "cutlass_sm80", r"cp\.async\.wait_group \d+;"),
    (gemm_sm90, "cutlass_sm90", r"wgmma\.wait_group\.sync\.aligned 0;"),
])  # fmt: skip
def test_a_wait_that_is_taken_out_is_missed(gemm, name, statement):
    ptx, count = re.subn(statement, "", compiled(name))
    assert count
    *_, run = gemm(256, 128, 256, ptx, check=True)
    assert run.findings
