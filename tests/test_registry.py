"""Tables of measurements: written, read again, and refused in a sentence when they are damaged."""

import dataclasses
import importlib

import pandas
import pytest
import sample_record

from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.ladder import LadderError
from gemmlab.lessons.autotuning import drawn_shapes
from gemmlab.products import model, trees
from gemmlab.records import published, recorder, registry
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord, Table

device = importlib.import_module("gemmlab.cuda.device")

H200 = device.Gpu("NVIDIA H200", (9, 0), "sm_90a", 132, 1, 1, "1", "1")
DATE = "2026-11-21T10:00:00+00:00"
COLUMNS = {
    **registry.TEXT("rung"), **registry.WHOLE("tile"), **registry.SIZE("m", "n", "k"),
    **registry.POSITIVE("time_ms"), **registry.NUMBER("reuse_pct"),
    **registry.REPORTED("power_w"), **registry.COUNTED("stalls"), **registry.TEXT("code"),
    **registry.NOTE("ncu"), **registry.DATE("recorded"),
}  # fmt: skip


def evidence(rung="one", code="code"):
    def fingerprint_of(row, on):
        return Fingerprint({"kernel.cu": code}, {"TILE": row.tile}, f"{code}{row.tile}")

    return Table(
        name=f"times/{rung}", file="times.csv", measure=print, key=("rung", "tile", "m", "n", "k"),
        columns=COLUMNS, fingerprint_of=fingerprint_of, part=("rung", rung),
    )  # fmt: skip


def rows(rung="one", tiles=(8, 16)):
    return pandas.DataFrame([
        {"rung": rung, "tile": tile, "m": 1, "n": 2, "k": 3, "time_ms": tile / 3, "reuse_pct": 0.0,
         "power_w": None, "stalls": 0.5, "ncu": None, "recorded": DATE}
        for tile in tiles
    ])  # fmt: skip


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A results folder of one GPU, on a machine without one."""
    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    monkeypatch.setattr(device, "_find_gpu", lambda: "there is none.")
    monkeypatch.delenv("GEMMLAB_RECORDS", raising=False)
    keep(tmp_path, "nvidia-test")
    return tmp_path


def keep(results, slug):
    (results / slug).mkdir()
    (results / slug / registry.RUNS).touch()


@pytest.fixture
def table(results):
    """The path of a table that was written."""
    return evidence().write(rows(), "nvidia-test")


# ---- folders -------------------------------------------------------------------------------------


def test_the_folder_that_is_read_depends_on_gpu_and_environment(results, monkeypatch):
    for slug in ("nvidia-l4", "nvidia-h200", "nvidia-a100"):
        keep(results, slug)
    (results / "pictures").mkdir()
    assert registry.gpus() == ["nvidia-h200", "nvidia-a100", "nvidia-l4", "nvidia-test"]
    assert registry.replayed().name == registry.REFERENCE, "without a GPU"
    monkeypatch.setattr(device, "_find_gpu", lambda: dataclasses.replace(H200, name="NVIDIA A100"))
    assert [folder.name for folder in registry.folders()] == ["nvidia-a100", "nvidia-h200"]
    monkeypatch.setattr(device, "_find_gpu", lambda: dataclasses.replace(H200, name="NVIDIA B300"))
    assert [folder.name for folder in registry.folders()] == ["nvidia-h200"], (
        "it has none of its own"
    )
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-l4")
    assert registry.replayed().name == "nvidia-l4", "the one that is asked for"
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-b200")
    with pytest.raises(NoRecord, match=r"'nvidia-b200' names no record.*nvidia-h200"):
        registry.replayed()


def test_a_missing_record_is_read_from_the_reference_gpu_unless_a_gpu_is_named(
    table, results, monkeypatch
):
    keep(results, "nvidia-a100")
    monkeypatch.setattr(registry, "REFERENCE", "nvidia-test")
    monkeypatch.setattr(device, "_find_gpu", lambda: dataclasses.replace(H200, name="NVIDIA A100"))
    assert len(evidence().read()) == len(rows())
    evidence().write(rows()[:1], "nvidia-a100")
    assert len(evidence().read()) == 1, "its own go first"
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-l4")
    keep(results, "nvidia-l4")
    with pytest.raises(NoRecord, match="nvidia-l4"):
        evidence().read()


# ---- tables --------------------------------------------------------------------------------------


def test_what_is_written_is_read_again(table):
    rows = evidence().read()
    assert list(rows.columns) == list(COLUMNS)
    assert rows["time_ms"].tolist() == [2.66667, 5.33333], "six digits"
    assert rows["tile"].tolist() == [8, 16] and rows["power_w"].isna().all()
    before = table.read_bytes()
    evidence().write(rows, "nvidia-test")
    assert table.read_bytes() == before


def test_what_is_written_replaces_its_own_rows_alone(table):
    evidence("two").write(rows("two", [4]), "nvidia-test")
    evidence().write(rows(tiles=[32]), "nvidia-test")
    assert evidence().read()["tile"].tolist() == [32]
    assert evidence("two").read()["tile"].tolist() == [4]


def test_rows_that_are_not_as_they_should_be_are_not_written(table):
    before = table.read_bytes()
    with pytest.raises(BadRecord, match="time_ms is '0', not a number above 0"):
        evidence().write(rows().assign(time_ms=0), "nvidia-test")
    assert table.read_bytes() == before


def test_one_piece_of_a_file_may_be_stale_or_missing_without_the_others(table):
    evidence("two", "before").write(rows("two"), "nvidia-test")
    assert len(evidence().read()) == 2
    with pytest.raises(StaleRecord, match=r"times/two: .*run `python -m gemmlab record times/two`"):
        evidence("two").read()
    with pytest.raises(NoRecord, match="times/three: nothing is recorded"):
        evidence("three").read()
    table.unlink()
    with pytest.raises(NoRecord, match=r"times\.csv does not exist; run .* record times/one`"):
        evidence().read()


def test_a_row_of_what_is_no_longer_measured_is_passed_over(table):
    def of_small_tiles(row, on):
        return evidence().fingerprint_of(row, on) if row.tile < 16 else None

    narrowed = dataclasses.replace(evidence(), fingerprint_of=of_small_tiles)
    assert narrowed.read()["tile"].tolist() == [8]


def refused(path):
    """What is said of a damaged table: one line with the file and what to do."""
    with pytest.raises(BadRecord) as caught:
        evidence().read()
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message
    assert f"git checkout -- {path}" in message and "record times/one`" in message
    return message


def test_a_table_that_is_cut_off_in_its_last_row_is_refused(table):
    content = table.read_bytes()
    for fewer in range(2, len(content.splitlines()[-1])):
        table.write_bytes(content[:-fewer])
        assert "line 3: " in refused(table)


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("time_ms", "0"), ("time_ms", "-1"), ("time_ms", "nan"), ("time_ms", "inf"),
        ("time_ms", ""), ("time_ms", "fast"), ("time_ms", "True"), ("tile", "8.5"), ("tile", ""),
        ("m", "0"), ("reuse_pct", ""), ("reuse_pct", "NaN"), ("power_w", "-3"), ("stalls", "many"),
        ("code", ""), ("recorded", "2026-11-21"),
    ],
)  # fmt: skip
def test_an_impossible_cell_is_named_with_its_line(table, column, cell):
    rows = pandas.read_csv(table, dtype=str, keep_default_na=False)
    rows.loc[1, column] = cell
    rows.to_csv(table, index=False)
    assert f"line 3: {column} is {cell!r}, not " in refused(table)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00garbage", "cannot be read as text"),
        (b'"never closed\n1,2\n', "is not a table|has no"),
        (b"<html>\n<p>a, b, c\n", "is not a table|has no"),
    ],
)
def test_a_file_that_is_not_a_table_is_refused(table, content, message):
    table.write_bytes(content)
    with pytest.raises(BadRecord, match=message):
        evidence().read()
    refused(table)


# ---- all that is kept ----------------------------------------------------------------------------


def test_every_file_of_a_gpu_belongs_to_evidence_and_is_current(monkeypatch):
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-h200")
    folder = registry.replayed()
    kept = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
    of_gl_matmul = {model.FILE, trees.FILE, drawn_shapes.FILE}  # of benchmarks/, not of `record`
    assert kept <= {item.file for item in recorder.evidence()} | {registry.SOURCES} | of_gl_matmul
    assert recorder.refused() == []


def test_record_names_are_unique_and_a_wrong_one_is_refused():
    names = [item.name for item in recorder.evidence()]
    assert len(set(names)) == len(names)
    assert {"00_chains", "10_fma_order", "01_naive"} <= {
        piece.name for piece in recorder.evidence() if piece.by_default
    }
    assert {"tuning/03_shared_memory", "best_by_shape/10_register_banks", "epilogue"} <= set(names)
    with pytest.raises(LadderError, match="nothing to record that is called 'tuning/03_shared'"):
        recorder.record(["tuning/03_shared"], print)


def test_a_row_is_kept_with_the_gpu_the_versions_and_the_date(results, monkeypatch):
    """The rows of an interrupted measurement stay, and those of a whole one replace all others."""
    here = dataclasses.replace(H200, name="NVIDIA Test")
    sample_record.measure_on(monkeypatch, gpu=here)
    monkeypatch.setattr(registry, "ncu_version", lambda: "2025.3")
    bare = rows(tiles=(8, 16)).drop(columns=["recorded", "ncu"]).to_dict("records")

    def interrupted(say):
        yield bare[0]
        raise KeyboardInterrupt

    path = evidence().write(rows(tiles=(16, 32)), here.slug)
    with pytest.raises(KeyboardInterrupt):
        dataclasses.replace(evidence(), measure=interrupted).remake(print)
    kept = pandas.read_csv(path)
    assert sorted(kept["tile"]) == [8, 16, 32]
    assert kept.set_index("tile").loc[8, ["ncu", "code"]].tolist() == [2025.3, "code8"]
    assert kept.set_index("tile").loc[8, "recorded"] > DATE
    assert dataclasses.replace(evidence(), measure=lambda say: bare).remake(print) == path
    assert pandas.read_csv(path)["tile"].tolist() == [8, 16]
    lines = []
    dataclasses.replace(evidence(), measure=lambda say: []).remake(lines.append)
    assert lines == ["times/one: nothing was measured"] and len(pandas.read_csv(path)) == 2


def test_published_figures_are_checked_too(tmp_path, monkeypatch):
    text = published.PATH.read_text(encoding="utf-8")
    path = tmp_path / "sources.csv"
    monkeypatch.setattr(published, "PATH", path)
    path.write_text(text[: len(text) // 2].rpartition(",")[0], encoding="utf-8")
    with pytest.raises(BadRecord) as caught:
        published.shares()
    assert f"git checkout -- {path}" in str(caught.value) and "on a GPU" not in str(caught.value)
    path.unlink()
    with pytest.raises(NoRecord, match="git checkout"):
        published.shares()
