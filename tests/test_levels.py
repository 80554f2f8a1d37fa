"""The probes that read each level of memory, and the chains that a scheduler needs."""

import importlib
from dataclasses import replace

import numpy
import pytest
import sample_record

import ptxsim
from gemmlab.kernel.compiler import options_for
from gemmlab.ladder import CEILINGS, LEVELS, Launch
from gemmlab.lessons.ceilings import measure as chains
from gemmlab.measure import ceilings
from gemmlab.measure.timing import Spread
from gemmlab.records import recorder, registry, roofs, runs
from ptxsim.metrics import METRICS

device = importlib.import_module("gemmlab.cuda.device")
needs_gpu = pytest.mark.skipif(device.gpu() is None, reason=f"needs a GPU: {device.why_no_gpu()}")

BLOCKS, THREADS = 3, 32


def read_in_simulator(read, trips=2, rounds=3):
    """What the kernel of a read stores, float32 (BLOCKS, THREADS), and what it should."""
    shape = Launch(read.entry, (BLOCKS, 1, 1), (THREADS, 1, 1))
    whole = trips * ceilings.BYTES * read.ahead * THREADS * (BLOCKS if read.together else 1)
    count = ceilings.pieces(read, shape, whole + ceilings.BYTES)  # one piece more does not fit
    assert ceilings.BYTES * count == whole
    numbers = numpy.random.default_rng(4).integers(0, 4, (count, 4)).astype(numpy.float32)
    out = numpy.full((BLOCKS, THREADS), numpy.nan, numpy.float32)
    run = ptxsim.launch(
        LEVELS.path, read.entry, shape.grid, shape.block, [numbers, out, count, rounds],
        options=options_for(read.macros), check=True, count=True,
        shared_bytes=ceilings.BYTES * count if read.entry == "read_shared" else 0,
    )  # fmt: skip
    assert not run.findings
    expected = ceilings.sums(numbers, read, BLOCKS, THREADS, rounds)
    return out, expected, run, count * rounds


@pytest.mark.parametrize("ahead", [1, 4])
@pytest.mark.parametrize("level", LEVELS.reads)
def test_every_thread_sums_what_is_its_own_in_every_round(level, ahead):
    read = replace(LEVELS.reads[level], ahead=ahead)
    out, expected, run, pieces = read_in_simulator(read)
    assert numpy.array_equal(out, numpy.broadcast_to(expected, out.shape))
    space = "shared" if read.entry == "read_shared" else "global"
    requests = run.counters[METRICS[space, "load"][0]]
    assert requests == pieces * (1 if read.together else BLOCKS) // 32


def test_memory_that_is_taken_by_others_is_said(monkeypatch):
    import cupy

    monkeypatch.setattr(cupy.cuda.runtime, "memGetInfo", lambda: (10**6, 10**11))
    with pytest.raises(ceilings.CeilingsError, match=r"Reading DRAM needs \d+\.\d MB of this GPU's memory, and 1\.0 MB are free"):  # fmt: skip # noqa: E501
        ceilings._measure_level("DRAM", LEVELS.reads["DRAM"], 132)


# ---- recorded ------------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A results folder with the sample record, on a machine without a GPU."""
    code = str(ceilings.of_ceilings(sample_record.GPU.sm_count))
    return sample_record.put(monkeypatch, tmp_path, ceilings_code=code)


def with_levels(path, code):
    record = runs.load(path)
    read = {**record["ceilings"]["copy"], "bytes_per_second": sample_record.spread(6e12)}
    provenance = record["ceilings"]["provenance"]
    record["levels"] = {"provenance": provenance, "code": code, "reads": {"L2": read}}
    runs.save(record, path)


def test_reads_are_replayed_where_they_are_recorded(results):
    assert roofs.ceilings().reads == {} and roofs.ceilings().read_rate("L2") is None
    with pytest.raises(registry.NoRecord, match="run `python -m gemmlab record 00_levels`"):
        roofs.recorded_levels()
    with_levels(results, str(ceilings.of_levels(sample_record.GPU.sm_count)))
    assert roofs.ceilings().read_rate("L2") == 6e12
    assert roofs.roof_fields(roofs.ceilings().reads["L2"], "bytes")["bytes"] == 4 * 2**30


def test_reads_by_another_launch_are_stale(results, monkeypatch):
    with_levels(results, str(ceilings.of_levels(sample_record.GPU.sm_count)))
    other = replace(LEVELS, reads={"L2": replace(LEVELS.reads["L2"], blocks=1)})
    monkeypatch.setattr(ceilings, "LEVELS", other)
    with pytest.raises(registry.StaleRecord, match="00_levels"):
        roofs.ceilings()


# ---- chains --------------------------------------------------------------------------------------


def test_all_chains_cost_a_trip_as_many_multiply_adds_and_fill_the_sms_alike():
    trips = {macros["CHAINS"] * macros["UNROLL"] for macros in map(chains.macros, chains.CHAINS)}
    assert trips == {CEILINGS.macros["CHAINS"] * CEILINGS.macros["UNROLL"]}
    assert chains.macros(CEILINGS.macros["CHAINS"]) == CEILINGS.macros
    for warps in chains.WARPS:
        shape = chains.launch(warps, 132)
        assert shape.grid[0] * shape.block[0] == 132 * 32 * warps and shape.block[0] <= 1024
    assert chains.launch(chains.WARPS[-1], 132) == CEILINGS.fma_launch(132)


def test_chains_are_recorded_and_read_as_a_table(results, monkeypatch):
    def measured(shape, macros):
        rate = 1e12 * min(64.0, macros["CHAINS"] * shape.grid[0] * shape.block[0] / 132 / 32)
        return ceilings.Roof(Spread(*(rate,) * 4), 1, device.GpuState(1980, 600.0, 50))

    sample_record.measure_on(monkeypatch, chains, recorder)
    monkeypatch.setattr(ceilings, "measure_fma", measured)
    recorder.record(["00_chains"], [], lambda line: None)
    table = chains.rates()
    assert list(table.index) == list(chains.CHAINS) and list(table) == list(chains.WARPS)
    assert table.loc[1].tolist() == [4, 8, 16, 32, 64] and table.loc[16].tolist() == [64] * 5
    path = results.parent / "chains.csv"
    path.write_text(path.read_text().replace(chains.TABLE.read()["code"][0], "0" * 16))
    with pytest.raises(registry.StaleRecord, match="00_chains"):
        chains.rates()


# ---- on a GPU ------------------------------------------------------------------------------------


@pytest.mark.gpu
@needs_gpu
def test_the_levels_of_this_gpu():
    found = ceilings.measure_levels()
    assert list(found) == list(LEVELS.reads)
    assert all(roof.per_second.median > 0 for roof in found.values())
