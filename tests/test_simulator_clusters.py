"""Clusters, and blocks that wait for one another: against an NVIDIA H200."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from recorded import record_clusters as recorder

from gemmlab import simulator

HERE = Path(__file__).parent
SETTINGS = {"arch": "sm_90a", "options": ("-std=c++17",)}


@lru_cache
def record() -> dict[str, np.ndarray]:
    with np.load(HERE / "recorded" / "clusters.npz") as found:
        return dict(found)


def tensor_map(box, array) -> simulator.TensorMap:
    return simulator.TensorMap(box.view(array), box.box, swizzle=box.swizzle, fill=box.fill)


def launch(case, **how):
    """(the arguments as the launch left them, the run)."""
    args, given = case.args(), []
    for arg in args:
        if isinstance(arg, tuple):
            given.append(tensor_map(*arg))
        elif isinstance(arg, recorder.Maps):
            given.append(simulator.TensorMaps([tensor_map(*one) for one in arg.maps]))
        else:
            given.append(arg)
    grid, block = ((*shape, 1, 1)[:3] for shape in (case.grid, case.block))
    run = simulator.launch(
        recorder.source(), case.entry, grid, block, given, shared_bytes=case.shared_bytes,
        **SETTINGS, **how,
    )  # fmt: skip
    return [arg[1] if isinstance(arg, tuple) else arg for arg in args], run


def different(a, b):
    differ = a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}")
    return differ & ~(np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else differ


RECORDED = [name for name, case in recorder.cases().items() if f"{name} {case.seen[0]}" in record()]


@pytest.mark.parametrize("name", RECORDED)
def test_a_case_gives_what_the_hardware_gave(name):
    case = recorder.cases()[name]
    args, run = launch(case, check=True)
    assert run.findings == []
    for number in case.seen:
        seen, wanted = args[number], record()[f"{name} {number}"]
        assert seen.dtype == wanted.dtype
        if name.endswith(" f32"):  # any NaN is as good as any other
            seen, wanted = seen.view("f4"), wanted.view("f4")
        assert np.argwhere(different(seen, wanted)).tolist() == []


# --- mistakes -------------------------------------------------------------------------------------

INIT_FENCE = '    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");\n'
RELAXED = ("barrier.cluster.arrive.release.aligned", "barrier.cluster.arrive.relaxed.aligned")
SYNC = "    sync();\n"
RING_COUNT = "{ init(&full[s], 1); init(&empty[s], 2); }"
WRITTEN = """\
                asm volatile("st.shared::cluster.u32 [%0], %1;"
                             :: "r"(at(place(&given[3]), i)), "r"(sum) : "memory");
"""
ARRIVED = "                arrive(at(place(&go), i));\n"
TOLD, TOLD_TOO_EARLY = WRITTEN + ARRIVED, ARRIVED + WRITTEN
# Name -> (the case, the text of its kernel or of what all use, what it becomes, kinds of findings).
MISTAKES = {
    "mbarriers not fenced": ("ring", INIT_FENCE, "", {"mbarrier not fenced"}),
    "relaxed, and mbarriers not fenced": (
        "far arrivals", (INIT_FENCE, RELAXED), ("", None), {"write-after-write race"}),
    "leaves before the last copies": (
        "ring", "        out[blockIdx.x * 128 + t] = sum;\n    }\n    sync();\n",
        "        out[blockIdx.x * 128 + t] = sum;\n    }\n", {"access to a block that has left"}),
    "leaves before others have read": (
        "far loads", "    to[12] = a;\n    sync();\n", "    to[12] = a;\n",
        {"access to a block that has left"}),
    "other blocks not begun": (
        "far copy", "    fence();\n    sync();\n    if (t < 4) {",
        "    fence();\n    __syncthreads();\n    if (t < 4) {",
        {"access to a block that may not run"}),
    "half the bytes expected": (
        "ring", "expect(&full[s], 512);", "expect(&full[s], 256);", {"wrong transaction bytes"}),
    "twice the bytes expected": (
        "ring", "expect(&full[s], 512);", "expect(&full[s], 1024);", {"deadlock"}),
    "the other block's consumers not counted": (
        "ring", RING_COUNT, RING_COUNT.replace("empty[s], 2", "empty[s], 1"), {"deadlock"}),
    "the other block not told": (
        "ring", "if (t < 2) arrive(at(place(&empty[s]), t));",
        "if (t < 1) arrive(at(place(&empty[s]), own));", {"deadlock"}),
    "a block that the cluster has not": ("ring", "[%2], 3;", "[%2], 7;", {"wrong cluster rank"}),
    "a block left out": ("ring", "[%2], 3;", "[%2], 1;", {"deadlock"}),
    "the stage overwritten too early": (
        "ring", "wait(&empty[s], i / 2 % 2 ^ 1);", "wait(&empty[s], i / 2 % 2);", {"deadlock"}),
    "no wait for empty stages": (
        "ring", "wait(&empty[s], i / 2 % 2 ^ 1);", "", {"mbarrier overflow"}),
    "one thread lets go for all": (
        "ring", '            asm volatile("bar.sync 1, 128;" ::: "memory");\n', "",
        {"write-after-read race"}),
    "read before the others have written": (
        "far loads", "+ blockIdx.x;\n    sync();\n", "+ blockIdx.x;\n    __syncthreads();\n",
        {"read-after-write race", "access to a block that may not run"}),
    "arrives relaxed": ("far stores", *RELAXED, {"read-after-write race"}),
    "told before it is written": ("far arrivals", TOLD, TOLD_TOO_EARLY, {"read-after-write race"}),
    "the stored not fenced": (
        "far copy", "    fence();\n    sync();\n    if (t < 4) {",
        "    sync();\n    if (t < 4) {", {"async-proxy race"}),
    "copied over what is not fenced": (
        "shared stretches", "expect(&full, bytes); }\n    fence();\n", "expect(&full, bytes); }\n",
        {"async-proxy race"}),
    "the reduced not fenced": (
        "to global add u32", "    fence();\n    __syncthreads();\n    if (threadIdx.x == 0) {{",
        "    __syncthreads();\n    if (threadIdx.x == 0) {{", {"async-proxy race"}),
    "tells its own mbarrier": (
        "far copy", '"r"(at(place(&full), next)) : "memory");', '"r"(place(&full)) : "memory");',
        {"read-after-write race"}),
    "reads before the stores are told": (
        "async stores", "    wait(&full, 0);\n", "", {"read of a copy in flight"}),
    "waits in another block": (
        "far bytes", '"r"(place(&full)) : "memory");\n    }\n    wait(&full, 0);',
        '"r"(place(&full)) : "memory");\n    }\n    wait_at(at(place(&full), 1 - rank()), 0);',
        {"wait in another block"}),
    "arrives twice": (
        "barriers", '    const u32 between = t * t;\n', '    const u32 between = t * t;\n'
        '    if (t == 5) asm volatile("barrier.cluster.arrive;" ::: "memory");\n',
        {"wrong cluster barrier"}),
    "waits without arriving": (
        "barriers", '    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");\n', "",
        {"wrong cluster barrier"}),
    "a rank that is not there": (
        "far stores", "const u32 other = t % 8,", "const u32 other = t % 8 + 1,",
        {"wrong cluster rank"}),
    "the lock is not given back": (
        "locked", "        atomicExch(lock, 0);\n        order", "        order", {"deadlock"}),
    "the flag is not set": (
        "in order", '"red.release.gpu.global.add.s32 [%0], 1;"',
        '"red.release.gpu.global.add.s32 [%0], 0;"', {"deadlock"}),
}  # fmt: skip
WAIT_AT = """
__device__ void wait_at(u32 b, int parity)
{
    u32 done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b), "r"(parity) : "memory");
}
// --- where a block is"""


def kernel_text(entry: str) -> str:
    """What all kernels use, and the one of this name."""
    text = recorder.source().replace("// --- where a block is", WAIT_AT)
    begin = text.rindex("\n\n", 0, text.index(f" {entry}("))
    return text[: text.index("#define PUT")] + text[begin : text.index("\n}\n", begin) + 3]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name):
    of, old, new, kinds = MISTAKES[name]
    case = recorder.cases()[of]
    text = kernel_text(case.entry)
    changes = [(old, new)] if isinstance(old, str) else [(old[0], new[0]), old[1]]
    for before, after in changes:
        before, after = (one.replace("{{", "{") for one in (before, after))
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    grid, block = ((*shape, 1, 1)[:3] for shape in (case.grid, case.block))
    run = simulator.launch(text, case.entry, grid, block, case.args(), check=True,
                           shared_bytes=case.shared_bytes, **SETTINGS)  # fmt: skip
    found = {finding.kind for finding in run.findings}
    assert all(any(kind in one for one in found) for kind in kinds), run.findings
    assert all(0 < finding.line <= text.count("\n") for finding in run.findings)
