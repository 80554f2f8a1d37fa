"""What an NVIDIA GPU makes of a bulk copy that several lanes execute: copies and counters.

record_kernels.py records it, test_tma.py compares the simulator with it. Run as a
program, it launches the cases that are named; this is what runs under ncu.

A case is an operation, of a box (by a tensor map) or of a stretch of bytes, and a form: which lanes
execute it, and what the compiler can know of their operands. Each piece has 1024 bytes, which are
32 sectors, and 4 rows of the array. An entry holds the copies that the data or the mbarrier show
(null for a store, since a second store of the same data changes nothing), and the instructions and
sectors that Nsight Compute counted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import numpy as np

from ptxsim.async_copy.counted import INSTRUCTIONS, sectors_metric
from ptxsim.compile.nvrtc import COMMON_OPTIONS
from record_copies import Boxes, encode

ARCH, THREADS = "sm_90a", 128
PIECES, WORDS, BOX = 32, 256, (4, 64)  # pieces of the array, words and shape of a piece
GIVEN = 5  # the piece of all lanes, where they name the same one

HEAD = """
typedef unsigned u32;
typedef unsigned long long u64;
struct __align__(64) TensorMap { char opaque[128]; };
__device__ u32 place(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ bool elected() {
    u32 is;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }"
                 : "=r"(is));
    return is;
}
__device__ bool complete(u64* b) {
    u32 done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; "
                 "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(place(b)) : "memory");
    return done;
}
"""

# Stores and reductions write the words 1, 2, 3, … to the array.
STORE = """
extern "C" __global__ void NAME(const __grid_constant__ TensorMap map, u32* array,
                                const u32* zeros, int given, u32* out)
{
    __shared__ __align__(1024) u32 box[8192];
    const int t = threadIdx.x;
    for (int i = t; i < 8192; i += blockDim.x) box[i] = i + 1;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (WHO) {
        const int piece = PIECE;
        const u32 here = place(box + 256 * piece);
        ISSUE
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    if (t == 0) out[0] = 0;
}
"""
LOAD = """
extern "C" __global__ void NAME(const __grid_constant__ TensorMap map, u32* array,
                                const u32* zeros, int given, u32* out)
{
    __shared__ __align__(1024) u32 box[8192];
    __shared__ u64 full;
    const int t = threadIdx.x;
    for (int i = t; i < 8192; i += blockDim.x) box[i] = 0;
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(place(&full)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (WHO) {
        const int piece = PIECE;
        const u32 here = place(box + 256 * piece), bar = place(&full);
        ISSUE
    }
    __syncthreads();
    if (t == 0) {
        COUNT
        out[0] = copies;
        out[1] = complete(&full);
    }
    __syncthreads();
    for (int i = t; i < 8192; i += blockDim.x) out[2 + i] = box[i];
}
"""
ARRIVE = 'asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(place(&full)) : "memory");'
EXPECT = """asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 1024;"
                         :: "r"(place(&full)) : "memory");"""
# The one arrival comes when all copies have landed. The bytes of one copy are then expected again
# and again: the phase completes after as many times as there were copies.
COUNT = f"""for (const long long begin = clock64(); clock64() - begin < 200000;) {{ }}
        {ARRIVE}
        int copies = 0;
        while (copies < 80 && !complete(&full)) {{
            {EXPECT}
            ++copies;
        }}"""

AT = '"l"(array + 256 * piece)'
CORNER = '"l"(&map), "r"(0), "r"(4 * piece)'
OPERATIONS = {
    "box store": f"""asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
            "[%0, {{%1, %2}}], [%3];" :: {CORNER}, "r"(here) : "memory");""",
    "box reduction": f"""asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile"
            ".bulk_group [%0, {{%1, %2}}], [%3];" :: {CORNER}, "r"(here) : "memory");""",
    "box load": f"""asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
            ".mbarrier::complete_tx::bytes [%3], [%0, {{%1, %2}}], [%4];"
            :: {CORNER}, "r"(here), "r"(bar) : "memory");""",
    "stretch store": f"""
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;"
            :: {AT}, "r"(here) : "memory");""",
    "stretch reduction": f"""
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 "
            "[%0], [%1], 1024;" :: {AT}, "r"(here) : "memory");""",
    "stretch load": f"""asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx"
            "::bytes [%1], [%0], 1024, [%2];" :: {AT}, "r"(here), "r"(bar) : "memory");""",
}  # fmt: skip
KINDS = {"store": "tma_st", "reduction": "tma_red", "load": "tma_ld"}  # in the names of metrics
# What is counted -> its metric, of a kind.
METRICS = {"instructions": INSTRUCTIONS.format, "sectors": sectors_metric}
# Form -> (which threads execute it, the piece of each, the different pieces).
FORMS = {
    "one lane": ("t == 0", "given", [GIVEN]),
    "elected": ("t < 32 && elected()", "given", [GIVEN]),
    "half a warp": ("t < 16", "given", [GIVEN]),
    "warp": ("t < 32", "given", [GIVEN]),
    "two warps": ("t < 64", "given", [GIVEN]),
    "warp, loaded alike": ("t < 32", "given + zeros[t]", [GIVEN]),
    "warp, two pieces": ("t < 32", "given + (t & 1)", [GIVEN, GIVEN + 1]),
    "warp, every piece": ("t < 32", "t", list(range(PIECES))),
}
CASES = {f"{what}, {form}": (what, form) for what in OPERATIONS for form in FORMS}


def kind(name: str) -> str:
    """Of the case's operation, as metrics call it."""
    return KINDS[CASES[name][0].split()[1]]


def entry(name: str) -> str:
    return "case_" + name.replace(",", "").replace(" ", "_")


def source(names: Iterable[str], count: str = COUNT) -> str:
    """The kernels of the cases; `count`: the code by which loads find the number of copies."""
    text = HEAD
    for name in names:
        operation, form = CASES[name]
        who, piece, _ = FORMS[form]
        kernel = LOAD.replace("COUNT", count) if kind(name) == "tma_ld" else STORE
        kernel = kernel.replace("NAME", entry(name)).replace("ISSUE", OPERATIONS[operation])
        text += kernel.replace("WHO", who).replace("PIECE", piece)
    return text


def arrays(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the array before the launch, zeros, out)."""
    words = np.arange(PIECES * WORDS, dtype=np.uint32)
    array = 7 + 3 * words if kind(name) == "tma_ld" else 0 * words
    return array.reshape(-1, BOX[1]), np.zeros(64, np.uint32), np.zeros(2 + words.size, np.uint32)


def copies(name: str, array: np.ndarray, out: np.ndarray) -> int | None:
    """How many copies the arrays show after the launch; None for a store.

    Raises AssertionError if a piece is not copied, or copied wrong, or one that no lane names is.
    """
    pieces = FORMS[CASES[name][1]][2]
    others = np.delete(np.arange(PIECES), pieces)
    in_array = array.reshape(PIECES, WORDS)
    if kind(name) == "tma_ld":
        landed = out[2:].reshape(PIECES, WORDS)
        assert out[1], f"{name}: the phase of the mbarrier is not complete"
        assert (landed[pieces] == in_array[pieces]).all() and not landed[others].any(), name
        return int(out[0])
    once = np.arange(1, 1 + PIECES * WORDS).reshape(PIECES, WORDS)[pieces]
    times = in_array[pieces, :1] // once[:, :1]
    assert (times >= 1).all() and (in_array[pieces] == times * once).all(), name
    assert not in_array[others].any(), name
    if kind(name) == "tma_red":
        return int(times.sum())
    assert (times == 1).all(), name
    return None


def launched(names: list[str]) -> Iterator[int | None]:
    """The copies of each case, launched on the GPU."""
    import cupy

    module = cupy.RawModule(code=source(names), options=(f"-arch={ARCH}", *COMMON_OPTIONS))
    for name in names:
        array, zeros, out = map(cupy.asarray, arrays(name))
        code, tensor_map = encode(Boxes("uint32", array.shape, BOX, ()), array)
        assert code == 0, f"{name}: cuTensorMapEncodeTiled returned {code}"
        args = (tensor_map, array, zeros, np.int32(GIVEN), out)
        module.get_function(entry(name))((1,), (THREADS,), args)
        yield copies(name, cupy.asnumpy(array), cupy.asnumpy(out))


if __name__ == "__main__":
    list(launched(sys.argv[1:]))
