"""The way from 10 to 22 as recorded: its steps, 22 with another loop, speeds under load, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab import ladder
from gemmlab.records.experiments import summit_steps
from gemmlab.records.experiments.summit_steps import (
    BURST,
    EVERY,
    EVIDENCE,
    IN_TURN,
    LARGE,
    REWRITTEN,
    ROADS,
    SUSTAINED,
    WAY,
    Step,
)

if TYPE_CHECKING:
    import pandas


def path(size: int) -> pandas.DataFrame:
    """For plots.path: the steps from 10 to 22 at size³, then the roads of 22 that were not taken.

    Columns: step, predicted (of which rung, and what of its settings is not the default), taken,
    TFLOP/s, % of cuBLAS, gpu, recorded. Raises what registry.Table.read raises.
    """
    return _path(size, WAY, ROADS)


def rewritten(size: int) -> pandas.DataFrame:
    """The same of 22 as ptxas leaves it, and then of each other loop of the same instructions."""
    return _path(size, WAY[-1:], REWRITTEN)


def _path(size: int, taken: tuple[Step, ...], others: tuple[Step, ...]) -> pandas.DataFrame:
    table = EVIDENCE.read()
    table = table[(table[["m", "n", "k"]] == size).all(axis=1) & (table["way"] == IN_TURN)]
    table = table.set_index("step")
    every = [step for step in (*taken, *others) if step.what in table.index]
    found = table.loc[[step.what for step in every]].reset_index()
    return found.assign(
        predicted=[_settings(step) for step in every], taken=[step in taken for step in every]
    ).rename(columns={"tflops": "TFLOP/s", "pct_cublas": "% of cuBLAS"})[
        ["step", "predicted", "taken", "TFLOP/s", "% of cuBLAS", "gpu", "recorded"]
    ]


def _settings(step: Step) -> str:
    """Which rung it is, and what is not its default."""
    changed = {
        name: value for name, value in step.full.items() if step.rung.defaults[name] != value
    }
    return f"{step.rung.name} {ladder.written(changed)}".rstrip()


def lasting() -> pandas.DataFrame:
    """Those that were timed after a pause and for seconds, a row for each way and size.

    Columns: those of summit_steps.steps, and way. Raises what registry.Table.read raises.
    """
    import pandas

    long = tuple(step for step in EVERY if step.at_length)
    parts = [summit_steps.steps(long, way).assign(way=way) for way in (BURST, SUSTAINED)]
    return pandas.concat(parts, ignore_index=True)


def errors() -> pandas.DataFrame:
    """At LARGE³: how far C lies from float64, as a share of its length, beside that of cuBLAS.

    A row for each step of the way. Raises what registry.Table.read raises.
    """
    table = EVIDENCE.read()
    table = table[(table["m"] == LARGE) & (table["way"] == IN_TURN)].set_index("step")
    names = [step.what for step in WAY if step.what in table.index]
    return table.loc[names, ["error", "cublas_error"]].rename(
        columns={"error": "relative error", "cublas_error": "that of cuBLAS"}
    )
