"""The generated parts of pages: what they show of kernels and records is what these say now."""

import os

import pytest

from gemmlab.ladder import RUNGS, SIMULATED, LadderError, Problem, find
from gemmlab.loading import load
from gemmlab.notebook import overview
from gemmlab.records import registry, runs
from gemmlab.records.runs import LARGE, Measured
from tools import readme


@pytest.mark.parametrize("page", readme.PAGES, ids=lambda page: page.name)
def test_a_page_shows_the_records_as_they_are(page):
    text = page.read_text(encoding="utf-8")
    assert readme.updated(page, text) == text, "run `make readme`"


def test_the_pictures_are_there_and_shown():
    for path, _ in readme.FIGURES.values():
        assert path.read_bytes().startswith(b"\x89PNG\r\n")
        assert any(
            f"]({os.path.relpath(path, page.parent)})" in page.read_text(encoding="utf-8")
            for page in readme.PAGES
        )


def test_gpus_stand_beside_each_other_with_what_each_was_recorded_with():
    lines = readme.gpus_table().splitlines()
    rows = {line.split("|")[1].strip(): line for line in lines[2:] if "|" in line}
    assert "NVIDIA H200: TFLOP/s | % of cuBLAS | % of the FP32 roof | NVIDIA H100" in lines[0]
    assert {"01_naive", "22_fp32_summit"} < set(rows) and "12_split_k" not in rows  # on no square
    assert rows["14_wmma"].count("|  |") == 2 and "|  |" not in rows["09_double_buffering"]
    for name, line in rows.items():
        assert all(f"{ratio:.1f}" in line for ratio in both_shares(name)), name
    assert "NVIDIA H100 80GB HBM3 2026-11-23" in lines[-1]


def both_shares(name):
    """Percent of cuBLAS on each GPU that a rung is recorded on."""
    for slug in registry.gpus():
        with registry.records_of(slug):
            yield 100 * runs.replay_at(Measured(find(name)), *runs.LARGE).ratio.median


def test_the_climb_goes_up_to_a_rung_and_no_further():
    caption = overview.climb("02_coalescing").caption
    assert "02_coalescing" in caption and "03_shared_memory" not in caption
    assert "02_coalescing is the fastest" in overview.shares("02_coalescing").caption
    with pytest.raises(LadderError, match="no rung '02_coalesing'"):
        overview.shares("02_coalesing")


def test_records_are_looked_up_without_compiling():
    rung = overview.Measured(RUNGS[0])
    kernel = load(rung.name)
    problems = [Problem(*LARGE)]
    assert rung.settings == kernel.settings
    assert rung.fingerprint(problems, SIMULATED) == kernel.fingerprint(problems, SIMULATED)


def test_a_changed_figure_is_noticed():
    page = readme.README
    text = page.read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if "[02_coalescing]" in line)
    assert readme.updated(page, text.replace(row, row.replace("|", "| 9", 1))) == text


def test_a_page_without_parts_and_a_part_that_is_unknown_are_refused():
    with pytest.raises(ValueError, match=r"README\.md has no part between"):
        readme.updated(readme.README, "# GEMM Lab\n")
    part = f"{readme.BEGIN.format(name='lader')}\n{readme.END}\n"
    with pytest.raises(ValueError, match=r"README\.md has a part 'lader', and there are view,"):
        readme.updated(readme.README, part)
