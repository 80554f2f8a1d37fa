"""The first cell of a copy for Colab in a clean Python with other versions, as far as that goes.

An archive of the checkout's last commit stands for the repository's, at a file:// address; the rest
comes from the package index. There is no GPU, no Colab image and no Colab front end in it.
"""

import json
import os
import re
import subprocess
import sys

import pytest

from gemmlab.folders import ROOT
from gemmlab.site import hosted

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER_NUMPY = "2.2.0" if sys.version_info < (3, 11) else "2.3.5"  # than the lock's
NAME = "01_naive"
ASKED = """
import json, importlib.metadata, pathlib
import gemmlab as gl
kernel = gl.load("01_naive")
print(json.dumps({
    "file": gl.__file__, "cwd": str(pathlib.Path.cwd()), "passed": kernel.verify().passed,
    "versions": {one.metadata["Name"].lower(): one.version for one in importlib.metadata.distributions()},
}))
"""  # noqa: E501


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A clean Python with IPython as the service's kernel and another NumPy; a home; an archive."""
    home = tmp_path_factory.mktemp("machine")
    archive = home / "archive.zip"
    command = [
        "git",
        "archive",
        "--format=zip",
        f"--prefix=project-{COMMIT}/",
        "-o",
        archive,
        "HEAD",
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True)
    python = home / "venv" / "bin" / "python"
    ipython = re.search(r"^ipython==(\S+)", _lock("lab"), re.M)[1]
    wanted = [f"ipython=={ipython}", f"numpy=={OTHER_NUMPY}", "matplotlib-inline"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
    return home


def _lock(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")


def _run(machine, *cells: str) -> subprocess.CompletedProcess:
    """The cells in one session of the machine's IPython."""
    script = machine / "session.ipy"
    script.write_text("\n".join(cells), encoding="utf-8")
    environment = {
        name: value for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "GEMMLAB", "VIRTUAL_ENV"))
    } | {"HOME": str(machine), "IPYTHONDIR": str(machine / "ipython")}  # fmt: skip
    command = [machine / "venv" / "bin" / "python", "-m", "IPython", "--colors=NoColor", script]
    return subprocess.run(
        command, env=environment, cwd=machine, capture_output=True, text=True, timeout=300
    )


def test_the_first_cell_makes_a_foreign_python_ready(machine):
    where = hosted.Repository("owner", "name", COMMIT)
    setup = hosted.for_colab(NAME, where)["cells"][1]["source"]
    assert where.archive in setup
    setup = setup.replace(where.archive, (machine / "archive.zip").as_uri())

    first = _run(machine, "import numpy", setup, "print('went on')")
    said = first.stdout + first.stderr
    assert "numpy had been loaded before, in another version: restart the session" in said
    assert "went on" not in said and "Traceback" not in said

    second = _run(machine, "import numpy", setup, ASKED)  # as after a restart
    assert "simulator" in second.stdout and "Ready: go on with the cells below." in second.stdout
    told = json.loads(second.stdout.splitlines()[-1])
    unpacked = machine / f"gemmlab-{COMMIT[:12]}"
    assert told["file"] == str(unpacked / "gemmlab" / "__init__.py")
    assert told["cwd"] == str(unpacked / "notebooks")
    assert told["passed"] is True
    pinned = set(re.findall(r"^([\w.-]+)==([^\s;]+)", _lock("lab") + _lock("cupy-none"), re.M))
    for name in ("numpy", "pandas", "matplotlib", "ipywidgets", "numba", "cupy-cuda13x"):
        assert (name, told["versions"][name]) in pinned
