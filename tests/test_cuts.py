"""What cutting K gains: counted waves beside recorded times."""

import pandas

from gemmlab.ladder.settings import ALONE, ATOMICS, CLUSTER, JOINS, STREAM_K
from gemmlab.lessons.split_k import tables as cuts


def test_the_gain_is_that_of_the_fastest_way_with_equal_parts(monkeypatch):
    def row(shape, join, time_ms, parts):
        sizes = dict(zip("mnk", shape, strict=True))
        settings = f"BM=64 BN=64 SPLIT={parts}"
        return sizes | {"join": JOINS[join], "time_ms": time_ms, "settings": settings}

    deep, square = (64, 128, 4096), (640, 640, 640)
    rows = [
        row(deep, ALONE, 8.0, 1), row(deep, ATOMICS, 3.0, 4), row(deep, CLUSTER, 2.0, 4),
        row(deep, STREAM_K, 1.0, 1), row(square, ALONE, 5.0, 1), row(square, CLUSTER, 4.0, 2),
        row((64, 64, 64), STREAM_K, 1.0, 1),
    ]  # fmt: skip
    monkeypatch.setattr(cuts, "joins", lambda: pandas.DataFrame(rows))
    table = cuts.gains(sm_count=50)
    assert table.index.tolist() == ["64×128×4096", "640×640×640"]
    assert table.loc["64×128×4096"].tolist() == [
        "64×64", 2, 4, 3.0, 0.125, 4.0, 4.0, JOINS[CLUSTER],
    ]  # fmt: skip
    square = table.loc["640×640×640"]
    assert square[["tile", "tiles", "parts"]].tolist() == ["64×64", 100, 2]
    assert square["A and B, MiB"] == square["parts, MiB"] == 2 * 4 * 640 * 640 / 2**20
    assert square[["gain, by waves", "gain, measured"]].tolist() == [1.0, 1.25]
