"""The table of docs/speeds.md: every recorded speed of a rung beside cuBLAS, and all files."""

from __future__ import annotations

import html
from collections.abc import Iterator
from itertools import chain

from gemmlab.folders import RESULTS, ROOT
from gemmlab.ladder import RUNGS, Rung, read_settings, written
from gemmlab.records import best_by_shape, registry, runs
from gemmlab.records.registry import NoRecord, StaleRecord

HEADS = ("rung", "M×N×K", "type", "TFLOP/s", "% of cuBLAS", "GPU", "recorded", "settings")
NUMBERS = (3, 4)  # columns that stand right


def table() -> str:
    """HTML with a row for each recorded time, as gemmlab.records reads them.

    site.js sorts it. A record that is stale is named below the table. Raises BadRecord.
    """
    rows, refused = [], []
    for slug in registry.gpus():
        with registry.records_of(slug):
            for read in (_defaults, _for_shapes):
                for rung in RUNGS:
                    try:
                        rows += read(rung)
                    except NoRecord:
                        continue
                    except StaleRecord as error:
                        refused.append(str(error))
    head = "".join(f'<th scope="col">{name}</th>' for name in HEADS)
    body = "\n".join(f"<tr>{''.join(map(_cell, range(len(HEADS)), row))}</tr>" for row in rows)
    return "\n".join([
        f'```{{raw}} html\n<div class="table-wrapper" role="region" aria-label="Recorded speeds">'
        f'<table class="sortable"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>'
        "</div>\n```",
        *(f"\nLeft out: {sentence}" for sentence in dict.fromkeys(refused)),
    ])  # fmt: skip


def _cell(column: int, text: str) -> str:
    look = ' class="number"' if column in NUMBERS else ""
    link = f'<a href="../notebooks/{text}.ipynb">{text}</a>' if column == 0 else html.escape(text)
    return f"<td{look}>{link}</td>"


def _defaults(rung: Rung) -> Iterator[tuple[str, ...]]:
    """The rung as it is in its file, at all shapes."""
    settings = runs.entry(runs.Measured(rung))["settings"]
    for run in runs.replay(runs.Measured(rung)):
        yield (
            rung.name, str(run.problem), run.dtype, f"{run.gflops / 1e3:.2f}",
            f"{100 * run.ratio.median:.1f}", run.gpu, run.recorded[:10], written(settings),
        )  # fmt: skip


def _for_shapes(rung: Rung) -> Iterator[tuple[str, ...]]:
    """The rung with the settings that a sweep found for each shape, in turn with cuBLAS."""
    recorded = best_by_shape.evidence(rung).read()
    for row in recorded[recorded["way"] == "in turn"].itertuples():
        problem = runs.Problem(row.m, row.n, row.k, row.batch, row.ops)
        dtype = rung.precision_of(rung.defaults | read_settings(row.settings)).name
        yield (
            rung.name, str(problem), dtype, f"{row.tflops:.2f}", f"{row.pct_cublas:.1f}",
            row.gpu, row.recorded[:10], row.settings,
        )  # fmt: skip


def files() -> str:
    """A list with all files of records, of each GPU."""
    lines = []
    for slug in registry.gpus():
        paths = sorted(chain((RESULTS / slug).glob("*.*"), (RESULTS / slug).glob("tuning/*.csv")))
        links = (
            f"[{path.relative_to(RESULTS / slug)}](../{path.relative_to(ROOT)})" for path in paths
        )
        lines.append(f"- **{slug}**: {', '.join(links)}")
    return "\n".join(lines)
