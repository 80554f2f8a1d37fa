"""A record belongs to code, settings and launches: each edit is refused, with the right word."""

from dataclasses import replace

import pytest

from gemmlab import folders
from gemmlab.kernel import fingerprint
from gemmlab.ladder import SIMULATED, Parameter, Problem, find
from gemmlab.loading import load
from gemmlab.records import runs, stalls, tuning
from gemmlab.records.registry import NoRecord, StaleRecord
from gemmlab.records.runs import LARGE, Measured


@pytest.fixture(autouse=True)
def of_an_h200(monkeypatch):
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-h200")


def with_launch(rung, **changed):
    """The rung whose launches differ in this."""

    def plan(problem, settings, target):
        return [replace(launch, **changed) for launch in rung.plan(problem, settings, target)]

    return replace(rung, plan=plan)


@pytest.mark.parametrize(
    "changed",
    [
        {"grid": (1, 1, 1)}, {"block": (128, 1, 1)}, {"shared_bytes": 64}, {"cluster": (2, 1, 1)},
        {"early": True}, {"args": ("B", "A", "C", "M", "N", "K", "alpha", "beta")},
    ],
    ids=lambda changed: next(iter(changed)),
)  # fmt: skip
def test_another_launch_is_refused_in_every_record_of_the_rung(changed):
    rung = with_launch(find("05_thread_tile_2d"), **changed)
    for read in (
        lambda: runs.replay(Measured(rung)), tuning.evidence(rung).read, stalls.evidence(rung).read
    ):  # fmt: skip
        with pytest.raises(
            StaleRecord, match=r"its launch has changed \(grid.*; undo that, or run"
        ):
            read()


def test_another_box_is_another_launch():
    rung = find("16_tma_wgmma")

    def plan(problem, settings, target):
        (launch,) = rung.plan(problem, settings, target)
        args = [replace(a, box=(8, 64)) if hasattr(a, "box") else a for a in launch.args]
        return [replace(launch, args=tuple(args))]

    with pytest.raises(StaleRecord, match="arguments or boxes"):
        runs.replay(Measured(replace(rung, plan=plan)))


def test_a_launch_that_no_grid_covers_is_refused():
    with pytest.raises(StaleRecord, match="its launch has changed"):
        runs.replay(Measured(with_launch(find("01_naive"), grid=(1, 70000, 1))))


def test_a_parameter_that_the_kernel_never_mentions_changes_nothing():
    rung = find("12_split_k")
    wider = replace(rung, parameters=(*rung.parameters, Parameter("EXTRA", 0, (0, 1), "nothing")))
    assert runs.replay(Measured(wider)) == runs.replay(Measured(rung))
    table = tuning.evidence(wider).read()
    assert len(table) == len(tuning.evidence(rung).read()) and set(table["EXTRA"]) == {0}


def test_a_default_that_changed_is_named_with_both_values():
    rung = find("03_shared_memory")
    other = [replace(p, default=16) if p.name == "TILE" else p for p in rung.parameters]
    with pytest.raises(StaleRecord, match="its setting TILE is 16, measured with 32; undo that"):
        runs.replay(Measured(replace(rung, parameters=tuple(other))))


def test_other_settings_than_the_recorded_ones_are_not_replayed():
    with pytest.raises(NoRecord, match=r"recorded with TILE=32.*not with TILE=8"):
        runs.replay(load("03_shared_memory", TILE=8))


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A copy of all files of kernels/ in one folder, which may be edited."""
    for path in folders.kernel_files():
        (tmp_path / path.name).write_text(path.read_text("utf-8"), "utf-8")
    monkeypatch.setattr("gemmlab.ladder.rung.KERNELS", tmp_path)
    monkeypatch.setattr(folders, "INCLUDE_FOLDERS", (tmp_path,))
    return tmp_path


def test_an_edit_of_kernel_or_header_is_refused_with_its_name(kernels):
    rung = find("05_thread_tile_2d")
    header = kernels / "tiles.cuh"
    text = header.read_text("utf-8")
    header.write_text(text + "\n// a comment more\n")
    assert runs.replay(Measured(rung))
    header.write_text(text + "\ninline int edited() { return 0; }\n")
    with pytest.raises(StaleRecord, match=r"its header tiles\.cuh has changed; undo that, or run "):
        runs.replay(Measured(rung))
    header.write_text(text)
    kernel = kernels / "05_thread_tile_2d.cu"
    plain = kernel.read_text("utf-8")
    kernel.write_text(plain + "\n__device__ int edited;\n")
    for read in (lambda: runs.replay(Measured(rung)), tuning.evidence(rung).read):
        with pytest.raises(StaleRecord, match=r"05_thread_tile_2d\.cu has changed"):
            read()
    (kernels / "added.cuh").write_text("")
    kernel.write_text('#include "added.cuh"\n' + plain)
    with pytest.raises(StaleRecord, match=r"05_thread_tile_2d\.cu has changed"):
        runs.replay(Measured(rung))
    header.write_text('#include "added.cuh"\n' + text)
    kernel.write_text(plain)
    with pytest.raises(StaleRecord, match=r"its header tiles\.cuh has changed"):
        runs.replay(Measured(rung))


def test_what_is_measured_is_what_the_rung_launches():
    rung = find("18_persistent")
    prints = [
        fingerprint.of_rung(rung, rung.defaults, [Problem(*shape)], SIMULATED)
        for shape in (LARGE, (8192, 8192, 8192), (1024, 1024, 512))
    ]
    assert prints[0].launches == prints[1].launches != prints[2].launches
    assert len({each.code for each in prints}) == 1
