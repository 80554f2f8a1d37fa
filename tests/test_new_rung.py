"""A new rung is one `.cu`, one entry, one notebook, one record: nothing else has to know it."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from gemmlab.folders import KERNELS, NOTEBOOKS, ROOT
from gemmlab.kernel.fingerprint import fingerprint
from gemmlab.ladder import SIMULATED, find
from gemmlab.records.runs import problems_of

NAME, LIKE = "98_throwaway", "02_coalescing"
ENTRY = """
from gemmlab.ladder.launch import single
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons.coalescing.rung import RUNG as COALESCING

RUNG = Rung(
    name="98_throwaway",
    title="Throwaway",
    idea="a rung that is there to be added",
    parameters=COALESCING.parameters,
    tile=COALESCING.tile,
    plan=single(
        "throwaway",
        lambda m, n, s: (ceil_div(n, s["BLOCK_X"]), ceil_div(m, s["BLOCK_Y"]), 1),
        lambda s: (s["BLOCK_X"], s["BLOCK_Y"], 1),
    ),
    constraints=COALESCING.constraints,
    model_bytes=COALESCING.model_bytes,
)
"""
USE = """
import gemmlab as gl
from gemmlab import cli
from gemmlab.records import runs

kernel = gl.load("98_throwaway", BLOCK_X=32, BLOCK_Y=8)
print(kernel, kernel.check().passed)
print(len(gl.heat(kernel.trace(40, 24, 16))._repr_html_()) > 500)
print(len(gl.lab("98_throwaway").picture.value) > 1000)
print(runs.replay_at(gl.load("98_throwaway"), 512, 512, 512).kernel)
print(cli.main(["bench", "98_throwaway", "512", "512", "512"]))
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what the package reads, with the rung added; the files that this touched."""
    root = tmp_path_factory.mktemp("checkout")
    for folder in ("gemmlab", "kernels", "results"):
        shutil.copytree(
            ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", "compiled")
        )
    shutil.copy(ROOT / "pyproject.toml", root)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}

    source = (KERNELS / f"{LIKE}.cu").read_text("utf-8").replace("coalescing(", "throwaway(")
    (root / "kernels" / f"{NAME}.cu").write_text(source.replace("02  Coalescing", "98  Throwaway"))
    lesson = root / "gemmlab" / "lessons" / "throwaway"
    lesson.mkdir()
    (lesson / "rung.py").write_text(ENTRY)
    (root / "notebooks").mkdir()
    shutil.copy(NOTEBOOKS / f"{LIKE}.ipynb", root / "notebooks" / f"{NAME}.ipynb")
    path = root / "results" / "nvidia-h200" / "runs.json"
    record = json.loads(path.read_text("utf-8"))
    recorded = record["rungs"][LIKE]
    like = find(LIKE)
    launches = [
        replace(launch, entry="throwaway")
        for problem in problems_of(recorded)
        for launch in like.launches(problem, recorded["settings"], SIMULATED)
    ]
    code = str(fingerprint(root / "kernels" / f"{NAME}.cu", recorded["settings"], launches))
    runs = [{**run, "kernel": NAME} for run in recorded["runs"]]
    record["rungs"][NAME] = {**recorded, "code": code, "runs": runs}
    path.write_text(json.dumps(record))

    after = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return root, {path for path in after if after[path] != before.get(path)}


def test_four_files_are_a_rung(checkout):
    root, touched = checkout
    assert {str(path.relative_to(root)) for path in touched} == {
        f"kernels/{NAME}.cu",
        "gemmlab/lessons/throwaway/rung.py",
        f"notebooks/{NAME}.ipynb",
        "results/nvidia-h200/runs.json",
    }
    done = subprocess.run(
        [sys.executable, "-c", USE], cwd=root, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(root), "GEMMLAB_DEVICE": "simulator"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert printed[0] == f"{NAME}(BLOCK_X=32, BLOCK_Y=8) for sm_90a True"
    assert printed[1:4] == ["True", "True", NAME]
    assert any("recorded on NVIDIA H200" in line for line in printed) and printed[-1] == "0"
