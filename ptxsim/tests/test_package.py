"""The package stands alone: it imports nothing of GEMM Lab, and loads nothing heavy but NumPy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ptxsim

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(
    path for folder in ("src", "tests", "hardware") for path in (ROOT / folder).rglob("*.py")
)
VAGUE = {"one", "own", "found", "told", "said"}
LATER = {"cuda", "cupy", "gemmlab", "ml_dtypes", "numba"}


def imported(text: str) -> set[str]:
    """The packages that a file imports, wherever it does."""
    packages = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            packages |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            packages.add((node.module or "").partition(".")[0])
    return packages


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_of_gemm_lab_is_imported(path):
    assert "gemmlab" not in imported(path.read_text(encoding="utf-8"))


def test_an_import_of_gemmlab_would_be_seen():
    assert "gemmlab" in imported("def f():\n    from gemmlab.kernel import kernel")


def vague_names(text: str) -> set[str]:
    """Names of variables, parameters and functions that do not say what they hold."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
    return names & VAGUE


@pytest.mark.parametrize("folder", ["src", "tests", "hardware"])
def test_names_say_what_they_hold(folder):
    files = (ROOT / folder).rglob("*.py")
    assert {
        path.name: names
        for path in files
        if (names := vague_names(path.read_text(encoding="utf-8")))
    } == {}


def test_a_vague_name_would_be_seen():
    text = "def told(own):\n    self.said = [one for one in own]\n    found: int = 0"
    assert vague_names(text) == VAGUE


def test_only_numpy_is_loaded_with_the_package():
    program = "import sys, ptxsim; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "numpy" in loaded and not loaded & LATER


def test_every_public_name_is_there():
    assert all(hasattr(ptxsim, name) for name in ptxsim.__all__)
