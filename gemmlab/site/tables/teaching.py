"""What docs/teaching.md only names by a mark: what notebooks need and cost, lesson plans, mistakes.

Each is Markdown, made of the notebooks, the records of this repository, and the plans below.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gemmlab.folders import NOTEBOOKS, ROOT
from gemmlab.ladder import RUNGS
from gemmlab.notebook import chapters, index, reading

COSTS = ROOT / "benchmarks" / "notebook_cost.csv"  # of benchmarks/notebook_cost.py
MISTAKES = ROOT / "docs" / "mistakes.md"
CLASS = 30  # students, for whom memory is added up
MB_OF_GB = 1000


@dataclass(frozen=True)
class Session:
    """A part of a plan: the notebooks that are read, and what is shown or done with them."""

    title: str
    notebooks: tuple[str, ...]
    work: str


# Of each plan what to do with which notebooks; how long they take is computed.
PLANS = {
    "lecture": (
        Session("Launch, and two roofs", ("host_code", "00_ceilings"),
                "the program in C++ and Python side by side; the two ceilings and the ridge "
                "between them"),
        Session("One thread, one element", ("01_naive",),
                "let the hall predict the sectors of a warp's load, then run the cell that counts"),
        Session("A warp along a row", ("02_coalescing",),
                "the same question again; then the chart of both kernels"),
        Session("Share a tile", ("03_shared_memory",),
                "the sliders; leave a barrier out with `%%kernel`, and see which check notices"),
    ),
    "day": (
        Session("Morning 1", ("host_code", "00_ceilings", "01_naive"),
                "predict, run, compare; write the kernel of 01"),
        Session("Morning 2", ("02_coalescing", "03_shared_memory"),
                "write the tiled kernel from its stub; find the planted mistake"),
        Session("Afternoon 1", ("04_thread_tile_1d", "05_thread_tile_2d"),
                "write the outer product; with the sliders, find the best tile, and say why"),
        Session("Afternoon 2", ("06_vectorized_loads", "07_bank_conflicts"),
                "write the cures of 07, whose check counts the conflicts that are left"),
    ),
    "course": (
        Session("Week 1: memory", ("host_code", "00_ceilings", "01_naive", "02_coalescing"),
                "hand in: predictions with a sentence each, the kernels of 01 and 02"),
        Session("Week 2: tiles", ("03_shared_memory", "04_thread_tile_1d", "05_thread_tile_2d"),
                "hand in: the three kernels; both planted mistakes, with what showed them"),
        Session("Week 3: banks and warps",
                ("06_vectorized_loads", "07_bank_conflicts", "08_warp_tiling"),
                "hand in: the three kernels; of 07 one that passes the count of conflicts"),
        Session("Week 4: latency",
                ("09_double_buffering", "10_register_banks", "11_fused_epilogue"),
                "hand in: the three kernels; a page on what held 08, 09 and 10, by their stalls"),
        Session("Week 5: other shapes", ("12_split_k", "13_batched"),
                "hand in: both kernels; which rung for ten shapes, and why, from the records"),
        Session("Week 6: tensor cores", ("14_wmma", "15_mma_sync"),
                "hand in: both kernels; a project: a change of a rung with `%%kernel`, predicted, "
                "counted, explained. 16 and on are for those who want more"),
    ),
}  # fmt: skip

# Groups of mistakes, by what the simulator's checks call them; the first that fits counts.
KINDS = {
    "accesses out of bounds, or not aligned": r"out-of-bounds|misaligned",
    "reads of what nobody wrote": r"uninitialised",
    "barriers: missing for some, doubled, or never reached": r"barrier|deadlock|divergent|wait in",
    "races, and copies or products still in flight": r"race|flight|fence|source|bytes|overflow",
    "blocks of a cluster": r"block|cluster",
    "in order, and wrong all the same": r"^–$",
}


def notebooks() -> str:
    """A row for each notebook: what comes before it, minutes, exercises, what running it takes."""
    costs = _costs()
    rows = []
    for name in _names():
        before = ", ".join(f"[{index.short(one)}](../notebooks/{one}.ipynb)"
                           for one in reading.needed(name))  # fmt: skip
        cost = costs.get(name)
        spent = (cost["processor_s"], cost["peak_mb"]) if cost else ("–", "–")
        cells = (f"[{index.label(name)}](../notebooks/{name}.ipynb)", before or "–",
                 str(reading.minutes(name)), exercises(name), *spent, _gpu(name))  # fmt: skip
        rows.append(cells)
    heads = ("notebook", "read before", "minutes", "exercises", "s to run", "MB", "its own GPU")
    return "\n\n".join((_table(heads, rows, (2, 4, 5)), f"{{.source}}\n{reading.FORMULA}"))


def exercises(name: str) -> str:
    """What a notebook asks for: "2 numbers, a kernel, a planted mistake"."""
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    kinds = {
        "a number": r"exercises\.check\(",
        "a kernel": r"exercises\.check_(kernel|launch)\(",
        "a function": r"exercises\.check_(?!kernel|launch)\w+\(",
        "a planted mistake": r"exercises\.(planted|forgotten|without_an_event)\(",
    }
    found = []
    for one, call in kinds.items():
        if times := sum(bool(re.search(call, text)) for text in code):
            found.append(one if times == 1 else f"{times} {one.split()[-1]}s")
    return ", ".join(found)


def plan(name: str) -> str:
    """A table of the sessions of PLANS[name], with the minutes that reading them takes."""
    rows, total = [], 0
    for session in PLANS[name]:
        minutes = sum(map(reading.minutes, session.notebooks))
        total += minutes
        links = ", ".join(
            f"[{index.short(one)}](../notebooks/{one}.ipynb)" for one in session.notebooks
        )
        rows.append((session.title, links, str(minutes), session.work))
    rows.append(("**in all**", "", f"**{total}**", ""))
    return _table(("part", "notebooks", "minutes to read", "show and do"), rows, (2,))


def machine() -> str:
    """Memory, processor and disk for a class, from COSTS and requirements/install.py."""
    costs = list(_costs().values())
    seconds, megabytes = ([float(row[one]) for row in costs] for one in ("processor_s", "peak_mb"))
    largest = max(megabytes)
    where = {row["processor"] for row in costs}
    disk = _install().DISK_SPACE
    return (
        f"Run from top to bottom without a GPU, a notebook takes {min(seconds):.0f} to "
        f"{max(seconds):.0f} seconds of one core and up to {largest:,.0f} MB of memory in its "
        f"largest process, Jupyter's kernel ({', '.join(sorted(where))}, "
        f"{min(row['recorded'] for row in costs)[:10]}; `benchmarks/notebook_cost.py` measures it "
        f"anew). It keeps its memory until it is shut down. For {CLASS} students, each with "
        f"one notebook open, that is up to {CLASS * largest / MB_OF_GB:.0f} GB, and JupyterLab's. "
        f"The environment takes {disk['none']} of disk without a GPU, {disk['cuda13']} with one."
    )


def mistakes() -> str:
    """What goes wrong in kernels, by kind: how often it is planted here, and who finds it."""
    counted = {kind: [0, 0, 0, 0] for kind in KINDS}
    for row in _mistakes():
        group = counted[_kind(row["checks"])]
        for at, one in enumerate((True, row["checks"] != "–", row["verification"] == "wrong",
                                  row["alone"] == "right")):  # fmt: skip
            group[at] += one
    rows = [(kind, *map(str, numbers)) for kind, numbers in counted.items()]
    heads = ("kind", "planted", "`kernel.check()` finds", "`kernel.verify()` finds",
             "right all the same on a GPU")  # fmt: skip
    return _table(heads, rows, (1, 2, 3, 4))


def _kind(checks: str) -> str:
    return next(kind for kind, pattern in KINDS.items() if re.search(pattern, checks))


def _mistakes() -> list[dict[str, str]]:
    """The rows of docs/mistakes.md."""
    lines = [line.strip("| \n").split(" | ") for line in MISTAKES.read_text("utf-8").splitlines()
             if line.startswith("| ")]  # fmt: skip
    names = ("mistake", "in", "checks", "verification", "alone", "sanitizer")
    rows = [dict(zip(names, cells, strict=True)) for cells in lines]
    return [row for row in rows[1:] if not row["mistake"].startswith("---")]


def _names() -> list[str]:
    return [reading.HOST_CODE, *chapters.names()]


def _costs() -> dict[str, dict[str, str]]:
    with COSTS.open(encoding="utf-8", newline="") as file:
        return {row["notebook"]: row for row in csv.DictReader(file)}


def _gpu(name: str) -> str:
    """Which GPU runs its kernel live; any notebook is read without one."""
    rung = {one.name: one for one in RUNGS}.get(name)
    if rung is None:  # it has no kernel of the ladder
        return "any"
    arch = rung.needs_arch(rung.defaults)
    if arch.endswith("a"):
        return f"{arch} alone"
    return f"{arch} or newer" if arch else "any"


def _install():
    path = ROOT / "requirements" / "install.py"
    spec = importlib.util.spec_from_file_location("gemmlab_install", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]], numbers: tuple[int, ...]) -> str:
    rule = ["---:" if at in numbers else "---" for at in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))


PARTS: dict[str, Callable[[], str]] = {
    "teaching-notebooks": notebooks,
    **{f"teaching-{name}": partial(plan, name) for name in PLANS},
    "teaching-machine": machine,
    "teaching-mistakes": mistakes,
}
"""The parts of docs/teaching.md that are made: mark -> Markdown."""
