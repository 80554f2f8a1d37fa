"""Every planted mistake is found, by the checks or by verification, and the record is of them."""

import importlib.util
import json
from pathlib import Path

import pytest
from mistakes import MISTAKES, OWN, base, correct, planted, text_of, trials

HERE = Path(__file__).parent

spec = importlib.util.spec_from_file_location(
    "record_sanitizer", HERE / "recorded/record_sanitizer.py"
)
record_sanitizer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(record_sanitizer)

ONE_OF_EACH_KERNEL = list({(one.of, one.shapes): one for one in MISTAKES}.values())


def test_there_are_many_and_no_two_of_one_name():
    assert len({one.name for one in MISTAKES}) == len(MISTAKES) >= 60
    assert {one.of for one in MISTAKES} >= set(OWN)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_found_by_whom_it_says(mistake):
    assert planted(mistake) != text_of(base(mistake.of)) or mistake.change
    done = list(trials(mistake))
    findings = [finding for trial in done for finding in trial.findings]
    wrong = not all(trial.right for trial in done)
    assert mistake.found_by
    assert bool(mistake.kinds) == ("checks" in mistake.found_by)
    assert bool(findings) == ("checks" in mistake.found_by), findings
    kinds = {finding.kind for finding in findings}
    assert all(any(part in kind for kind in kinds) for part in mistake.kinds), kinds
    if "verification" in mistake.found_by:
        assert wrong


@pytest.mark.parametrize("mistake", ONE_OF_EACH_KERNEL, ids=lambda mistake: mistake.of)
def test_without_the_mistake_nothing_is_found(mistake):
    for trial in trials(correct(mistake)):
        assert trial.findings == []
        assert trial.right


def test_the_record_is_of_these_mistakes_and_the_table_of_this_record():
    recorded = json.loads((HERE / "recorded/sanitizer.json").read_text(encoding="utf-8"))
    cases = record_sanitizer.cases()
    assert recorded["cases"].keys() == cases.keys()
    changed = [name for name in cases
               if recorded["cases"][name]["code"] != record_sanitizer.key(cases[name])]  # fmt: skip
    assert changed == []
    assert record_sanitizer.TABLE.read_text(encoding="utf-8") == record_sanitizer.table()
