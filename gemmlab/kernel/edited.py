"""An edited kernel before a GPU: what the simulator's checks must find in it to keep it from one.

A fault on a GPU ends CUDA for the process (faults.py tells of those that happen all the same), and
a kernel that hangs there cannot be interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO

from gemmlab.kernel.verify import Case, Report
from ptxsim import Finding, PtxError, TakesTooLong, UnknownInstruction

# Findings that make a result wrong or leave it to chance. All others may fault or hang a GPU.
HARMLESS = {
    "read-after-write race", "write-after-read race", "write-after-write race",
    "uninitialised read", "shuffle from an absent lane", "bulk store not waited for",
}  # fmt: skip
THIN_K = 150  # larger than M or N
UNCHECKED = (
    "{}. An edited kernel is launched on a GPU only after the simulator's checks, for a fault "
    "there ends the session. kernel.trust() lets it run without them"
)


def examined(
    tile: tuple[int, int], check: Callable[[], Report], look: Callable[[int, int, int], Case]
) -> Report:
    """The products of `check` and two thin ones, in which a wrong stride leaves its matrix.

    tile: rows and columns of C in a block's tile. Raises UnknownInstruction, PtxError or
    TakesTooLong where the simulator cannot run the kernel.
    """
    rows, cols = tile
    try:
        with redirect_stdout(StringIO()):  # what it prints is to come from the GPU, once
            report = check()
            if may_fault(report):
                return report
            thin = [look(rows + 5, 3, THIN_K), look(3, cols + 5, THIN_K)]
    except (UnknownInstruction, PtxError, TakesTooLong) as error:
        raise type(error)(UNCHECKED.format(error)) from None
    return Report(report.kernel, [*report.cases, *thin])


def may_fault(report: Report) -> bool:
    """Whether what was found may fault or hang a GPU."""
    return any(finding.kind not in HARMLESS for finding in found_in(report))


def found_in(report: Report) -> list[Finding]:
    """Of all cases, each mistake once for its kind and line."""
    found: dict[tuple[str, int], Finding] = {}
    for case in report.cases:
        for finding in case.findings:
            found.setdefault((finding.kind, finding.line), finding)
    return list(found.values())
