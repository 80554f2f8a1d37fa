"""What an NVIDIA GPU and compute-sanitizer make of the mistakes of tests/mistakes.py.

    python benchmarks/hardware/record_sanitizer.py --table    writes docs/mistakes.md

record_kernels.py records it. Every mistake, and every kernel without one, runs alone and under
memcheck, racecheck, initcheck and synccheck, each time in a process of its own: an error takes the
whole CUDA context with it, and a kernel that hangs has to be killed.
"""

from __future__ import annotations

import faulthandler
import hashlib
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

sys.path.extend(
    str(Path(__file__).resolve().parents[2] / folder)
    for folder in (".", "tests", "ptxsim/tests", "ptxsim/hardware")
)
import hardware
import mistakes
from mistakes import MISTAKES, Mistake
from recording import Record

import ptxsim
from gemmlab.kernel.fingerprint import code_hash

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# Each process has a context of its own, and they take turns on the GPU.
PROCESSES = 8
HANGS_S = {"alone": 5, "tool": 12}  # from the launch on
STOPPED = "Timeout ("  # what faulthandler prints first
TIMEOUT_S = 60  # a process that does not even end by itself
NOT_RECORDED = "not recorded"
CORRECT = "correct: "  # before the name of a kernel without a mistake
TABLE = Path(__file__).resolve().parents[2] / "docs" / "mistakes.md"


def cases() -> dict[str, Mistake]:
    """Each mistake by its name, and each kernel without one."""
    by_name = {mistake.name: mistake for mistake in MISTAKES}
    for mistake in MISTAKES:
        by_name.setdefault(CORRECT + mistake.of, mistakes.correct(mistake))
    return by_name


def key(mistake: Mistake) -> str:
    """A fingerprint of what is launched; comments do not count."""
    kernel = mistakes.base(mistake.of)
    code = code_hash(mistakes.planted(mistake), getattr(kernel, "settings", {}))
    launch = (code, mistake.change, mistakes.shapes(kernel, mistake))
    return "sha256:" + hashlib.sha256(repr(launch).encode()).hexdigest()


def codes() -> dict[str, str]:
    return {name: key(mistake) for name, mistake in cases().items()}


# --- one process ----------------------------------------------------------------------------------


def run_one(name: str, fresh: bool) -> None:
    """Launch a case at all its shapes and print "right", "wrong" or "error: …".

    `fresh`, under a tool: a C that is not to be read is left as it was allocated, instead of
    holding NaN.
    """
    import cupy

    cupy.cuda.set_allocator(None)  # arrays end where their allocation ends
    mistake = cases()[name]
    right = True
    cupy.zeros(1)  # the context is there before the clock runs
    faulthandler.dump_traceback_later(HANGS_S["tool" if fresh else "alone"], exit=True)
    try:
        for shape in mistakes.shapes(mistakes.base(mistake.of), mistake):
            it = mistakes.prepare(mistake, shape)
            args = [
                ptxsim.uninitialised(arg) if fresh and i in it.empty else arg
                for i, arg in enumerate(it.args)
            ]
            hardware.launch(
                it.source, it.entry, it.grid, it.block, args,
                arch=it.arch, options=it.options, shared_bytes=it.shared_bytes,
            )  # fmt: skip
            right = right and it.right()
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        print("error:", str(error).split(":")[0], flush=True)
    else:
        print("right" if right else "wrong", flush=True)
    os._exit(0)  # a broken context would raise in every destructor


# --- all of them ----------------------------------------------------------------------------------


def finished(command: list[str]) -> str | None:
    """What the command prints, or None if it had to be stopped."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        return process.communicate(timeout=TIMEOUT_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None


def outcome(output: str | None) -> str:
    """What the launch came to: "right", "wrong", "error: …" or "hangs"."""
    if output is None or STOPPED in output:
        return "hangs"
    outcomes = re.findall(r"^(right|wrong|error: \w+)$", output, re.M)
    return (
        outcomes[-1] if outcomes else "error: " + (output.strip().splitlines() or ["nothing"])[-1]
    )


def report(output: str | None) -> dict:
    """The number of errors that a tool reports, and its first one in its own words."""
    if output is None:
        return {"errors": 0, "first": "", "stopped": True}
    errors = re.search(r"ERROR SUMMARY: (\d+) error", output)
    hazards = re.search(r"RACECHECK SUMMARY: (\d+) hazard", output)
    count = int((hazards or errors)[1]) if hazards or errors else -1
    words = re.findall(r"^=+ (?:Error: |Warning: )?([A-Z][a-z]+ [^\n]*)", output, re.M)
    first = words[0].split(" at ")[0] if words else ""
    if STOPPED in output:  # what it had reported by then
        return {"errors": max(count, 0), "first": first if count > 0 else "", "stopped": True}
    return {"errors": count, "first": first} | ({"output": output[-2000:]} if count < 0 else {})


def alone(name: str) -> str:
    return outcome(finished([sys.executable, __file__, "--one", name]))


def under_tools(name: str) -> dict[str, dict]:
    by_tool = {}
    for tool in TOOLS:
        quiet = ["--report-api-errors", "no"] if tool == "memcheck" else []
        command = ["compute-sanitizer", "--tool", tool, "--print-limit", "3", *quiet,
                   sys.executable, __file__, "--one", name, "--fresh"]  # fmt: skip
        result = report(finished(command))
        if result["errors"] < 0:  # the tool itself failed
            result = report(finished(command))
        by_tool[tool] = result
    return by_tool


def together(run: Callable[[str], object], names: list[str]) -> Iterator[tuple[str, object]]:
    with ThreadPoolExecutor(PROCESSES) as pool:
        running = {pool.submit(run, name): name for name in names}
        for done in as_completed(running):
            yield running[done], done.result()


def recorded(names: list[str]) -> Iterator[tuple[str, dict]]:
    """What hangs comes last: while it runs it takes its share of the GPU."""
    seen = dict(together(alone, names))
    for those in (
        [n for n in names if seen[n] != "hangs"],
        [n for n in names if seen[n] == "hangs"],
    ):
        for name, tools in together(under_tools, those):
            yield name, {"alone": seen[name], "tools": tools}


def tools() -> dict[str, str]:
    version = finished(["compute-sanitizer", "--version"]) or ""
    return {"compute-sanitizer": re.search(r"Version ([\d.]+)", version)[1]}


RECORD = Record("sanitizer.json", codes, recorded, tools)


# --- the table ------------------------------------------------------------------------------------

HEADING = """\
# Planted mistakes, and what finds them

Each row is one change to a correct kernel. The kernel is a rung of the ladder with these settings,
a kernel of `ptxsim/tests/kernels/` or `tests/planted/`, or a case of
`ptxsim/hardware/record_clusters.py`, with blocks of a cluster or blocks that wait for one another.
The simulator runs the kernel with `check=True`; the column "checks" has the kinds of its findings.
It also compares the result with the right one: "verification". `tests/test_simulator_mistakes.py`
tests both columns. The last two columns are recorded: the result of the same kernels on an {gpu},
and the reports of memcheck, racecheck, initcheck and synccheck of compute-sanitizer {tool} there
({dates}).
`python benchmarks/hardware/record_sanitizer.py --table` writes this page.

{summary}

| mistake | in | checks | verification | {gpu} alone | compute-sanitizer |
|---|---|---|---|---|---|
"""


def by_sanitizer(case: dict) -> str:
    """The tools that reported something, with their words."""
    reports = [
        f"{tool}: {result['first']}" if result["first"] else tool
        for tool, result in case["tools"].items()
        if result["errors"] > 0
    ]
    return "; ".join(reports) or "–"


def table() -> str:
    """docs/mistakes.md, from the registry and the record."""
    record = RECORD.current()
    rows, by_checks, by_verification, by_tools, hidden = [], 0, 0, 0, 0
    recorded_here = sum(mistake.name in record for mistake in MISTAKES)
    for mistake in MISTAKES:
        case = record.get(mistake.name)
        checks, verified = "checks" in mistake.found_by, "verification" in mistake.found_by
        alone = case["alone"] if case else NOT_RECORDED
        sanitizer = by_sanitizer(case) if case else NOT_RECORDED
        by_checks, by_verification = by_checks + checks, by_verification + verified
        by_tools += sanitizer not in ("–", NOT_RECORDED)
        hidden += alone == "right"
        rows.append(
            f"| {mistake.name}: {mistake.what} | {mistake.of} | "
            f"{', '.join(mistake.kinds) if checks else '–'} | "
            f"{'wrong' if verified else '–'} | {alone} | {sanitizer} |"
        )
    clean = [name for name in record if name.startswith(CORRECT)]
    reported = [n.removeprefix(CORRECT) for n in clean if by_sanitizer(record[n]) != "–"]
    summary = (
        f"Of {len(MISTAKES)} mistakes, the simulator's checks find {by_checks} and verification "
        f"{by_verification}; together they find all. Of {recorded_here} recorded mistakes, "
        f"compute-sanitizer reports {by_tools}; in {hidden} cases the result on the GPU is right "
        f"in spite of the mistake. The checks have no finding in the {len(clean)} correct "
        "kernels; compute-sanitizer reports something in "
        + (", ".join(reported) if reported else "none")
        + "."
    )
    from_runs = {case["recording"] for case in record.values()}
    runs = [run for at, run in enumerate(RECORD.read()["recordings"]) if at in from_runs]
    gpu, tool, dates = (
        ", ".join(dict.fromkeys(run[fact] for run in runs))
        for fact in ("gpu", "compute-sanitizer", "recorded")
    )
    heading = HEADING.format(
        gpu=gpu, tool=tool, dates=dates,
        summary=textwrap.fill(summary, 100, break_on_hyphens=False),
    )  # fmt: skip
    return heading + "\n".join(rows) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(sys.argv[2], fresh="--fresh" in sys.argv)
    elif sys.argv[1:] == ["--table"]:
        TABLE.write_text(table(), encoding="utf-8")
    else:
        sys.exit(__doc__)
