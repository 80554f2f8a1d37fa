"""The measurement of the order of FMAs: what the kernel computes, and what is recorded of it."""

import importlib
import re
from dataclasses import replace
from itertools import pairwise

import numpy
import pytest

import gemmlab
import ptxsim
from gemmlab.lessons.register_banks import measure as fma_order
from gemmlab.lessons.register_banks import tables as fma_orders
from gemmlab.lessons.register_banks.measure import (
    ENTRY,
    ORDERS,
    PATH,
    STEPS,
    THREADS,
    VARIANTS,
    Variant,
)
from gemmlab.measure.ceilings import CeilingsError

device = importlib.import_module("gemmlab.cuda.device")
needs_gpu = pytest.mark.skipif(device.gpu() is None, reason=f"needs a GPU: {device.why_no_gpu()}")


# ---- the kernel ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variant",
    [Variant(8, 8, 4), Variant(8, 16, 0), Variant(8, 16, 3), Variant(16, 8, 2)],
    ids=str,
)
def test_the_kernel_stores_what_its_twin_says(variant):
    blocks = 2
    out = numpy.full(blocks * THREADS, numpy.nan, numpy.float32)
    run = ptxsim.launch(
        PATH, ENTRY, (blocks, 1, 1), (THREADS, 1, 1), [out, fma_order.numbers(variant), 3],
        options=fma_order.options_for(variant.settings), check=True,
    )  # fmt: skip
    assert not run.findings
    expected = fma_order.totals(variant, 3)
    assert len(set(expected.tolist())) == 32, "every lane has operands of its own"
    assert numpy.array_equal(out.reshape(-1, 32), numpy.tile(expected, (out.size // 32, 1)))


def pairs(variant):
    """The operands of each FMA of an outer product, in the order of the PTX."""
    ptx = fma_order.compiled(variant, "sm_90a").ptx
    operands = re.findall(r"fma\.rn\.ftz\.f32 %f\d+, (%f\d+), (%f\d+), %f\d+;", ptx)
    assert len(operands) == STEPS * variant.rows * variant.columns
    return operands[: variant.rows * variant.columns]


@pytest.mark.parametrize("tile", [(8, 16), (16, 8)])
@pytest.mark.parametrize("order", range(len(ORDERS)))
def test_an_order_is_what_its_name_says(order, tile):
    rows, columns = tile
    fmas = pairs(Variant(*tile, order))
    assert len(set(fmas)) == rows * columns, "every sum once"
    lost = [
        before
        for before, after in pairwise(fmas)
        if before[0] != after[0] and before[1] != after[1]
    ]
    assert len(lost) == (rows - 1 if order == 0 else 0), "all but row by row share an operand"
    # The longest that operands of a and of b stay; where a line turns, twice as long.
    longest = [max(map(len, runs([pair[side] for pair in fmas]))) for side in (0, 1)]
    assert longest == {
        0: [columns, 1], 1: [columns, 2], 2: [2, rows], 3: [2, 4], 4: [8, 2],
    }[order]  # fmt: skip


def runs(items):
    groups = [[items[0]]]
    for item in items[1:]:
        if item == groups[-1][-1]:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


# ---- the record ----------------------------------------------------------------------------------


def test_every_variant_is_recorded_on_an_h200(monkeypatch):
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-h200")
    table = fma_order.TABLE.read()
    rows = table[["rows", "columns", "order"]].itertuples(index=False)
    assert [Variant(*map(int, row)) for row in rows] == list(VARIANTS)
    assert table.notna().all(axis=None)


# ---- on a GPU ------------------------------------------------------------------------------------


@pytest.mark.gpu
@needs_gpu
def test_the_kernel_is_checked_before_it_is_timed(tmp_path, monkeypatch):
    variant, here = Variant(8, 16, 0), device.gpu()
    cubin = fma_order.compiled(variant, here.arch).cubin
    assert fma_order._timed(variant, cubin, here)["tflops"] > 0
    with pytest.raises(CeilingsError, match="differ from NumPy"):
        fma_order._timed(replace(variant, rows=16, columns=8), cubin, here)


def test_10_loads_fragments_an_outer_product_ahead_and_09_none_across_its_barrier():
    loops = {
        name: gemmlab.sass.loop(gemmlab.load(name, "sm_90a"))
        for name in ("09_double_buffering", "10_register_banks")
    }
    ahead = {
        name: [used - issued for issued, used in fma_orders.loads_ahead(loop)]
        for name, loop in loops.items()
    }
    assert len(ahead["10_register_banks"]) == 32 * (8 + 16) / 4  # of 16 bytes, for 32 k
    assert min(ahead["10_register_banks"]) >= 8 * 16 / 2
    assert min(ahead["09_double_buffering"]) == 0
    change = fma_orders.change_of_tiles(loops["10_register_banks"])
    assert change % (8 * 16) == 0, "between two outer products"
