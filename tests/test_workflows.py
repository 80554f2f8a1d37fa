"""What the workflows call is there, and what they publish is what was built and tested."""

import re
from itertools import chain

import pytest
import yaml

from gemmlab.folders import ROOT
from tools.site import build

WORKFLOWS = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
             for path in (ROOT / ".github" / "workflows").glob("*.yml")}  # fmt: skip
SITE = WORKFLOWS["site"]["jobs"]


def steps(name):
    return list(chain.from_iterable(job["steps"] for job in WORKFLOWS[name]["jobs"].values()))


def with_action(name, action):
    (step,) = [
        candidate for candidate in steps(name) if candidate.get("uses", "").startswith(f"{action}@")
    ]
    return step


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_part_that_is_run_is_a_target_of_the_makefile(name):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.M))
    parts = WORKFLOWS[name]["jobs"].get("test", {}).get("strategy", {}).get("matrix", {}).get("part", [])  # fmt: skip # noqa: E501
    run = [step["run"].removeprefix(".ci/run ") for step in steps(name)
           if step.get("run", "").startswith(".ci/run ")]  # fmt: skip
    called = {text.replace("${{ matrix.part }}", part) for text in run for part in parts or [""]}
    assert called and called <= targets


def test_an_action_has_one_version_everywhere():
    used = {step["uses"] for name in WORKFLOWS for step in steps(name) if "uses" in step}
    versions = [action.split("@") for action in used]
    assert all(re.fullmatch(r"v\d+", version) for _, version in versions)
    assert len({action for action, _ in versions}) == len(versions)


def test_the_site_is_published_from_main_alone_after_its_tests():
    assert SITE["publish"]["needs"] == "build"
    assert "refs/heads/main" in SITE["publish"]["if"]
    upload = with_action("site", "actions/upload-pages-artifact")
    order = SITE["build"]["steps"]
    tested = next(at for at, step in enumerate(order) if step.get("run") == ".ci/run test-site")
    assert order.index(upload) > tested and "refs/heads/main" in upload["if"]
    assert ROOT / upload["with"]["path"] == build.SITE


def test_the_address_reaches_sphinx():
    (step,) = [
        candidate
        for candidate in SITE["build"]["steps"]
        if candidate.get("run") == ".ci/run test-site"
    ]
    assert "GEMMLAB_SITE_URL" in step["env"]
    assert '"GEMMLAB_SITE_URL"' in (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
