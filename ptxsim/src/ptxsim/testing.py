"""For tests of kernels: assertions on a Run, two Runs compared, and findings for other tools."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ptxsim.launcher import Run
from ptxsim.machine import Finding
from ptxsim.metrics import LineCount

CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
MOST_LINES = 8  # of a message


def assert_bank_conflicts(run: Run, *, loads: int = 0, stores: int = 0) -> None:
    """That a launch with count=True has no more bank conflicts, over all warps, than these.

    Raises AssertionError that names the lines with the most wavefronts for a request.
    """
    for operation, most in (("ld", loads), ("st", stores)):
        conflicts = run.counters[CONFLICTS.format(operation)]
        name = "load" if operation == "ld" else "store"
        worst = _lines(run, "shared", {name}, "wavefronts")
        assert conflicts <= most, f"{conflicts} bank conflicts of {name}s, not {most}:\n{worst}"


def assert_sectors(
    run: Run, array: str = "", *, loads: int | None = None, stores: int | None = None
) -> None:
    """That a launch with count=True moves no more sectors of 32 bytes of global memory than these.

    `array`: the name of a parameter whose array is meant; of all arrays without. None: not looked
    at. Raises AssertionError that names the lines with the most sectors for a request, KeyError for
    an array with no traffic at all.
    """
    traffic = [line for line in run.lines if line.space == "global"]
    arrays = {line.array for line in traffic}
    if array and array not in arrays:
        raise KeyError(
            f"nothing of {array} is moved, only of {', '.join(sorted(arrays)) or 'none'}"
        )
    for operation, most in (("load", loads), ("store", stores)):
        sectors = sum(
            line.units
            for line in traffic
            if line.operation == operation and array in ("", line.array)
        )
        worst = _lines(run, "global", {operation}, "sectors", array)
        moved = f"{sectors} sectors of {array or 'all arrays'} by {operation}s"
        assert most is None or sectors <= most, f"{moved}, not {most}:\n{worst}"


def _lines(run: Run, space: str, operations: set[str], unit: str, array: str = "") -> str:
    def is_meant(line: LineCount) -> bool:
        return line.space == space and line.operation in operations and array in ("", line.array)

    lines = sorted(filter(is_meant, run.lines), key=lambda line: -line.units / line.requests)
    return "\n".join(
        f"  line {line.line}: {line.units} {unit} of {line.array} for {line.requests} requests"
        for line in lines[:MOST_LINES]
    )


def compared(before: Run, after: Run) -> dict[str, tuple[int, int]]:
    """Of two launches with count=True: metric -> (before, after), of those that differ."""
    metrics = {**before.counters, **after.counters}
    pairs = {metric: (before.counters[metric], after.counters[metric]) for metric in metrics}
    return {metric: pair for metric, pair in pairs.items() if pair[0] != pair[1]}


# ---- findings for other tools --------------------------------------------------------------------


def as_json(findings: Iterable[Finding]) -> str:
    """A list of objects with the fields of Finding."""
    return json.dumps([asdict(finding) for finding in findings], indent=2)


def as_sarif(findings: Sequence[Finding], file: str | Path) -> str:
    """SARIF 2.1.0, from which a code host annotates the lines of `file`, a path in its repository.

    A finding in a header beside `file` is at its line there, in another header at the line of
    `file` that calls what stands there.
    """
    rules: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        rules[finding.kind].append(finding)

    def result(finding: Finding) -> dict[str, Any]:
        header, line = finding.place
        beside = Path(file).with_name(header or Path(file).name)
        path, line = (beside, line) if beside.exists() else (Path(file), finding.line)
        region = {"startLine": max(1, line)}
        location = {"artifactLocation": {"uri": path.as_posix()}, "region": region}
        return {
            "ruleId": finding.kind, "level": "error", "message": {"text": str(finding)},
            "locations": [{"physicalLocation": location}],
        }  # fmt: skip

    driver = {"name": "ptxsim", "rules": [{"id": kind} for kind in rules]}
    run = {"tool": {"driver": driver}, "results": [result(finding) for finding in findings]}
    return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": [run]}, indent=2)
