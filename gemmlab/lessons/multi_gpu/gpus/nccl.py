"""Collectives by NCCL: kernels of its own, which take SMs from the products or wait for some."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gemmlab.lessons.multi_gpu.in_turn import Buffers, rows_of
from gemmlab.lessons.multi_gpu.schedule import ALL_GATHER, BROADCAST, Collective, Part, Step


class Collectives:
    """Of a rank. `connected`: its communicators, by their members."""

    def __init__(self, rank: int, connected: dict):
        self._rank, self._connected = rank, connected

    def prepared(self, step: Step, buffers: Buffers) -> Callable[[Any], None]:
        """What enqueues the collective of a step on a stream."""
        communicator = self._connected[step.work.members]
        return partial(_communicate, step.work, self._rank, buffers, communicator)

    def give_up(self) -> None:
        """End what still waits for others."""
        for communicator in self._connected.values():
            communicator.abort()

    def close(self) -> None:
        """Nothing is held."""


def _communicate(work: Collective, rank: int, buffers: Buffers, communicator, stream) -> None:
    """Enqueue a collective, of bytes.

    Parts of one size go by ncclAllGather, others by a broadcast of each; messages in one group.
    """
    from cupy.cuda import nccl

    me, kind = work.members.index(rank), nccl.NCCL_UINT8
    kept = {one.source: one.kept for one in work.kept_by(rank)}
    sent = work.sent_by(rank)

    def rows(part):
        array = rows_of(buffers, part)
        return array.data.ptr, array.nbytes

    if work.kind == ALL_GATHER and _one_behind_another(
        [kept.get(member) for member in work.members]
    ):
        source, size = rows(sent[0].sent)
        communicator.allGather(source, rows(kept[work.members[0]])[0], size, kind, stream.ptr)
        return
    nccl.groupStart()
    if work.kind in (ALL_GATHER, BROADCAST):
        for root in sorted({message.source for message in work.messages}):
            if root == rank:
                source, size = rows(sent[0].sent)
                into = rows(kept[rank])[0] if rank in kept else source
                communicator.broadcast(source, into, size, kind, me, stream.ptr)
            else:
                target, size = rows(kept[root])
                index = work.members.index(root)
                communicator.broadcast(target, target, size, kind, index, stream.ptr)
    else:
        for one in sent:
            communicator.send(*rows(one.sent), kind, work.members.index(one.target), stream.ptr)
        for one in work.kept_by(rank):
            communicator.recv(*rows(one.kept), kind, work.members.index(one.source), stream.ptr)
    nccl.groupEnd()


def _one_behind_another(parts: list[Part | None]) -> bool:
    """Whether they are all there, of one size, and lie as ncclAllGather puts them."""
    if None in parts:
        return False
    first = parts[0]
    return all(
        (part.buffer, part.rows, part.start)
        == (first.buffer, first.rows, first.start + at * first.rows)
        for at, part in enumerate(parts)
    )
