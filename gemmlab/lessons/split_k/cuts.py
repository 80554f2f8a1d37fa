"""What cutting K gains, from records, beside what counting waves says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab.ladder import read_settings
from gemmlab.ladder.settings import ALONE, JOINS, STREAM_K
from gemmlab.lessons.split_k.measure import joins

if TYPE_CHECKING:
    import pandas

MIB = 2**20


def steps_of_k(tiles: int, parts: int, sm_count: int) -> float:
    """How many times K the busiest SM goes along, if blocks have an SM for themselves in turn."""
    return -(-tiles * parts // sm_count) / parts


def gains(sm_count: int) -> pandas.DataFrame:
    """A row for each shape M×N×K: how many times as fast its product is with K cut as without.

    Columns: the tile, how many tiles there are, into how many parts K is cut; MiB of A and B, and
    of all parts; the factor from `steps_of_k`, as if joining took no time; the recorded one, of the
    fastest way that cuts K into equal parts, and which way that is. Raises what joins() raises.
    """
    import pandas

    rows = {}
    for (m, n, k), own in joins().groupby(["m", "n", "k"], sort=False):
        times = own.set_index("join")["time_ms"]
        cut = times.drop([JOINS[ALONE], JOINS[STREAM_K]], errors="ignore")
        if JOINS[ALONE] not in times or cut.empty:
            continue
        settings = read_settings(own.set_index("join").loc[cut.idxmin(), "settings"])
        tiles, parts = -(-m // settings["BM"]) * -(-n // settings["BN"]), settings["SPLIT"]
        predicted = steps_of_k(tiles, 1, sm_count) / steps_of_k(tiles, parts, sm_count)
        rows[f"{m}×{n}×{k}"] = [
            f"{settings['BM']}×{settings['BN']}", tiles, parts, 4 * (m * k + k * n) / MIB,
            4 * settings["BM"] * settings["BN"] * tiles * parts / MIB, predicted,
            times[JOINS[ALONE]] / cut.min(), cut.idxmin(),
        ]  # fmt: skip
    columns = [
        "tile", "tiles", "parts", "A and B, MiB", "parts, MiB", "gain, by waves", "gain, measured",
        "fastest way",
    ]  # fmt: skip
    return pandas.DataFrame.from_dict(rows, orient="index", columns=columns)
