"""Mistakes planted in kernels of clusters, and of blocks that wait for one another.

The kernels are those of recorded/record_clusters.py; what they compute is as recorded there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

import record_clusters as recorder
from planting import BOTH, CHECKS, Mistake

WAIT_AT = """
__device__ void wait_at(u32 b, int parity)
{
    u32 done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b), "r"(parity) : "memory");
}
// --- where a block is"""


RECORDED = Path(__file__).parent / "recorded" / "clusters.npz"


@lru_cache
def record() -> dict[str, np.ndarray]:
    with np.load(RECORDED) as recorded:
        return dict(recorded)


@dataclass(frozen=True)
class InCluster:
    """The kernel of a case of record_clusters.py, with what all kernels there use."""

    name: str
    arch: str = "sm_90a"
    options: tuple[str, ...] = ("-std=c++17",)

    @property
    def case(self) -> recorder.Case:
        return recorder.cases()[self.name]

    @cached_property
    def text(self) -> str:
        return kernel_text(self.case.entry)

    def is_right(self, args) -> bool:
        """Whether the arguments are as the GPU left them."""
        return all(
            np.array_equal(recorder.kept(args[i]), record()[f"{self.name} {i}"])
            for i in self.case.seen
        )


def kernel_text(entry: str) -> str:
    """What all kernels use, and the one of this name."""
    text = recorder.source().replace("// --- where a block is", WAIT_AT)
    begin = text.rindex("\n\n", 0, text.index(f" {entry}("))
    return text[: text.index("#define PUT")] + text[begin : text.index("\n}\n", begin) + 3]


SYNC_AND_INIT = """\
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ void init(mbarrier* b, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(place(b)), "r"(count) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
"""
RELAXED = SYNC_AND_INIT.replace("arrive.release", "arrive.relaxed")
RELAXED = RELAXED[: RELAXED.rindex("    asm volatile")]
MISTAKES_IN_CLUSTERS = [
    Mistake("mbarriers not fenced for the cluster", "ring",
        "other blocks' copies and arrivals may find mbarriers that are not initialised yet",
        '    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");\n', "", CHECKS,
        ("mbarrier not fenced",)),
    Mistake("relaxed, and mbarriers not fenced", "far arrivals",
        "neither the fence nor the barrier makes the mbarriers known to other blocks",
        SYNC_AND_INIT, RELAXED, CHECKS, ("write-after-write race",)),
    Mistake("leaves before the last copies", "ring",
        "a block returns while copies and arrivals of others are on their way to it",
        "        out[blockIdx.x * 128 + t] = sum;\n    }\n    sync();\n",
        "        out[blockIdx.x * 128 + t] = sum;\n    }\n", CHECKS,
        ("access to a block that has left",)),
    Mistake("leaves before others have read", "far loads",
        "a block returns while others read its shared memory", "    to[12] = a;\n    sync();\n",
        "    to[12] = a;\n", CHECKS, ("access to a block that has left",)),
    Mistake("other blocks not begun", "far copy",
        "a barrier of the block alone comes before the copy to another block",
        "    fence();\n    sync();\n    if (t < 4) {",
        "    fence();\n    __syncthreads();\n    if (t < 4) {", CHECKS,
        ("access to a block that may not run",)),
    Mistake("half the bytes of a multicast expected", "ring",
        "the phase completes with half of the piece there", "expect(&full[s], 512);",
        "expect(&full[s], 256);", BOTH, ("wrong transaction bytes",)),
    Mistake("twice the bytes of a multicast expected", "ring", "the phase never completes",
        "expect(&full[s], 512);", "expect(&full[s], 1024);", BOTH, ("deadlock",)),
    Mistake("the other block's consumers not counted", "ring",
        "empty counts only the block's own arrivals, and both blocks arrive",
        "{ init(&full[s], 1); init(&empty[s], 2); }", "{ init(&full[s], 1); init(&empty[s], 1); }",
        BOTH, ("deadlock",)),
    Mistake("the other block not told", "ring",
        "consumers release the stage only in their own block",
        "if (t < 2) arrive(at(place(&empty[s]), t));",
        "if (t < 1) arrive(at(place(&empty[s]), own));", BOTH, ("deadlock",)),
    Mistake("a block that the cluster has not", "ring", "the copy's mask names a third block",
        "[%2], 3;", "[%2], 7;", CHECKS, ("wrong cluster rank",)),
    Mistake("a block left out", "ring", "the copy goes to one block, and both wait for it",
        "[%2], 3;", "[%2], 1;", BOTH, ("deadlock",)),
    Mistake("the stage overwritten too early", "ring",
        "the parity of empty is the wrong way round", "wait(&empty[s], i / 2 % 2 ^ 1);",
        "wait(&empty[s], i / 2 % 2);", BOTH, ("deadlock",)),
    Mistake("no wait for empty stages", "ring", "copies go into stages that are still being read",
        "wait(&empty[s], i / 2 % 2 ^ 1);", "", BOTH, ("mbarrier overflow",)),
    Mistake("one thread lets go for all", "ring",
        "a thread releases the stage before the others have read it",
        '            asm volatile("bar.sync 1, 128;" ::: "memory");\n', "", CHECKS,
        ("write-after-read race",)),
    Mistake("read before the others have written", "far loads",
        "only a barrier of the block, and then loads from other blocks",
        "+ blockIdx.x;\n    sync();\n", "+ blockIdx.x;\n    __syncthreads();\n", CHECKS,
        ("access to a block that may not run", "read-after-write race")),
    Mistake("arrives relaxed", "far stores", "the barrier of the cluster orders nothing",
        "barrier.cluster.arrive.release.aligned", "barrier.cluster.arrive.relaxed.aligned", CHECKS,
        ("read-after-write race",)),
    Mistake("told before it is written", "far arrivals",
        "the arrival comes before the store that it announces",
        '                asm volatile("st.shared::cluster.u32 [%0], %1;"\n'
        '                             :: "r"(at(place(&given[3]), i)), "r"(sum) : "memory");\n'
        "                arrive(at(place(&go), i));\n",
        "                arrive(at(place(&go), i));\n"
        '                asm volatile("st.shared::cluster.u32 [%0], %1;"\n'
        '                             :: "r"(at(place(&given[3]), i)), "r"(sum) : "memory");\n',
        CHECKS, ("read-after-write race",)),
    Mistake("the stored not fenced", "far copy",
        "a copy reads what threads have stored, without fence.proxy.async",
        "    fence();\n    sync();\n    if (t < 4) {", "    sync();\n    if (t < 4) {", CHECKS,
        ("async-proxy race",)),
    Mistake("copied over what is not fenced", "shared stretches",
        "a copy writes where threads have stored, without fence.proxy.async",
        "expect(&full, bytes); }\n    fence();\n", "expect(&full, bytes); }\n", CHECKS,
        ("async-proxy race",)),
    Mistake("the reduced not fenced", "to global add u32",
        "a reduction reads what threads have stored, without fence.proxy.async",
        "    fence();\n    __syncthreads();\n    if (threadIdx.x == 0) {",
        "    __syncthreads();\n    if (threadIdx.x == 0) {", CHECKS, ("async-proxy race",)),
    Mistake("tells its own mbarrier", "far copy",
        "the bytes arrive in one block, and count at the mbarrier of another",
        '"r"(at(place(&full), next)) : "memory");', '"r"(place(&full)) : "memory");', CHECKS,
        ("read-after-write race",)),
    Mistake("reads before the stores are told", "async stores",
        "nobody waits for the stores of the other blocks", "    wait(&full, 0);\n", "", BOTH,
        ("read of a copy in flight",)),
    Mistake("waits in another block", "far bytes",
        "a thread can wait only for its own block's mbarriers",
        '"r"(place(&full)) : "memory");\n    }\n    wait(&full, 0);',
        '"r"(place(&full)) : "memory");\n    }\n    wait_at(at(place(&full), 1 - rank()), 0);',
        CHECKS, ("wait in another block",)),
    Mistake("arrives twice", "barriers", "one thread arrives at the cluster's barrier twice",
        "    const u32 between = t * t;\n", "    const u32 between = t * t;\n"
        '    if (t == 5) asm volatile("barrier.cluster.arrive;" ::: "memory");\n', CHECKS,
        ("wrong cluster barrier",)),
    Mistake("waits without arriving", "barriers",
        "the threads of a block do not arrive where they wait",
        '    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");\n', "", CHECKS,
        ("wrong cluster barrier",)),
    Mistake("a rank that is not there", "far stores", "the last of eight blocks stores to a ninth",
        "const u32 other = t % 8,", "const u32 other = t % 8 + 1,", BOTH, ("out-of-bounds write",)),
    Mistake("the lock is not given back", "locked", "the next block waits for it for ever",
        "        atomicExch(lock, 0);\n        order", "        order", BOTH, ("deadlock",)),
    Mistake("the flag is not set", "in order", "the next block waits for it for ever",
        '"red.release.gpu.global.add.s32 [%0], 1;"', '"red.release.gpu.global.add.s32 [%0], 0;"',
        BOTH, ("deadlock",)),
]  # fmt: skip
