"""The README and the pages of docs/: their examples give what they say."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", ["README.md", "docs/simulator.md"])
def test_the_examples_run(name):
    done = doctest.testfile(str(ROOT / name), module_relative=False)
    assert done.attempted > 5 and done.failed == 0


def test_the_test_file_of_the_page_on_testing_passes(tmp_path):
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    (file,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "test_row_sums.py").write_text(file, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0 and "5 passed" in done.stdout, done.stdout + done.stderr
