"""Messages by the GPUs' DMA engines, on no SM: each rank fetches from the others' memory.

A rank whose step sends writes "ready" into the memory of each rank that keeps; that one waits for
it, copies, and writes "done" back, for which the first one waits. Streams write and wait for these
flags. (NVIDIA says copy engine, too; here that is TMA's, inside an SM.)
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from gemmlab.cuda.driver import driver
from gemmlab.lessons.multi_gpu.gpus.team import RankFailed
from gemmlab.lessons.multi_gpu.in_turn import Buffers, rows_of
from gemmlab.lessons.multi_gpu.schedules import Collective, Message, Schedule, Step

READY, DONE = range(2)  # kinds of flags
FLAGS = "flags"  # the name under which a rank shows them to others
HANDLE_BYTES, OFFSET_BYTES = 64, 8  # cudaIpcMemHandle_t, and where in its allocation
LAZILY = 1  # cudaIpcMemLazyEnablePeerAccess


def why_not(ranks: int) -> str | None:
    """Why the GPUs of so many ranks cannot fetch from one another, or None if they can."""
    from cupy.cuda import runtime

    for gpu, other in itertools.permutations(range(ranks), 2):
        if not runtime.deviceCanAccessPeer(gpu, other):
            return f"GPU {gpu} cannot read the memory of GPU {other}"
    return None


@dataclass
class DmaEngines:
    """Of a rank. `addresses`: of each other rank's flags and buffers that it reads, as they are
    mapped here; `opened`: what is to be closed."""

    rank: int
    schedule: Schedule
    flags: Any  # (kinds, collectives, ranks), uint32: the number of the run, by who wrote it
    addresses: dict[int, dict[str, int]]
    opened: list[int] = field(default_factory=list)

    @classmethod
    def among(cls, rank: int, schedule: Schedule, buffers: Buffers, everyone) -> DmaEngines:
        """All ranks tell one another by NCCL where their buffers lie. Raises RankFailed."""
        import cupy

        flags = cupy.zeros(flags_shape(schedule), cupy.uint32)
        cupy.cuda.Device().synchronize()  # none is set when the first is told
        names, here = _shown(schedule), {FLAGS: flags, **buffers}
        handles = np.stack([_handle(here[name]) for name in names])
        addresses, opened = {}, {}
        for other, shown in enumerate(_exchanged(everyone, schedule.ranks, handles)):
            if other != rank:
                addresses[other] = {
                    name: _opened(opened, handle, rank, other)
                    for name, handle in zip(names, shown, strict=True)
                }
        return cls(rank, schedule, flags, addresses, list(opened.values()))

    def prepared(self, step: Step, buffers: Buffers) -> Callable[[Any], None]:
        """What enqueues the messages of a step on a stream, of the next run each time."""
        work: Collective = step.work
        at = _names(self.schedule).index(step.name)
        copies = [self._copy(message, buffers) for message in work.kept_by(self.rank)]
        sources = {message.source for message in work.kept_by(self.rank)} - {self.rank}
        targets = {message.target for message in work.sent_by(self.rank)} - {self.rank}
        before = [(write_value, self._flag_of(target, READY, at)) for target in targets]
        before += [(wait_for_value, self._flag(READY, at, source)) for source in sources]
        behind = [(write_value, self._flag_of(source, DONE, at)) for source in sources]
        behind += [(wait_for_value, self._flag(DONE, at, target)) for target in targets]
        runs = itertools.count(1)

        def enqueue(stream) -> None:
            run = next(runs)
            for call, flag in before:
                call(stream.ptr, flag, run)
            for copy in copies:
                copy(stream.ptr)
            for call, flag in behind:
                call(stream.ptr, flag, run)

        return enqueue

    def close(self) -> None:
        """Before any rank frees what others have mapped."""
        from cupy.cuda import runtime

        for address in self.opened:
            runtime.ipcCloseMemHandle(address)

    def _flag(self, kind: int, at: int, by: int) -> int:
        """The address of a flag of this rank, which rank `by` writes."""
        return self.flags.data.ptr + self._offset(kind, at, by)

    def _flag_of(self, other: int, kind: int, at: int) -> int:
        """That of another rank, which this one writes."""
        return self.addresses[other][FLAGS] + self._offset(kind, at, self.rank)

    def _offset(self, *index: int) -> int:
        return self.flags.itemsize * int(np.ravel_multi_index(index, self.flags.shape))

    def _copy(self, message: Message, buffers: Buffers) -> Callable[[int], None]:
        """What enqueues it on a stream, which is given by its pointer."""
        from cupy.cuda import runtime

        into, sent = rows_of(buffers, message.kept), message.sent
        if message.source == self.rank:
            source = rows_of(buffers, sent).data.ptr
        else:
            start = sent.start * (into.nbytes // message.kept.rows)
            source = self.addresses[message.source][sent.buffer] + start
        return partial(
            runtime.memcpyAsync, into.data.ptr, source, into.nbytes, runtime.memcpyDeviceToDevice
        )


def flags_shape(schedule: Schedule) -> tuple[int, int, int]:
    return 2, len(_names(schedule)), schedule.ranks


def _names(schedule: Schedule) -> list[str]:
    """Of all steps that are collectives, in an order that all ranks know."""
    return sorted({step.name for _, step in schedule if isinstance(step.work, Collective)})


def _shown(schedule: Schedule) -> list[str]:
    """The flags, and the buffers from which others read: of each rank those of the same names."""
    works = (step.work for _, step in schedule if isinstance(step.work, Collective))
    messages = (message for work in works for message in work.messages)
    return sorted({FLAGS, *(each.sent.buffer for each in messages if each.source != each.target)})


def _handle(array) -> np.ndarray:
    """How another process finds it: bytes."""
    from cupy.cuda import runtime

    begins = allocation_of(array.data.ptr)
    offset = (array.data.ptr - begins).to_bytes(OFFSET_BYTES, "little")
    return np.frombuffer(runtime.ipcGetMemHandle(begins) + offset, np.uint8)


def _exchanged(everyone, ranks: int, handles: np.ndarray) -> np.ndarray:
    """The handles of all ranks: (ranks, buffers, bytes). `handles`: of this one."""
    import cupy
    from cupy.cuda import nccl

    here, stream = cupy.asarray(handles), cupy.cuda.Stream.null
    kept = cupy.empty((ranks, *handles.shape), cupy.uint8)
    everyone.allGather(here.data.ptr, kept.data.ptr, here.nbytes, nccl.NCCL_UINT8, stream.ptr)
    stream.synchronize()
    return kept.get()


def _opened(opened: dict[bytes, int], handle: np.ndarray, rank: int, other: int) -> int:
    """The address here of what another rank shows; an allocation is opened once."""
    from cupy.cuda import runtime

    of_allocation, offset = handle[:HANDLE_BYTES].tobytes(), handle[HANDLE_BYTES:].tobytes()
    if of_allocation not in opened:
        try:
            opened[of_allocation] = runtime.ipcOpenMemHandle(of_allocation, LAZILY)
        except runtime.CUDARuntimeError as error:
            raise RankFailed(
                f"GPU {rank} cannot map memory of GPU {other} ({error}): let NCCL move it"
            ) from None
    return opened[of_allocation] + int.from_bytes(offset, "little")


AT_LEAST = 0  # CU_STREAM_WAIT_VALUE_GEQ: the difference, as a signed number, is not negative
WITH_BARRIER = 0  # what the stream did before is seen by whoever sees the number


def write_value(stream: int, address: int, value: int) -> None:
    """Enqueue on a stream, by its pointer: store 32 bits at an address. Raises RankFailed."""
    _call("cuStreamWriteValue32_v2", stream, address, value, WITH_BARRIER)


def wait_for_value(stream: int, address: int, value: int) -> None:
    """Enqueue: go on when the 32 bits at an address of this GPU are `value`, or more."""
    _call("cuStreamWaitValue32_v2", stream, address, value, AT_LEAST)


def _call(name: str, stream: int, address: int, value: int, flags: int) -> None:
    _check(name, getattr(driver(), name)(
        ctypes.c_void_p(stream), ctypes.c_uint64(address), ctypes.c_uint32(value),
        ctypes.c_uint(flags),
    ))  # fmt: skip


def allocation_of(address: int) -> int:
    """Where the allocation begins in which an address of GPU memory lies."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    _check("cuMemGetAddressRange_v2", driver().cuMemGetAddressRange_v2(
        ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address)
    ))  # fmt: skip
    return base.value


def _check(name: str, code: int) -> None:
    if code:
        raise RankFailed(f"{name} failed (CUDA error {code})")
