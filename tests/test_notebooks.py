"""Every notebook: executed in order, small, without widget state or errors, and for every rung."""

import ast
import base64
import io
import os
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy
import pytest
from PIL import Image
from traitlets.config import Config

from gemmlab.folders import NOTEBOOKS, ROOT
from gemmlab.ladder import CEILINGS, RUNGS
from gemmlab.notebook import series

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
PAGES = ["host_code", "index"]  # notebooks that belong to no rung
MOST_BYTES = 1_000_000
MOST_LINES = 15
# 14 shows the pace that the steps to 15 recorded of it.
LATER = {"14_wmma": {"mma_sync"}}

every_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def cells(path, kind):
    return [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == kind]


def outputs(path):
    return [output for cell in cells(path, "code") for output in cell.outputs]


def test_there_is_one_notebook_for_each_rung_and_each_chapter():
    assert {CEILINGS.name, *(rung.name for rung in RUNGS)} < set(series.names())
    assert [path.stem for path in PATHS] == [*series.names(), *PAGES]


@every_notebook
def test_it_is_valid_and_small_and_holds_no_widget_state(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < MOST_BYTES
    assert "widgets" not in notebook.metadata


@every_notebook
def test_it_was_executed_from_top_to_bottom(path):
    code = cells(path, "code")
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))


def is_said_by_load(output) -> bool:
    """On standard error: settings that are taken where the default does not run."""
    sentence = ": the nearest to the default that runs on "
    return output.get("name") == "stderr" and all(
        sentence in line for line in output.text.splitlines()
    )


@every_notebook
def test_no_cell_ended_in_an_error_or_wrote_a_warning(path):
    others = [output for output in outputs(path) if not is_said_by_load(output)]
    assert not [o for o in others if o.output_type == "error" or o.get("name") == "stderr"]


@every_notebook
def test_code_is_short_but_for_kernels_to_write(path):
    for cell in cells(path, "code"):
        assert len(cell.source.splitlines()) <= MOST_LINES or "TODO" in cell.source, cell.source


def imported(source: str) -> set[str]:
    """The modules of gemmlab that a cell imports; lines for IPython are left out."""
    code = "\n".join(line for line in source.splitlines() if not line.startswith("%"))
    nodes = [] if source.startswith("%%") else [*ast.walk(ast.parse(code))]
    plain = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    sources = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name for name in (*plain, *sources) if name.partition(".")[0] == "gemmlab"}


def foreign(name: str, source: str) -> list[str]:
    """What a cell of a notebook takes from inside of the core, or from a lesson after its own."""
    lessons = [notebook.partition("_")[2] for notebook in series.names()]
    up_to_here = series.names().index(name) + 1 if name in series.names() else 0
    allowed = {*lessons[:up_to_here], *LATER.get(name, ())}
    return [
        module
        for module in sorted(imported(source) - {"gemmlab"})
        if module.split(".")[1] != "lessons" or module.split(".")[2] not in allowed
    ]


@every_notebook
def test_cells_import_gemmlab_and_lessons_up_to_their_own(path):
    assert [
        module for cell in cells(path, "code") for module in foreign(path.stem, cell.source)
    ] == []


def test_an_import_of_the_core_or_of_a_later_lesson_is_found():
    for source in ("from gemmlab.records import runs", "from gemmlab.lessons.fp8 import tables"):
        assert foreign("08_warp_tiling", source) == [source.split()[1]]


@every_notebook
def test_no_more_than_two_code_cells_stand_together(path):
    kinds = [cell.cell_type for cell in nbformat.read(path, as_version=4).cells]
    assert ("code",) * 3 not in list(zip(kinds, kinds[1:], kinds[2:], strict=False))


@every_notebook
def test_it_names_no_path_of_a_machine(path):
    assert not re.search(r"/(home|root|work|tmp|Users)/", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "strict", "device"),
    [("a.ipynb", True, "simulator"), ("a.ipynb", False, "here"), ("a.py", True, "here")],
)
def test_only_notebooks_whose_outputs_are_compared_run_without_the_gpu(
    name, strict, device, monkeypatch
):
    monkeypatch.setenv("GEMMLAB_DEVICE", "here")
    setup = runpy.run_path(str(ROOT / "conftest.py"))["pytest_runtest_setup"]
    config = SimpleNamespace(option=SimpleNamespace(nbval=strict))
    started = setup(SimpleNamespace(path=Path(name), config=config))
    next(started)
    assert os.environ["GEMMLAB_DEVICE"] == device
    with pytest.raises(StopIteration):
        started.send(None)
    assert os.environ["GEMMLAB_DEVICE"] == "here"


def png(pixels, level):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="png", compress_level=level)
    return base64.b64encode(file.getvalue()).decode()


def with_pictures(*encoded):
    shown = [nbformat.v4.new_output("display_data", {"image/png": picture}) for picture in encoded]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=shown)])


def test_when_notebooks_are_made_anew_pictures_that_look_as_before_keep_their_bytes(tmp_path):
    config = ROOT / "requirements" / "jupyter" / "jupyter_nbconvert_config.py"
    pack = runpy.run_path(str(config), {"get_config": Config})["pack_pictures"]
    same = numpy.arange(48, dtype=numpy.uint8).reshape(4, 4, 3).repeat(9, axis=1)
    before = png(same, level=9)
    nbformat.write(with_pictures(before), tmp_path / "one.ipynb")
    made = with_pictures(png(same, level=0), png(255 - same, level=0))
    made, _ = pack(made, {"metadata": {"path": str(tmp_path), "name": "one"}})
    kept, other = (output.data["image/png"] for output in made.cells[0].outputs)
    assert kept == before and len(other) < len(png(255 - same, level=0))
    assert (numpy.asarray(Image.open(io.BytesIO(base64.b64decode(other)))) == 255 - same).all()
