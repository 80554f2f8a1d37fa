"""Links to Colab and Binder, and what Binder builds."""

import re
import subprocess

import pytest

from gemmlab.folders import ROOT
from tools.site import hosted

WHERE = hosted.Repository("owner/name", "0123456789abcdef0123456789abcdef01234567")


@pytest.mark.parametrize("ending", ["", "/", ".git"])
def test_the_environment_names_the_repository(monkeypatch, ending):
    monkeypatch.setenv(hosted.VARIABLE, f"https://github.com/owner/name{ending}")
    where = hosted.repository()
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    assert (where.name, where.commit) == ("owner/name", head.stdout.strip())
    assert f"git+https://github.com/owner/name@{where.commit}" in hosted.first_cell()


@pytest.mark.parametrize("wrong", ["owner/name", "https://example.org/a/b", "https://github.com/a"])
def test_a_wrong_repository_is_refused(monkeypatch, wrong):
    monkeypatch.setenv(hosted.VARIABLE, wrong)
    with pytest.raises(hosted.BadRepository, match="must be the address of a repository"):
        hosted.repository()


def test_links_open_the_very_notebook(monkeypatch):
    assert f"owner/name/blob/{WHERE.commit}/notebooks/01_naive.ipynb" in WHERE.on_colab("01_naive")
    assert "urlpath=lab%2Ftree%2Fnotebooks%2F01_naive.ipynb" in WHERE.on_binder("01_naive")
    monkeypatch.delenv(hosted.VARIABLE, raising=False)
    assert hosted.repository() is None
    assert "http" not in hosted.links("01_naive", None) and "make lab" in hosted.links("x", None)


def test_the_extras_of_the_first_cell_are_there():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (extras,) = re.findall(r"gemmlab\[([\w,]+)\]", hosted.first_cell())
    assert all(
        re.search(rf"^{extra} = \[", text, re.M) for extra in [*extras.split(","), "simulator"]
    )


def test_binder_installs_the_locks_and_nothing_else():
    """By reference, so that its pins are the lock's."""
    lines = (ROOT / ".binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    named = [line for line in lines if line and not line.startswith("#")]
    assert named == ["-r ../requirements/lab.txt", "-r ../requirements/cupy-none.txt"]
    build = (ROOT / ".binder" / "postBuild").read_text(encoding="utf-8")
    assert "--no-deps --no-build-isolation --editable ." in build
    for name in ("postBuild", "start"):
        assert (ROOT / ".binder" / name).stat().st_mode & 0o111
        subprocess.run(["bash", "-n", ROOT / ".binder" / name], check=True)
