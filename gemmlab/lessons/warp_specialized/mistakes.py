"""Lines of a kernel left out or changed: what verification and the checks make of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gemmlab.kernel.kernel import from_source
from gemmlab.loading import load

if TYPE_CHECKING:
    import pandas


def found(name: str, changes: Mapping[str, tuple[str, str]], **settings: int) -> pandas.DataFrame:
    """A row for each change {what: (line, what stands in its place)} of the kernel of rung `name`.

    Columns: how many cases of verification are right all the same, and the kind of the first
    finding of kernel.check(), "nothing" if there is none. Raises ValueError where a line does not
    stand there once, and what gl.from_source raises.
    """
    import pandas

    text, rows = load(name, **settings).text, {}
    for what, (line, other) in changes.items():
        if (times := text.count(line)) != 1:
            raise ValueError(f"{line!r} stands {times} times in {name}, it must stand there once")
        kernel = from_source(text.replace(line, other), name, **settings)
        cases = kernel.verify().cases
        findings = [case.findings[0].kind for case in kernel.check().cases if case.findings]
        right = sum(case.passed for case in cases)
        rows[what] = {
            "right": f"{right} of {len(cases)}",
            "check() finds": findings[0] if findings else "nothing",
        }
    return pandas.DataFrame(rows).T
