"""README.md: what it shows of kernels and records is what they say now."""

import pytest

from gemmlab import overview


def test_the_readme_shows_the_records_as_they_are():
    readme = overview.README.read_text(encoding="utf-8")
    assert overview.updated(readme) == readme, "run `make readme`"


def test_the_picture_is_a_png():
    assert overview.PICTURE.read_bytes().startswith(b"\x89PNG\r\n")


def test_a_changed_figure_is_noticed():
    readme = overview.README.read_text(encoding="utf-8")
    row = next(line for line in readme.splitlines() if "[02_coalescing]" in line)
    assert overview.updated(readme.replace(row, row.replace("|", "| 9", 1))) == readme


def test_a_readme_without_the_markers_is_refused():
    with pytest.raises(ValueError, match="no part between"):
        overview.updated("# GEMM Lab\n")
