"""Record on an NVIDIA GPU what tests hold the simulator's kernels and planted mistakes against.

    python tests/recorded/record_kernels.py OUTDIR    writes the files of RECORDS, below
    python tests/recorded/record_kernels.py --list    what is to be recorded, and records nothing

Without OUTDIR it is the environment's $OUT. Only what is new or has changed since it was recorded
is run; the rest is kept. A run that was stopped leaves files that hold what it had recorded: put
them here, beside this file, and the next run goes on from there. At the end, too, they are put
here, and `python tests/recorded/record_sanitizer.py --table` writes docs/mistakes.md.

Needs CuPy and a GPU, and ncu and compute-sanitizer on the PATH.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from recorded.record_bulk_copies import RECORD as BULK_COPIES
from recorded.record_corpus import RECORD as RESULTS
from recorded.record_counters import RECORD as COUNTERS
from recorded.record_forms import RECORD as FORMS
from recorded.record_sanitizer import RECORD as SANITIZER

RECORDS = (RESULTS, COUNTERS, FORMS, BULK_COPIES, SANITIZER)


def main(arguments: list[str]) -> None:
    if arguments == ["--list"]:
        for record in RECORDS:
            stale = record.stale()
            print(f"{record.file}: {len(stale)} of {len(record.codes())} to be recorded")
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
            print(f"{seconds:4.0f} s  {record.file} {done}/{total}  {name}", flush=True)
        print(f"{record.file}: {total} recorded, {len(record.codes()) - total} kept", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
