"""The record of several GPUs: what is measured is kept and read back, with a stand-in for GPUs."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import sample_record

from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import Problem
from gemmlab.ladder.precision import BRAIN
from gemmlab.lessons.multi_gpu import measure as measuring
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu import tables as several_gpus
from gemmlab.lessons.multi_gpu import timeline as clock
from gemmlab.lessons.multi_gpu.gpus.runner import DMA_ENGINES, NCCL, Measured
from gemmlab.lessons.multi_gpu.timeline import Machine
from gemmlab.records import registry
from gemmlab.records.registry import NoRecord

HERE = SimpleNamespace(name="NVIDIA Test", slug="nvidia-test")
MACHINE = Machine(500e12, 4e12, 300e9, 50e9)
RUNG = "18_persistent"


def stand_in(monkeypatch, folder):
    """GPUs, four of them, that take the model's time, each run a hundredth more, and are exact."""
    from cupy.cuda import nccl, runtime

    machine = SimpleNamespace(off=0.0, ran=[], lines=[], folder=folder)

    def run(jobs, arithmetic):
        by = arithmetic()
        return [Measured(multiplied(job, by), times(job)) for job in jobs]

    def multiplied(job, by):
        machine.ran.append((job.schedule.problem, job.moved_by))
        if job.A is None:
            return None
        A, B = by.precision.a.decode(job.A), by.precision.b.decode(job.B)
        C = (A @ B + machine.off).astype(np.float32)
        return by.precision.c.encode(C, by.precision.c.storage)

    def times(job):
        run = clock.modelled(job.schedule, MACHINE, BRAIN)
        return tuple(slowed(run, 1 + 0.01 * at) for at in range(job.repeats))

    monkeypatch.setattr(registry, "RESULTS", folder)
    sample_record.measure_on(monkeypatch, measuring, gpu=HERE)
    monkeypatch.setattr(measuring.runner, "require_gpus", lambda ranks: None)
    monkeypatch.setattr(measuring.runner, "run", run)
    monkeypatch.setattr(measuring.dma_engines, "why_not", lambda ranks: None)
    monkeypatch.setattr(runtime, "getDeviceCount", lambda: 4)
    monkeypatch.setattr(nccl, "get_version", lambda: 22807, raising=False)
    monkeypatch.setenv("GEMMLAB_RECORDS", HERE.slug)
    return machine


def slowed(timeline, factor):
    steps = (
        replace(step, start_ms=factor * step.start_ms, end_ms=factor * step.end_ms)
        for step in timeline.steps
    )
    return replace(timeline, steps=tuple(steps))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The GPUs after everything was measured, once for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        machine = stand_in(patch, tmp_path_factory.mktemp("results"))
        path = measuring.SPEEDS.remake(machine.lines.append)
        (path.parent / registry.RUNS).write_text("{}")
    return machine


@pytest.fixture
def gpus(monkeypatch, recorded):
    return stand_in(monkeypatch, recorded.folder)


def test_every_case_is_measured_with_every_schedule_and_number_of_gpus(gpus, recorded):
    table = measuring.SPEEDS.read()
    expected = {
        (name, case.rung.name, way, ranks, *problem.shape)
        for case in measuring.CASES for ranks in (2, 4) for problem in case.problems
        for name in measuring.MAKERS for way in (NCCL, DMA_ENGINES)
    }  # fmt: skip
    columns = ("schedule", "kernel", "moved_by", "ranks", "m", "n", "k")
    assert set(zip(*(table[name] for name in columns), strict=True)) == expected
    assert len(table) == len(expected) and "8 GPUs" not in " ".join(recorded.lines)
    checked = [way for problem, way in recorded.ran if problem == measuring.SMALL]
    both = 2 * len(measuring.CASES) * len(measuring.MAKERS)
    assert checked.count(DMA_ENGINES) == both
    assert checked.count(NCCL) == len(measuring.CASES) + both


def test_rows_hold_the_median_and_its_share_of_so_many_times_one_gpu(gpus):
    table = measuring.SPEEDS.read()
    cube, (row,) = measuring.CUBE, [
        row for row in table.itertuples()
        if (row.schedule, row.kernel, row.moved_by, row.ranks, row.n)
        == (make.COLUMN, RUNG, DMA_ENGINES, 2, 16384)
    ]  # fmt: skip
    alone = 1.04 * clock.modelled(make.one_rank(cube), MACHINE, BRAIN).ms
    both = slowed(
        clock.modelled(make.column_parallel(cube, 2, measuring.CHUNKS), MACHINE, BRAIN), 1.04
    )
    assert row.ms == pytest.approx(both.ms, rel=1e-5)
    assert row.one_gpu_ms == pytest.approx(alone, rel=1e-5)
    assert row.pct_of_ranks == pytest.approx(100 * alone / both.ms / 2, rel=1e-5)
    assert row.tflops == pytest.approx(cube.flop / both.ms / 1e9, rel=1e-5)


def test_the_timeline_of_the_median_run_is_read_back(gpus):
    schedule = measuring.MAKERS[make.ROW](measuring.CUBE, 2)
    read = measuring.timeline(schedule, RUNG)
    expected = slowed(clock.modelled(schedule, MACHINE, BRAIN), 1.04)
    assert len(read.steps) == len(expected.steps)
    assert read.ms == pytest.approx(expected.ms, rel=1e-5)
    assert read.source.startswith(f"{RUNG}, moved by NCCL, measured on 2 × NVIDIA Test, ")
    with pytest.raises(NoRecord, match="no timeline is recorded of row parallel, 8×8×8, 2 ranks by 18_persistent, moved by NCCL"):  # fmt: skip # noqa: E501
        measuring.timeline(make.row_parallel(Problem(8, 8, 8), 2), RUNG)


def test_a_wrong_product_is_not_timed(gpus):
    gpus.off = 0.5
    with pytest.raises(VerificationError, match=r"one rank, 264×136×520, 1 ranks by 18_persistent, NCCL: an error is"):  # fmt: skip # noqa: E501
        measuring.SPEEDS.remake(print)


def test_recorded_runs_keep_what_their_schedule_orders():
    """Hardware's own events: no step begins before those that it waits for have ended."""
    for name, maker in measuring.MAKERS.items():
        schedule = maker(measuring.CUBE, 2)
        for case, way in product(measuring.CASES, (NCCL, DMA_ENGINES)):
            run = measuring.timeline(schedule, case.rung.name, way)
            for rank, ordered in enumerate(schedule.steps):
                ran = {step.name: step for step in run.of(rank)}
                for step in ordered:
                    begins = max((ran[event].end_ms for event in step.after), default=0.0)
                    where = name, case.rung.name, way, step
                    assert ran[step.name].start_ms >= begins - 1e-3, where


# ---- tables --------------------------------------------------------------------------------------


def test_gathers_of_gpus_that_run_as_the_model_says_reach_its_link(gpus):
    schedule = measuring.MAKERS[make.COLUMN](measuring.CUBE, 2)
    rates = several_gpus.gather_rates(schedule, RUNG)
    assert rates.index.tolist() == [(NCCL, 0), (NCCL, 1), (DMA_ENGINES, 0), (DMA_ENGINES, 1)]
    link = MACHINE.link_bytes_per_second / 1e9 / 1.04  # the median run is slowed
    assert np.allclose(rates, link, rtol=1e-3)


def test_time_with_and_without_products_is_all_time_on_each_gpu(gpus):
    table = several_gpus.where_time_goes(measuring.MAKERS[make.COLUMN](measuring.CUBE, 2))
    assert np.allclose(table["products"] + table["no product"], table["all"])
    assert set(table.index.get_level_values("GPU")) == {0, 1}


def test_a_changed_kernel_of_the_sum_makes_row_parallel_stale(gpus, tmp_path, monkeypatch):
    path = tmp_path / "sum.cu"
    path.write_text(measuring.rank_sum.PATH.read_text() + "// and a comment\n")
    monkeypatch.setattr(measuring.rank_sum, "PATH", path)
    measuring.SPEEDS.read()
    path.write_text(measuring.rank_sum.PATH.read_text().replace("sum +=", "sum -="))
    with pytest.raises(registry.StaleRecord):
        measuring.SPEEDS.read()
