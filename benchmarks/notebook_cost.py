"""What a notebook costs that is run from top to bottom without a GPU: processor time and memory.

    python benchmarks/notebook_cost.py [PART OF A NAME …]

Writes benchmarks/notebook_cost.csv, of which docs/teaching.md is made; other rows of it stay.
A row for each notebook:

    processor_s    seconds of one core, of Jupyter and the kernel together
    peak_mb        the most memory of any one process: that of the kernel
    processor, python, recorded

Nothing is written into the notebooks. Needs NVRTC and Linux, and no GPU.
"""

from __future__ import annotations

import csv
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from tqdm import tqdm

from gemmlab import files
from gemmlab.folders import NOTEBOOKS, ROOT
from gemmlab.measure.timing import now

TABLE = Path(__file__).with_suffix(".csv")
COLUMNS = "notebook", "processor_s", "peak_mb", "processor", "python", "recorded"


def cost(path: Path) -> tuple[float, float]:
    """Seconds of one core and MB (10⁶ bytes) of the largest process. Raises CalledProcessError."""
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--stdout", path]
    environment = {
        **os.environ,
        "GEMMLAB_DEVICE": "simulator",
        "JUPYTER_CONFIG_PATH": str(ROOT / "requirements" / "jupyter"),
        "JUPYTER_PREFER_ENV_PATH": "1",
    }
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)  # with all processes that it waited for
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def processor() -> str:
    """The name of this machine's processor."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    line = re.search(r"model name\s*: (.*)", text)
    return line[1] if line else platform.machine()


def main(parts: list[str]) -> None:
    rows = {}
    if TABLE.is_file():
        with TABLE.open(encoding="utf-8", newline="") as file:
            rows = {row["notebook"]: row for row in csv.DictReader(file)}
    chosen = [path for path in sorted(NOTEBOOKS.glob("*.ipynb"))
              if not parts or any(part in path.stem for part in parts)]  # fmt: skip
    here = {"processor": processor(), "python": platform.python_version()}
    for path in tqdm(chosen, unit="notebook"):
        seconds, megabytes = cost(path)
        rows[path.stem] = {
            "notebook": path.stem, "processor_s": f"{seconds:.0f}", "peak_mb": f"{megabytes:.0f}",
            **here, "recorded": now(),
        }  # fmt: skip
        there = [
            row for name, row in sorted(rows.items()) if (NOTEBOOKS / f"{name}.ipynb").is_file()
        ]
        lines = [",".join(COLUMNS), *(",".join(row[column] for column in COLUMNS) for row in there)]
        files.write(TABLE, ("\n".join(lines) + "\n").encode())


if __name__ == "__main__":
    main(sys.argv[1:])
