"""Ranks as processes that are watched: one that dies or stands still ends them all, in a sentence.

Processes are started anew (`spawn`): a GPU's context does not live through a fork.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from gemmlab.kernel.faults import GpuFault

TO_END_S = 2.0  # for a process that was told to end, before it is killed
STARTING = "its start"
KILLED = "; a process that is killed has mostly asked for more memory than there is"


class RankFailed(GpuFault):
    """A rank died, failed or stood still; the message names it, its step, and what to do."""


class Reporter:
    """What a rank tells the process that watches it."""

    def __init__(self, connection: Connection):
        self._connection = connection

    def step(self, name: str) -> None:
        """It begins this step; the time limit begins anew."""
        self._connection.send(("step", name))


def run_ranks(
    work: Callable[..., Any], arguments: Sequence[tuple], limit_s: float, start_s: float = 120.0
) -> list[Any]:
    """What work(reporter, *arguments) gives for the arguments of each rank, each in a process.

    `limit_s`: for each step that a rank reports, and to the end after the last; `start_s`: until
    the first is reported. Raises RankFailed, when no process of them is left.
    """
    context = multiprocessing.get_context("spawn")
    ranks: list[_Rank] = []
    try:
        for of_rank in arguments:
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_entry, args=(there, work, of_rank), daemon=True)
            process.start()
            there.close()
            ranks.append(_Rank(len(ranks), len(arguments), process, here))
        _watch(ranks, limit_s, start_s)
        return [rank.result for rank in ranks]
    finally:
        _end([rank.process for rank in ranks])


def _entry(connection: Connection, work: Callable[..., Any], arguments: tuple) -> None:
    """What runs in the process of a rank. The one that watches answers Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        connection.send(("done", work(Reporter(connection), *arguments)))
    except BaseException as error:
        connection.send(("error", f"{type(error).__name__}: {error}"))
    connection.close()


class _Rank:
    """A process as it is watched: its step, how many it has reported, since when, its result."""

    def __init__(self, number: int, count: int, process, connection: Connection):
        self.name, self.process, self.connection = f"rank {number}", process, connection
        self.of_all = f"{self.name} of {count}"
        self.step, self.steps, self.since = STARTING, 0, time.monotonic()
        self.done, self.result = False, None

    def hear(self) -> None:
        """Take one report. Raises RankFailed for an error, and for a process that is gone."""
        try:
            kind, content = self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join(TO_END_S)
            raise RankFailed(
                f"{self.of_all} died in {self.step!r} ({_ending(self.process.exitcode)}). The "
                "other ranks were ended. Run it again, or with less memory for each rank: more "
                "ranks, or more chunks"
            ) from None
        self.since = time.monotonic()
        if kind == "error":
            raise RankFailed(
                f"{self.of_all} failed in {self.step!r}: {content}. The other ranks were ended"
            )
        if kind == "done":
            self.done, self.result = True, content
        else:
            self.step, self.steps = content, self.steps + 1


def _watch(ranks: list[_Rank], limit_s: float, start_s: float) -> None:
    while running := [rank for rank in ranks if not rank.done]:
        # A rank that waits for another stands still too: only when no rank goes on it is too long.
        starting = any(rank.step == STARTING for rank in running)
        limit = max(limit_s, start_s) if starting else limit_s
        left = max(rank.since for rank in running) + limit - time.monotonic()
        reports = wait([rank.connection for rank in running], max(left, 0.0))
        if not reports and left <= 0:
            raise RankFailed(_stood_still(ranks, start_s if starting else limit_s))
        for rank in running:
            if rank.connection in reports:
                rank.hear()


def _ending(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"exit code {exit_code}"
    name = signal.Signals(-exit_code).name
    return f"signal {name}{KILLED if name == 'SIGKILL' else ''}"


def _stood_still(ranks: list[_Rank], limit_s: float) -> str:
    where = (f"{rank.name} {'was done' if rank.done else f'in {rank.step!r}'}" for rank in ranks)
    behind = min((r for r in ranks if not r.done), key=lambda rank: (rank.steps, rank.since))
    return (
        f"no rank went on for {limit_s:g} s: {', '.join(where)}. {behind.name.capitalize()} is the "
        "furthest behind: look there first. All ranks were ended; where a step truly takes that "
        "long, give a larger limit_s"
    )


def _end(processes: list) -> None:
    for process in processes:
        if process.is_alive():
            process.terminate()
    for process in processes:
        process.join(TO_END_S)
        if process.is_alive():
            process.kill()
            process.join()
