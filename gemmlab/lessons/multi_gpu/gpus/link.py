"""How fast the link between the GPUs of this host is, by NCCL and by a copy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gemmlab.lessons.multi_gpu.gpus.runner import CONNECTING, LIMIT_S, ended, require_gpus
from gemmlab.lessons.multi_gpu.team import RankFailed, Reporter, run_ranks


def measure(ranks: int, size: int = 2**29, repeats: int = 9, limit_s: float = LIMIT_S):
    """Bytes a second of the link, from a sum over all ranks and from a copy between two GPUs.

    Of a sum of n bytes over p ranks each must send and receive 2 (p - 1)/p · n. A pair of lists,
    a number for each repeat. Raises NoGpu, NotEnoughGpus, RankFailed.
    """
    require_gpus(ranks)
    from cupy.cuda import nccl

    one = nccl.get_unique_id()
    arguments = [(rank, ranks, one, size, repeats, limit_s) for rank in range(ranks)]
    return run_ranks(_link_of_rank, arguments, limit_s)[0]


def _link_of_rank(reporter: Reporter, rank: int, ranks: int, unique, size: int, repeats: int,
                  limit_s: float):  # fmt: skip
    import cupy
    from cupy.cuda import nccl, runtime

    cupy.cuda.Device(rank).use()
    reporter.step(CONNECTING)
    communicator = nccl.NcclCommunicator(ranks, unique, rank)
    stream = cupy.cuda.Stream(non_blocking=True)
    numbers = cupy.ones(size // 4, np.float32)

    def add() -> None:
        at = numbers.data.ptr
        communicator.allReduce(at, at, numbers.size, nccl.NCCL_FLOAT32, nccl.NCCL_MAX, stream.ptr)

    reporter.step("all-reduce")
    moved = 2 * (ranks - 1) / ranks * numbers.nbytes
    summed = [moved / ms * 1e3 for ms in _times_ms(add, stream, repeats, limit_s)]
    copied = []
    if rank == 0 and ranks > 1:
        with cupy.cuda.Device(1):
            there = cupy.empty_like(numbers)
        if runtime.deviceCanAccessPeer(0, 1):  # else the copy goes by way of the host
            runtime.deviceEnablePeerAccess(1)
        reporter.step("peer copy")

        def copy() -> None:
            runtime.memcpyPeerAsync(
                there.data.ptr, 1, numbers.data.ptr, 0, numbers.nbytes, stream.ptr
            )

        copied = [numbers.nbytes / ms * 1e3 for ms in _times_ms(copy, stream, repeats, limit_s)]
    communicator.destroy()
    return summed, copied


def _times_ms(start: Callable[[], None], stream, repeats: int, limit_s: float) -> list[float]:
    """Of each of `repeats`, after one to warm up. Raises RankFailed for one that does not end."""
    import cupy

    found = []
    for _ in range(repeats + 1):
        begin = stream.record()
        start()
        end = stream.record()
        if not ended(end, limit_s):
            raise RankFailed(f"it did not end in {limit_s:g} s")
        found.append(cupy.cuda.get_elapsed_time(begin, end))
    return found[1:]
