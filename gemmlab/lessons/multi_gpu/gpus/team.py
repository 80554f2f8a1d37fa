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
    ranks = []
    try:
        for own in arguments:
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_entry, args=(there, work, own), daemon=True)
            process.start()
            there.close()
            ranks.append(_Rank(process, here))
        _watch(ranks, limit_s, start_s)
        return [one.result for one in ranks]
    finally:
        _end([one.process for one in ranks])


class _Rank:
    def __init__(self, process, connection: Connection):
        self.process, self.connection = process, connection
        self.step, self.steps, self.since = STARTING, 0, time.monotonic()
        self.done, self.result = False, None


def _entry(connection: Connection, work: Callable[..., Any], arguments: tuple) -> None:
    """What runs in the process of a rank. The one that watches answers Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        connection.send(("done", work(Reporter(connection), *arguments)))
    except BaseException as error:
        connection.send(("error", f"{type(error).__name__}: {error}"))
    connection.close()


def _watch(ranks: list[_Rank], limit_s: float, start_s: float) -> None:
    while not all(one.done for one in ranks):
        running = [one for one in ranks if not one.done]
        # A rank that waits for another stands still too: only when no rank goes on it is too long.
        last = max(running, key=lambda one: one.since)
        starting = any(one.step == STARTING for one in running)
        left = last.since + (max(limit_s, start_s) if starting else limit_s) - time.monotonic()
        heard = wait([one.connection for one in running], max(left, 0.0))
        if not heard and left <= 0:
            raise RankFailed(_stood_still(ranks, start_s if starting else limit_s))
        for rank, one in enumerate(ranks):
            if one.connection in heard:
                _hear(rank, one, len(ranks))


def _hear(rank: int, one: _Rank, count: int) -> None:
    try:
        kind, what = one.connection.recv()
    except (EOFError, ConnectionError):
        one.process.join(TO_END_S)
        raise RankFailed(
            f"rank {rank} of {count} died in {one.step!r} ({_how(one.process.exitcode)}). The "
            "other ranks were ended. Run it again, or with less memory for each rank: more ranks, "
            "or more chunks"
        ) from None
    one.since = time.monotonic()
    if kind == "error":
        raise RankFailed(
            f"rank {rank} of {count} failed in {one.step!r}: {what}. The other ranks were ended"
        )
    if kind == "done":
        one.done, one.result = True, what
    else:
        one.step, one.steps = what, one.steps + 1


def _how(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"exit code {exit_code}"
    name = signal.Signals(-exit_code).name
    return f"signal {name}{KILLED if name == 'SIGKILL' else ''}"


def _stood_still(ranks: list[_Rank], limit_s: float) -> str:
    running = [one for one in ranks if not one.done]
    behind = min(running, key=lambda one: (one.steps, one.since))
    where = ", ".join(
        f"rank {rank} {'was done' if one.done else f'in {one.step!r}'}"
        for rank, one in enumerate(ranks)
    )
    return (
        f"no rank went on for {limit_s:g} s: {where}. Rank {ranks.index(behind)} is the "
        "furthest behind: look there first. All ranks were ended; where a step truly takes that "
        "long, give a larger limit_s"
    )


def _end(processes: list) -> None:
    for one in processes:
        if one.is_alive():
            one.terminate()
    for one in processes:
        one.join(TO_END_S)
        if one.is_alive():
            one.kill()
            one.join()
