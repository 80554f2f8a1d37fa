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


@pytest.mark.parametrize(
    ("name", "passed"), [("README.md", "1 passed"), ("docs/testing.md", "5 passed")]
)
def test_the_test_file_of_the_page_passes(name, passed, tmp_path):
    page = (ROOT / name).read_text(encoding="utf-8")
    (file,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    above = [e.source for e in doctest.DocTestParser().get_examples(page) if " = " in e.source]
    (tmp_path / "test_page.py").write_text(
        "".join(["import numpy as np\nimport ptxsim\n", *above, file])
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0 and passed in done.stdout, done.stdout + done.stderr
