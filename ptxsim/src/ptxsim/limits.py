"""What a GPU refuses of a launch: shapes, shared memory, local memory, clusters."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptxsim import machine, ptx
from ptxsim.architectures import LIMITS, MAX_THREADS_PER_BLOCK, base
from ptxsim.errors import LaunchError

MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_LOCAL_BYTES = 512 * 1024  # of a thread
PORTABLE_CLUSTER, MAX_CLUSTER = 8, 16  # blocks; more than 8 only where a launch allows it
CLUSTERS_SINCE = 90


def shape(what: str, given: Any, limits: Sequence[int]) -> machine.Triple:
    """An integer, or one for each of up to three dimensions, as three."""
    along = (given,) if np.ndim(given) == 0 else tuple(given)
    if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in along):
        raise LaunchError(
            f"{what} is {reprlib.repr(given)}: pass an integer, or up to three: (x, y, z)"
        )
    shape = tuple(int(n) for n in along) + (1,) * (3 - len(along))
    if len(shape) > 3:
        raise LaunchError(f"{what} {shape} has more than three dimensions")
    for n, limit, dimension in zip(shape, limits, "xyz", strict=True):
        if not 1 <= n <= limit:
            raise LaunchError(f"{what} {shape}: {dimension} is {n}, it must be 1 to {limit}")
    x, y, z = shape
    return x, y, z


def check_limit(limit_s: Any) -> None:
    is_number = isinstance(limit_s, (int, float, np.number)) and not isinstance(limit_s, bool)
    if limit_s is not None and not (is_number and limit_s >= 0):
        raise LaunchError(f"limit_s is {reprlib.repr(limit_s)}: pass seconds, or None for no limit")


def check_shared(kernel: ptx.Kernel, dynamic: int, arch: str) -> None:
    if dynamic < 0:
        raise LaunchError(f"shared_bytes is {dynamic}, it must be 0 or more")
    if base(arch) not in LIMITS:
        raise LaunchError(f"{arch} is not a known architecture; known are {', '.join(LIMITS)}")
    needed, most = kernel.shared_bytes + dynamic, LIMITS[base(arch)].shared_bytes_per_block
    if needed > most:
        raise LaunchError(
            f"kernel '{kernel.name}' needs {needed} bytes of shared memory ({kernel.shared_bytes} "
            f"of its own, {dynamic} dynamic), a block on {arch} has at most {most}"
        )


def check_threads(kernel: ptx.Kernel, block: machine.Triple) -> None:
    threads = int(np.prod(block))
    if threads > MAX_THREADS_PER_BLOCK:
        raise LaunchError(
            f"block {block} has {threads} threads, at most {MAX_THREADS_PER_BLOCK} fit"
        )
    if kernel.most_threads is not None and threads > kernel.most_threads:
        raise LaunchError(
            f"block {block} has {threads} threads, and kernel '{kernel.name}' was compiled for at "
            f"most {kernel.most_threads}: __launch_bounds__({kernel.most_threads})"
        )
    if kernel.block is not None and block != kernel.block:
        raise LaunchError(
            f"kernel '{kernel.name}' was compiled for blocks of {kernel.block} alone, not {block}"
        )


def check_local(kernel: ptx.Kernel) -> None:
    if kernel.local_bytes > MAX_LOCAL_BYTES:
        raise LaunchError(
            f"kernel '{kernel.name}' needs {kernel.local_bytes:,} bytes of local memory for each "
            f"thread, a thread has at most {MAX_LOCAL_BYTES:,}"
        )


def cluster_shape(
    kernel: ptx.Kernel, asked: Any, grid: machine.Triple, arch: str
) -> machine.Triple:
    """The cluster of a launch, in blocks: what the kernel says, or else what is asked for."""
    x, y, z, *_ = (*kernel.cluster, 1, 1)
    own = x, y, z
    if asked is None:
        found = own
    else:
        found = shape("cluster", asked, (MAX_CLUSTER,) * 3)
        if kernel.has_cluster and found != own:
            raise LaunchError(
                f"kernel '{kernel.name}' was compiled for clusters of {_times(own)} blocks "
                f"(__cluster_dims__), not {_times(found)}"
            )
    blocks = int(np.prod(found))
    if blocks > 1 and int(base(arch).removeprefix("sm_")) < CLUSTERS_SINCE:
        raise LaunchError(f"{arch} has no clusters: they are there from sm_{CLUSTERS_SINCE} on")
    if blocks > MAX_CLUSTER:
        raise LaunchError(
            f"kernel '{kernel.name}' asks for clusters of {_times(found)} blocks; a cluster has at "
            f"most {PORTABLE_CLUSTER}, and {MAX_CLUSTER} where the launch allows what not every "
            "GPU can"
        )
    for n, along, dimension in zip(grid, found, "xyz", strict=True):
        if n % along:
            raise LaunchError(
                f"grid {grid}: {dimension} is {n}, it must be a multiple of {along}, for clusters "
                f"of {_times(found)} blocks"
            )
    return found


def _times(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))
