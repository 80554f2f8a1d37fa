"""Record what bulk copies, tensor maps and mbarriers do on an NVIDIA GPU.

    python ptxsim/hardware/record_copies.py OUTDIR

writes OUTDIR/copies.npz. Needs CuPy and a GPU of compute capability 9.0 or later. The simulator
runs the same kernels on the same arrays: see test_tma.py.

The file holds, by the name of the case: `load NAME`, shared memory after a box has landed in it,
uint8 (boxes, bytes); `store NAME`, the array's memory after boxes were stored in it; `stretch load`
and `stretch store`, the same of copies without a tensor map; `script NAME`, what an mbarrier told
after each step; `product SWIZZLE`, C of a whole kernel, tests/kernels/tma.cu; `encoded`, what
cuTensorMapEncodeTiled returned for each of `encodings()`; and `probed`, whether the GPU did each of
`probes()` or stopped with an error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

WIDTHS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}  # of a row in shared memory, at least
# As ptxsim compiles, which CuPy does too.
COMMON_OPTIONS = ("-ftz=true", "-lineinfo", "-std=c++17")
FILLING = 0xAB  # every byte of shared memory before a copy, and of arrays before a store
THREADS = 64

HEAD = """
typedef unsigned long long mbarrier;
struct __align__(64) TensorMap { char opaque[128]; };
__device__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(mbarrier* b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(place(b)), "r"(count) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void arrive_and_expect(mbarrier* b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(place(b)), "r"(bytes) : "memory");
}
__device__ void wait(mbarrier* b, int parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(place(b)), "r"(parity) : "memory");
}
__device__ void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void finish() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
extern __shared__ __align__(1024) unsigned memory[];
"""

# One block a box: the box at the block's corner (last axis first) goes to byte `offset` of shared
# memory, of which `words` are looked at afterwards. With a store, they are given before.
BOXES = """
extern "C" __global__ void load_{n}d(const __grid_constant__ TensorMap map, const int* corners,
                                     unsigned* out, int words, int offset, int bytes)
{{
    mbarrier* full = (mbarrier*)(memory + words);
    const int* at = corners + {n} * blockIdx.x;
    for (int i = threadIdx.x; i < words; i += blockDim.x) memory[i] = 0xABABABAB;
    if (threadIdx.x == 0) init(full, 1);
    fence();
    __syncthreads();
    if (threadIdx.x == 0) {{
        arrive_and_expect(full, bytes);
        asm volatile("cp.async.bulk.tensor.{n}d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {{{load}}}], [%2];"
                     :: "r"(place(memory) + offset), "l"(&map), "r"(place(full)), {at} : "memory");
    }}
    wait(full, 0);
    for (int i = threadIdx.x; i < words; i += blockDim.x) out[blockIdx.x * words + i] = memory[i];
}}
extern "C" __global__ void store_{n}d(const __grid_constant__ TensorMap map, const int* corners,
                                      const unsigned* in, int words, int offset)
{{
    const int* at = corners + {n} * blockIdx.x;
    for (int i = threadIdx.x; i < words; i += blockDim.x) memory[i] = in[blockIdx.x * words + i];
    fence();
    __syncthreads();
    if (threadIdx.x == 0) {{
        asm volatile("cp.async.bulk.tensor.{n}d.global.shared::cta.tile.bulk_group "
                     "[%1, {{{store}}}], [%0];"
                     :: "r"(place(memory) + offset), "l"(&map), {at} : "memory");
        finish();
    }}
}}
"""

STRETCHES = """
extern "C" __global__ void load_stretch(const char* in, const int* from, const int* to,
                                        const int* sizes, unsigned* out, int words)
{
    mbarrier* full = (mbarrier*)(memory + words);
    for (int i = threadIdx.x; i < words; i += blockDim.x) memory[i] = 0xABABABAB;
    if (threadIdx.x == 0) init(full, 1);
    fence();
    __syncthreads();
    const int b = blockIdx.x;
    if (threadIdx.x == 0) {
        arrive_and_expect(full, sizes[b]);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1], %2, [%3];" :: "r"(place(memory) + to[b]), "l"(in + from[b]),
                     "r"(sizes[b]), "r"(place(full)) : "memory");
    }
    wait(full, 0);
    for (int i = threadIdx.x; i < words; i += blockDim.x) out[b * words + i] = memory[i];
}
extern "C" __global__ void store_stretch(const unsigned* in, const int* from, const int* to,
                                         const int* sizes, char* out, int words)
{
    const int b = blockIdx.x;
    for (int i = threadIdx.x; i < words; i += blockDim.x) memory[i] = in[b * words + i];
    fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                     :: "l"(out + to[b]), "r"(place(memory) + from[b]), "r"(sizes[b]) : "memory");
        finish();
    }
}
"""

# Block (x, y): the first x + 1 steps of the script, then whether the phase of parity y is seen as
# complete. `pending` is what was missing in the state that the last arrival returned.
SCRIPTS = """
extern "C" __global__ void script(const int* steps, int count, const char* in, int* seen,
                                  int* pending)
{
    __shared__ mbarrier one;
    __shared__ __align__(128) char landing[4096];
    init(&one, count);
    unsigned left = 0xFFFFFFFF;
    for (int i = 0; i <= blockIdx.x; ++i) {
        const int what = steps[2 * i], number = steps[2 * i + 1];
        mbarrier state;
        if (what == 0) {
            asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;"
                         : "=l"(state) : "r"(place(&one)), "r"(number) : "memory");
        } else if (what == 1) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], %2;"
                         : "=l"(state) : "r"(place(&one)), "r"(number) : "memory");
        } else if (what == 2) {
            asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1], %2;"
                         : "=l"(state) : "r"(place(&one)), "r"(number) : "memory");
        } else if (what == 3) {
            asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
                         :: "r"(place(&one)), "r"(number) : "memory");
        } else if (what == 4) {
            asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
                         :: "r"(place(&one)), "r"(number) : "memory");
        } else {
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                         "[%0], [%1], %2, [%3];" :: "r"(place(landing)), "l"(in), "r"(number),
                         "r"(place(&one)) : "memory");
        }
        if (what <= 2)
            asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(left) : "l"(state));
    }
    pending[2 * blockIdx.x + blockIdx.y] = left;
    unsigned done = 0;
    for (int i = 0; i < 2000 && !done; ++i) {
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(place(&one)), "r"(blockIdx.y) : "memory");
        __nanosleep(20);
    }
    seen[2 * blockIdx.x + blockIdx.y] = done;
}
"""
ARRIVE, ARRIVE_AND_EXPECT, DROP, EXPECT, COMPLETE, COPY = range(6)
# Name -> (count of the mbarrier, steps). No step completes more than the phase it is in.
SCRIPTED = {
    "arrivals": (3, [(ARRIVE, 1), (ARRIVE, 1), (ARRIVE, 1), (ARRIVE, 2), (ARRIVE, 1), (ARRIVE, 3)]),
    "bytes": (1, [(ARRIVE_AND_EXPECT, 64), (COMPLETE, 16), (COMPLETE, 48), (ARRIVE, 1)]),
    "bytes first": (2, [(EXPECT, 32), (ARRIVE, 2), (COMPLETE, 32), (ARRIVE, 1), (ARRIVE, 1)]),
    "bytes before they are expected": (2, [(COMPLETE, 32), (ARRIVE, 1), (EXPECT, 32), (ARRIVE, 1)]),
    "bytes cancel": (2, [(EXPECT, 32), (COMPLETE, 32), (ARRIVE, 1), (ARRIVE, 1)]),
    "drop": (4, [(DROP, 1), (ARRIVE, 3), (ARRIVE, 3), (DROP, 2), (ARRIVE, 1), (ARRIVE, 1)]),
    "copy": (1, [(ARRIVE_AND_EXPECT, 512), (COPY, 512)]),
    "copy in parts": (1, [(ARRIVE_AND_EXPECT, 512), (COPY, 256), (COPY, 256)]),
    "copy of too little": (1, [(ARRIVE_AND_EXPECT, 512), (COPY, 496)]),
    "copy of too much": (1, [(ARRIVE_AND_EXPECT, 512), (COPY, 528)]),
}  # fmt: skip


def _boxes(n: int) -> str:
    def coordinates(first):
        return ", ".join(f"%{first + i}" for i in range(n))

    at = ", ".join(f'"r"(at[{i}])' for i in range(n))
    return BOXES.format(n=n, load=coordinates(3), store=coordinates(2), at=at)


SOURCE = HEAD + "".join(_boxes(n) for n in range(1, 6)) + STRETCHES + SCRIPTS


# --- cases ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Boxes:
    """Boxes of a view of an array of `whole`. `begin`, `end`: of the view, by axis.

    `corners`: in the order of the array's axes. `offset`: where in shared memory the box begins.
    """

    dtype: str
    whole: tuple[int, ...]
    box: tuple[int, ...]
    corners: tuple[tuple[int, ...], ...]
    swizzle: str = "none"
    fill: str = "zero"
    offset: int = 0
    begin: tuple[int, ...] = ()
    end: tuple[int, ...] = ()

    @property
    def words(self) -> int:
        """Of shared memory, what the box may touch, with some more."""
        *rows, across = self.box
        pitch = max(across * np.dtype(self.dtype).itemsize, WIDTHS[self.swizzle])
        return (self.offset + int(np.prod(rows)) * pitch + 1023) // 1024 * 256

    def memory(self) -> np.ndarray:
        return pattern(self.dtype, self.whole)

    def view(self, array):
        """The part of an array of shape `whole`, of NumPy or CuPy, that the map is of."""
        begin, end = self.begin or (0,) * len(self.whole), self.end or self.whole
        return array[tuple(slice(a, b) for a, b in zip(begin, end, strict=True))]

    def coordinates(self) -> np.ndarray:
        """As the kernels take them, last axis first."""
        return np.array([corner[::-1] for corner in self.corners], np.int32)


def pattern(dtype: str, shape) -> np.ndarray:
    """Any bits, the same ones everywhere."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    words = np.random.PCG64(9).random_raw(-(-size // 8))
    return words.view(np.uint8)[:size].view(dtype).reshape(shape)


def loads() -> dict[str, Boxes]:
    """Every swizzle with boxes of each width, inside, past each end, and far outside."""
    boxes = {}
    widths = {"none": (16, 64, 128, 256), "32B": (16, 32), "64B": (16, 32, 64),
              "128B": (16, 32, 64, 96, 128)}  # fmt: skip
    for swizzle, rows in widths.items():
        for dtype in ("uint8", "float16", "float32", "float64"):
            size = np.dtype(dtype).itemsize
            for row in rows:
                if row // size > 256 or (dtype != "float32" and row not in (64, max(rows))):
                    continue
                per_unit, across = 16 // size, row // size
                whole = (37, 9 * 16 * per_unit)
                past = whole[1] - across + per_unit
                corners = ((0, 0), (3, per_unit), (-2, -per_unit), (-40, 0), (2, 2**20),
                           (30, past), (36, whole[1] - per_unit))  # fmt: skip
                boxes[f"{swizzle} {dtype} {row}"] = Boxes(
                    dtype, whole, (16, across), corners, swizzle
                )
    for swizzle, row in (("32B", 8), ("64B", 16), ("128B", 32)):
        for offset in (128, 256, 384, 512, 896):
            corners = ((0, 0), (-1, 4))
            boxes[f"{swizzle} at {offset}"] = Boxes(
                "float32", (20, 64), (12, row), corners, swizzle, offset=offset
            )
    boxes["all axes 1"] = Boxes("float32", (100,), (64,), ((0,), (-8,), (72,), (96,), (100,)))
    boxes["all axes 3"] = Boxes(
        "float32", (5, 6, 20), (3, 4, 8), ((0, 0, 0), (-1, 3, 12), (4, -2, -4))
    )
    boxes["all axes 4"] = Boxes(
        "float16",
        (3, 4, 5, 24),
        (2, 2, 3, 16),
        ((0, 0, 0, 0), (2, -1, 4, 16), (-1, 3, -2, -8)),
        "32B",
    )
    boxes["all axes 5"] = Boxes(
        "float32", (2, 3, 4, 5, 8), (2, 1, 2, 3, 4), ((0, 0, 0, 0, 0), (1, 2, -1, 3, 4)), "128B"
    )
    for dtype in ("uint16", "uint32", "int32", "uint64", "int64"):
        boxes[f"type {dtype}"] = Boxes(dtype, (7, 32), (4, 16), ((1, 8), (5, -8)))
    for dtype in ("float16", "float32", "float64"):
        boxes[f"nan {dtype}"] = Boxes(
            dtype, (7, 32), (4, 16), ((0, 0), (5, -8), (-9, 0)), fill="nan"
        )
    boxes["view"] = Boxes("float32", (30, 64), (8, 16), ((0, 0), (-1, -4), (12, 20)), "64B",
                          begin=(5, 8), end=(23, 41))  # fmt: skip
    boxes["box larger than the array"] = Boxes("float32", (3, 4), (8, 16), ((0, 0), (-2, -4)))
    return boxes


def stores() -> dict[str, Boxes]:
    boxes = {}
    for swizzle, row in (("none", 64), ("32B", 32), ("64B", 64), ("128B", 128)):
        for dtype in ("float16", "float32"):
            across = row // np.dtype(dtype).itemsize
            whole = (29, 3 * across)
            unit = 16 // np.dtype(dtype).itemsize
            corners = ((0, 0), (8, unit), (3, across + unit), (25, 2 * across), (16, 3 * across))
            boxes[f"{swizzle} {dtype}"] = Boxes(dtype, whole, (8, across), corners, swizzle)
    boxes["three axes"] = Boxes(
        "float32", (3, 5, 20), (2, 3, 8), ((0, 0, 0), (2, 3, 12), (1, 4, 4))
    )
    for dtype, width in (("float32", 33), ("float32", 34), ("float32", 38), ("float16", 65)):
        corners = ((0, 32), (4, 24), (8, 64))
        boxes[f"ragged {dtype} {width}"] = Boxes(
            dtype, (12, 96), (4, 16), corners, begin=(0, 0), end=(10, width)
        )
    boxes["at 384"] = Boxes("float32", (20, 64), (12, 32), ((0, 0), (12, 40)), "128B", offset=384)
    boxes["view"] = Boxes("float32", (30, 64), (8, 16), ((0, 0), (2, 20), (12, 20)), "64B",
                          begin=(5, 8), end=(23, 41))  # fmt: skip
    return boxes


def probes() -> dict[str, tuple[str, Boxes]]:
    """("load" or "store", one box) that the GPU may refuse: where it lies in either memory."""
    boxes = {}
    for dtype, columns in (("uint8", (8, 16)), ("float16", (4, 8)), ("float32", (1, 2, 4, -1, -4)),
                           ("float64", (1, 2))):  # fmt: skip
        for column in columns:
            case = Boxes(dtype, (20, 96), (8, 16), ((3, column),))
            boxes[f"load {dtype} at column {column}"] = "load", case
            boxes[f"store {dtype} at column {column}"] = "store", case
    for swizzle in ("none", "128B"):
        for offset in (16, 32, 64, 128):
            case = Boxes("float32", (20, 96), (8, 16), ((3, 4),), swizzle, offset=offset)
            boxes[f"load {swizzle} to byte {offset}"] = "load", case
            boxes[f"store {swizzle} from byte {offset}"] = "store", case
    for row, column in ((-1, 4), (3, -4), (0, -64), (25, 0), (0, 96), (0, 2**20), (2**20, 0)):
        case = Boxes("float32", (20, 96), (8, 16), ((row, column),))
        boxes[f"load at {row}, {column}"] = "load", case
        boxes[f"store at {row}, {column}"] = "store", case
    boxes["load with an odd plane"] = "load", Boxes("float32", (5, 6, 20), (2, 3, 8), ((3, 1, 4),))
    boxes["load from beyond, at column 97"] = (
        "load",
        Boxes("float32", (20, 96), (8, 16), ((3, 97),)),
    )
    return boxes


STRETCH_WORDS = 512


def stretches() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(from, to, size) in bytes, int32 each; what they go to does not overlap."""
    rows = [(0, 0, 16), (16, 32, 1024), (4000, 1040, 48), (160, 1008, 1040), (48, 0, 2048)]
    return tuple(np.array(column, np.int32) for column in zip(*rows, strict=True))


# Swizzle -> TILE and WIDTH of tests/kernels/tma.cu.
PRODUCTS = {"none": (32, 0), "32B": (8, 32), "64B": (16, 64), "128B": (32, 128)}
PRODUCT_SHAPE = (37, 45, 50)
KERNELS = Path(__file__).resolve().parents[1] / "tests" / "kernels" / "tma.cu"


def factors() -> list[Boxes]:
    """A, B and C of the product, in rows padded to 16 bytes; their values by `numbers`."""
    m, n, k = PRODUCT_SHAPE
    return [
        Boxes("float32", (rows, -(-cols // 4) * 4), (), (), begin=(0, 0), end=(rows, cols))
        for rows, cols in ((m, k), (k, n), (m, n))
    ]


def numbers(shape) -> np.ndarray:
    """float32 from -1 to 1, the same everywhere."""
    return (pattern("int32", shape) / 2.0**31).astype(np.float32)


def encodings() -> dict[str, Boxes]:
    """Maps that may be made and maps that may not."""
    flat, square = (64,), (16, 64)
    return {
        "plain": Boxes("float32", square, (8, 16), ()),
        "box of 256": Boxes("float32", (300, 512), (256, 256), ()),
        "box of 257": Boxes("float32", (300, 512), (257, 16), ()),
        "box of 0": Boxes("float32", square, (0, 16), ()),
        "row of 12 bytes": Boxes("float32", square, (8, 3), ()),
        "row of 8 bytes": Boxes("float16", square, (8, 4), ()),
        "row of 24 bytes": Boxes("float32", square, (8, 6), ()),
        "one axis of 16 bytes": Boxes("float32", flat, (4,), ()),
        "one axis of 8 bytes": Boxes("float32", flat, (2,), ()),
        "stride of 4 more": Boxes("float32", (16, 65), (8, 16), ()),
        "stride of 16 more": Boxes("float32", (16, 68), (8, 16), ()),
        "strides that do not divide": Boxes("float32", (4, 6, 68), (2, 2, 16), (),
                                            end=(4, 5, 68)),
        "begins 16 further": Boxes("float32", square, (8, 16), (), begin=(0, 4), end=square),
        "begins 4 further": Boxes("float32", square, (8, 16), (), begin=(0, 1), end=square),
        "32B of 32": Boxes("float32", square, (8, 8), (), "32B"),
        "32B of 48": Boxes("float32", square, (8, 12), (), "32B"),
        "64B of 64": Boxes("float16", square, (8, 32), (), "64B"),
        "64B of 80": Boxes("float16", square, (8, 40), (), "64B"),
        "128B of 128": Boxes("float32", square, (8, 32), (), "128B"),
        "128B of 144": Boxes("float32", square, (8, 36), (), "128B"),
        "128B of 48": Boxes("float32", square, (8, 12), (), "128B"),
        "nan of uint32": Boxes("uint32", square, (8, 16), (), fill="nan"),
        "nan of float32": Boxes("float32", square, (8, 16), (), fill="nan"),
        "nan of float64": Boxes("float64", square, (8, 16), (), fill="nan"),
        "larger than the array": Boxes("float32", (2, 4), (8, 16), ()),
    }  # fmt: skip


# --- recording ------------------------------------------------------------------------------------

# Of CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapFloatOOBfill.
TYPES = {"uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6,
         "float32": 7, "float64": 8}  # fmt: skip
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
FILLS = {"zero": 0, "nan": 1}


def encode(case: Boxes, array):
    """(what cuTensorMapEncodeTiled returns, the map). `array`: CuPy, of shape `whole`."""
    import ctypes

    view, axes = case.view(array), len(case.whole)
    room = np.zeros(256, np.uint8)
    begin = -room.ctypes.data % 128
    made = room[begin : begin + 128]

    def numbers(kind, values):
        return (kind * max(len(values), 1))(*values)

    code = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        ctypes.c_void_p(made.ctypes.data), TYPES[case.dtype], axes,
        ctypes.c_void_p(view.data.ptr), numbers(ctypes.c_uint64, view.shape[::-1]),
        numbers(ctypes.c_uint64, view.strides[-2::-1]),
        numbers(ctypes.c_uint32, case.box[::-1]), numbers(ctypes.c_uint32, (1,) * axes),
        0, SWIZZLES[case.swizzle], 0, FILLS[case.fill],
    )  # fmt: skip
    return code, made.view("V128")


def in_processes(script: str, path: Path, limit_s: float) -> None:
    """Run `script --some path left_out` until all cases are in `path` or left out.

    It prints the name of each case before it runs it. What fails or hangs takes its process with
    it, and is left out by the next one. Exits where nothing runs at all.
    """
    without: set[str] = set()
    while True:
        command = [sys.executable, script, "--some", str(path), json.dumps(sorted(without))]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit_s, check=False
            )
            output, failed = done.stdout, done.returncode != 0
            if failed:
                print(done.stderr[-1500:], flush=True)
        except subprocess.TimeoutExpired as error:
            output, failed = (error.stdout or b"").decode(), True
        names = output.strip().splitlines()
        failure = f", the last one failed: {names[-1]}" if failed and names else ""
        print(f"{len(names)} run{failure}", flush=True)
        if not failed:
            return
        if not names:
            sys.exit("nothing runs at all")
        without.add(names[-1])


def main(outdir: Path) -> None:
    import cupy

    from record_arithmetic import provenance

    module = cupy.RawModule(code=SOURCE, options=("-arch=sm_90a", "-std=c++17"))
    results = {}
    for name, case in loads().items():
        results[f"load {name}"] = _load(cupy, module, case)
    for name, case in stores().items():
        results[f"store {name}"] = _store(cupy, module, case)
    results |= _stretches(cupy, module)
    for swizzle in PRODUCTS:
        results[f"product {swizzle}"] = _product(cupy, swizzle)
    for name, (count, steps) in SCRIPTED.items():
        seen, pending = (cupy.zeros((len(steps), 2), "i4") for _ in range(2))
        given = cupy.asarray(pattern("uint8", (4096,)))
        args = (cupy.asarray(np.array(steps, np.int32)), np.int32(count), given, seen, pending)
        module.get_function("script")((len(steps), 2), (1,), args)
        results[f"script {name}"] = np.stack([seen.get(), pending.get()])
    encoded = {}
    for name, case in encodings().items():
        encoded[name] = encode(case, cupy.asarray(case.memory()))[0]
    results["encoded"] = np.array(json.dumps(encoded))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        probed = dict(zip(probes(), pool.map(_probe, probes()), strict=True))
    results["probed"] = np.array(json.dumps(probed))
    about = {**provenance(cupy), "command": "python ptxsim/hardware/record_copies.py OUTDIR"}
    results["about"] = np.array(json.dumps(about))
    np.savez_compressed(outdir / "copies.npz", **results)


def _load(cupy, module, case: Boxes) -> np.ndarray:
    code, tensor_map = encode(case, array := cupy.asarray(case.memory()))
    assert not code, f"cuTensorMapEncodeTiled returned {code} for {case}"
    out = cupy.zeros((len(case.corners), case.words), "u4")
    size = int(np.prod(case.box)) * array.itemsize
    numbers = (np.int32(n) for n in (case.words, case.offset, size))
    module.get_function(f"load_{len(case.whole)}d")(
        (len(case.corners),), (THREADS,),
        (tensor_map, cupy.asarray(case.coordinates()), out, *numbers),
        shared_mem=4 * case.words + 16,
    )  # fmt: skip
    return out.get().view(np.uint8)


def _store(cupy, module, case: Boxes) -> np.ndarray:
    memory = np.full_like(case.memory().view(np.uint8), FILLING).view(case.dtype)
    code, tensor_map = encode(case, array := cupy.asarray(memory))
    assert not code, f"cuTensorMapEncodeTiled returned {code} for {case}"
    given = cupy.asarray(pattern("uint32", (len(case.corners), case.words)))
    numbers = np.int32(case.words), np.int32(case.offset)
    module.get_function(f"store_{len(case.whole)}d")(
        (len(case.corners),), (THREADS,),
        (tensor_map, cupy.asarray(case.coordinates()), given, *numbers),
        shared_mem=4 * case.words,
    )  # fmt: skip
    return array.get().view(np.uint8)


def _product(cupy, swizzle: str) -> np.ndarray:
    tile, width = PRODUCTS[swizzle]
    options = ("-arch=sm_90a", *COMMON_OPTIONS, f"-DTILE={tile}", f"-DWIDTH={width}")
    module = cupy.RawModule(code=KERNELS.read_text(encoding="utf-8"), options=options)
    arrays, maps = [cupy.asarray(numbers(case.whole)) for case in factors()], []
    for case, array, layout in zip(factors(), arrays, (swizzle, swizzle, "none"), strict=True):
        code, tensor_map = encode(replace(case, box=(tile, tile), swizzle=layout), array)
        assert not code, f"cuTensorMapEncodeTiled returned {code}"
        maps.append(tensor_map)
    m, n, k = PRODUCT_SHAPE
    grid = (-(-n // tile), -(-m // tile))
    module.get_function("product")(grid, (tile, tile), (*maps, np.int32(k)))
    return arrays[2].get()


def _probe(name: str) -> str:
    """What a probe comes to, in a process of its own: an error takes the CUDA context with it."""
    command = [sys.executable, __file__, "--probe", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return (done.stdout.strip().splitlines() or ["nothing"])[-1]


def probe(name: str) -> None:
    import cupy

    module = cupy.RawModule(code=SOURCE, options=("-arch=sm_90a", "-std=c++17"))
    what, case = probes()[name]
    try:
        {"load": _load, "store": _store}[what](cupy, module, case)
        cupy.cuda.runtime.deviceSynchronize()
        print("done", flush=True)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        print(str(error).split(":")[0], flush=True)
    os._exit(0)  # a broken context would raise in every destructor


def _stretches(cupy, module) -> dict[str, np.ndarray]:
    begin, to, size = stretches()
    blocks, words = len(size), STRETCH_WORDS
    on_gpu = [cupy.asarray(column) for column in (begin, to, size)]
    out = cupy.zeros((blocks, words), "u4")
    given = cupy.asarray(pattern("uint8", (8192,)))
    module.get_function("load_stretch")(
        (blocks,), (THREADS,), (given, *on_gpu, out, np.int32(words)), shared_mem=4 * words + 16
    )
    results = {"stretch load": out.get().view(np.uint8)}
    # The other way round, one after the other into memory of its own.
    given = cupy.asarray(pattern("uint32", (blocks, words)))
    target = cupy.full(blocks * 8192, FILLING, "u1")
    to = cupy.asarray(begin + 8192 * np.arange(blocks, dtype=np.int32))
    module.get_function("store_stretch")(
        (blocks,), (THREADS,), (given, on_gpu[1], to, on_gpu[2], target, np.int32(words)),
        shared_mem=4 * words,
    )  # fmt: skip
    results["stretch store"] = target.get()
    return results


if __name__ == "__main__":
    if sys.argv[1] == "--probe":
        probe(sys.argv[2])
    else:
        main(Path(sys.argv[1]))
