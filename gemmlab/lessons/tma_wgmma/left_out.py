"""What each wait and each fence of 16_tma_wgmma is for: left out one by one, and looked for.

A kernel without one of them may give the right product, on a GPU and here; what finds the mistake
are the simulator's checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmlab.kernel.kernel import Kernel, from_source
from gemmlab.lessons.tma_wgmma.rung import RUNG as TMA_WGMMA

if TYPE_CHECKING:
    import pandas

SMALL = {"BM": 128, "BN": 64, "STAGES": 2, "GROUP": 2}


@dataclass(frozen=True)
class LeftOut:
    """`old`, which stands once in the kernel's file, became `new`: then `may` can happen."""

    what: str
    old: str
    new: str
    may: str

    def kernel(self) -> Kernel:
        text = TMA_WGMMA.path.read_text(encoding="utf-8")
        return from_source(text.replace(self.old, self.new), TMA_WGMMA.name, **SMALL)


EVERY = (
    LeftOut(
        "the wait for the mbarrier", "wait_for(full + 8 * (step % STAGES), step / STAGES % 2);", "",
        "products read a box before it is there",
    ),
    LeftOut(
        "half of the bytes told", "expect_bytes(told, sizeof(Stage));",
        "expect_bytes(told, sizeof(Stage) / 2);", "the phase ends before all bytes are there",
    ),
    LeftOut(
        "the barrier of the block", "__syncthreads();                         // all have", "// ",
        "a box overwrites what others still multiply",
    ),
    LeftOut(
        "wgmma.fence", "fence_sums();", "", "products begin before the sums are 0",
    ),
    LeftOut(
        "wgmma.commit_group", "commit_products();", "", "nobody can wait for the products",
    ),
    LeftOut(
        "a group too many under way", "wait_for_products<LAG>();",
        "wait_for_products<LAG + 1>();", "a box overwrites what is still read",
    ),
    LeftOut(
        "the last wait", "    }\n    wait_for_products<0>();\n", "    }\n",
        "sums are stored while they are computed",
    ),
    LeftOut(
        "fence.proxy.async", '#include "warpgroup_tiles.cuh"',
        '#include "tensor_copy.cuh"\n#define publish_stores()\n#include "warpgroup_tiles.cuh"',
        "wgmma misses what threads have stored",
    ),
)  # fmt: skip


def table() -> pandas.DataFrame:
    """A row for each of EVERY: what may happen without it, and what the checks find."""
    import pandas

    rows = {}
    for one in EVERY:
        report = one.kernel().check()
        kinds = {finding.kind: None for case in report.cases for finding in case.findings}
        rows[one.what] = {"then": one.may, "the checks find": next(iter(kinds), "nothing")}
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis("left out")
