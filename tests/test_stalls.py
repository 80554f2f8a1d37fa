"""What the warps of a rung wait for: counted, kept for one rung at a time, and shown as shares."""

import pytest
import sample_record

from gemmlab.analysis.counters import ACTIVE_WARPS
from gemmlab.analysis.recorded import stalls as table_of
from gemmlab.ladder import RUNGS, find
from gemmlab.ladder.problem import BATCHES
from gemmlab.lessons.batched.rung import RUNG as BATCHED
from gemmlab.loading import load
from gemmlab.records import recorder, registry, runs, stalls
from gemmlab.records.tuning import sizes_of
from gemmlab.sass import loops

ISSUED, WAITING = 1.0, {"long_scoreboard": 6.0, "barrier": 2.96, "sleeping": 0.04}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A GPU whose Nsight Compute always counts the same; its results folder."""
    sample_record.count_with(monkeypatch, counted, stalls, recorder)
    return sample_record.put(monkeypatch, tmp_path).parent


def counted(rung, settings, shapes, metrics):
    """One warp in ten starts an instruction; the share of barriers grows with the rung."""
    assert settings == rung.defaults
    per_issue = {"selected": ISSUED, **WAITING}
    known = {stalls.METRICS[reason]: value for reason, value in per_issue.items()}
    known[stalls.ISSUE_ACTIVE] = 40.0
    if rung.name == "02_coalescing":
        known[stalls.METRICS["barrier"]] += 10
    return [{metric: known.get(metric, 0) for metric in metrics} for _ in shapes]


def silent(line):
    pass


def test_the_shares_of_what_warps_do_are_those_of_their_cycles(results):
    recorder.record(["stalls/01_naive", "stalls/02_coalescing"], silent)
    table = table_of("01_naive", "02_coalescing")
    assert table["01_naive"].to_dict() == {
        "issue active": 40.0, "warps of a scheduler": 4.0, "barrier": 29.6,
        "long scoreboard": 60.0, "selected": 10.0, "the rest": 0.4,
    }  # fmt: skip
    assert list(table.index[2:4]) == ["barrier", "long scoreboard"], "by the last rung"
    shares = table.drop(["issue active", "warps of a scheduler"])
    for name in ("01_naive", "02_coalescing"):
        assert shares[name].sum() == pytest.approx(100, abs=0.3)
    words = table["what it is, or what a warp waits for"]
    assert words["long scoreboard"] == "data of global memory, by way of L1"
    assert words.str.len().max() <= 50, "pandas cuts longer ones"


def test_what_wgmma_waits_for_is_told_by_the_loop_of_17_and_by_counters(monkeypatch):
    """Its loop has no barrier, and no rung of 16 to 18 loads from global memory."""
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-h200")
    loop = loops.loop(load("17_warp_specialized")).instructions
    names = {instruction.opcode for instruction in loop}
    assert not any(name.startswith("BAR") for name in names)
    assert any(name.startswith("WARPGROUP.DEPBAR") for name in names)
    assert table_of("17_warp_specialized").loc["barrier", "17_warp_specialized"] > 40
    for name in ("16_tma_wgmma", "17_warp_specialized", "18_persistent"):
        _, counted = runs.counters_at(runs.Measured(find(name)), *runs.LARGE)
        assert counted["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 0


def test_a_group_is_measured_rung_by_rung(results):
    recorder.record(["stalls"], silent)
    for rung in RUNGS:
        shapes = stalls.evidence(rung).read()[["m", "n", "k", "batch"]].to_numpy().tolist()
        expected = [*stalls.SHAPES, *stalls.MORE.get(rung.name, ())]
        if rung.batch > 1:
            expected += [(*problem.shape, problem.batch) for problem in BATCHES]
        assert [tuple(shape) for shape in shapes] == list(map(sizes_of, expected))
    before = (results / "stalls.csv").read_text()
    recorder.record(["stalls/03_shared_memory"], silent)
    again = (results / "stalls.csv").read_text()
    assert len(again.splitlines()) == len(before.splitlines()), "replaced, not added"


def test_a_batch_is_asked_for_with_the_number_of_its_products(results):
    recorder.record([f"stalls/{BATCHED.name}"], silent)
    assert table_of(BATCHED.name, shape=(64, 64, 64, 4096)).loc["issue active", BATCHED.name] == 40
    with pytest.raises(registry.NoRecord, match=r"recorded are .*4096 × 64×64×64, .* 256×256×256"):
        table_of(BATCHED.name, shape=(64, 64, 64))


# ---- the record of the H200 ----------------------------------------------------------------------


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_all_reasons_together_are_the_warps_that_an_sm_had(rung, monkeypatch):
    """Counted in other launches: the share of an SM's 64 warps, a quarter for each scheduler."""
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-h200")
    _, metrics = runs.counters_at(runs.Measured(rung), *runs.LARGE)
    expected = metrics[ACTIVE_WARPS] / 100 * 64 / 4
    warps = table_of(rung.name).loc["warps of a scheduler", rung.name]
    assert warps == pytest.approx(expected, rel=0.03, abs=0.1)
