"""What tests leave out as still to be recorded is absent, and said to be so in a sentence."""

import pytest
from awaited import AWAITED, CUBLAS_ERRORS, RUNS, STALLS, SWEEP, recorded

from gemmlab.ladder import RUNGS as ALL
from gemmlab.ladder import find
from gemmlab.records import runs, stalls, tuning
from gemmlab.records.experiments.fp8 import cublas_errors
from gemmlab.records.registry import NoRecord

READ = {
    SWEEP: lambda rung: tuning.recorded(rung.name),
    RUNS: lambda rung: runs.entry(runs.Measured(rung)),
    STALLS: lambda rung: stalls.evidence(rung).read(),
    CUBLAS_ERRORS: lambda rung: cublas_errors.EVIDENCE.read(),
}


@pytest.mark.parametrize(
    ("name", "what"), [(name, what) for name, every in AWAITED.items() for what in sorted(every)]
)
def test_what_is_awaited_is_not_there(name, what, monkeypatch):
    """Where this fails the record has come: take it out of tests/awaited.py."""
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-h200")
    with pytest.raises(NoRecord, match=rf"{name[:2]}_.*on a GPU\.$"):
        READ[what](find(name))


def test_those_with_all_of_their_records_are_left():
    names = {rung.name for rung in recorded(ALL, SWEEP, RUNS)}
    assert names == {rung.name for rung in ALL} - AWAITED.keys()
    assert {rung.name for rung in ALL} - {rung.name for rung in recorded(ALL, RUNS)} == {
        "19_fp8", "22_fp32_summit",
    }  # fmt: skip
