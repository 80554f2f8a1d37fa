"""Clusters of blocks: here a cluster has one block, whose rank is 0."""

from __future__ import annotations


def same_place(lanes, index: int, address, rank, mask):
    """mapa: `address` in the shared memory of the block of `rank`, which has to be the own one."""
    wrong = (rank != 0) & mask
    if wrong.any():
        what = "a block of rank other than 0 is named, and the cluster has one block"
        lanes.find("wrong cluster rank", index, what, wrong)
    return address
