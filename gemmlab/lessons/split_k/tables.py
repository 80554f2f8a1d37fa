"""Ways to join the parts of K, from records: their times by shape, and which of them repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab.ladder import read_settings
from gemmlab.ladder.settings import JOINS
from gemmlab.lessons.split_k.measure import joins, repeats

if TYPE_CHECKING:
    import pandas

MICROSECONDS = 1e3  # of a millisecond


def times() -> pandas.DataFrame:
    """Microseconds of a product, a row for each shape M×N×K and a column for each way to join.

    Also the tile, the parts that K is cut into, and cuBLAS. Raises what joins() raises.
    """
    table = joins()
    table["shape"] = [f"{m}×{n}×{k}" for m, n, k in table[["m", "n", "k"]].to_numpy()]
    wide = table.pivot(index="shape", columns="join", values="time_ms") * MICROSECONDS
    wide = wide.reindex(index=table["shape"].unique(), columns=[*JOINS])
    of_shape = table.groupby("shape", sort=False)
    wide["cuBLAS"] = of_shape["cublas_ms"].median() * MICROSECONDS
    settings = table.assign(**_settings(table)).groupby("shape", sort=False)
    wide.insert(0, "tile", settings["tile"].first())
    wide.insert(1, "parts", settings["parts"].max())
    wide.columns.name = None
    return wide


def _settings(table: pandas.DataFrame) -> dict[str, list]:
    every = [read_settings(text) for text in table["settings"]]
    return {
        "tile": [f"{one['BM']}×{one['BN']}" for one in every],
        "parts": [one["SPLIT"] for one in every],
    }


def bits() -> pandas.DataFrame:
    """For each way to join: runs of one product, different results, and where they differ.

    Raises what repeats() raises.
    """
    table = repeats().set_index("join").reindex(JOINS).dropna(subset="times")
    columns = {
        "times": "runs", "results": "different results", "elements": "elements that differ",
        "most_ulps": "most units in the last place",
    }  # fmt: skip
    return table[[*columns]].astype(int).rename(columns=columns)
