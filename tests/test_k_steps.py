"""One block's way along K: every frame against what the kernel's indices say."""

import itertools

import numpy as np
import pytest

import gemmlab as gl
from gemmlab import ladder
from gemmlab.analysis import k_steps
from gemmlab.analysis.block_replay import NOTHING
from ptxsim import LaunchError

# Rungs whose warps take no steps together, or whose tiles are brought and read by no thread.
ALONE = (
    "10_register_banks", "11_fused_epilogue", "12_split_k", "13_batched", "16_tma_wgmma",
    "17_warp_specialized", "18_persistent", "19_fp8", "22_fp32_summit",
)  # fmt: skip
CASES = [(rung.name, ()) for rung in ladder.RUNGS if rung.name > "03" and rung.name not in ALONE]
CASES += [("09_double_buffering", (("STAGES", stages),)) for stages in (2, 3, 4)]
STEPS = 4  # along K
ADDED = {"15_mma_sync": 1}  # a multiply-add for each element: its factor, with a bias that is 0


@pytest.fixture(scope="module")
def walks():
    made = {}

    def walk(name, settings=(), block=(0, 0, 0), shape=None):
        key = (name, settings, block, shape)
        if key not in made:
            kernel = gl.load(name, **dict(settings))
            rows, columns = kernel.rung.tile(kernel.settings)
            along = STEPS * kernel.settings["BK"]
            m, n, k = shape or (2 * rows, 2 * columns, along)
            made[key] = k_steps.of(kernel.trace(m, n, k, blocks=[block]), block)
        return made[key]

    return walk


def share(frame):
    """The rows and columns of C that its block computes, as bool (M,) and (N,)."""
    trace = frame.trace
    x, y, _ = frame.block
    rows, columns = ladder.find(trace.kernel_name).tile(trace.settings)
    row, column = np.arange(trace.m), np.arange(trace.n)
    return row // rows == y, column // columns == x


def tile(frame, name, numbers):
    """bool: what the block's tiles with these numbers along K have of A or of B."""
    rows, columns = share(frame)
    ks = np.isin(np.arange(frame.trace.k) // frame.trace.settings["BK"], numbers)
    return np.outer(rows, ks) if name == "A" else np.outer(ks, columns)


@pytest.mark.parametrize(
    ("name", "settings", "block"),
    [*((*case, (0, 0, 0)) for case in CASES), ("05_thread_tile_2d", (), (1, 1, 0))],
)
def test_a_block_loads_its_rows_of_a_and_its_columns_of_b(name, settings, block, walks):
    frames = walks(name, settings, block)
    rows, columns = share(frames[0])
    times = {array: sum(frame.loaded[array].astype(int) for frame in frames) for array in "AB"}
    assert (times["A"] == np.outer(rows, np.ones(frames[0].trace.k))).all()
    assert (times["B"] == np.outer(np.ones(frames[0].trace.k), columns)).all()
    assert (frames[0].mine == np.outer(rows, columns)).all()


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_products_are_done_up_to_k_and_are_those_of_the_counters(name, settings, walks):
    frames = walks(name, settings)
    trace = frames[0].trace
    for before, after in itertools.pairwise(frames):
        assert (after.done >= before.done).all()
        assert not before.written.any()
    last = frames[-1]
    assert (last.done == trace.k * last.mine).all() and (last.written == last.mine).all()
    assert list(last.actions) == ["write C"] and last.products == (trace.k, trace.k)
    assert last.done.sum() + last.mine.sum() * ADDED.get(name, 0) == trace.run.multiply_adds


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_what_is_read_lay_in_shared_memory_before_the_last_barrier(name, settings, walks):
    frames = walks(name, settings)
    assert not any(cells.any() for cells in frames[0].read.values())
    for before, after in itertools.pairwise(frames):
        for array in "AB":
            assert (before.kept[array][after.read[array]] != NOTHING).all()
            assert not (after.arriving[array] & (after.kept[array] != NOTHING)).any()


@pytest.mark.parametrize("name", ["03_shared_memory", "05_thread_tile_2d", "07_bank_conflicts"])
def test_with_one_buffer_a_block_loads_and_multiplies_in_turn(name, walks):
    frames = walks(name)
    each = [list(frame.actions) for frame in frames]
    assert each == [["load"], ["multiply"]] * STEPS + [["write C"]]
    for frame in frames[:-1]:
        number = frame.number // 2
        for array in "AB":
            now = tile(frame, array, [number])
            assert ((frame.kept[array] == 0) == now).all()
            happens = frame.loaded if frame.number % 2 == 0 else frame.read
            assert (happens[array] == now).all()
        assert frame.products == ((number + frame.number % 2) * frame.trace.settings["BK"],) * 2


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_double_buffering_loads_ahead_while_it_multiplies(stages, walks):
    """Before the first product there are stages - 1 tiles, or one in registers' way."""
    settings = () if stages == 1 else (("STAGES", stages),)
    frames = walks("09_double_buffering", settings)
    ahead = max(1, stages - 1)
    assert len(frames) == STEPS + 2
    for frame in frames[:-1]:
        now = frame.number - 1  # the tile that is multiplied
        for array in "AB":
            first = list(range(ahead)) if now < 0 else [now + ahead]
            assert (frame.loaded[array] == tile(frame, array, first)).all()
            assert (frame.read[array] == tile(frame, array, [now])).all()
            # At the barrier that ends the frame, one tile more than was multiplied has arrived.
            on_way = range(now + 2, min(now + ahead + 1, STEPS))
            assert (frame.arriving[array] == tile(frame, array, on_way)).all()
            for buffer in range(max(2, stages)):
                arrived = [t for t in range(min(now + 2, STEPS)) if t % max(2, stages) == buffer]
                loading = [t for t in on_way if t % max(2, stages) == buffer]
                expected = [] if loading else arrived[-1:]
                assert ((frame.kept[array] == buffer) == tile(frame, array, expected)).all()


def test_at_the_edge_of_c_and_of_k(walks):
    """Block (3, 2) of C, 20×27, has rows 16 to 19 and columns 24 to 26; K is 13."""
    frames = walks("03_shared_memory", (("TILE", 8), ("BK", 8)), (3, 2, 0), (20, 27, 13))
    assert (frames[-1].done == 13 * frames[-1].mine).all()
    assert np.argwhere(frames[-1].written).tolist() == [[r, c] for r in range(16, 20)
                                                        for c in range(24, 27)]  # fmt: skip
    assert frames[1].products == (8, 8) and frames[3].progress == "13 of 13 products"


def test_what_cannot_be_followed_is_refused():
    trace = gl.load("01_naive").trace(64, 8, 16)
    with pytest.raises(LaunchError, match="is not in the grid"):
        k_steps.of(trace, (5, 0, 0))
    with pytest.raises(ValueError, match="reads nothing from shared memory"):
        k_steps.of(trace)


@pytest.mark.parametrize("name", ALONE)
def test_warps_that_wait_for_mbarriers_take_no_steps_together(name):
    trace = gl.load(name).trace(8, 8, 16)
    with pytest.raises(ValueError, match=rf"warps of {name} wait for mbarriers"):
        k_steps.of(trace)
