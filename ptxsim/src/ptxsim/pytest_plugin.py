"""For pytest: the fixture `launch`, with which a test fails where a kernel makes a mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ptxsim
from ptxsim.launcher import Run
from ptxsim.testing import assert_no_findings


@pytest.fixture
def launch() -> Callable[..., Run]:
    """As ptxsim.launch, but check=True is the default, and the test fails if there are findings.

    With `by`, another function that launches: ptxsim.launch_ptx, ptxsim.triton.launch, ….
    """
    return _launched


def _launched(*args: Any, by: Callable[..., Run] = ptxsim.launch, **how: Any) -> Run:
    __tracebackhide__ = True
    run = by(*args, **{"check": True, **how})
    try:
        assert_no_findings(run)
    except AssertionError as error:
        pytest.fail(str(error), pytrace=False)
    return run
