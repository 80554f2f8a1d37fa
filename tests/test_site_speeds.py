"""The points of the page of speeds: each is its record, whole, and none is without its origin."""

import csv
import json
import os
import re
import shutil
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from gemmlab import ladder
from gemmlab.folders import RESULTS, ROOT
from gemmlab.records import registry
from gemmlab.site import speed_points, speeds
from gemmlab.site.speed_points import CUBLAS, FAMILIES, KINDS, LIBRARY, RECORDS, RUNGS

SLUGS = registry.gpus()
TABLES = [
    "best_by_shape.csv", "mma_types.csv", "mma_steps.csv", "hopper_steps.csv", "fp8_steps.csv",
    "path.csv", "joins.csv", "batches.csv",
]  # fmt: skip


@cache
def recorded() -> dict[str, speed_points.Recorded]:
    return {one.slug: one for one in speed_points.recorded()}


def rungs_of(slug: str, file: str) -> list[speed_points.Point]:
    """The points of a file that are no cuBLAS beside a rung."""
    return [
        one for one in recorded()[slug].points
        if one.file == file and (one.rung != CUBLAS or one.record == speed_points.WAYS)
    ]  # fmt: skip


def rows_of(slug: str, file: str) -> list[dict[str, str]]:
    with (RESULTS / slug / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def number(cell: str | None) -> float | None:
    return float(cell) if cell else None


def flop(row: dict[str, str]) -> int:
    return 2 * int(row["m"]) * int(row["n"]) * int(row["k"]) * int(row.get("batch") or 1)


def as_recorded(row: dict[str, str]) -> tuple:
    """What a row says, by the names of its columns, read without the package."""
    tflops = number(row.get("tflops"))
    if tflops is None:
        tflops = flop(row) / (float(row["time_ms"]) * 1e9)
    share = number(row.get("pct_cublas"))
    cublas = row.get("way", "").startswith("cuBLAS")
    return (
        int(row["m"]), int(row["n"]), int(row["k"]), int(row.get("batch") or 1),
        f"{tflops:.6g}", share, number(row.get("pct_cublas_q1")), number(row.get("pct_cublas_q3")),
        number(row.get("sm_clock_mhz")), number(row.get("power_w")),
        LIBRARY if cublas else row["code"], row["gpu"], row["driver"], row["cuda"], row["cublas"],
        row["recorded"],
    )  # fmt: skip


def as_shown(one: speed_points.Point) -> tuple:
    problem = one.problem
    return (
        problem.m, problem.n, problem.k, problem.batch, f"{one.tflops:.6g}", one.share,
        one.share_q1, one.share_q3, one.clock_mhz, one.power_w, one.code, one.gpu, one.driver,
        one.cuda, one.cublas, one.recorded,
    )  # fmt: skip


@pytest.mark.parametrize("slug", SLUGS)
@pytest.mark.parametrize(
    "file", [*TABLES, *(f"tuning/{rung.name}.csv" for rung in ladder.RUNGS)]
)  # fmt: skip
def test_every_row_of_a_table_is_one_point(slug, file):
    if not (RESULTS / slug / file).is_file():
        assert not rungs_of(slug, file)
        return
    rows = Counter(map(as_recorded, rows_of(slug, file)))
    points = Counter(map(as_shown, rungs_of(slug, file)))
    assert points and not points - rows, "a point that no row says"
    if file not in ("path.csv", "mma_steps.csv"):  # which keep former steps, without a name now
        assert points == rows


@pytest.mark.parametrize("slug", SLUGS)
def test_every_recorded_run_is_one_point(slug):
    record = json.loads((RESULTS / slug / "runs.json").read_text(encoding="utf-8"))
    names = {rung.name for rung in ladder.RUNGS}
    wanted = {
        (name, run["m"], run["n"], run["k"]): (run, entry)
        for name, entry in record["rungs"].items() if name in names
        for run in entry["runs"]
    }  # fmt: skip
    points = {(one.rung, *one.problem.shape): one for one in rungs_of(slug, "runs.json")}
    assert points.keys() == wanted.keys()
    for key, one in points.items():
        run, entry = wanted[key]
        assert one.time_ms == run["time_ms"]["median"]
        assert (one.time_q1_ms, one.time_q3_ms) == (run["time_ms"]["q1"], run["time_ms"]["q3"])
        assert one.share == pytest.approx(100 * run["ratio"]["median"], rel=1e-12)
        assert one.share_q1 == pytest.approx(100 * run["ratio"]["q1"], rel=1e-12)
        assert one.settings == " ".join(f"{n}={v}" for n, v in entry["settings"].items())
        assert entry["code"] == one.code
        told = entry["provenance"]
        assert (one.driver, one.cuda, one.cublas) == tuple(
            told[name] for name in ("driver", "cuda", "cublas")
        )
        assert (one.recorded, one.gpu) == (run["recorded"], run["gpu"])
        assert (one.clock_mhz, one.power_w) == (run["sm_clock_mhz"], run["power_w"])


@pytest.mark.parametrize("slug", SLUGS)
def test_no_point_is_without_its_origin(slug):
    for one in recorded()[slug].points:
        of_kernel = re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]{8}", one.code)
        assert of_kernel or (one.rung, one.code) == (CUBLAS, LIBRARY)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", one.recorded)
        assert all((one.gpu, one.driver, one.cuda, one.cublas))
        assert (RESULTS / slug / one.file).is_file()
        assert one.record in RECORDS and one.kind in KINDS
        assert one.rung in RUNGS or one.rung == CUBLAS
        assert one.time_ms > 0


@pytest.mark.parametrize("slug", SLUGS)
def test_the_share_of_cublas_agrees_with_the_speeds_on_both_sides(slug):
    """Medians of ratios and ratios of medians: within a fifth of each other."""
    both = [one for one in recorded()[slug].points if one.share and one.cublas_tflops]
    assert both
    for one in both:
        assert one.share == pytest.approx(100 * one.tflops / one.cublas_tflops, rel=0.2), one


def test_the_roof_is_the_lower_of_two_ceilings():
    record = json.loads((RESULTS / "nvidia-h200" / "runs.json").read_text(encoding="utf-8"))
    fma = record["ceilings"]["fma"]["flop_per_second"]["median"]
    copy = record["ceilings"]["copy"]["bytes_per_second"]["median"]
    points = recorded()["nvidia-h200"].points
    (large,) = (
        one for one in points
        if one.record == speed_points.DEFAULTS and one.rung == "10_register_banks"
        and one.problem.shape == (4096, 4096, 4096)
    )  # fmt: skip
    assert large.roof_share == pytest.approx(100 * large.tflops * 1e12 / fma)
    (thin,) = (
        one for one in points
        if (one.record, one.rung) == (speed_points.FOR_SHAPE, "12_split_k")
        and one.problem.shape == (1, 8192, 8192)
    )  # fmt: skip
    moved = 4 * (8192 + 8192 * 8192 + 8192)
    assert thin.roof_share == pytest.approx(100 * moved / (thin.time_ms / 1e3) / copy)


def test_shapes_are_told_apart_by_their_sizes():
    def kind(m, n, k, batch=1):
        base = recorded()["nvidia-h200"].points[0]
        problem = ladder.Problem(m, n, k, batch)
        return speed_points.replace(base, problem=problem).kind

    assert kind(768, 768, 768) == "squares"
    assert kind(1, 8192, 8192) == kind(8192, 32, 8192) == kind(128, 4096, 4096) == "thin"
    assert kind(64, 64, 65536) == kind(512, 512, 8192) == "deep K"
    assert kind(1001, 777, 513) == kind(4096, 4096, 8192) == "rectangles"
    assert kind(64, 64, 64, 4096) == "batches"


def test_every_rung_has_a_family():
    assert {rung.name for rung in ladder.RUNGS} <= RUNGS.keys()
    assert len(RUNGS) == sum(map(len, FAMILIES.values()))


@pytest.fixture
def copied(tmp_path, monkeypatch) -> Path:
    """The records of one GPU, as another's, beside a copy of the first."""
    for slug in ("nvidia-h200", "other-gpu"):
        shutil.copytree(RESULTS / "nvidia-h200", tmp_path / slug)
    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    return tmp_path


def test_a_stale_record_is_no_point_and_is_named(copied):
    path = copied / "other-gpu" / "hopper_steps.csv"
    (code,) = {row["code"] for row in rows_of("nvidia-h200", path.name)[:1]}
    path.write_text(path.read_text(encoding="utf-8").replace(code, "0" * 16), encoding="utf-8")
    whole, other = speed_points.recorded()
    assert (whole.slug, other.slug) == ("nvidia-h200", "other-gpu")
    (sentence,) = set(other.left_out) - set(whole.left_out)
    assert "18_steps" in sentence and "another version" in sentence
    assert any(one.file == path.name for one in whole.points)
    assert not any(one.file == path.name for one in other.points)
    assert any(one.file == "runs.json" for one in other.points)


def test_a_damaged_file_is_refused_and_the_choice_of_records_stays(copied, monkeypatch):
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-h200")
    (copied / "other-gpu" / "joins.csv").write_text("no table\n", encoding="utf-8")
    with pytest.raises(registry.BadRecord, match=r"joins\.csv"):
        speed_points.recorded()
    assert os.environ["GEMMLAB_RECORDS"] == "nvidia-h200"


# ---- what is written -----------------------------------------------------------------------------


def unpacked(data: dict) -> list[dict]:
    """The points, as the page unpacks them."""
    columns = {
        name: one if isinstance(one, list) else [one["values"][at] for at in one["at"]]
        for name, one in data["columns"].items()
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_the_page_gets_every_point_in_the_units_that_it_names():
    points = unpacked(speeds.data(recorded().values(), 0))
    every = [(slug, one) for slug in recorded() for one in recorded()[slug].points]
    assert len(points) == len(every)
    for shown, (slug, one) in zip(points, every, strict=True):
        assert shown["folder"] == slug
        assert shown["us"] == pytest.approx(1e3 * one.time_ms, rel=1e-5)
        flop_per_us = one.problem.flop / shown["us"]
        assert shown["tflops"] == pytest.approx(flop_per_us / 1e6, rel=2e-5)
        for name, value in (("share", one.share), ("roof", one.roof_share)):
            assert shown[name] == (None if value is None else pytest.approx(value, rel=1e-5))
        assert (shown["code"], shown["settings"]) == (one.code, one.settings)
        assert (shown["recorded"], shown["gpu"]) == (one.recorded, one.gpu)


def test_the_page_knows_every_name_that_a_point_has():
    data = speeds.data(recorded().values(), 0)
    points = unpacked(data)
    assert {one["rung"] for one in points} == {rung["name"] for rung in data["rungs"]}
    assert {one["type"] for one in points} == set(data["types"])
    assert {one["kind"] for one in points} <= set(data["kinds"])
    assert {one["record"] for one in points} <= set(data["records"])
    looks = {(rung["colour"], rung["symbol"]) for rung in data["rungs"]}
    assert len(looks) == len(data["rungs"]), "two rungs look alike"


def test_the_data_are_small():
    data = speeds.data(recorded().values(), 0)
    assert len(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()) < 1_000_000


def test_questions_and_script_use_names_that_there_are():
    """What the links of the page ask for; the page itself refuses others (tests/site)."""
    data = speeds.data(recorded().values(), 0)
    page = (ROOT / "docs" / "speeds.md").read_text(encoding="utf-8")
    links = re.findall(r'href="#([^"]+)"', page)
    assert len(links) >= 6
    shapes = {
        (f"{one['batch']}x" if one["batch"] > 1 else "") + "x".join(str(one[s]) for s in "mnk")
        for one in unpacked(data)
    }
    names = {
        "rungs": {rung["name"].split("_")[0] for rung in data["rungs"]} | {"all"},
        "types": {*data["types"], "all"},
        "kinds": {kind.replace(" ", "-") for kind in data["kinds"]} | {"all"},
        "records": {*data["records"], "all"},
        "shape": shapes,
        "gpu": set(data["gpus"]),
    }
    assert next(iter(data["gpus"])) == registry.REFERENCE, "the page opens with what has most"
    for link in links:
        for key, value in (one.split("=") for one in link.split("&amp;")):
            if key in names:
                assert set(value.split(",")) <= names[key], link
