"""Hardware counters of a kernel, read by Nsight Compute.

counters() starts `ncu` on a child process, which runs this module: it launches the kernel exactly
once per shape, on fixed inputs, and nothing else that bears the kernel's name.

    python -m gemmlab.measure.profiler 01_naive 512x512x512 1001x777x513
"""

import argparse
import csv
import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gemmlab.files import rows_beside
from gemmlab.folders import PACKAGE
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import SIMULATED, Problem, Rung, find, settings_for
from gemmlab.ladder.launch import multiplying

TIME_LIMIT_S = 300
SEED = 7

# Those of Hopper are wgmma's and the copy engine's: older GPUs do not know them.
METRICS, TENSOR_METRICS, HOPPER_METRICS = (
    tuple(row["metric"] for row in rows_beside(__file__, "metrics.csv") if row["of"] == which)
    for which in ("every rung", "tensor cores", "Hopper")
)


class CountersUnavailable(RuntimeError):
    """Nsight Compute is missing or gave no counters; the message says what to do."""


def find_ncu() -> str | None:
    """The path of Nsight Compute's command line, on the PATH or where CUDA installs it."""
    places = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
    there = sorted(path for place in places for path in glob.glob(place))
    return shutil.which("ncu") or (there[-1] if there else None)


def ncu_version() -> str | None:
    """Nsight Compute's version, as "2025.3.1.0"; None where it is missing."""
    if (path := find_ncu()) is None:
        return None
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"^Version (\S+)", done.stdout, re.MULTILINE)
    return version[1] if version else "unknown"


def metrics_of(rung: Rung) -> tuple[str, ...]:
    """What is counted of a rung: METRICS, TENSOR_METRICS where tensor cores multiply, and
    HOPPER_METRICS where it is for Hopper alone."""
    tensor = TENSOR_METRICS if rung.precision.on_tensor_cores else ()
    hopper = HOPPER_METRICS if rung.needs_arch(rung.defaults) == "sm_90a" else ()
    return (*METRICS, *tensor, *hopper)


def counters(
    rung: Rung, settings: dict[str, int], shapes: list[tuple[int, ...]],
    metrics: Sequence[str] | None = None, path: Path | None = None,
) -> list[dict[str, int | float]]:  # fmt: skip
    """One dictionary per shape, (M, N, K) or (M, N, K, batch), of these metrics, or of
    metrics_of(rung) where none are named, for one launch at each, caches cold.

    path: of a kernel that is launched as the rung is, with settings of its own. Raises
    CountersUnavailable where ncu is missing, not allowed to read counters, or fails.
    """
    child = [
        "-m", "gemmlab.measure.profiler", rung.name,
        *("x".join(map(str, shape)) for shape in shapes),
        *(f"--set={name}={value}" for name, value in settings.items()),
        *([f"--file={path}"] if path else []),
    ]  # fmt: skip
    entry = _entries(rung, rung.defaults | settings, shapes)
    return profiled(child, entry, len(shapes), metrics or metrics_of(rung), rung.name)


def _entries(rung: Rung, settings: dict[str, int], shapes: list[tuple[int, ...]]) -> str:
    """What multiplies at the shapes, as ncu takes names: for some, rungs have another kernel."""
    ops, entries = rung.ops(settings), set()
    for shape in shapes:
        launches = rung.launches(Problem.of(shape, ops), settings, SIMULATED)
        entries.add(launches[multiplying(launches)].entry)
    return entries.pop() if len(entries) == 1 else f"regex:^({'|'.join(sorted(entries))})$"


def profiled(
    child: list[str], entry: str, count: int, metrics: Sequence[str], name: str
) -> list[dict[str, int | float]]:
    """The metrics of the `count` launches of kernel `entry` that python with the arguments `child`
    makes, caches cold; `name` is for messages. Raises CountersUnavailable, as counters() does."""
    which = ["--kernel-name", entry, "--launch-count", str(count)]
    counted_launches, message = profile(child, which, metrics, name)
    launches = [counted for _, counted in counted_launches]
    if len(launches) != count:
        raise CountersUnavailable(
            f"Nsight Compute gave counters of {len(launches)} launches of {name}, "
            f"not {count}. {message}"
        )
    return launches


def profile(
    child: list[str], which: list[str], metrics: Sequence[str], name: str
) -> tuple[list[tuple[str, dict[str, int | float]]], str]:
    """Each launch of python with the arguments `child`, as parse_csv has it, and ncu's last error.

    `which`: ncu's options that choose launches. `name` is for messages. Raises CountersUnavailable.
    """
    if (ncu := find_ncu()) is None:
        raise CountersUnavailable(
            "Nsight Compute (ncu) is not installed: it comes with the CUDA toolkit."
        )
    command = [
        ncu, "--clock-control", "none", "--csv", "--page", "details", "--print-units", "base",
        *which, "--metrics", ",".join(metrics), sys.executable, *child,
    ]  # fmt: skip
    path = os.pathsep.join(filter(None, (str(PACKAGE.parent), os.environ.get("PYTHONPATH"))))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        took = f"took more than {TIME_LIMIT_S} s for {name}"
        raise CountersUnavailable(f"Nsight Compute {took}.") from None
    if "ERR_NVGPUCTRPERM" in done.stdout + done.stderr:
        raise CountersUnavailable(
            "The driver lets only administrators read hardware counters here: run as root, or "
            "load the NVIDIA module with NVreg_RestrictProfilingToAdminUsers=0."
        )
    printed = (done.stdout + done.stderr).splitlines()
    errors = [line for line in printed if "error" in line.lower()]
    message = errors[-1] if errors else "It printed no error."
    if done.returncode != 0:
        failed = f"failed for {name} (exit status {done.returncode})"
        raise CountersUnavailable(f"Nsight Compute {failed}. {message}")
    return parse_csv(done.stdout), message


def parse_csv(text: str) -> list[tuple[str, dict[str, int | float]]]:
    """The kernel's name and the metrics of each launch, in the order of the launches.

    `text`: what `ncu --csv --page details` prints. Lines before the header (ncu's own, and the
    program's) are skipped. Values may have thousands separators. A metric that the GPU does not
    have ("n/a") is left out.
    """
    lines = text.splitlines()
    header = next((at for at, line in enumerate(lines) if line.startswith('"ID",')), None)
    if header is None:
        return []
    launches: dict[str, tuple[str, dict[str, int | float]]] = {}
    for row in csv.DictReader(line for line in lines[header:] if line.startswith('"')):
        if not row["ID"].isdigit():
            continue
        _, metrics = launches.setdefault(row["ID"], (row["Kernel Name"], {}))
        try:
            value = float(row["Metric Value"].replace(",", ""))
        except ValueError:  # "n/a"
            continue
        metrics[row["Metric Name"]] = int(value) if value.is_integer() else value
    return [launches[key] for key in sorted(launches, key=int)]


def main(arguments: list[str] | None = None) -> None:
    """Launch one rung once per shape; this is what runs under ncu."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("rung")
    parser.add_argument("shapes", nargs="+", help="MxNxK, or MxNxKxBATCH")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--file", type=Path, help="a kernel that is launched as the rung is")
    options = parser.parse_args(arguments)
    settings = {name: int(value) for name, value in (text.split("=") for text in options.set)}
    rung = find(options.rung)
    settings = rung.defaults | settings if options.file else settings_for(rung, settings)
    kernel = Kernel(rung, settings, None, options.file or rung.path)
    for shape in options.shapes:
        problem = kernel.problem(*map(int, shape.split("x")))
        placed = kernel.operands(problem, SEED).changed(kernel.to_device)
        kernel.launch(placed, 1.0, 0.0)
        kernel.to_host(placed.C)  # waits


if __name__ == "__main__":
    main()
