"""The measurement of the order of FMAs: what the kernel computes, and what is recorded of it."""

import importlib
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy
import pytest
import sample_record
from hypothesis import given, settings
from hypothesis import strategies as st

import gemmlab as gl
import ptxsim
from gemmlab.cuda.disassembler import Instruction
from gemmlab.lessons.register_banks import measure as fma_order
from gemmlab.lessons.register_banks.measure import (
    ENTRY,
    ORDERS,
    PATH,
    STEPS,
    THREADS,
    VARIANTS,
    Variant,
)
from gemmlab.measure import ceilings, profiler
from gemmlab.measure.timing import Spread
from gemmlab.records import registry
from gemmlab.records import runs as records
from gemmlab.sass.inner_loop import Loop

device = importlib.import_module("gemmlab.cuda.device")
needs_gpu = pytest.mark.skipif(device.gpu() is None, reason=f"needs a GPU: {device.why_no_gpu()}")


# ---- the kernel ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variant",
    [Variant(8, 8, 4, 4), Variant(8, 16, 0), Variant(8, 16, 3, 5, 1), Variant(16, 8, 2, 3),
     Variant(8, 8, 1, 1)],
    ids=str,
)  # fmt: skip
def test_the_kernel_stores_what_its_twin_says(variant):
    blocks = 2
    out = numpy.full(blocks * THREADS, numpy.nan, numpy.float32)
    run = ptxsim.launch(
        PATH, ENTRY, (blocks, 1, 1), (THREADS, 1, 1), [out, fma_order.numbers(variant), 3],
        options=variant.options, check=True,
    )  # fmt: skip
    assert not run.findings
    expected = fma_order.totals(variant, 3)
    assert len(set(expected.tolist())) == 32, "every lane has operands of its own"
    assert numpy.array_equal(out.reshape(-1, 32), numpy.tile(expected, (out.size // 32, 1)))


@settings(max_examples=12)
@given(st.integers(0, 2), st.integers(0, 6), st.integers(0, 31))
def test_the_twin_rounds_once_for_each_fma(iterations, loads, lane):
    """Against rational arithmetic, operand by operand, rounded to float32 after each."""
    variant = Variant(8, 16, loads=loads)
    found = fma_order.numbers(variant)
    down, across = divmod(lane, 8)
    # Place of operand n, of a first, in a row of numbers: quad, then lane, then element.
    places = [(n // 4 * 4 + down) * 4 + n % 4 for n in range(8)]
    places += [32 + (n // 4 * 8 + across) * 4 + n % 4 for n in range(16)]

    def operand(step: int, n: int) -> Fraction:
        fresh = n // 4 < loads
        return Fraction(float(found[step % 16 if fresh else step % 2, places[n]]))

    total = numpy.float32(0)
    for row in range(8):
        for column in range(16):
            one = Fraction(0)
            for step in range(iterations * STEPS):
                exact = one + operand(step, row) * operand(step, 8 + column)
                one = Fraction(float(numpy.float32(float(exact))))
            total += numpy.float32(float(one))
    assert fma_order.totals(variant, iterations)[lane] == total


def pairs(variant):
    """The operands of each FMA of an outer product, in the order of the PTX."""
    ptx = fma_order.compiled(variant, "sm_90a").ptx
    found = re.findall(r"fma\.rn\.ftz\.f32 %f\d+, (%f\d+), (%f\d+), %f\d+;", ptx)
    assert len(found) == STEPS * variant.rows * variant.columns
    return found[: variant.rows * variant.columns]


@pytest.mark.parametrize("tile", [(8, 16), (16, 8)])
@pytest.mark.parametrize("order", range(len(ORDERS)))
def test_an_order_is_what_its_name_says(order, tile):
    rows, columns = tile
    found = pairs(Variant(*tile, order))
    assert len(set(found)) == rows * columns, "every sum once"
    lost = [one for one, other in pairwise(found) if one[0] != other[0] and one[1] != other[1]]
    assert len(lost) == (rows - 1 if order == 0 else 0), "all but row by row share an operand"
    # The longest that operands of a and of b stay; where a line turns, twice as long.
    longest = [max(map(len, runs([pair[side] for pair in found]))) for side in (0, 1)]
    assert longest == {
        0: [columns, 1], 1: [columns, 2], 2: [2, rows], 3: [2, 4], 4: [8, 2],
    }[order]  # fmt: skip


def runs(items):
    found = [[items[0]]]
    for item in items[1:]:
        if item == found[-1][-1]:
            found[-1].append(item)
        else:
            found.append([item])
    return found


def test_loads_come_on_top_of_the_same_fmas():
    for loads in (0, 6):
        program = fma_order.compiled(Variant(8, 16, 1, loads, 1), "sm_90a")
        loop = gl.sass.analyse(program.cubin, ENTRY)
        assert loop.opcodes["FFMA"] == STEPS * 128
        assert loop.opcodes["LDS"] == STEPS * loads
        assert program.log.count("0 bytes spill stores") == 1


def test_registers_by_bank_by_hand():
    def fma(a, b, c):
        return Instruction(0, "", "FFMA.FTZ", (c, a, b, c))

    # Banks are register numbers modulo 2. The second FFMA has R2 from the reuse cache.
    loop = Loop((fma("R2.reuse", "R3", "R4"), fma("R2", "R5", "R6"), fma("R2", "R4", "R6")))
    found = fma_order.register_reads(loop)
    assert (found["slots"], found["ffma"]) == (3, 3)
    assert (found["bank_0"], found["bank_1"]) == (2 + 1 + 3, 1 + 1 + 0)
    assert found["two_in_a_bank"] == 2
    assert found["reuse_pct"] == pytest.approx(100 / 3)


def test_every_variant_is_another_and_can_be_compiled():
    assert len(set(VARIANTS)) == len(VARIANTS)
    assert len({tuple(variant.settings.items()) for variant in VARIANTS}) == len(VARIANTS)
    tiles = Counter((v.rows, v.columns, v.level) for v in VARIANTS if v.loads == 0)
    assert set(tiles.values()) == {len(ORDERS)}
    for variant in VARIANTS:
        assert variant.loads <= (variant.rows + variant.columns) // 4


# ---- the record ----------------------------------------------------------------------------------

FEW = (Variant(8, 16, 0), Variant(8, 16, 1, 2, 1))
HERE = sample_record.GPU


@pytest.fixture
def recording(tmp_path, monkeypatch):
    """A GPU of our own that runs every variant at 1 TFLOP/s, and a folder for its results."""
    roof = ceilings.Roof(Spread(*(64e12,) * 4), 1, device.GpuState(1, 1, 1))
    speed = {"tflops": 1.0, "tflops_q1": 0.9, "tflops_q3": 1.1, "sm_clock_mhz": 1980}
    monkeypatch.setattr(fma_order, "VARIANTS", FEW)
    sample_record.measure_on(monkeypatch, fma_order, gpu=HERE)
    monkeypatch.setattr(fma_order, "_timed", lambda variant, cubin, here: speed)
    monkeypatch.setattr(ceilings, "measure_fma", lambda *_: roof)
    monkeypatch.setattr(registry, "ncu_version", lambda: "2025.3")
    monkeypatch.setattr(
        profiler, "profiled",
        lambda child, entry, count, metrics, name: [dict.fromkeys(metrics, 0.5)] * count,
    )  # fmt: skip
    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    monkeypatch.setattr(device, "_find_gpu", lambda: "there is none.")
    monkeypatch.delenv("GEMMLAB_RECORDS", raising=False)
    records.save(sample_record.record(), tmp_path / "nvidia-test" / "runs.json")
    return tmp_path / "nvidia-test" / "fma_order.csv"


def test_what_is_recorded_is_replayed(recording):
    lines = []
    assert fma_order.TABLE.remake(lines.append) == recording
    assert len(lines) == len(FEW)
    found = fma_order.fma_order()
    assert found["tile"].tolist() == ["8×16"] * 2
    assert found["order"].tolist() == ["row by row", "rows snaking"]
    assert found["loads"].tolist() == [0, 2] and found["ptxas"].tolist() == ["-O3", "-O1"]
    assert found["FFMA"].tolist() == [1024] * 2
    assert found["issue slots"][1] >= 1024 + 2 * STEPS
    for row in found.to_dict("records"):
        alone = 64 * row["FFMA"] / row["issue slots"]
        assert row["slots alone TFLOP/s"] == pytest.approx(alone, abs=0.06)
        cycles = row["issue slots"] + row["waits"]
        assert row["predicted TFLOP/s"] == pytest.approx(64 * row["FFMA"] / cycles, abs=0.06)
        assert row["measured TFLOP/s"] == 1.0 and row["roof TFLOP/s"] == 64
        assert row["issue active, %"] == 0.5 and row["dispatch stall"] == 0.5
        assert row["active, %"] == 100
        assert row["gpu"] == "NVIDIA Test"


def test_without_counters_the_rest_is_recorded(recording, monkeypatch):
    def missing(*_):
        raise profiler.CountersUnavailable("there is no ncu")

    monkeypatch.setattr(profiler, "profiled", missing)
    lines = []
    fma_order.TABLE.remake(lines.append)
    assert lines[-1].endswith("there is no ncu")
    found = fma_order.fma_order()
    assert found["dispatch stall"].isna().all() and found["measured TFLOP/s"].notna().all()


def test_a_record_of_other_code_is_refused(recording):
    with pytest.raises(registry.NoRecord, match="record 10_fma_order"):
        fma_order.fma_order()
    fma_order.TABLE.remake(lambda line: None)
    text = recording.read_text()
    first = text.splitlines()[1].split(",")[list(fma_order.COLUMNS).index("code")]
    recording.write_text(text.replace(first, "0123456789abcdef"))
    with pytest.raises(registry.StaleRecord, match="another version of this kernel"):
        fma_order.fma_order()
    recording.write_text(text.replace("two_in_a_bank", "other"))
    with pytest.raises(registry.BadRecord, match="lacks two_in_a_bank"):
        fma_order.fma_order()


def test_every_variant_is_recorded_on_an_h200(monkeypatch):
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-h200")
    found = fma_order.TABLE.read()
    rows = found[["rows", "columns", "order", "loads", "level"]].itertuples(index=False)
    assert [Variant(*map(int, row)) for row in rows] == list(VARIANTS)
    assert found.notna().all(axis=None), "counters, too"


# ---- on a GPU ------------------------------------------------------------------------------------


@pytest.mark.gpu
@needs_gpu
def test_the_kernel_is_checked_before_it_is_timed(tmp_path, monkeypatch):
    variant, here = FEW[0], device.gpu()
    cubin = fma_order.compiled(variant, here.arch).cubin
    assert fma_order._timed(variant, cubin, here)["tflops"] > 0
    with pytest.raises(fma_order.OuterProductsError, match="differ from NumPy"):
        fma_order._timed(replace(variant, loads=3), cubin, here)
