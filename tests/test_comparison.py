"""Two kernels side by side: the table against traces and records."""

import pytest

import gemmlab as gl
from gemmlab.analysis import facts
from gemmlab.analysis.facts import NOT_RECORDED, compare
from gemmlab.records import runs, tuning

SHARED = "03_shared_memory"
SMALL = {"BM": 64, "BN": 64, "BK": 16, "WM": 32, "WN": 32}


def edited(name, old, new, **settings):
    """The rung with one change of its text."""
    text = gl.load(name, **settings).text
    assert text.count(old) == 1
    return gl.from_source(text.replace(old, new), name, **settings)


PAIRS = {
    "two rungs": lambda: (gl.load("02_coalescing"), gl.load(SHARED)),
    "two tiles": lambda: (gl.load(SHARED, TILE=8), gl.load(SHARED)),
    "a swizzle": lambda: (gl.load("07_bank_conflicts", SWIZZLE=0), gl.load("07_bank_conflicts")),
    "an edited one": lambda: (
        gl.load("08_warp_tiling", MIN_BLOCKS=2),
        edited("09_double_buffering", "buffer ^= 1;", "buffer = 1 - buffer;", **SMALL),
    ),
}


@pytest.fixture(scope="module", params=PAIRS)
def compared(request):
    return compare(*PAIRS[request.param]())


@pytest.fixture(scope="module")
def tiles():
    return compare(*PAIRS["two tiles"]())


def row(compared, quantity):
    """The two values and the ratio of one quantity."""
    values = compared.table.set_index("quantity").loc[quantity]
    return (*(values[name] for name in compared.names), values["ratio"])


def test_the_table_has_the_facts_of_both(compared):
    table = compared.table
    assert list(table.columns) == ["quantity", *compared.names, "ratio", "unit"]
    for side, name in zip((compared.a, compared.b), compared.names, strict=True):
        own_facts = facts.of(side.kernel).table()
        assert list(table["quantity"]) == list(own_facts["quantity"])
        for shown, value in zip(table[name], own_facts["value"], strict=True):
            assert shown == (NOT_RECORDED if value is None else value)


def test_a_tile_of_32_against_one_of_8_is_what_arithmetic_says(tiles):
    assert row(tiles, "threads per block") == (64, 1024, 16)
    assert row(tiles, "shared memory") == (4 * 2 * 8 * 64, 4 * 2 * 32 * 64, 4)
    assert row(tiles, "arithmetic intensity")[2] == 4  # an element serves four times as many
    assert row(tiles, "loads of B")[:2] == (4, 4)


def test_the_speed_is_the_recorded_one_and_says_of_which_gpu(tiles):
    """That of the default in the record of runs, the other one's in the sweep."""
    swept = tuning.of(gl.load(SHARED, TILE=8))
    run = runs.replay_at(gl.load(SHARED), 4096, 4096, 4096)
    a, b, ratio = row(tiles, "speed")
    assert (a, b) == (round(swept["gflops"]), round(run.gflops))
    assert ratio == pytest.approx(b / a)
    assert f"{swept['gpu']}, recorded {swept['recorded'][:10]}" in repr(tiles)
