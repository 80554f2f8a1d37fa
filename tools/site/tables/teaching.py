"""The table of docs/teaching.md: prerequisites, exercises and cost of each notebook. Markdown."""

from __future__ import annotations

import csv
import json
import re

from gemmlab.folders import NOTEBOOKS, ROOT
from gemmlab.ladder import RUNGS
from gemmlab.notebook import index, series

COSTS = ROOT / "benchmarks" / "notebook_cost.csv"  # of benchmarks/notebook_cost.py
HEADS = (
    "notebook", "read before", index.MINUTES, "exercises", "s to run", "MB", "its own GPU",
)  # fmt: skip
EXERCISES = {
    "a number": r"exercises\.check\(",
    "a kernel": r"exercises\.check_(kernel|launch)\(",
    "a function": r"exercises\.check_(?!kernel|launch)\w+\(",
    "a planted mistake": r"exercises\.(planted|forgotten|without_an_event)\(",
}


def notebooks() -> str:
    """A row for each notebook: what comes before it, minutes, exercises, what running it takes."""
    with COSTS.open(encoding="utf-8", newline="") as file:
        costs = {row["notebook"]: row for row in csv.DictReader(file)}
    rows = [HEADS, ("---", "---", "---:", "---", "---:", "---:", "---")]
    for name in (series.HOST_CODE, *series.names()):
        before = ", ".join(f"[{index.short(earlier)}](../notebooks/{earlier}.ipynb)"
                           for earlier in series.needed(name))  # fmt: skip
        cost = costs.get(name, {"processor_s": "–", "peak_mb": "–"})
        cells = (f"[{index.label(name)}](../notebooks/{name}.ipynb)", before or "–",
                 series.both_minutes(name), exercises(name), cost["processor_s"], cost["peak_mb"],
                 _gpu(name))  # fmt: skip
        rows.append(cells)
    where = ", ".join(sorted({row["processor"] for row in costs.values()}))
    days = ", ".join(sorted({row["recorded"][:10] for row in costs.values()}))
    source = f"{series.FORMULA} Seconds and MB were measured on: {where}, {days}."
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    return f"{table}\n\n{{.source}}\n{source}"


def exercises(name: str) -> str:
    """What a notebook asks for: "2 numbers, a kernel, a planted mistake"."""
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    asked = []
    for kind, call in EXERCISES.items():
        if times := sum(bool(re.search(call, text)) for text in code):
            asked.append(kind if times == 1 else f"{times} {kind.split()[-1]}s")
    return ", ".join(asked)


def _gpu(name: str) -> str:
    """Which GPU runs its kernel live; any notebook is read without one."""
    rung = {known.name: known for known in RUNGS}.get(name)
    arch = rung.needs_arch(rung.defaults) if rung else ""  # else it has no kernel of the ladder
    if arch.endswith("a"):
        return f"{arch} alone"
    return f"{arch} or newer" if arch else "any"


PARTS = {"teaching-notebooks": notebooks}
"""The parts of docs/teaching.md that are made: mark -> Markdown."""
