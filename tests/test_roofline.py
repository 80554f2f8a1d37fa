import importlib
import math

import numpy
import pandas
import pytest
import sample_record
from hypothesis import given
from hypothesis import strategies as st

import ptxsim
from gemmlab.analysis import roofline
from gemmlab.kernel.compiler import options_for
from gemmlab.ladder import CEILINGS, Problem
from gemmlab.ladder.probes import COPY
from gemmlab.measure import ceilings
from gemmlab.measure.timing import Spread
from gemmlab.records import registry, runs
from gemmlab.records import roofs as r_roofs

device = importlib.import_module("gemmlab.cuda.device")
needs_gpu = pytest.mark.skipif(device.gpu() is None, reason=f"needs a GPU: {device.why_no_gpu()}")


def roofs(bytes_per_second=4e12, flop_per_second=64e12):
    def roof(rate):
        return ceilings.Roof(Spread(rate, rate, rate, rate), 1, device.GpuState(1, 1, 1))

    return r_roofs.Ceilings(
        gpu="NVIDIA Test",
        recorded=sample_record.DATE,
        copy=roof(bytes_per_second),
        fma=roof(flop_per_second),
    )


# ---- the arithmetic kernel's twin ----------------------------------------------------------------


@given(st.integers(1, 64), st.integers(0, 3), st.integers(1, 8), st.integers(1, 8))
def test_the_chain_rounds_once_per_step(threads, iterations, chains, unroll):
    """Against exact rational arithmetic, rounded to float32 after each multiply-add."""
    from fractions import Fraction

    thread = threads - 1
    total = numpy.float32(0)
    for chain in range(chains):
        x = numpy.float32(thread + chain) * numpy.float32(2**-7)
        for _ in range(iterations * unroll):
            exact = Fraction(float(x)) * Fraction(ceilings.MULTIPLIER) + Fraction(ceilings.ADDEND)
            assert Fraction(float(exact)) == exact, "float64 holds it without rounding"
            x = numpy.float32(float(exact))
        total += x
    assert ceilings.fma_chain(threads, iterations, chains, unroll)[thread] == total


# ---- 00_ceilings.cu itself, in the simulator -----------------------------------------------------


@pytest.mark.parametrize("macros", [CEILINGS.macros, {"CHAINS": 3, "UNROLL": 5}])
def test_the_chain_of_the_kernel_file_is_its_twin_s_bit_for_bit(macros):
    blocks, threads = 3, 64
    out = numpy.full(blocks * threads, numpy.nan, numpy.float32)
    arguments = [out, 2, ceilings.MULTIPLIER, ceilings.ADDEND]
    run = ptxsim.launch(
        CEILINGS.path, CEILINGS.entry, (blocks, 1, 1), (threads, 1, 1), arguments,
        options=options_for(macros),
    )  # fmt: skip
    assert not run.findings
    expected = ceilings.fma_chain(threads, 2, **macros)
    assert numpy.array_equal(out.reshape(blocks, threads), numpy.tile(expected, (blocks, 1)))


@pytest.mark.parametrize("count", [0, 1, 191, 192, 1000])
def test_the_copy_of_the_kernel_file_copies_all_and_no_more(count):
    original = numpy.random.default_rng(count).random(4 * count + 8, dtype=numpy.float32)
    target = numpy.full_like(original, numpy.nan)
    run = ptxsim.launch(COPY.path, COPY.entry, (3, 1, 1), (64, 1, 1), [original, target, count])
    assert not run.findings
    assert numpy.array_equal(target[: 4 * count], original[: 4 * count])
    assert numpy.isnan(target[4 * count :]).all()


# ---- recorded ceilings and points ----------------------------------------------------------------


@pytest.fixture
def results(tmp_path, monkeypatch):
    return sample_record.put_with_ceilings(monkeypatch, tmp_path)


def change(path, edit):
    record = runs.load(path)
    edit(record)
    runs.save(record, path)


def test_recorded_ceilings_are_replayed(results):
    roofs = r_roofs.ceilings()
    assert (roofs.bytes_per_second, roofs.flop_per_second) == (4e12, 64e12)
    assert (roofs.gpu, roofs.recorded) == ("NVIDIA Test", sample_record.DATE)
    assert roofs.fma.state.sm_clock_mhz == 1980


def test_the_roof_of_tensor_cores_is_replayed_if_it_is_there(results):
    assert r_roofs.ceilings().tensor is None
    with pytest.raises(registry.NoRecord, match="python -m gemmlab record 00_tensor_ceiling"):
        r_roofs.ceilings().arithmetic("float16")
    mma = {**runs.load(results)["ceilings"]["fma"], "flop": 2**40}
    mma["flop_per_second"] = sample_record.spread(6e14)
    entry = {"code": str(r_roofs.OF_TENSOR_CEILING(sample_record.GPU.sm_count)), "mma": mma}

    def add(record):
        record["tensor_ceiling"] = {"provenance": record["ceilings"]["provenance"], **entry}

    change(results, add)
    roofs = r_roofs.ceilings()
    assert roofs.arithmetic("float16") == 6e14 and roofs.arithmetic("float32") == 64e12
    assert r_roofs.roof_fields(roofs.tensor, "flop") == mma
    change(results, lambda record: record["tensor_ceiling"].update(code="sha256:1"))
    with pytest.raises(registry.StaleRecord, match="00_tensor_ceiling: recorded for another"):
        r_roofs.ceilings()


def test_points_take_time_and_bytes_from_the_same_shape(results):
    kernel = sample_record.kernel()
    points = roofline.points([kernel])
    assert isinstance(points, pandas.DataFrame)
    (row,) = points.to_dict("records")
    assert (row["kernel"], row["m"], row["gpu"]) == ("01_naive", 512, "NVIDIA Test")
    work = 2 * 512**3
    assert row["gflops"] == pytest.approx(work / 0.5e-3 / 1e9)
    assert row["dram_bytes"] == 3_000_000
    assert row["dram_intensity"] == pytest.approx(work / 3_000_000)
    assert row["l2_intensity"] == pytest.approx(work / 30_000_000)
    model = kernel.rung.model_bytes(Problem(512, 512, 512), kernel.settings)
    assert row["model_bytes"] == model
    assert row["model_intensity"] == pytest.approx(work / model)


def test_points_of_a_changed_kernel_are_refused(results):
    stale, current = sample_record.kernel("int changed;"), sample_record.kernel()
    with pytest.raises(registry.StaleRecord):
        roofline.points([stale])
    assert len(roofline.points([stale, current])) == 1, "the others are shown"


# ---- on a GPU ------------------------------------------------------------------------------------


@pytest.mark.gpu
@needs_gpu
def test_the_roofs_of_this_gpu():
    roofs = r_roofs.ceilings()
    assert roofs.gpu == device.gpu().name
    assert 0 < roofs.bytes_per_second < math.inf and 0 < roofs.flop_per_second < math.inf
    assert r_roofs.ceilings() is roofs, "measured once"


def test_warpgroups_have_a_roof_of_their_own(monkeypatch, results):
    """As recorded, in a burst on random numbers with both factors in shared memory."""
    with pytest.raises(registry.NoRecord, match="python -m gemmlab record 00_wgmma_ceilings"):
        r_roofs.ceilings().arithmetic("float16", by_wgmma=True)
    monkeypatch.undo()
    monkeypatch.setenv("GEMMLAB_DEVICE", "simulator")
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-h200")
    roofs, table = r_roofs.recorded_ceilings(), r_roofs.WGMMA_TABLE.read()
    (row,) = table[
        (table["dtype"] == "bfloat16") & (table["a_from"] == "shared memory")
        & (table["width"] == 256) & (table["data"] == "random") & (table["load"] == "burst")
    ].itertuples()  # fmt: skip
    for dtype in ("bfloat16", "bfloat16 to float32"):
        assert roofs.arithmetic(dtype, by_wgmma=True) == 1e12 * row.tflops
    assert roofs.arithmetic("bfloat16") == roofs.tensor.per_second.median
    # By hand: 4096 operations in a cycle of each of 132 SMs, at most.
    assert 0.9 < roofs.flop_per_cycle("bfloat16", by_wgmma=True) / (4096 * 132) <= 1
    with pytest.raises(registry.NoRecord):
        roofs.arithmetic("tf32", by_wgmma=True)
