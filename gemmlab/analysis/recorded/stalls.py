"""What the warps of a rung waited for, as recorded: the share of each reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab import ladder
from gemmlab.ladder import Problem
from gemmlab.records import runs
from gemmlab.records import stalls as recorded
from gemmlab.records.registry import NoRecord
from gemmlab.records.tuning import SIZES, sizes_of

if TYPE_CHECKING:
    import pandas

LEAST = 1.0  # percent: what is less in every column is summed up as the rest
REST = "the rest"
WORDS = "what it is, or what a warp waits for"
OF_A_SCHEDULER = ("% of its cycles start an instruction", "a number: how many it had on average")


def stalls(*names: str, shape: tuple[int, ...] = runs.LARGE) -> pandas.DataFrame:
    """What the warps of rungs did in a cycle, at one recorded shape, a column for each rung.

    shape: (M, N, K), or (M, N, K, batch).

    First "issue active": the cycles of a scheduler in which it started an instruction, in percent;
    and how many warps a scheduler had. Then each reason of Nsight Compute, in percent of the cycles
    of all warps, the most frequent of the last rung first; WORDS says it in words, which are others
    where all rungs multiply by wgmma. Reasons below 1 % in every rung are the rest. Raises
    LadderError, NoRecord, StaleRecord, BadRecord.
    """
    import pandas

    rows = {name: row(ladder.find(name), shape) for name in names}
    reasons = list(recorded.REASONS)
    per_issue = pandas.DataFrame({name: one[reasons] for name, one in rows.items()}).fillna(0.0)
    shares = 100 * per_issue.astype(float) / per_issue.sum()
    large = shares[(shares >= LEAST).any(axis=1)].sort_values(names[-1], ascending=False)
    issues = pandas.Series({name: one["issue_active_pct"] for name, one in rows.items()})
    table = pandas.concat([
        pandas.DataFrame({
            "issue active": issues, "warps of a scheduler": per_issue.sum() * issues / 100,
        }).T,
        large.rename(lambda reason: reason.replace("_", " ")),
        pandas.DataFrame({REST: shares.drop(large.index).sum()}).T,
    ])  # fmt: skip
    by_wgmma = all(ladder.find(name).by_wgmma for name in names)
    meaning = recorded.REASONS | (recorded.OF_WGMMA if by_wgmma else {})
    words = [*OF_A_SCHEDULER, *map(meaning.get, large.index), ""]
    return table.astype(float).round(1).assign(**{WORDS: words})


def row(rung: ladder.Rung, shape: tuple[int, ...]) -> pandas.Series:
    """The recorded row of a rung at (M, N, K), or (M, N, K, batch); see records.stalls.COLUMNS.

    Raises NoRecord, naming the shapes that are recorded, StaleRecord, BadRecord.
    """
    table = recorded.evidence(rung).read()
    sizes = table[list(SIZES)]
    found = table[(sizes == list(sizes_of(shape))).all(axis=1)]
    if found.empty:
        there = ", ".join(str(Problem(*one)) for one in sizes.to_numpy().tolist())
        raise NoRecord(
            f"{rung.name}: no stall reasons were recorded at {shape}; there are: {there}."
        )
    return found.iloc[0]
