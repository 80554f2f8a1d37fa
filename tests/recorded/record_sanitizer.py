"""Record what an NVIDIA GPU and compute-sanitizer make of the mistakes of tests/mistakes.py.

    python tests/recorded/record_sanitizer.py OUTDIR     writes OUTDIR/sanitizer.json
    python tests/recorded/record_sanitizer.py --table    writes docs/mistakes.md from the record

Every mistake, and every kernel without one, runs alone and under memcheck, racecheck, initcheck and
synccheck, each time in a process of its own: an error takes the whole CUDA context with it, and a
kernel that hangs has to be killed. Needs CuPy and a GPU, and compute-sanitizer on the PATH.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import mistakes
from mistakes import MISTAKES, Mistake

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TIMEOUT_S = 15
CORRECT = "correct: "  # before the name of a kernel without a mistake
TABLE = ROOT / "docs" / "mistakes.md"


def cases() -> dict[str, Mistake]:
    """Each mistake by its name, and each kernel without one."""
    found = {one.name: one for one in MISTAKES}
    for one in MISTAKES:
        found.setdefault(CORRECT + one.of, mistakes.correct(one))
    return found


def key(mistake: Mistake) -> str:
    """A fingerprint of what is launched."""
    kernel = mistakes.base(mistake.of)
    settings = getattr(kernel, "settings", {})
    launch = (mistakes.planted(mistake), sorted(settings.items()), mistake.change,
              mistakes.shapes(kernel, mistake))  # fmt: skip
    return "sha256:" + hashlib.sha256(repr(launch).encode()).hexdigest()


# --- one process ----------------------------------------------------------------------------------


def run_one(name: str, fresh: bool) -> None:
    """Launch a case at all its shapes and print "right", "wrong" or "error: …".

    `fresh`: a C that is not to be read is left as it was allocated, instead of holding NaN.
    """
    import cupy

    from gemmlab.simulator.nvrtc import COMMON_OPTIONS

    cupy.cuda.set_allocator(None)  # arrays end where their allocation ends
    mistake = cases()[name]
    right = True
    try:
        for shape in mistakes.shapes(mistakes.base(mistake.of), mistake):
            it = mistakes.prepare(mistake, shape)
            options = (f"-arch={it.arch}", *COMMON_OPTIONS, *it.options)
            kernel = cupy.RawModule(code=it.source, options=options).get_function(it.entry)
            if it.shared_bytes:
                kernel.max_dynamic_shared_size_bytes = it.shared_bytes
            given = [_argument(arg, fresh and i in it.empty) for i, arg in enumerate(it.args)]
            kernel(it.grid, it.block, tuple(given), shared_mem=it.shared_bytes)
            cupy.cuda.runtime.deviceSynchronize()
            for arg, on_gpu in zip(it.args, given, strict=True):
                if isinstance(arg, np.ndarray):
                    arg[...] = cupy.asnumpy(on_gpu)
            right = right and it.right()
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        print("error:", str(error).split(":")[0], flush=True)
    else:
        print("right" if right else "wrong", flush=True)
    os._exit(0)  # a broken context would raise in every destructor


def _argument(arg, fresh: bool):
    import cupy

    if fresh:
        return cupy.empty(arg.shape, arg.dtype)
    if isinstance(arg, np.ndarray):
        return cupy.asarray(arg)
    return np.float32(arg) if isinstance(arg, float) else np.int32(arg)


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
    if output is None:
        return "hangs"
    found = re.findall(r"^(right|wrong|error: \w+)$", output, re.M)
    return found[-1] if found else "error: " + (output.strip().splitlines() or ["nothing"])[-1]


def report(output: str | None) -> dict:
    """The number of errors that a tool reports, and its first one in its own words."""
    if output is None:
        return {"errors": 0, "first": "", "stopped": True}
    errors = re.search(r"ERROR SUMMARY: (\d+) error", output)
    hazards = re.search(r"RACECHECK SUMMARY: (\d+) hazard", output)
    count = int((hazards or errors)[1]) if hazards or errors else -1
    words = re.findall(r"^=+ (?:Error: |Warning: )?([A-Z][a-z]+ [^\n]*)", output, re.M)
    first = words[0].split(" at ")[0] if words else ""
    return {"errors": count, "first": first} | ({"output": output[-2000:]} if count < 0 else {})


def record_one(name: str) -> dict:
    one = [sys.executable, __file__, "--one", name]
    found = {"code": key(cases()[name]), "alone": outcome(finished(one)), "tools": {}}
    for tool in TOOLS:
        quiet = ["--report-api-errors", "no"] if tool == "memcheck" else []
        command = [
            "compute-sanitizer",
            "--tool",
            tool,
            "--print-limit",
            "3",
            *quiet,
            *one,
            "--fresh",
        ]
        result = report(finished(command))
        if result["errors"] < 0:  # the tool itself failed
            result = report(finished(command))
        found["tools"][tool] = result
    print(name, found["alone"], {t: r["errors"] for t, r in found["tools"].items()}, flush=True)
    return found


def provenance() -> dict[str, str]:
    import cupy

    from gemmlab.device import require_gpu

    here = require_gpu("Recording")
    version = finished(["compute-sanitizer", "--version"]) or ""
    return {
        "gpu": here.name,
        "driver": here.driver,
        "nvrtc": ".".join(str(part) for part in cupy.cuda.nvrtc.getVersion()),
        "compute-sanitizer": re.search(r"Version ([\d.]+)", version)[1],
        "recorded": date.today().isoformat(),
        "command": "python tests/recorded/record_sanitizer.py OUTDIR",
    }


def record(out: Path) -> None:
    """Run all cases that are new or have changed since the record; the others are kept."""
    try:
        kept = json.loads((HERE / "sanitizer.json").read_text(encoding="utf-8"))["cases"]
    except FileNotFoundError:
        kept = {}
    every = cases()
    kept = {name: case for name, case in kept.items()
            if name in every and case["code"] == key(every[name])}  # fmt: skip
    names = [name for name in every if name not in kept]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        new = dict(zip(names, pool.map(record_one, names), strict=True))
    found = {"provenance": provenance(), "cases": {name: (kept | new)[name] for name in every}}
    text = json.dumps(found, indent=1, ensure_ascii=False)
    (out / "sanitizer.json").write_text(text + "\n", encoding="utf-8")


# --- the table ------------------------------------------------------------------------------------

HEADING = """\
# Planted mistakes: who finds them

Each row is one change to a correct kernel of `tests/corpus.py` or `tests/mistakes.py`. The
simulator runs it with `check=True` (the column "checks": what its findings are called), and
compares the result with float64 ("verification"); `tests/test_simulator_mistakes.py` holds both
columns to what happens. The last two columns are recorded: the same kernels alone on an {gpu},
and there under memcheck, racecheck, initcheck and synccheck of compute-sanitizer {tool}
({recorded}). Made by `python tests/recorded/record_sanitizer.py --table`.

{summary}

| mistake | in | checks | verification | {gpu} alone | compute-sanitizer |
|---|---|---|---|---|---|
"""


def by_sanitizer(case: dict) -> str:
    """The tools that reported something, with their words."""
    found = [
        f"{tool}: {result['first']}" if result["first"] else tool
        for tool, result in case["tools"].items()
        if result["errors"] > 0
    ]
    return "; ".join(found) or "–"


def table() -> str:
    """docs/mistakes.md, from the registry and the record."""
    recorded = json.loads((HERE / "sanitizer.json").read_text(encoding="utf-8"))
    found = recorded["cases"]
    rows, by_checks, by_verification, by_tools, hidden = [], 0, 0, 0, 0
    for one in MISTAKES:
        case = found[one.name]
        checks, verified = "checks" in one.found_by, "verification" in one.found_by
        sanitizer = by_sanitizer(case)
        by_checks, by_verification = by_checks + checks, by_verification + verified
        by_tools += sanitizer != "–"
        hidden += case["alone"] == "right"
        rows.append(
            f"| {one.name}: {one.what} | {one.of} | {', '.join(one.kinds) if checks else '–'} | "
            f"{'wrong' if verified else '–'} | {case['alone']} | {sanitizer} |"
        )
    clean = [name for name in found if name.startswith(CORRECT)]
    reported = [n.removeprefix(CORRECT) for n in clean if by_sanitizer(found[n]) != "–"]
    summary = (
        f"Of {len(MISTAKES)} mistakes the simulator's checks find {by_checks} and verification "
        f"{by_verification}; together they find all. compute-sanitizer reports {by_tools}. On the "
        f"GPU alone the result of {hidden} is right all the same. Of the {len(clean)} correct "
        "kernels the checks report none, and compute-sanitizer reports "
        + (", ".join(reported) if reported else "none")
        + "."
    )
    origin = recorded["provenance"]
    heading = HEADING.format(
        gpu=origin["gpu"], tool=origin["compute-sanitizer"], recorded=origin["recorded"],
        summary=textwrap.fill(summary, 100, break_on_hyphens=False),
    )  # fmt: skip
    return heading + "\n".join(rows) + "\n"


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        run_one(sys.argv[2], fresh="--fresh" in sys.argv)
    elif sys.argv[1] == "--table":
        TABLE.parent.mkdir(exist_ok=True)
        TABLE.write_text(table(), encoding="utf-8")
    else:
        record(Path(sys.argv[1]))
