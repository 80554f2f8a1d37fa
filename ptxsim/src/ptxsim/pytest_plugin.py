"""For pytest: the fixture `launch_kernel`, with which a test fails where a kernel makes a mistake.

Nothing is imported before a test needs it, for pytest loads this in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ptxsim.launcher import Run


@pytest.fixture
def launch_kernel() -> Callable[..., Run]:
    """As ptxsim.launch, but check=True is the default, and the test fails if there are findings.
    With check="strict" it fails for more.

    `by`: another function that launches, such as ptxsim.launch_ptx or ptxsim.triton.launch.
    """
    return _launch


def _launch(*args: Any, by: Callable[..., Run] | None = None, **how: Any) -> Run:
    __tracebackhide__ = True
    import ptxsim

    run = (by or ptxsim.launch)(*args, **{"check": True, **how})
    if run.findings:
        pytest.fail("\n".join(map(str, run.findings)), pytrace=False)
    return run
