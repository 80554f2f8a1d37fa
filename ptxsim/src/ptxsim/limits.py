"""Limits of a launch: shapes, memory and clusters that no GPU takes are refused."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptxsim.architectures import LIMITS, MAX_THREADS_PER_BLOCK, base
from ptxsim.ptx import Kernel
from ptxsim.threads.layout import Triple

MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_LOCAL_BYTES = 512 * 1024  # of a thread
PORTABLE_CLUSTER, MAX_CLUSTER = 8, 16  # blocks; more than 8 only where a launch allows it
CLUSTERS_SINCE = 90


class LaunchError(Exception):
    """A launch that no GPU would take, or arguments that do not fit the kernel."""


class TakesTooLong(LaunchError):
    """A launch that passes its time limit. It may be one that never ends.

    `how_long`: what is known of it, such as "about 12.5 minutes".
    """

    def __init__(self, message: str, how_long: str = ""):
        super().__init__(message)
        self.how_long = how_long


def require(condition: object, message: str) -> None:
    if not condition:
        raise LaunchError(message)


def shape(what: str, given: Any, limits: Sequence[int]) -> Triple:
    """An integer, or one for each of up to three dimensions, as three."""
    along = (given,) if np.ndim(given) == 0 else tuple(given)
    require(
        all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in along),
        f"{what} is {reprlib.repr(given)}: pass an integer, or up to three: (x, y, z)",
    )
    shape = tuple(int(n) for n in along) + (1,) * (3 - len(along))
    require(len(shape) == 3, f"{what} {shape} has more than three dimensions")
    for n, limit, dimension in zip(shape, limits, "xyz", strict=True):
        require(1 <= n <= limit, f"{what} {shape}: {dimension} is {n}, it must be 1 to {limit}")
    x, y, z = shape
    return x, y, z


def check_limit(limit_s: Any) -> None:
    is_number = isinstance(limit_s, (int, float, np.number)) and not isinstance(limit_s, bool)
    require(
        limit_s is None or (is_number and limit_s >= 0),
        f"limit_s is {reprlib.repr(limit_s)}: pass seconds, or None for no limit",
    )


def check_memory(kernel: Kernel, dynamic: int, arch: str) -> None:
    require(dynamic >= 0, f"shared_bytes is {dynamic}, it must be 0 or more")
    known = f"{arch} is not a known architecture; known are {', '.join(LIMITS)}"
    require(base(arch) in LIMITS, known)
    needed, most = kernel.shared_bytes + dynamic, LIMITS[base(arch)].shared_bytes_per_block
    require(
        needed <= most,
        f"kernel '{kernel.name}' needs {needed} bytes of shared memory ({kernel.shared_bytes} of "
        f"its own, {dynamic} dynamic), a block on {arch} has at most {most}",
    )
    require(
        kernel.local_bytes <= MAX_LOCAL_BYTES,
        f"kernel '{kernel.name}' needs {kernel.local_bytes:,} bytes of local memory for each "
        f"thread, a thread has at most {MAX_LOCAL_BYTES:,}",
    )


def check_threads(kernel: Kernel, block: Triple) -> None:
    threads, most = int(np.prod(block)), kernel.most_threads
    has = f"block {block} has {threads} threads, "
    require(threads <= MAX_THREADS_PER_BLOCK, f"{has}the most is {MAX_THREADS_PER_BLOCK}")
    require(
        most is None or threads <= most,
        f"{has}and kernel '{kernel.name}' was compiled for at most {most}: "
        f"__launch_bounds__({most})",
    )
    require(
        kernel.block in (None, block),
        f"kernel '{kernel.name}' was compiled for blocks of {kernel.block}, not {block}",
    )


def cluster_shape(kernel: Kernel, asked: Any, grid: Triple, arch: str) -> Triple:
    """The cluster of a launch, in blocks: what the kernel says, or else what is asked for."""
    x, y, z, *_ = (*kernel.cluster, 1, 1)
    declared = cluster = x, y, z
    if asked is not None:
        cluster = shape("cluster", asked, (MAX_CLUSTER,) * 3)
        require(
            cluster == declared or not kernel.has_cluster,
            f"kernel '{kernel.name}' was compiled for clusters of {_times(declared)} blocks "
            f"(__cluster_dims__), not {_times(cluster)}",
        )
    blocks = int(np.prod(cluster))
    require(
        blocks == 1 or int(base(arch).removeprefix("sm_")) >= CLUSTERS_SINCE,
        f"{arch} has no clusters: they need sm_{CLUSTERS_SINCE} or newer",
    )
    require(
        blocks <= MAX_CLUSTER,
        f"kernel '{kernel.name}' has clusters of {_times(cluster)} blocks; a cluster has at most "
        f"{PORTABLE_CLUSTER}, or {MAX_CLUSTER} where the launch allows more than every GPU "
        "supports",
    )
    for n, along, dimension in zip(grid, cluster, "xyz", strict=True):
        require(
            n % along == 0,
            f"grid {grid}: {dimension} is {n}, it must be a multiple of {along}, for clusters of "
            f"{_times(cluster)} blocks",
        )
    return cluster


def _times(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))
