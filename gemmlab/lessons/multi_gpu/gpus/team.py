"""Ranks as processes: if one fails, dies or does not end, all are ended, and a sentence says why.

Processes are started anew (`spawn`): a GPU's context does not live through a fork.
"""

import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from gemmlab.kernel.faults import GpuFault


class RankFailed(GpuFault):
    """A rank failed, died or did not end; the message says which."""


def run_ranks(work: Callable[..., Any], arguments: Sequence[tuple], limit_s: float) -> list[Any]:
    """What work(*arguments) returns for the arguments of each rank, each in a process.

    limit_s: for all together. Raises RankFailed, when no process is left.
    """
    context, ranks, deadline = get_context("spawn"), len(arguments), time.monotonic() + limit_s
    processes, results, pipes = [], {}, {}
    try:
        for rank, given in enumerate(arguments):
            here, there = context.Pipe(duplex=False)
            processes.append(context.Process(target=_run, args=(there, work, given), daemon=True))
            processes[-1].start()
            there.close()
            pipes[here] = rank
        while pipes:
            ready = wait(pipes, max(0.0, deadline - time.monotonic()))
            if not ready:
                late = ", ".join(map(str, pipes.values()))
                raise RankFailed(f"of {ranks} ranks these did not end in {limit_s:g} s: {late}")
            for here in ready:
                rank = pipes.pop(here)
                name = f"rank {rank} of {ranks}"
                try:
                    result, error = here.recv()
                except (EOFError, ConnectionError):
                    raise RankFailed(
                        f"{name} died. A process that is killed has mostly used more memory than "
                        "there is: take more ranks, or more chunks"
                    ) from None
                if error:
                    raise RankFailed(f"{name} failed: {error}")
                results[rank] = result
        return [results[rank] for rank in range(ranks)]
    finally:
        for process in processes:
            process.kill()
            process.join()


def _run(connection: Connection, work: Callable[..., Any], arguments: tuple) -> None:
    """Runs in the process of a rank. The one that started it answers Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        connection.send((work(*arguments), None))
    except BaseException as error:
        connection.send((None, f"{type(error).__name__}: {error}"))
