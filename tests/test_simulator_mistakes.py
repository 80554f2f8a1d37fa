"""Every planted mistake is found, by the checks or by verification, and the record is of them."""

from dataclasses import replace

import pytest
import record_sanitizer
from mistakes import MISTAKES, OWN, correct, find, planted, trials

from gemmlab.ladder import RUNGS

ONE_OF_EACH_KERNEL = list({(mistake.of, mistake.shapes): mistake for mistake in MISTAKES}.values())


def test_mistakes_have_unique_names():
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 158
    assert {mistake.of for mistake in MISTAKES} >= set(OWN)
    rungs = {mistake.of.split()[0] for mistake in MISTAKES} & {rung.name for rung in RUNGS}
    assert len(rungs) >= 7


@pytest.mark.parametrize(
    ("name", "old", "times"),
    [("first barrier removed", "nowhere", 0), ("rows below A", "__syncthreads();", 2)],
)
def test_a_mistake_that_no_longer_fits_its_kernel_is_refused(name, old, times):
    mistake = replace(find(name), old=old)
    with pytest.raises(ValueError, match=f"{name}: '.*' stands {times} times in 0"):
        planted(mistake)


def test_a_mistake_may_stand_in_a_header():
    text = planted(find("half a tile loaded"))
    assert text.count("first < BLOCK_THREADS;") == 1 and '#include "' not in text


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_found_by_the_check_that_it_names(mistake):
    """One run is enough, at which all of them find it; of what is not to be found there is none."""
    assert mistake.old != mistake.new or mistake.change
    assert mistake.found_by
    assert bool(mistake.kinds) == ("checks" in mistake.found_by)
    kinds, wrong = set(), False
    for trial in trials(mistake):
        kinds |= {finding.kind for finding in trial.findings}
        wrong |= not trial.right
        all_kinds = all(any(part in kind for kind in kinds) for part in mistake.kinds)
        if mistake.kinds and all_kinds and (wrong or "verification" not in mistake.found_by):
            return
    assert bool(kinds) == ("checks" in mistake.found_by), kinds
    assert all_kinds, kinds
    assert wrong or "verification" not in mistake.found_by


@pytest.mark.parametrize("mistake", ONE_OF_EACH_KERNEL, ids=lambda mistake: mistake.of)
def test_without_the_mistake_nothing_is_found(mistake):
    for trial in trials(correct(mistake)):
        assert trial.findings == []
        assert trial.right


def test_the_table_is_that_of_the_record():
    assert record_sanitizer.TABLE.read_text(encoding="utf-8") == record_sanitizer.table()
