"""Corrections of products.model: regression trees over the product, the kernel and its counts.

benchmarks/train.py fits them, by gradient boosting (J. Friedman, 2001), to the logarithm of
measured over modelled time; choice_trees.csv of a GPU's records keeps them, a row for each node.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas

from gemmlab.records import registry

FILE = "choice_trees.csv"
ABSENT = -1.0  # of a feature that a kernel does not have
Features = dict[str, float]


@dataclass(frozen=True, eq=False)
class Trees:
    """Arrays over the nodes of all trees: the feature that a node compares, as a place in `names`,
    with which threshold, and the nodes to go on to; a leaf goes on to itself. `value`: a leaf's."""

    names: tuple[str, ...]
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    roots: np.ndarray

    def errors(self, kernels: Sequence[Features]) -> np.ndarray:
        """Measured over modelled time of each, as the trees predict it: the exponential of the sum
        of the leaves that they lead to."""
        given = np.array([[kernel.get(name, ABSENT) for name in self.names] for kernel in kernels])
        lines = np.arange(len(given))[:, None]
        node = np.tile(self.roots, (len(given), 1))
        while True:
            is_less = given[lines, self.feature[node]] <= self.threshold[node]
            after = np.where(is_less, self.left[node], self.right[node])
            if np.array_equal(after, node):
                return np.exp(self.value[node].sum(axis=1))
            node = after


@lru_cache(maxsize=16)
def read(dtype: str) -> Trees:
    """Of this GPU's records, else of those that are replayed. Raises NoRecord."""
    table = pandas.read_csv(registry.made_by("benchmarks/train.py", FILE))
    return of_table(table[table["dtype"] == dtype])


def of_table(table: pandas.DataFrame) -> Trees:
    """From rows in order: `tree`, then of an inner node `feature`, `threshold` and the numbers of
    its rows `left` and `right` within the tree, or of a leaf its `value`."""
    first = np.flatnonzero(~table["tree"].duplicated())
    begin = first[np.cumsum(~table["tree"].duplicated()) - 1]
    is_leaf = table["feature"].isna().to_numpy()
    names = tuple(sorted(table["feature"].dropna().unique()))
    place = {name: at for at, name in enumerate(names)}
    itself = np.arange(len(table))
    left, right = (
        np.where(is_leaf, itself, begin + table[side].fillna(0).to_numpy(int))
        for side in ("left", "right")
    )
    return Trees(
        names, table["feature"].map(place).fillna(0).to_numpy(int),
        table["threshold"].fillna(np.inf).to_numpy(), left, right,
        table["value"].fillna(0).to_numpy(), first,
    )  # fmt: skip
