"""Results that published ladders of the same kernels report, to compare with ours.

results/sources.csv holds it. Each compares with cuBLAS on its own GPU. Where a table has GFLOP/s
alone, the share is their quotient by its own cuBLAS row.
"""

import pandas

from gemmlab.folders import RESULTS
from gemmlab.records.registry import POSITIVE, SIZE, TEXT, parsed, text_of

PATH = RESULTS / "sources.csv"
COLUMNS = {
    **TEXT("name", "url", "rung", "step", "gpu"), **SIZE("m", "n", "k"), **POSITIVE("pct_cublas"),
}  # fmt: skip


def shares() -> pandas.DataFrame:
    """The shares that others report, a row for each step of each source.

    Columns: name and url of the source; rung, ours that takes the same step; step, as the source
    calls it; gpu; m, n, k; pct_cublas; and source, its name, the GPU and M×N×K.
    """
    table = parsed(text_of(PATH), PATH, COLUMNS)
    rows = table.itertuples(index=False)
    return table.assign(source=[f"{row.name}, {row.gpu}, {row.m}×{row.n}×{row.k}" for row in rows])


def links() -> str:
    """The sources by name, as Markdown links."""
    each = shares()[["name", "url"]].drop_duplicates()
    return ", ".join(f"[{row.name}]({row.url})" for row in each.itertuples(index=False))
