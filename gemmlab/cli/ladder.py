"""ladder: every rung verified, counted, and measured or replayed, in one table."""

import argparse
import sys

from tqdm.auto import tqdm

from gemmlab.analysis import known_differences
from gemmlab.cli.common import FAILED, OK, Commands, rung_name, say
from gemmlab.cuda.device import arch_of, gpu
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import Trace
from gemmlab.ladder import RUNGS, IllegalSetting, Rung, find
from gemmlab.loading import load
from gemmlab.measure import timing
from gemmlab.records import runs
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord
from gemmlab.records.runs import device
from ptxsim.metrics import METRICS, TIMING_DEPENDENT

COUNT_SHAPE = (512, 512, 512)  # small enough for the simulator, and recorded

LEFT = ("rung", "counters", "GPU", "note")  # the others stand right
COLUMNS = {  # and how wide
    "rung": max(len(rung.name) for rung in RUNGS), "verify": 6, "sectors/load": 12, "counters": 29,
    "GFLOP/s": 9, "% of cuBLAS": 11, "GPU": 21, "recorded": 10, "note": 0,
}  # fmt: skip


def add(commands: Commands) -> None:
    parser = commands.add(
        "ladder", run, "verify every rung, count its memory accesses, time it or replay its time",
        "Prints one table, each row as soon as it is known. The counters come from the simulator "
        "and are compared with the recorded ones.",
    )  # fmt: skip
    parser.add_argument(
        "rungs", nargs="*", type=rung_name, metavar="KERNEL", help="rungs (default: all)"
    )


def run(options: argparse.Namespace) -> int:
    rungs = [find(name) for name in options.rungs] or RUNGS
    print(device())
    print(_line({name: name for name in COLUMNS}), flush=True)
    code = OK
    for rung in tqdm(rungs, desc="ladder", unit="rung", leave=False, disable=None):
        row, failed = _safe_row(rung)
        tqdm.write(_line(row))  # a line on standard output that leaves the progress bar whole
        sys.stdout.flush()
        code = FAILED if failed else code
    return code


def _line(row: dict[str, object]) -> str:
    """A row in columns, a "-" for what it does not have."""
    cells = [
        f"{row.get(name, '' if name == 'note' else '-')!s:{'<' if name in LEFT else '>'}{width}}"
        for name, width in COLUMNS.items()
    ]
    return "  ".join(cells).rstrip()


def _safe_row(rung: Rung) -> tuple[dict[str, object], bool]:
    """One row, and whether a check failed. What goes wrong with a rung is a note in its row, so
    that the others are shown."""
    row: dict[str, object] = {"rung": rung.name}
    try:
        kernel = load(rung.name)
    except IllegalSetting as error:  # nothing of it runs on this GPU
        return row | {"note": error}, False
    if kernel.note:
        row["note"] = kernel.note
    try:
        return row, _fill(row, kernel)
    except Exception as error:  # whatever it is, the rungs after it are still of use
        return row | {"note": f"{type(error).__name__}: {error}"}, True


def _fill(row: dict[str, object], kernel: Kernel) -> bool:
    """Add to a row what is found of a kernel, and say whether a check failed."""
    report = kernel.verify()
    row["verify"] = "pass" if report.passed else "FAIL"
    if not report.passed:
        return True
    trace = kernel.trace(*COUNT_SHAPE)
    loads, sectors = (trace.counters[name] for name in METRICS["global", "load"][:2])
    if loads:  # of its lanes: others copy tiles
        row["sectors/load"] = f"{sectors / loads:.2f}"
    row["counters"], failed = _against_record(kernel, trace)
    try:
        timed = runs.replay_at if gpu() is None else timing.compare
        run = timed(kernel, *runs.LARGE)
    except BadRecord:  # the first line of the output tells
        return True
    except (NoRecord, StaleRecord, timing.TimingError) as error:
        say(f"gemmlab: {error}")
        return failed
    row |= {
        "GFLOP/s": round(run.gflops), "% of cuBLAS": f"{100 * run.ratio.median:.1f}",
        "GPU": run.gpu, "recorded": run.recorded[:10],
    }  # fmt: skip
    return failed


def _against_record(kernel: Kernel, trace: Trace) -> tuple[str, bool]:
    """How the simulated counters compare with the recorded ones, and whether any differ that are
    not known to."""
    try:
        of_arch = arch_of(tuple(runs.current()["gpu"]["compute_capability"]))
        _, recorded = runs.counters_at(kernel, *COUNT_SHAPE)
    except StaleRecord:
        return "stale record", True
    except BadRecord:
        return "damaged record", True
    except NoRecord:
        return "no record", False
    if kernel.arch != of_arch:  # other instructions
        return f"no record for {kernel.arch}", False
    counters, known = trace.counters, known_differences.of(trace)
    for difference in known:
        say(f"{kernel.name}: {difference.metric}: {difference.why}")
    differ = [
        name
        for name in sorted((counters.keys() & recorded.keys()) - TIMING_DEPENDENT)
        if not known_differences.is_known(trace, name, recorded[name] - counters[name])
    ]
    for name in differ:
        say(f"{kernel.name}: {name} is {counters[name]} here, {recorded[name]} recorded")
    parts = [f"{len(differ)} differ"] if differ else []
    if known:
        parts.append(f"{len(known)} known difference" + "s" * (len(known) > 1))
    return ", ".join(parts) or "as recorded", bool(differ)
