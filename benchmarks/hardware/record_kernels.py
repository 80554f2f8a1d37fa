"""Record on an NVIDIA GPU what tests hold the simulator's kernels and planted mistakes against.

    python benchmarks/hardware/record_kernels.py OUTDIR    writes the files of RECORDS, below
    python benchmarks/hardware/record_kernels.py --list    what is to be recorded, no more

Without OUTDIR it is the environment's $OUT. Only what is new or has changed since it was recorded
is run; the rest is kept. A run that was stopped leaves files that hold what it had recorded: put
them here, beside this file, and the next run goes on from there. At the end, too, they are put
here, and `python benchmarks/hardware/record_sanitizer.py --table` writes docs/mistakes.md.

Needs CuPy and a GPU, and ncu and compute-sanitizer on the PATH.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.extend(
    str(Path(__file__).resolve().parents[2] / folder)
    for folder in (".", "tests", "ptxsim/tests", "ptxsim/hardware")
)
import record_bulk_copies
from record_corpus import RECORD as RESULTS
from record_counters import RECORD as COUNTERS
from record_forms import RECORD as FORMS
from record_sanitizer import RECORD as SANITIZER
from recording import Record

from gemmlab.kernel.fingerprint import code_hash
from gemmlab.measure.profiler import ncu_version, profiled


def bulk_copies_codes() -> dict[str, str]:
    return {
        name: code_hash(record_bulk_copies.source([name]), {}) for name in record_bulk_copies.CASES
    }


def bulk_copies_recorded(names: list[str]) -> Iterator[tuple[str, dict]]:
    if not names:
        return
    kind, metrics = record_bulk_copies.kind, record_bulk_copies.METRICS
    wanted = [metric(of) for of in record_bulk_copies.KINDS.values() for metric in metrics.values()]
    counted = profiled(
        [record_bulk_copies.__file__, *names], "regex:^case_", len(names), wanted,
        "the cases of bulk copies",
    )  # fmt: skip
    launched = record_bulk_copies.launched(names)
    for name, copies, counters in zip(names, launched, counted, strict=True):
        of_kind = {what: counters[metric(kind(name))] for what, metric in metrics.items()}
        yield name, {"copies": copies, **of_kind}


BULK_COPIES = Record(
    Path(record_bulk_copies.__file__).parents[1] / "tests/recorded/bulk_copies.json",
    bulk_copies_codes, bulk_copies_recorded,
    lambda: {"ncu": ncu_version()},
)  # fmt: skip
RECORDS = (RESULTS, COUNTERS, FORMS, BULK_COPIES, SANITIZER)


def main(arguments: list[str]) -> None:
    if arguments == ["--list"]:
        for record in RECORDS:
            stale = record.stale()
            print(f"{record.path.name}: {len(stale)} of {len(record.codes())} to be recorded")
            print("".join(f"    {name}\n" for name in stale), end="")
        return
    folder = arguments[0] if arguments else os.environ.get("OUT")
    if folder is None or len(arguments) > 1:
        sys.exit(__doc__)
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    for record in RECORDS:
        total = len(record.stale())
        for done, name in enumerate(record.renew(out), 1):
            seconds = time.monotonic() - start
            print(f"{seconds:4.0f} s  {record.path.name} {done}/{total}  {name}", flush=True)
        print(
            f"{record.path.name}: {total} recorded, {len(record.codes()) - total} kept", flush=True
        )


if __name__ == "__main__":
    main(sys.argv[1:])
