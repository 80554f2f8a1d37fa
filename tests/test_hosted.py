"""Notebooks on another's machine: the first cell of the copies, what it installs, links, Binder."""

import ast
import importlib.util
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gemmlab.folders import NOTEBOOKS, ROOT
from gemmlab.site import hosted as copies

REQUIREMENTS = ROOT / "requirements"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
WHERE = copies.Repository("owner", "name", COMMIT)
NAMES = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


@pytest.fixture
def hosted():
    spec = importlib.util.spec_from_file_location("hosted", REQUIREMENTS / "hosted.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lock(name: str) -> str:
    return (REQUIREMENTS / f"{name}.txt").read_text(encoding="utf-8")


def name_of(line: str) -> str:
    return line.partition("==")[0].lower()


# ---- what is installed ---------------------------------------------------------------------------


def test_what_the_package_needs_is_what_is_wanted(hosted):
    listed = runpy.run_path(str(ROOT / "requirements/lock.py"))["read_requirements"]()
    needs = [*listed["project"], *listed["fast"]]
    assert {re.match(r"[\w-]+", one)[0] for one in needs} == set(hosted.WANTED)


def test_the_pins_are_lines_of_the_lock_with_all_that_they_need(hosted):
    lines = hosted.pins(lock("lab"), hosted.WANTED)
    assert set(lines) <= set(lock("lab").splitlines())
    names = {name_of(line) for line in lines}
    assert names >= {*hosted.WANTED, "llvmlite", "contourpy", "python-dateutil", "comm"}
    assert not names & {"ipython", "traitlets", "jedi", "ipykernel", "jupyterlab", "pytest"}
    every = [line for line in lock("lab").splitlines() if line.startswith("numpy==")]
    assert [line for line in lines if line.startswith("numpy==")] == every, "one for each Python"


def test_all_of_cupys_lock_is_pinned(hosted):
    for which in ("none", "cuda12", "cuda13"):
        lines = [one for one in lock(f"cupy-{which}").splitlines() if re.match(r"\w", one)]
        assert hosted.pins(lock(f"cupy-{which}")) == lines


class Pip:
    """Takes commands in place of a process. `installs`: versions that an installation leaves."""

    def __init__(self, status=0, output="", after=lambda: None):
        self.commands, self.requirements = [], ""
        self.status, self.output, self.after = status, output, after

    def __call__(self, command, show=None):
        self.commands.append(command[3:])
        if "install" in command:
            self.requirements = Path(command[-1]).read_text(encoding="utf-8")
            self.after()
        return self.status, self.output


@pytest.fixture
def here(hosted, monkeypatch, tmp_path):
    """A machine with a clean path, without a driver, where nothing but numpy 2.0 is loaded."""
    versions = {"numpy": "2.0"}
    monkeypatch.setattr(hosted, "_cupys", set)
    monkeypatch.setattr(hosted, "_loaded", lambda: dict(versions))
    monkeypatch.setattr(hosted.metadata, "version", versions.__getitem__)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.chdir(tmp_path)
    return versions


def set_up(hosted, pip, version=(3, 12, 1), **driver):
    hosted.set_up(ROOT, (), hosted.install.Driver(**driver), version, pip)


def test_it_installs_and_says_what_it_found(hosted, here, capsys):
    pip = Pip()
    set_up(hosted, pip)
    (command,) = pip.commands
    assert command[0] == "install" and "--no-deps" in command
    assert "numpy==" in pip.requirements and "cupy-cuda13x==" in pip.requirements
    assert "nvidia-cuda-nvrtc==" in pip.requirements
    said = capsys.readouterr().out
    assert "simulator" in said and said.endswith("Ready: go on with the cells below.\n")
    folders = [str(ROOT), str(ROOT / "ptxsim" / "src")]
    assert sys.path[:2] == folders and Path.cwd() == NOTEBOOKS
    assert hosted.os.environ["PYTHONPATH"].split(hosted.os.pathsep) == [*folders, "/elsewhere"]


def test_a_driver_decides_which_cupy(hosted, here, capsys):
    for cuda, name in (((12, 4), "cupy-cuda12x=="), ((13, 0), "cupy-cuda13x==")):
        pip = Pip()
        set_up(hosted, pip, cuda=cuda, capability=(7, 5))
        assert name in pip.requirements
        assert f"CUDA {cuda[0]}" in capsys.readouterr().out


def test_another_cupy_goes_first(hosted, here, monkeypatch):
    monkeypatch.setattr(hosted, "_cupys", lambda: {"cupy-cuda12x", "cupy-cuda13x"})
    pip = Pip()
    set_up(hosted, pip)
    assert pip.commands[0] == ["uninstall", "--yes", "cupy-cuda12x", "cupy-cuda13x"]
    assert pip.commands[1][0] == "install"


def test_what_was_loaded_in_another_version_asks_for_a_restart(hosted, here):
    pip = Pip(after=lambda: here.update(numpy="2.5.5"))
    with pytest.raises(hosted.NotReady, match=r"numpy had been loaded .* restart the session"):
        set_up(hosted, pip)
    assert str(ROOT) not in sys.path[:1]
    set_up(hosted, Pip())  # after it


def test_what_a_notebook_needs_besides_is_installed_too(hosted, here):
    pip = Pip()
    hosted.set_up(ROOT, ["kernel-tuner"], hosted.install.Driver(), (3, 12, 1), pip)
    assert {"kernel-tuner", "scipy", "numpy"} <= set(map(name_of, pip.requirements.splitlines()))
    asking = [
        name for name in NAMES if "also=" in copies.for_colab(name, WHERE)["cells"][1]["source"]
    ]
    imports = [
        path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))
        if "gemmlab.search" in path.read_text(encoding="utf-8")
    ]  # fmt: skip
    assert asking == imports != []


def test_a_python_that_does_not_fit_is_named_before_anything_is_installed(hosted, here):
    for version in ((3, 9, 0), (3, 99, 0)):
        pip = Pip()
        with pytest.raises(hosted.NotReady, match=rf"Python 3\.{version[1]}, .* choose another"):
            set_up(hosted, pip, version)
        assert pip.commands == []


def test_what_pip_cannot_do_is_one_sentence(hosted, here):
    with pytest.raises(hosted.NotReady, match="The disk is full") as error:
        set_up(hosted, Pip(1, "ERROR: No space left on device"))
    (shown,) = error.value._render_traceback_()
    assert shown == f"gemmlab: {error.value}"


# ---- copies and links ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_the_notebook_behind_one_cell(name):
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    copy = copies.for_colab(name, WHERE)
    words, setup, *cells = copy["cells"]
    assert (words["cell_type"], setup["cell_type"]) == ("markdown", "code")
    assert len(cells) == len(notebook["cells"])
    for there, cell in zip(notebook["cells"], cells, strict=True):
        assert (there["id"], there["cell_type"]) == (cell["id"], cell["cell_type"])
        if cell["cell_type"] == "code":
            assert "".join(there["source"]) == cell["source"] and cell["outputs"] == []
        else:  # no link leads from the copy to a place that only the repository has
            targets = re.findall(r"\]\(([^()\s]+)\)", cell["source"])
            assert all(re.match(r"https?:|#", one) for one in targets)
    assert len({cell["id"] for cell in copy["cells"]}) == len(copy["cells"])


def test_links_of_a_copy_lead_to_copies_and_to_files_of_the_commit():
    def target(text):
        return copies._target(text, WHERE)

    assert target("02_coalescing.ipynb#x").endswith("/owner/name/blob/colab/02_coalescing.ipynb#x")
    file = target("../kernels/pipeline.cuh")
    assert file == f"https://github.com/owner/name/blob/{COMMIT}/kernels/pipeline.cuh"
    assert target("https://example.org/a") == "https://example.org/a"
    assert target("#here") == "#here"


def test_the_first_cell_names_the_commit_and_is_python():
    text = copies.for_colab(NAMES[0], WHERE)["cells"][1]["source"]
    ast.parse(text)
    assert f"/archive/{COMMIT}.zip" in text and COMMIT[:12] in text


def test_a_first_cell_without_network_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    text = copies.SETUP.format(
        archive=(tmp_path / "none.zip").as_uri(), folder="gemmlab-x", also=""
    )
    with pytest.raises(RuntimeError, match=r"none\.zip cannot be fetched .* run this cell again"):
        exec(compile(text, "cell", "exec"), {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["", "/", ".git"])
def test_the_environment_names_the_repository(monkeypatch, ending):
    monkeypatch.setenv(copies.VARIABLE, f"https://github.com/some-one/gemm.lab{ending}")
    found = copies.repository()
    assert (found.owner, found.name) == ("some-one", "gemm.lab")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    assert found.commit == head.stdout.strip()


def test_without_a_repository_there_are_no_links(monkeypatch):
    monkeypatch.delenv(copies.VARIABLE, raising=False)
    assert copies.repository() is None
    assert "make lab" in copies.words(NAMES[0], None) and "http" not in copies.words(NAMES[0], None)
    assert copies.VARIABLE in copies.every_link(None)


@pytest.mark.parametrize(
    "wrong", ["github.com/a/b", "https://gitlab.com/a/b", "https://github.com/a"]
)
def test_a_wrong_repository_is_refused(monkeypatch, wrong):
    monkeypatch.setenv(copies.VARIABLE, wrong)
    with pytest.raises(copies.BadRepository, match=re.escape(repr(wrong))):
        copies.repository()


def test_links_open_the_very_notebook():
    assert WHERE.on_colab("01_naive").endswith("/github/owner/name/blob/colab/01_naive.ipynb")
    binder = WHERE.on_binder("01_naive")
    assert f"/gh/owner/name/{COMMIT}?" in binder
    assert binder.endswith("urlpath=lab%2Ftree%2Fnotebooks%2F01_naive.ipynb")


def test_all_copies_are_written(tmp_path):
    copies.write(tmp_path, WHERE)
    written = sorted(path.stem for path in (tmp_path / copies.FOLDER).iterdir())
    assert written == NAMES


def test_the_workflow_names_the_repository_and_puts_the_copies_where_colab_looks():
    text = (ROOT / ".github" / "workflows" / "site.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    (build,) = (one for one in jobs["build"]["steps"] if "test-site" in one.get("run", ""))
    assert "github.repository" in build["env"][copies.VARIABLE]
    kept = [one["with"] for one in jobs["build"]["steps"] if "artifact@" in one.get("uses", "")]
    assert {"name": "colab", "path": f"build/site/{copies.FOLDER}"} in kept
    pushes = jobs["colab"]["steps"][-1]["run"]
    assert f"--initial-branch {copies.FOLDER}\n" in pushes
    assert re.search(rf"git push .* {copies.FOLDER}$", pushes.strip())


# ---- Binder --------------------------------------------------------------------------------------


def test_binder_installs_the_locks_and_nothing_else():
    """By reference, so that its pins are the lock's."""
    lines = (ROOT / ".binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    named = [line for line in lines if line and not line.startswith("#")]
    assert named == ["-r ../requirements/lab.txt", "-r ../requirements/cupy-none.txt"]
    for line in named:
        assert (ROOT / ".binder" / line.removeprefix("-r ")).is_file()
    build = (ROOT / ".binder" / "postBuild").read_text(encoding="utf-8")
    assert "--no-deps --no-build-isolation --editable ./ptxsim --editable ." in build


def test_binder_has_a_python_that_the_locks_are_for(hosted):
    python = (ROOT / ".binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    version = tuple(map(int, python.removeprefix("python-").split(".")))
    newest = tuple(map(int, hosted.install.NEWEST_PYTHON.split(".")))
    assert hosted.install.OLDEST_PYTHON <= version <= newest


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_what_binder_runs_can_be_run(name):
    path = ROOT / ".binder" / name
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", path], check=True)
