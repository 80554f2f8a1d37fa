"""The record of several GPUs: what is measured is kept and read back, with a stand-in for GPUs."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gemmlab.distributed import clock
from gemmlab.distributed import schedules as make
from gemmlab.distributed.by_nccl import Measured, NotEnoughGpus
from gemmlab.distributed.clock import Machine
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import Problem
from gemmlab.ladder.precision import BRAIN, SINGLE
from gemmlab.notebook.ranks import measured as shown
from gemmlab.records import registry
from gemmlab.records.experiments.multi_gpu import cases, measuring, recorded
from gemmlab.records.registry import NoRecord

HERE = SimpleNamespace(name="NVIDIA Test", slug="nvidia-test")
MACHINE = Machine(500e12, 4e12, 300e9)
RUNG = "18_persistent"
OTHERS = {"driver": "580", "cuda": "13.0", "nvrtc": "13.0"}


@pytest.fixture
def gpus(monkeypatch, tmp_path):
    """GPUs, two of them, that take the model's time, each run a hundredth more, and are exact."""
    from cupy.cuda import nccl, runtime

    told = SimpleNamespace(off=0.0, ran=[], count=2)

    def run(jobs, arithmetic):
        by = arithmetic()
        return [Measured(product(job, by), times(job)) for job in jobs]

    def product(job, by):
        told.ran.append((job.schedule.name, job.schedule.ranks, job.schedule.problem))
        if job.A is None:
            return None
        A, B = by.precision.a.decode(job.A), by.precision.b.decode(job.B)
        C = (A @ B + told.off).astype(np.float32)
        return by.precision.c.encode(C, by.precision.c.storage)

    def times(job):
        found = clock.timeline(job.schedule, MACHINE, BRAIN)
        return tuple(slowed(found, 1 + 0.01 * at) for at in range(job.repeats))

    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    monkeypatch.setattr(measuring, "require_gpu", lambda _: HERE)
    monkeypatch.setattr(measuring, "software_versions", lambda: OTHERS)
    monkeypatch.setattr(measuring.by_nccl, "require_gpus", lambda ranks: None)
    monkeypatch.setattr(measuring.by_nccl, "run", run)
    monkeypatch.setattr(measuring.by_nccl, "link", lambda ranks: ([3e11] * 9, [4e11] * 9))
    monkeypatch.setattr(runtime, "getDeviceCount", lambda: told.count)
    monkeypatch.setattr(nccl, "get_version", lambda: 22807, raising=False)
    monkeypatch.setenv("GEMMLAB_RECORDS", HERE.slug)
    return told


def slowed(found, factor):
    steps = (
        replace(one, start_ms=factor * one.start_ms, end_ms=factor * one.end_ms)
        for one in found.steps
    )
    return replace(found, steps=tuple(steps))


def measured(tmp_path):
    lines = []
    path = measuring.EVIDENCE.remake(lines.append)
    (path.parent / registry.RUNS).write_text("{}")
    return recorded.scaling(), lines


def test_every_case_is_measured_with_every_schedule_and_number_of_gpus(gpus, tmp_path):
    gpus.count = 4
    table, lines = measured(tmp_path)
    wanted = {
        (name, case.rung.name, ranks, *problem.shape)
        for case in cases.CASES for ranks in (2, 4) for problem in case.shapes(ranks)
        for name in cases.MAKERS
    }  # fmt: skip
    columns = ("schedule", "kernel", "ranks", "m", "n", "k")
    assert set(zip(*(table[name] for name in columns), strict=True)) == wanted
    assert len(table) == len(wanted) and "8 GPUs" not in " ".join(lines)
    assert set(table["all_reduce_gbytes"]) == {300.0} and set(table["peer_copy_gbytes"]) == {400.0}
    checked = [(name, ranks) for name, ranks, problem in gpus.ran if problem == cases.SMALL]
    assert len(checked) == len(cases.CASES) * (1 + 2 * len(cases.MAKERS))


def test_rows_hold_the_median_and_its_share_of_so_many_times_one_gpu(gpus, tmp_path):
    table, _ = measured(tmp_path)
    cube, (row,) = cases.CUBE, [
        one for one in table.itertuples()
        if (one.schedule, one.kernel, one.ranks, one.n) == (make.COLUMN, RUNG, 2, 16384)
    ]  # fmt: skip
    alone = 1.04 * clock.timeline(make.one_rank(cube), MACHINE, BRAIN).ms
    both = slowed(clock.timeline(make.column_parallel(cube, 2, cases.CHUNKS), MACHINE, BRAIN), 1.04)
    assert row.ms == pytest.approx(both.ms, rel=1e-5)
    assert row.one_gpu_ms == pytest.approx(alone, rel=1e-5)
    assert row.pct_of_ranks == pytest.approx(100 * alone / both.ms / 2, rel=1e-5)
    assert row.hidden_pct == pytest.approx(100 * both.hidden, rel=1e-5)
    assert row.tflops == pytest.approx(cube.flop / both.ms / 1e9, rel=1e-5)


def test_the_timeline_of_the_median_run_is_read_back(gpus, tmp_path):
    measured(tmp_path)
    schedule = cases.MAKERS[make.SUMMA](cases.CUBE, 2)
    found = recorded.timeline(schedule, RUNG)
    wanted = slowed(clock.timeline(schedule, MACHINE, BRAIN), 1.04)
    assert len(found.steps) == len(wanted.steps)
    assert found.ms == pytest.approx(wanted.ms, rel=1e-5)
    assert found.hidden == pytest.approx(wanted.hidden, rel=1e-4)
    assert found.source.startswith("Measured on 2 × NVIDIA Test, ")
    with pytest.raises(NoRecord, match="no timeline is recorded of row parallel, 8×8×8, 2 ranks"):
        recorded.timeline(make.row_parallel(Problem(8, 8, 8), 2), RUNG)


def test_a_wrong_product_is_not_timed(gpus):
    gpus.off = 0.5
    with pytest.raises(VerificationError, match=r"one rank, 264×136×520, 1 ranks by 18_persistent: \d+ of 35904 elements"):  # fmt: skip # noqa: E501
        measuring.record(print)


def test_weak_scaling_has_its_one_gpu_at_the_same_product():
    case = cases.CASES[0]
    grown = {problem for ranks in cases.COUNTS for problem in case.shapes(ranks)}
    assert grown <= set(case.shapes(1))
    assert Problem(2 * 8192, 8192, 8192) in case.shapes(2)
    assert cases.CASES[1].precision is SINGLE


def test_without_a_record_it_is_said_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-h200")
    if not measuring.EVIDENCE.path_of("nvidia-h200").is_file():
        assert "run `python -m gemmlab record 21_multi_gpu` on a host with two" in recorded.recorded()  # fmt: skip # noqa: E501


def test_the_notebook_shows_what_is_recorded(gpus, tmp_path):
    schedule = cases.MAKERS[make.COLUMN](cases.CUBE, 2)
    measured(tmp_path)
    assert set(shown.measured()["ranks"]) == {2}
    assert "Measured on 2 × NVIDIA Test" in shown.measured_timeline(schedule, RUNG).caption
    other = make.column_parallel(Problem(8, 8, 8), 2)
    assert "No timeline is recorded of column" in repr(shown.measured_timeline(other, RUNG))


def test_a_changed_kernel_of_the_sum_makes_row_parallel_stale(gpus, tmp_path, monkeypatch):
    measured(tmp_path)
    path = tmp_path / "sum.cu"
    path.write_text(measuring.rank_sum.PATH.read_text() + "// and a comment\n")
    monkeypatch.setattr(measuring.rank_sum, "PATH", path)
    recorded.scaling()
    path.write_text(measuring.rank_sum.PATH.read_text().replace("sum +=", "sum -="))
    with pytest.raises(registry.StaleRecord):
        recorded.scaling()


def test_one_gpu_is_too_few(monkeypatch):
    from cupy.cuda import nccl, runtime

    monkeypatch.setattr(measuring, "require_gpu", lambda _: HERE)
    monkeypatch.setattr(measuring.by_nccl, "require_gpu", lambda _: HERE)
    monkeypatch.setattr(nccl, "available", True)
    monkeypatch.setattr(runtime, "getDeviceCount", lambda: 1)
    with pytest.raises(NotEnoughGpus, match="2 ranks need a GPU each, and CUDA sees 1"):
        measuring.record(print)
