"""A schedule run by a process for each rank, in NumPy: collectives through queues."""

from __future__ import annotations

import multiprocessing
import queue
from collections import Counter
from collections.abc import Callable
from typing import Any

from gemmlab.lessons.multi_gpu.arithmetic import put, rows_of, to_host
from gemmlab.lessons.multi_gpu.in_turn import Result, compute, gathered, placed
from gemmlab.lessons.multi_gpu.order import require_sound
from gemmlab.lessons.multi_gpu.steps import Collective, Product, Schedule, Step
from gemmlab.lessons.multi_gpu.team import Reporter, run_ranks

LIMIT_S = 60.0


def run(
    schedule: Schedule, arithmetic: Callable[[], Any], A, B, limit_s: float = LIMIT_S
) -> Result:
    """As in_turn.run, with the same result bit for bit.

    `arithmetic`: what makes that of a rank in its process, such as partial(ByKernel.of,
    "03_shared_memory"). `limit_s`: for each step. Raises what in_turn.run raises before anything is
    done, and RankFailed, which names the rank and its step.
    """
    units = require_sound(schedule)
    context = multiprocessing.get_context("spawn")
    inboxes = [context.Queue() for _ in range(schedule.ranks)]
    arguments = []
    for rank in range(schedule.ranks):
        own = [step for unit in units for one, step in unit if one == rank]
        arguments.append((rank, schedule, own, arithmetic, A, B, inboxes, limit_s))
    try:
        found = run_ranks(_rank, arguments, limit_s)
    finally:
        for one in inboxes:
            one.cancel_join_thread()
            one.close()
    buffers, received, flop = zip(*found, strict=True)
    return Result(gathered(schedule, list(buffers), arithmetic()), received, flop)


def _rank(reporter: Reporter, rank: int, schedule: Schedule, own: list[Step], arithmetic, A, B,
          inboxes, limit_s: float):  # fmt: skip
    """What a rank does: its steps in an order in which all ranks meet. Returns its outputs."""
    by = arithmetic()
    buffers = placed(schedule, rank, by, A, B)
    received: Counter[str] = Counter()
    flop, early = 0, {}
    for step in own:
        reporter.step(step.name)
        if isinstance(step.work, Collective):
            received[step.work.kind] += _meet(step, rank, buffers, inboxes, early, limit_s)
        else:
            compute(step.work, buffers, by)
            if isinstance(step.work, Product):
                flop += schedule.flop(rank, step.work)
    outputs = {held.part.buffer for held in schedule.outputs if held.rank == rank}
    return {name: to_host(buffers[name]) for name in outputs}, received, flop


def _meet(step: Step, rank: int, buffers, inboxes, early: dict, limit_s: float) -> int:
    """Send and receive this rank's messages; returns the bytes that came from others.

    `early`: what came for later steps, for a rank may be ahead of this one.
    """
    for at, one in enumerate(step.work.messages):
        if one.source == rank:
            sent = rows_of(buffers, one.sent)
            if one.target == rank:
                rows_of(buffers, one.kept)[...] = sent
            else:  # copied: it is put into the queue later, by a thread
                inboxes[one.target].put(((step.name, at), to_host(sent).copy()))
    came = 0
    for at, one in enumerate(step.work.messages):
        if one.target == rank and one.source != rank:
            values = _received((step.name, at), one.source, inboxes[rank], early, limit_s)
            put(values, rows_of(buffers, one.kept))
            came += values.nbytes
    return came


def _received(key: tuple[str, int], source: int, inbox, early: dict, limit_s: float):
    while key not in early:
        try:
            found, values = inbox.get(timeout=2 * limit_s)
        except queue.Empty:  # the process that watches is gone too: else it had ended this one
            raise TimeoutError(f"nothing came from rank {source} in {2 * limit_s:g} s") from None
        early[found] = values
    return early.pop(key)
