"""Small products in the simulator with all its checks: of any kernel, and of an edited one first.

A fault on a GPU ends CUDA for the process (faults.py tells of those that happen all the same), and
a kernel that hangs there cannot be interrupted. So an edited kernel is examined before a GPU sees
it.
"""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np

from gemmlab.kernel.in_simulator import KernelMistake, findings_of
from gemmlab.kernel.verify import GAPS, PRODUCT, Case, Report
from ptxsim import Finding, PtxError, TakesTooLong, UnknownInstruction

if TYPE_CHECKING:
    from gemmlab.kernel.kernel import Kernel

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


def check(kernel: Kernel) -> Report:
    """Products with tails and factors, and for tensor maps with more steps than stages."""
    rung, settings = kernel.rung, kernel.settings
    rows, cols = rung.tile(settings)
    step = max(32, rung.depth(settings))  # a whole step along K, then one more
    products: list[tuple] = [
        (7, 5, 3, *PRODUCT), (17, 33, 0, *PRODUCT), (rows, cols, step, *PRODUCT),
        (rows + 1, cols + 1, step + 1, *PRODUCT),
        (rows + 1, cols + 1, 31, 0.5, 2.0, GAPS[0] if kernel.takes("lda") else 0),
    ]  # fmt: skip
    if rung.has_maps(settings):
        products += [(rows + 8, cols + 8, 592, *PRODUCT), (rows + 8, 8, 64, 0.5, 2.0)]
    if not kernel.takes("alpha"):
        products = [product for product in products if product[3:5] == PRODUCT]
    return Report(kernel.name, [check_product(kernel, *product) for product in products])


def check_product(
    kernel: Kernel, m: int, n: int, k: int, alpha: float, beta: float, gap: int = 0
) -> Case:
    """One product of random numbers with all checks; a finding fails it. `gap`: between rows."""
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    problem = kernel.problem(*kernel.rung.taken(m, n, k, kernel.settings))
    operands = kernel.operands(problem, seed, gap=gap)
    findings = findings_of(kernel.simulate(operands, alpha, beta, check=True))
    return Case(
        *problem.shape, alpha, beta, seed, str(KernelMistake(findings)), findings,
        operands.bias is not None, problem.batch, gap,
    )  # fmt: skip


def examine(kernel: Kernel, checked: Report | None) -> Report:
    """What kernel.check() reports, and two thin products, where a wrong stride leaves its matrix.

    `checked`: that report, if it is there already. Raises UnknownInstruction, PtxError or
    TakesTooLong where the simulator cannot run the kernel.
    """
    rows, cols = kernel.rung.tile(kernel.settings)
    try:
        with redirect_stdout(StringIO()):  # what it prints is to come from the GPU, once
            report = checked or kernel.check()
            if may_fault(report):
                return report
            thin = (rows + 5, 3, THIN_K), (3, cols + 5, THIN_K)
            cases = [check_product(kernel, *shape, *PRODUCT) for shape in thin]
    except (UnknownInstruction, PtxError, TakesTooLong) as error:
        raise type(error)(UNCHECKED.format(error)) from None
    return Report(report.kernel, [*report.cases, *cases])


def may_fault(report: Report) -> bool:
    """Whether what was found may fault or hang a GPU."""
    return any(finding.kind not in HARMLESS for _, finding in distinct_findings(report))


def distinct_findings(report: Report) -> list[tuple[Case, Finding]]:
    """The findings of all cases, each once for its kind and line, with the first case it is in."""
    by_line: dict[tuple[str, int], tuple[Case, Finding]] = {}
    for case in report.cases:
        for finding in case.findings:
            by_line.setdefault((finding.kind, finding.line), (case, finding))
    return list(by_line.values())
