"""ladder: every rung verified, counted, and measured or replayed, in one table."""

from __future__ import annotations

import argparse

from gemmlab.analysis import known_differences
from gemmlab.cli.output import FAILED, OK, say
from gemmlab.cuda.device import arch_of, gpu
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import Trace
from gemmlab.ladder import RUNGS, IllegalSetting
from gemmlab.loading import load
from gemmlab.measure import timing
from gemmlab.records import runs
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord
from gemmlab.records.runs import device
from gemmlab.simulator.counters import TIMING_DEPENDENT

COUNT_SHAPE = (512, 512, 512)  # small enough for the simulator, and recorded


def run(options: argparse.Namespace) -> int:
    import pandas
    from tqdm.auto import tqdm

    print(device())
    rows, code = [], OK
    for rung in tqdm(RUNGS, desc="ladder", unit="rung", leave=False, disable=None):
        try:
            kernel = load(rung.name)
        except IllegalSetting as error:  # nothing of it runs on this GPU
            rows.append({"rung": rung.name, "note": str(error)})
            continue
        row, failed = _rung_row(kernel)
        rows.append(row | ({"note": kernel.note} if kernel.note else {}))
        code = FAILED if failed else code
    table = pandas.DataFrame(rows)
    if "note" in table:
        table["note"] = table.pop("note")  # the last column
    print(table.to_string(index=False, na_rep="-"))
    return code


def _rung_row(kernel: Kernel) -> tuple[dict[str, object], bool]:
    """One row of the table, and whether a check failed."""
    report = kernel.verify()
    row: dict[str, object] = {"rung": kernel.name, "verify": "pass" if report.passed else "FAIL"}
    if not report.passed:
        return row, True
    trace = kernel.trace(*COUNT_SHAPE)
    row["sectors/load"] = round(_sectors_per_load(trace.counters), 2)
    row["counters"], failed = _against_record(kernel, trace)
    try:
        if gpu() is None:
            run = runs.replay_at(kernel, *runs.LARGE)
        else:
            run = timing.compare(kernel, *runs.LARGE)
    except BadRecord:  # the first line of the output tells
        return row, True
    except (NoRecord, StaleRecord, timing.TimingError) as error:
        say(f"gemmlab: {error}")
        return row, failed
    row |= {
        "GFLOP/s": round(run.gflops),
        "% of cuBLAS": round(100 * run.ratio.median, 1),
        "GPU": run.gpu,
        "recorded": run.recorded[:10],
    }
    return row, failed


def _sectors_per_load(counters: dict[str, int]) -> float:
    loads = counters["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    return counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] / loads


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
    compared = (counters.keys() & recorded.keys()) - TIMING_DEPENDENT
    differ = [
        name
        for name in compared
        if not known_differences.is_known(trace, name, recorded[name] - counters[name])
    ]
    for name in sorted(differ):
        say(f"{kernel.name}: {name} is {counters[name]} here, {recorded[name]} recorded")
    found = [f"{len(differ)} differ"] if differ else []
    if known:
        found.append(f"{len(known)} known difference" + "s" * (len(known) > 1))
    return ", ".join(found) or "as recorded", bool(differ)
