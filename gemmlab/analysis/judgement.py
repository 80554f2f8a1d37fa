"""An edited kernel beside the rung it started from: does it compile, is it right, what changed?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing, redirect_stdout
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from gemmlab import ladder
from gemmlab.analysis import facts
from gemmlab.kernel.checks import distinct_findings
from gemmlab.kernel.faults import GpuFault
from gemmlab.kernel.kernel import Kernel, KernelMistake, assembled
from gemmlab.kernel.verify import Case, Report
from gemmlab.ladder import IllegalSetting, LadderError
from gemmlab.loading import load
from gemmlab.report import Sheet, number, ratio, times
from ptxsim import Finding, FirstLines, LaunchError, PtxError, UnknownInstruction
from ptxsim.compile.nvrtc import CompileError, NoCompiler
from ptxsim.metrics import FMA_METRIC, HMMA_METRIC, IMMA_METRIC, MATRIX_METRICS, METRICS
from ptxsim.occupancy import OccupancyError

PARTS = {"global": ("requests", "sectors"), "shared": ("requests", "wavefronts", "bank conflicts")}
PLURALS = {"load": "loads", "store": "stores"}
TAKEN: dict[str, Callable[[Any], str]] = {  # column of kernel.resources() -> how it is written
    "registers per thread": number,
    "spilled bytes": number,
    "shared bytes per block": number,
    "blocks per SM": number,
    "occupancy": "{:.1%}".format,
    "limited by": str,
}
REFUSALS = (
    LadderError, IllegalSetting, CompileError, NoCompiler, LaunchError, KernelMistake,
    OccupancyError, GpuFault,
)  # fmt: skip
MOST_FINDINGS = 8
MOST_PRINTED = 20  # lines, of all launches together

PRODUCTS = {FMA_METRIC: "fused multiply-adds"}
TENSOR_PRODUCTS = {HMMA_METRIC: "tensor-core products", IMMA_METRIC: "of integers"}


def _traffic() -> dict[str, str]:
    """Nsight Compute's name of each counter of memory -> what it counts, in words."""
    names: dict[str, str] = {}
    for (space, operation), metrics in (METRICS | MATRIX_METRICS).items():
        for part, metric in zip(PARTS[space], metrics, strict=True):
            if metric is not None:
                names.setdefault(metric, f"{space} {PLURALS.get(operation, operation)}, {part}")
    return names


TRAFFIC = _traffic()


def judge(source: str, like: str, /, **settings: int) -> Judgement:
    """Compile `source`, launched as rung `like` is, verify it, count it, and look for mistakes.

    It raises nothing for what a reader may write: the Judgement says why it went no further. The
    checks are the simulator's and come first. A kernel in which they find a mistake is verified in
    the simulator too, also where there is a GPU.
    """
    judgement = Judgement(like)
    try:
        ladder.settings_for(ladder.find(like), settings)  # a name such as arch is no setting
        before = load(like, None, None, **settings)
        kernel = judgement.kernel = assembled(source, like, **before.settings)
        with closing(FirstLines(sys.stdout, MOST_PRINTED)) as printed, redirect_stdout(printed):
            _run(before, kernel, judgement)
    except (UnknownInstruction, PtxError) as error:
        judgement.stopped = f"The simulator does not know what it uses. {error}"
    except REFUSALS as error:
        judgement.stopped = str(error)
    return judgement


def _run(before: Kernel, kernel: Kernel, judgement: Judgement) -> None:
    """Fill in what is found, in this order, as far as it goes."""
    judgement.checked = kernel.check()
    judgement.resources = [each.resources().iloc[0].to_dict() for each in (before, kernel)]
    if not judgement.resources[1]["blocks per SM"]:
        judgement.stopped = f"No block of it fits on an SM of {kernel.arch}: see what one takes."
        return
    safe = copy(kernel)
    safe.on_gpu = kernel.on_gpu and judgement.checked.passed
    judgement.verified = safe.verify(seed=0)  # the same inputs: what a page shows must not move
    if judgement.verified.passed:
        judgement.shape = facts.shape(kernel)
        traces = [each.trace(*judgement.shape) for each in (before, kernel)]
        judgement.counters = [trace.counters for trace in traces]


@dataclass(repr=False)
class Judgement:
    """What became of an edited kernel. Show it: it is a few sentences and tables.

    `kernel`: None where it does not compile. `stopped`: why it went no further, else empty.
    `checked`, `verified`: the reports of kernel.check() and kernel.verify(). `shape`: (M, N, K) of
    the product that was counted, if it was. `counters`, `resources`: of the rung and of the edited
    kernel; empty as long as it was not counted or compiled.
    """

    like: str
    kernel: Kernel | None = None
    stopped: str = ""
    checked: Report | None = None
    verified: Report | None = None
    shape: tuple[int, int, int] | None = None
    counters: list[dict[str, int]] = field(default_factory=list)
    resources: list[dict] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether it went all the way, with right results and nothing found by the checks."""
        reports = (self.checked, self.verified)
        return not self.stopped and all(report is not None and report.passed for report in reports)

    @property
    def findings(self) -> list[tuple[Case, Finding]]:
        """Each mistake that the checks found, once for its line, with the first case it is in."""
        return distinct_findings(self.checked) if self.checked else []

    @property
    def _compared(self) -> list[tuple[str, int, int]]:
        """(what, before, after) of each counter that is compared."""
        if not self.counters or self.kernel is None:
            return []
        before, after = self.counters
        on_tensor_cores = self.kernel.precision.on_tensor_cores
        metrics = TRAFFIC | (TENSOR_PRODUCTS if on_tensor_cores else PRODUCTS)
        return [(words, before[name], after[name]) for name, words in metrics.items()]

    @property
    def changed(self) -> list[tuple[str, int, int]]:
        """(what, before, after) of each counter that differs."""
        return [
            (words, before, after) for words, before, after in self._compared if before != after
        ]

    def __repr__(self) -> str:
        return str(self._sheet())

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _sheet(self) -> Sheet:
        sheet = Sheet()
        if self.kernel is None:
            reason, _, lines = self.stopped.partition("\n")
            sheet.say(reason, strong=True)
            if lines:
                sheet.code(lines.strip("\n"))
            return sheet
        settings = ladder.listed(self.kernel.settings)
        sheet.say(f"{self.like} edited, {settings}, for {self.kernel.arch}", strong=True)
        self._say_results(sheet)
        if self.checked is not None:
            self._say_findings(sheet, len(self.checked.cases), self.kernel.text.splitlines())
        if self.counters and self.shape:
            self._say_counters(sheet, "×".join(map(str, self.shape)))
        if self.resources:
            self._say_resources(sheet, self.kernel.arch)
        return sheet

    def _say_results(self, sheet: Sheet) -> None:
        if self.verified is not None:
            cases = self.verified.cases
            failed = [case for case in cases if not case.passed]
            result = f"pass, all {len(cases)} cases."
            if failed:
                result = f"FAIL, {len(failed)} of {len(cases)} cases. The first is "
                result += f"{_product(failed[0])}: {failed[0].message}."
            sheet.say(f"Results: {result}")
        if self.stopped:
            sheet.say(f"Stopped: {self.stopped}")
        elif not self.counters:
            sheet.say("It is not counted as long as its results are wrong.")

    def _say_findings(self, sheet: Sheet, cases: int, lines: list[str]) -> None:
        findings = self.findings
        if not findings:
            sheet.say(f"Checks: no mistakes found in {cases} small products.")
            return
        noun = "mistake" if len(findings) == 1 else "mistakes"
        sheet.say(f"Checks: {len(findings)} {noun} found.")
        for case, finding in findings[:MOST_FINDINGS]:
            sheet.say(f"At {_product(case)}: {finding}.")
            if 1 <= finding.line <= len(lines):
                sheet.code(f"  > {finding.line:4d} | {lines[finding.line - 1]}")
        if len(findings) > MOST_FINDINGS:
            sheet.say(f"And {len(findings) - MOST_FINDINGS} more: see kernel.check().")

    def _say_counters(self, sheet: Sheet, where: str) -> None:
        changed = self.changed
        equal = len(self._compared) - len(changed)
        if not changed:
            sheet.say(f"Counters at {where}: all {equal} are equal.")
            return
        sheet.say(f"Counters at {where} that differ; {equal} are equal:")
        rows = [
            [words, number(before), number(after), times(ratio(before, after))]
            for words, before, after in changed
        ]
        sheet.table(["counter", "before", "after", "ratio"], rows)

    def _say_resources(self, sheet: Sheet, arch: str) -> None:
        before, after = self.resources
        if before == after:
            same = ", ".join(f"{name} {write(after[name])}" for name, write in TAKEN.items())
            sheet.say(f"Resources on {arch}, as before: {same}.")
            return
        sheet.say(f"Resources on {arch}:")
        rows = [
            [name, write(before[name]), write(after[name]), _times(before[name], after[name])]
            for name, write in TAKEN.items()
        ]
        sheet.table(["resource", "before", "after", "ratio"], rows)


def _times(before: float | str, after: float | str) -> str:
    if before == after or isinstance(before, str):
        return ""
    return times(ratio(float(before), float(after)))


def _product(case: Case) -> str:
    return f"M={case.m} N={case.n} K={case.k} alpha={case.alpha:g} beta={case.beta:g}"
