"""The facts of a kernel: against formulas, the compiler's own report, and the records."""

import pytest

import gemmlab as gl
from gemmlab import ladder
from gemmlab.analysis import facts
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import RUNGS
from gemmlab.ladder.settings import ALONE, JOINS, LAST_ARRIVER, STREAM_K
from gemmlab.lessons.split_k.rung import RUNG as SPLIT_K
from gemmlab.records import tuning

TILED = [rung.name for rung in RUNGS[3:]]
# Copies past L1 are counted by where they go, too: every other row of 14's tiles begins 16 bytes
# off a multiple of 32, so 128 bytes of it fill five places instead of four. So does each row of
# 12's stages of B, which begin behind six mbarriers.
COUNTED_TWICE = {"14_wmma": (1 / 8, 1 / 8), "12_split_k": (0, 1 / 4)}
# One multiply-add beside 128: the factor of an element, with a bias that is 0; its promotion.
ADDED = {"15_mma_sync": 1 / 128, "19_fp8": 1 / 128}


@pytest.mark.parametrize("name", TILED)
def test_the_intensity_of_a_tile_is_that_of_its_area_over_its_edges(name):
    made = facts.of(gl.load(name))
    rows, columns = made.kernel.rung.tile(made.kernel.settings)
    each = made.kernel.rung.precision.a.bytes
    more_of_a, more_of_b = COUNTED_TWICE.get(name, (0, 0))
    edges = rows * (1 + more_of_a) + columns * (1 + more_of_b)
    of_products = 2 * rows * columns / (each * edges)
    assert made.intensity == pytest.approx(of_products * (1 + ADDED.get(name, 0)))


def test_the_speed_is_the_recorded_one_of_the_same_settings_and_code():
    kernel = gl.load("03_shared_memory", TILE=8, BK=8)
    row = tuning.of(kernel)
    assert (row["TILE"], row["BK"], row["PAD"]) == (8, 8, 0)
    speed = facts.recorded_speed(kernel)
    assert speed.gflops == row["gflops"] and "recorded" in speed.where
    edited = gl.from_source(kernel.text.replace("alpha * sum", "sum * alpha"), like=kernel.name)
    assert edited.text != kernel.text and facts.recorded_speed(edited) is None


@pytest.mark.parametrize("join", range(len(JOINS)), ids=JOINS)
def test_facts_are_taken_from_the_last_of_the_blocks_that_share_a_tile(join):
    settings = {"BM": 64, "BN": 64, "TM": 8, "TN": 8, "JOIN": join}
    settings["SPLIT"] = 1 if join in (ALONE, STREAM_K) else 4
    kernel = Kernel(SPLIT_K, ladder.settings_for(SPLIT_K, settings), "sm_90a", SPLIT_K.path)
    made = facts.of(kernel)
    parts = facts.parts(kernel)
    assert made.block == (parts - 1, 0, 0) and (parts > 1) == (join != ALONE)
    read = [access for access in made.trace.run.accesses(made.block) if access.array == "B"]
    rows = {
        int(at) // 4 // made.trace.n for access in read for at in access.addresses[access.active]
    }
    assert max(rows) < made.trace.k
    if join != STREAM_K:  # whose cuts lie anywhere
        assert sorted(rows) == list(range(min(rows), max(rows) + 1))
        assert len(rows) == made.trace.k // parts
    if join == LAST_ARRIVER:
        stores = [access for access in made.trace.run.accesses(made.block) if access.array == "C"]
        assert sum(access.active.sum() * access.size for access in stores) == 4 * 64 * 64
