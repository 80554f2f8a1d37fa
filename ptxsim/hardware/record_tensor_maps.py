"""Record tensor maps that kernels make and change, and what copies by them do, on an NVIDIA GPU.

    python ptxsim/hardware/record_tensor_maps.py OUTDIR    writes OUTDIR/tensor_maps.npz

The file holds `replaced NAME`, the words of a map after one tensormap.replace, uint32 (places,
values, 32); `made NAME`, shared memory after a box came by a map that the kernel had made, of each
corner, uint32 (corners, words), with a last word that says whether the copy came at all; `stored
NAME`, the array's memory after boxes were stored by such a map; `changed NAME`, what kernels loaded
by maps that they had changed; and in `sectors`, what Nsight Compute counted of boxes that went to
several blocks: sectors and instructions. Needs CuPy, ncu and a GPU of compute capability 9.0. The
simulator runs the same kernels on the same arrays: see test_tensor_maps.py.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from record_copies import Boxes, encode, in_processes, pattern

OPTIONS = ("-arch=sm_90a", "-ftz=true", "-lineinfo", "-std=c++17")
LIMIT_S = 25  # of one process that runs cases; the case that fails or hangs is left out
WORDS = 32  # of a map
AXES = 5

HEAD = """
typedef unsigned u32;
typedef unsigned long long u64;
typedef u64 mbarrier;
struct __align__(64) TensorMap { char opaque[128]; };
#define KERNEL extern "C" __global__ void
__device__ u32 place(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void fence() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ void release()
{
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
}
__device__ void acquire(const void* map)
{
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
}
__device__ void to_global(void* map, const void* from)
{
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu"
                 ".sync.aligned [%0], [%1], 128;" :: "l"(map), "r"(place(from)) : "memory");
}
__device__ void init(mbarrier* b)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(place(b)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void expect(mbarrier* b, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(place(b)), "r"(bytes) : "memory");
}
// Whether the phase was over in time.
__device__ u32 wait(mbarrier* b, u32 parity)
{
    u32 done = 0;
    for (int i = 0; i < 2000 && !done; ++i)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(place(b)), "r"(parity) : "memory");
    return done;
}
__device__ void finish()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
__device__ void load_2d(void* to, const void* map, int x, int y, mbarrier* told)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(place(to)), "l"(map), "r"(x), "r"(y), "r"(place(told)) : "memory");
}
#define SET_64(field, value) asm volatile("tensormap.replace.tile." field \\
    ".shared::cta.b1024.b64 [%0], %1;" :: "r"(place(map)), "l"((u64)(value)) : "memory");
#define SET_32(field, value) asm volatile("tensormap.replace.tile." field \\
    ".shared::cta.b1024.b32 [%0], %1;" :: "r"(place(map)), "r"((u32)(value)) : "memory");
#define AT_64(field, i, value) asm volatile("tensormap.replace.tile." field \\
    ".shared::cta.b1024.b64 [%0], %1, %2;" \\
    :: "r"(place(map)), "n"(i), "l"((u64)(value)) : "memory");
#define AT_32(field, i, value) asm volatile("tensormap.replace.tile." field \\
    ".shared::cta.b1024.b32 [%0], %1, %2;" \\
    :: "r"(place(map)), "n"(i), "r"((u32)(value)) : "memory");
#define IS(field, number) if (given == number) \\
    asm volatile("tensormap.replace.tile." field ".shared::cta.b1024.b32 [%0], " #number ";" \\
                 :: "r"(place(map)) : "memory");
extern __shared__ __align__(1024) u32 memory[];
"""

# `f`: address, rank, elemtype, swizzle, fill, then 5 of the box, of the array and of the steps, and
# 4 strides. A map of zeros gets all of them.
MAKE = """
__device__ void make(u32* map, const u64* f)
{
    SET_64("global_address", f[0])
    SET_32("rank", f[1])
    u64 given = f[2];
    IS("elemtype", 0) IS("elemtype", 1) IS("elemtype", 2) IS("elemtype", 3) IS("elemtype", 4)
    IS("elemtype", 5) IS("elemtype", 6) IS("elemtype", 7) IS("elemtype", 8) IS("elemtype", 9)
    IS("elemtype", 10) IS("elemtype", 11) IS("elemtype", 12)
    given = f[3];
    IS("swizzle_mode", 0) IS("swizzle_mode", 1) IS("swizzle_mode", 2) IS("swizzle_mode", 3)
    given = f[4];
    IS("fill_mode", 0) IS("fill_mode", 1)
    given = 0;
    IS("interleave_layout", 0)
    AT_32("box_dim", 0, f[5]) AT_32("box_dim", 1, f[6]) AT_32("box_dim", 2, f[7])
    AT_32("box_dim", 3, f[8]) AT_32("box_dim", 4, f[9])
    AT_32("global_dim", 0, f[10]) AT_32("global_dim", 1, f[11]) AT_32("global_dim", 2, f[12])
    AT_32("global_dim", 3, f[13]) AT_32("global_dim", 4, f[14])
    AT_32("element_stride", 0, f[15]) AT_32("element_stride", 1, f[16])
    AT_32("element_stride", 2, f[17]) AT_32("element_stride", 3, f[18])
    AT_32("element_stride", 4, f[19])
    AT_64("global_stride", 0, f[20]) AT_64("global_stride", 1, f[21])
    AT_64("global_stride", 2, f[22]) AT_64("global_stride", 3, f[23])
}
"""
# A block for each corner: the map is made in shared memory, goes to its place in `room`, and the
# box comes by it; or goes by it. `f` holds the address as a number of bytes from `data` on.
BY_MADE = """
KERNEL made_{n}d(const u64* f, char* data, TensorMap* room, const int* corners, u32* out,
                 int words, int bytes)
{{
    u32* map = memory + words;
    mbarrier* full = (mbarrier*)(map + 32);
    const int* at = corners + {n} * blockIdx.x;
    const int t = threadIdx.x;
    for (int i = t; i < words; i += blockDim.x) memory[i] = 0xABABABAB;
    map[t] = 0;
    if (t == 0) init(full);
    __syncwarp();
    if (t == 0) {{
        make(map, f);
        SET_64("global_address", data + f[0])
        expect(full, bytes);
    }}
    __syncwarp();
    to_global(room + blockIdx.x, map);
    acquire(room + blockIdx.x);
    fence();
    __syncwarp();
    if (t == 0)
        asm volatile("cp.async.bulk.tensor.{n}d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {{{load}}}], [%2];"
                     :: "r"(place(memory)), "l"(room + blockIdx.x), "r"(place(full)), {at}
                     : "memory");
    const u32 done = wait(full, 0);
    for (int i = t; i < words; i += blockDim.x)
        out[blockIdx.x * (words + 1) + i] = memory[i];
    if (t == 0) out[blockIdx.x * (words + 1) + words] = done;
}}
KERNEL stored_{n}d(const u64* f, char* data, TensorMap* room, const int* corners, const u32* in,
                   int words)
{{
    u32* map = memory + words;
    const int* at = corners + {n} * blockIdx.x;
    const int t = threadIdx.x;
    for (int i = t; i < words; i += blockDim.x) memory[i] = in[blockIdx.x * words + i];
    map[t] = 0;
    __syncwarp();
    if (t == 0) {{
        make(map, f);
        SET_64("global_address", data + f[0])
    }}
    __syncwarp();
    to_global(room + blockIdx.x, map);
    acquire(room + blockIdx.x);
    fence();
    __syncwarp();
    if (t == 0) {{
        asm volatile("cp.async.bulk.tensor.{n}d.global.shared::cta.tile.bulk_group "
                     "[%1, {{{store}}}], [%0];"
                     :: "r"(place(memory)), "l"(room + blockIdx.x), {at} : "memory");
        finish();
    }}
}}
"""
# One field of 32 words of anything, in shared memory, in global memory, and by a generic address.
REPLACE = """
KERNEL {entry}(const u32* before, const u64* values, u32* out)
{{
    __shared__ __align__(128) u32 map[32];
    const u64 value = values[blockIdx.x];
    const int t = threadIdx.x;
    for (int where = 0; where < 3; ++where) {{
        u32* to = out + 32 * (where * gridDim.x + blockIdx.x);
        map[t] = to[t] = before[t];
        __syncwarp();
        if (t == 0 && where == 0)
            asm volatile("tensormap.replace.tile.{field}.shared::cta.b1024.b{bits} [%0], {given};"
                         :: "r"(place(map)), "{letter}"(({type})value) : "memory");
        if (t == 0 && where == 1)
            asm volatile("tensormap.replace.tile.{field}.global.b1024.b{bits} [%0], {given};"
                         :: "l"(to), "{letter}"(({type})value) : "memory");
        if (t == 0 && where == 2)
            asm volatile("tensormap.replace.tile.{field}.b1024.b{bits} [%0], {given};"
                         :: "l"(map), "{letter}"(({type})value) : "memory");
        __syncwarp();
        if (where != 1) to[t] = map[t];
        __syncwarp();
    }}
}}
"""
# Maps that the host has made, changed by the kernel.
CHANGED = """
// As a grouped product does: one place in global memory for the maps of all groups, in turn.
KERNEL groups(const __grid_constant__ TensorMap given, TensorMap* room, float* data,
              const int* begins, const int* rows, int count, float* out)
{
    __shared__ __align__(128) u32 map[32];
    __shared__ __align__(128) float box[8][16];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    map[t] = ((const u32*)&given)[t];
    if (t == 0) init(&full);
    __syncwarp();
    for (int g = 0; g < count; ++g) {
        const int own = (g + blockIdx.x) % count;
        if (t == 0) {
            SET_64("global_address", data + begins[own])
            AT_32("global_dim", 1, rows[own])
            AT_64("global_stride", 0, 64 + 64 * (own % 2))
        }
        __syncwarp();
        to_global(room + blockIdx.x, map);
        acquire(room + blockIdx.x);
        if (t == 0) {
            expect(&full, sizeof box);
            load_2d(box, room + blockIdx.x, 4, own - 1, &full);
        }
        const u32 done = wait(&full, g % 2);
        for (int i = t; i < 128; i += 32)
            out[128 * (count * blockIdx.x + own) + i] = done ? ((float*)box)[i] : -1.0f;
        fence();
        __syncwarp();
    }
}
// In global memory itself, by the first block's first thread; the others wait for it.
KERNEL in_place(TensorMap* maps, int* flag, int rows, float* out)
{
    __shared__ __align__(128) float box[8][16];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    if (t == 0) {
        init(&full);
        if (blockIdx.x == 0) {
            asm volatile("tensormap.replace.tile.global_dim.global.b1024.b32 [%0], 1, %1;"
                         :: "l"(maps + 1), "r"(rows) : "memory");
            asm volatile("tensormap.replace.tile.fill_mode.global.b1024.b32 [%0], 1;"
                         :: "l"(maps + 1) : "memory");
            release();
            atomicExch(flag, 1);
        }
        while (atomicAdd(flag, 0) == 0) { }
        acquire(maps + 1);
        expect(&full, sizeof box);
        load_2d(box, maps + 1, 0, 2 * (int)blockIdx.x, &full);
    }
    __syncwarp();
    const u32 done = wait(&full, 0);
    for (int i = t; i < 128; i += 32)
        out[128 * blockIdx.x + i] = done ? ((float*)box)[i] : -1.0f;
}
"""
# One box to the blocks that `mask` has the bits of; another block waits for nothing.
TO_SEVERAL = """
extern "C" __global__ void __cluster_dims__({blocks}, 1, 1) several_{blocks}(
    const __grid_constant__ TensorMap map, int x, int y, int mask, int bytes, int sender)
{{
    mbarrier* full = (mbarrier*)(memory + 8192);
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) init(full);
    fence();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x == 0 && mask >> rank & 1) expect(full, bytes);
    if (threadIdx.x == 0 && rank == sender)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%0], [%1, {{%2, %3}}], [%4], %5;"
                     :: "r"(place(memory)), "l"(&map), "r"(x), "r"(y), "r"(place(full)),
                        "h"((unsigned short)mask) : "memory");
    if (mask >> rank & 1) wait(full, 0);
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}}
"""
CLUSTERS = (2, 4, 8)

# Field -> its ordinals, or None; the bits of a value; values, or those that may stand in the text.
SHORT = [0, 1, 2, 3, 7, 8, 255, 256, 257, 2**31 - 1, 2**31, 2**32 - 1]
LONG = [0, 16, 48, 2**20 + 5, 2**36 - 16, 2**40 - 16, 2**40, 2**63 + 2**36, 2**64 - 1]
REPLACED = {
    "global_address": (None, 64, LONG), "rank": (None, 32, SHORT),
    "box_dim": (range(5), 32, SHORT), "global_dim": (range(5), 32, SHORT),
    "global_stride": (range(4), 64, LONG), "element_stride": (range(5), 32, SHORT),
    "elemtype": (None, 32, range(13)), "interleave_layout": (None, 32, range(3)),
    "swizzle_mode": (None, 32, range(4)), "fill_mode": (None, 32, range(2)),
}  # fmt: skip
IMMEDIATE = ("elemtype", "interleave_layout", "swizzle_mode", "fill_mode")


@dataclass(frozen=True)
class Replacement:
    """One form of tensormap.replace, and the values that it is given, a block each."""

    field: str
    ordinal: int | None
    bits: int
    values: tuple[int, ...]
    immediate: int | None = None

    @property
    def entry(self) -> str:
        more = self.immediate if self.immediate is not None else self.ordinal
        return f"replace_{self.field}" + ("" if more is None else f"_{more}")

    def source(self) -> str:
        given = "%1" if self.immediate is None else str(self.immediate)
        if self.ordinal is not None:
            given = f"{self.ordinal}, {given}"
        letter, kind = ("l", "u64") if self.bits == 64 else ("r", "u32")
        return REPLACE.format(entry=self.entry, field=self.field, bits=self.bits, given=given,
                              letter=letter, type=kind)  # fmt: skip


def replacements() -> dict[str, Replacement]:
    replaced = []
    for name, (ordinals, bits, values) in REPLACED.items():
        if name in IMMEDIATE:
            replaced += [Replacement(name, None, bits, (0,), number) for number in values]
        else:
            replaced += [Replacement(name, i, bits, tuple(values)) for i in ordinals or [None]]
    return {case.entry: case for case in replaced}


def words_before() -> np.ndarray:
    """(2, 32): the words that fields are replaced in; what is 0 in one is 1 in the other."""
    words = pattern("uint32", (WORDS,)).copy()
    return np.stack([words, ~words])


ELEMENTS = {
    "uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6,
    "float32": 7, "float32_ftz": 8, "float64": 9, "bfloat16": 10, "tf32": 11, "tf32_ftz": 12,
}  # fmt: skip
SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4)
SWIZZLES = ("none", "32B", "64B", "128B")
DATA_BYTES = 1 << 16


@dataclass(frozen=True)
class Made:
    """A map that a kernel makes, in the order of PTX: the last axis of NumPy's is the first.

    `strides`: in bytes, of all axes but the first. `begin`: of the array, in bytes from the
    beginning of the memory.
    """

    element: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    corners: tuple[tuple[int, ...], ...]
    swizzle: str = "none"
    fill: int = 0
    steps: tuple[int, ...] = ()
    begin: int = 0

    @property
    def size(self) -> int:
        return SIZES[ELEMENTS[self.element]]

    @property
    def landing(self) -> list[int]:
        steps = self.steps or (1,) * len(self.box)
        return [self.box[0]] + [-(-n // s) for n, s in zip(self.box[1:], steps[1:], strict=True)]

    @property
    def bytes(self) -> int:
        return int(np.prod(self.landing)) * self.size

    @property
    def words(self) -> int:
        pitch = max(self.box[0] * self.size, {"none": 0}.get(self.swizzle, 0))
        if self.swizzle != "none":
            pitch = int(self.swizzle[:-1])
        return (int(np.prod(self.landing[1:])) * pitch + 1023) // 1024 * 256

    def fields(self) -> np.ndarray:
        """uint64 (24,), as `make` takes them."""

        def five(values, rest):
            return [*values, *[rest] * (5 - len(values))]

        return np.array(
            [self.begin, len(self.shape) - 1, ELEMENTS[self.element], SWIZZLES.index(self.swizzle),
             self.fill, *five(self.box, 1), *five(self.shape, 1),
             *five(self.steps or (1,) * len(self.shape), 1), *five(self.strides, 16)[:4]], "u8"
        )  # fmt: skip


def numbers_of(element: str) -> np.ndarray:
    """The memory that maps are of, as bytes: any bits; of floats awkward ones among them."""
    data = pattern("uint8", (DATA_BYTES,)).copy()
    if element.startswith(("float32", "tf32")):
        words = data.view("u4")
        awkward = np.array([1, 0x807FFFFF, 0x00400000, 0x3F801000, 0x3F801001, 0x3F800FFF,
                            0x3F803000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0xFFC00001, 0x7FA00000,
                            0x7FFFF000, 0x00001000, 0x007FF000, 0x807FF800], "u4")  # fmt: skip
        words[::5] = awkward[np.arange(len(words[::5])) % len(awkward)]
    return data


def made() -> dict[str, Made]:
    maps = {}
    for element, size in zip(ELEMENTS, SIZES, strict=True):
        row, wide = 64 // size, 256 // size
        corners = ((0, 0), (16 // size, 3), (-16 // size, -2), (wide - 32 // size, 9))
        floats = "float" in element or "tf32" in element
        for fill in (0, 1) if floats else (0,):
            maps[f"{element} fill {fill}"] = Made(
                element, (wide - 1, 12), (256,), (row, 5), corners, fill=fill
            )
    for swizzle in SWIZZLES[1:]:
        row = int(swizzle[:-1]) // 4
        maps[f"swizzle {swizzle}"] = Made(
            "uint32", (60, 20), (240,), (row, 9), ((0, 0), (52, 15), (-4, -1)), swizzle, begin=4096
        )
    maps["axes 1"] = Made("uint32", (1000,), (), (64,), ((0,), (-8,), (996,)), begin=16)
    maps["axes 3"] = Made(
        "float16", (24, 6, 5), (64, 512), (16, 4, 3), ((0, 0, 0), (8, -1, 4), (16, 4, -2))
    )
    maps["axes 4"] = Made(
        "uint32", (20, 5, 4, 3), (80, 400, 1600), (8, 3, 2, 2), ((0, 0, 0, 0), (16, 4, -1, 2))
    )
    maps["axes 5"] = Made(
        "uint32", (8, 5, 4, 3, 2), (32, 160, 640, 1920), (8, 3, 2, 2, 2),
        ((0, 0, 0, 0, 0), (4, 4, -1, 2, 1)), "32B",
    )  # fmt: skip
    maps["strides that overlap"] = Made("uint32", (32, 40), (16,), (16, 8), ((0, 0), (20, 36)))
    for steps, box in (((1, 2), (16, 8)), ((1, 3), (16, 8)), ((1, 8), (16, 20)),
                       ((1, 3), (16, 9)), ((2, 1), (16, 8))):  # fmt: skip
        maps[f"steps {steps} of {box}"] = Made(
            "uint32", (60, 30), (256,), box, ((0, 0), (4, 1), (52, 25), (-8, -4)), steps=steps
        )
    maps["steps of 3 axes"] = Made(
        "float16", (24, 9, 7), (64, 1024), (16, 7, 5), ((0, 0, 0), (8, -1, 4), (16, 5, 3)), "32B",
        steps=(1, 2, 4),
    )  # fmt: skip
    return maps


def stored() -> dict[str, Made]:
    corners = ((0, 0), (16, 6), (40, 12), (52, 24))
    maps = {"plain": Made("uint32", (59, 30), (256,), (16, 6), corners)}
    maps["swizzle 64B"] = Made("uint32", (59, 30), (256,), (16, 6), corners, "64B", begin=256)
    maps["steps (1, 2)"] = Made("uint32", (59, 30), (256,), (16, 6), corners, steps=(1, 2))
    maps["tf32"] = Made("tf32", (59, 30), (256,), (16, 6), corners)
    maps["float32_ftz"] = Made("float32_ftz", (59, 30), (256,), (16, 6), corners)
    maps["bfloat16"] = Made("bfloat16", (118, 30), (256,), (32, 6), ((0, 0), (88, 27)))
    return maps


# --- boxes to several blocks ----------------------------------------------------------------------


@dataclass(frozen=True)
class Sent:
    """A box of a float32 array (NumPy's order) that goes to the blocks of `mask`."""

    blocks: int
    mask: int
    box: tuple[int, int]
    corner: tuple[int, int]
    shape: tuple[int, int] = (60, 96)
    width: int = 0  # of the view; 0 for all columns
    swizzle: str = "none"
    dtype: str = "float32"
    sender: int = 0

    def boxes(self) -> Boxes:
        end = (self.shape[0], self.width or self.shape[1])
        return Boxes(self.dtype, self.shape, self.box, (self.corner,), self.swizzle, end=end,
                     begin=(0, 0))  # fmt: skip


def sent() -> dict[str, Sent]:
    """As few launches as tell what an edge or a begin inside of a sector costs."""
    cases = []
    for mask in (1, 3):  # rows: whole; begins inside a sector; ends outside; begins outside
        for row in (8, 16, 32, 64):
            for column in (0, 4, 20, 96 - row // 2, 92, -4, -row // 2, 96, 200):
                cases.append(Sent(2, mask, (1, row), (5, column)))
    for corner in ((0, 0), (-2, 0), (57, 0), (58, 4), (0, 76), (57, 76), (-3, -12), (60, 0)):
        cases += [Sent(2, 3, (6, 32), corner), Sent(2, 3, (6, 32), corner, swizzle="128B"),
                  Sent(4, 15, (6, 32), corner), Sent(4, 5, (6, 32), corner),
                  Sent(8, 255, (6, 32), corner)]  # fmt: skip
    for width in (93, 90, 67):
        cases += [Sent(2, 3, (2, 32), (3, column), width=width) for column in (60, 64, 72)]
    for dtype, row in (("float16", 64), ("float64", 16), ("uint8", 128)):
        shape = (60, 96 * 4 // np.dtype(dtype).itemsize)
        cases += [Sent(2, 3, (3, row), (5, column), shape, dtype=dtype)
                  for column in (0, shape[1] - row // 2, -row // 2)]  # fmt: skip
    cases += [Sent(2, 2, (4, 32), (57, 76)), Sent(2, 1, (4, 32), (57, 76), sender=1),
              Sent(2, 3, (4, 32), (57, 76), sender=1)]  # fmt: skip
    return {f"{i} {case}": case for i, case in enumerate(cases)}


METRICS = ("l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",
           "smsp__sass_inst_executed_op_tma_ld.sum")  # fmt: skip


# --- recording ------------------------------------------------------------------------------------


def _by_made(n: int) -> str:
    def coordinates(first):
        return ", ".join(f"%{first + i}" for i in range(n))

    at = ", ".join(f'"r"(at[{i}])' for i in range(n))
    return BY_MADE.format(n=n, load=coordinates(3), store=coordinates(2), at=at)


def source() -> str:
    return (
        HEAD + MAKE + "".join(_by_made(n) for n in range(1, AXES + 1)) + CHANGED
        + "".join(TO_SEVERAL.format(blocks=n) for n in CLUSTERS)
        + "".join(case.source() for case in replacements().values())
    )  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """`args`: arrays, NumPy scalars, (Boxes, array) for a map, a list of such for maps in memory.

    `seen`: the argument that is recorded.
    """

    entry: str
    blocks: int
    args: list
    seen: int
    shared_bytes: int = 0
    threads: int = 32


def launch_made(case: Made) -> Launch:
    n, count = len(case.shape), len(case.corners)
    args = [
        case.fields(), numbers_of(case.element), np.zeros((count, 128), "u1"),
        np.array(case.corners, "i4"), np.zeros((count, case.words + 1), "u4"),
        np.int32(case.words), np.int32(case.bytes),
    ]  # fmt: skip
    return Launch(f"made_{n}d", count, args, 4, 4 * case.words + 256)


def launch_stored(case: Made) -> Launch:
    n, count = len(case.shape), len(case.corners)
    given = numbers_of(case.element).view("u4")[: count * case.words].reshape(count, case.words)
    args = [
        case.fields(), np.full(DATA_BYTES, 0xAB, "u1"), np.zeros((count, 128), "u1"),
        np.array(case.corners, "i4"), given.copy(), np.int32(case.words),
    ]  # fmt: skip
    return Launch(f"stored_{n}d", count, args, 1, 4 * case.words + 256)


def launch_replaced(case: Replacement, before: np.ndarray) -> Launch:
    values = np.array(case.values, "u8")
    out = np.zeros((3, len(values), WORDS), "u4")
    return Launch(case.entry, len(values), [before, values, out], 2)


def changed() -> dict[str, Launch]:
    floats = np.arange(4096, dtype="f4")
    begins, rows = (np.array(v, "i4") for v in ([0, 1600, 640, 3000, 2048], [9, 4, 1, 8, 5]))
    other = np.arange(1024, dtype="f4").reshape(64, 16) + np.float32(0.5)
    a_map = (Boxes("float32", (64, 16), (8, 16), ()), other.copy())
    return {
        "groups": Launch("groups", 3, [
            (Boxes("float32", (64, 64), (8, 16), ()), floats.reshape(64, 64).copy()),
            np.zeros((3, 128), "u1"), floats.copy(), begins, rows, np.int32(5),
            np.zeros((3, 5, 128), "f4")], 6),
        "in place": Launch("in_place", 4, [
            [a_map, (Boxes("float32", (64, 16), (8, 16), ()), other.copy() + 100)],
            np.zeros(1, "i4"), np.int32(11), np.zeros((4, 128), "f4")], 3),
    }  # fmt: skip


def launches() -> dict[str, Launch]:
    by_name = {f"made {name}": launch_made(case) for name, case in made().items()}
    by_name |= {f"stored {name}": launch_stored(case) for name, case in stored().items()}
    by_name |= {f"changed {name}": launch for name, launch in changed().items()}
    for i, before in enumerate(words_before()):
        by_name |= {f"replaced {name} {i}": launch_replaced(case, before)
                  for name, case in replacements().items()}  # fmt: skip
    return by_name


def launch_sent(sent: Sent, array) -> Launch:
    args = [(sent.boxes(), array), np.int32(sent.corner[1]), np.int32(sent.corner[0]),
            np.int32(sent.mask), np.int32(np.prod(sent.box) * np.dtype(sent.dtype).itemsize),
            np.int32(sent.sender)]  # fmt: skip
    return Launch(f"several_{sent.blocks}", sent.blocks, args, 0, 32768 + 16)


def on_gpu(cupy, module, launch: Launch):
    given, kept, arrays = [], [], {}

    def a_map(box, array):
        kept.append(on := cupy.asarray(array))
        code, tensor_map = encode(box, on)
        assert not code, f"cuTensorMapEncodeTiled returned {code} for {box}"
        return tensor_map

    for number, arg in enumerate(launch.args):
        if isinstance(arg, tuple):
            given.append(a_map(*arg))
        elif isinstance(arg, list):
            maps = [np.frombuffer(a_map(*box_and_array).tobytes(), "u1") for box_and_array in arg]
            given.append(cupy.asarray(np.stack(maps)))
        elif isinstance(arg, np.ndarray):
            arrays[number] = cupy.asarray(arg)
            given.append(arrays[number])
        else:
            given.append(arg)
    function = module.get_function(launch.entry)
    if launch.shared_bytes > 48 << 10:
        function.max_dynamic_shared_size_bytes = launch.shared_bytes
    function((launch.blocks,), (launch.threads,), tuple(given), shared_mem=launch.shared_bytes)
    cupy.cuda.runtime.deviceSynchronize()
    return cupy.asnumpy(arrays[launch.seen]) if launch.seen in arrays else None


def some(path: Path, without: set[str]) -> None:
    """Record what `path` does not have yet; what fails or hangs takes the process with it."""
    import cupy

    from record_arithmetic import provenance

    results = dict(np.load(path)) if path.exists() else {}
    about = {**provenance(cupy), "command": "python ptxsim/hardware/record_tensor_maps.py OUTDIR"}
    results["about"] = np.array(json.dumps(about))
    module = cupy.RawModule(code=source(), options=OPTIONS)
    for name, launch in launches().items():
        if name in without or name in results:
            continue
        print(name, flush=True)
        results[name] = on_gpu(cupy, module, launch)
        if not name.startswith("replaced"):
            np.savez_compressed(path.with_suffix(".tmp.npz"), **results)
            path.with_suffix(".tmp.npz").replace(path)
    np.savez_compressed(path, **results)


def launched() -> None:
    """Launch the boxes to several blocks."""
    import cupy

    module = cupy.RawModule(code=source(), options=OPTIONS)
    for case in sent().values():
        on_gpu(cupy, module, launch_sent(case, case.boxes().memory()))


def sectors() -> dict[str, list[int]]:
    """By case: sectors and instructions of all blocks, by Nsight Compute."""
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--metrics",
               ",".join(METRICS), sys.executable, __file__, "--launched"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"Nsight Compute failed: {done.stdout[-1500:]} {done.stderr[-1500:]}")
    rows = list(csv.reader(line for line in done.stdout.splitlines() if line.startswith('"')))
    counts = [[int(row[rows[0].index(m)].replace(",", "")) for m in METRICS] for row in rows[2:]]
    return dict(zip(sent(), counts, strict=True))


def main(outdir: Path) -> None:
    path = outdir / "tensor_maps.npz"
    np.savez_compressed(path, sectors=np.array(json.dumps(sectors())))
    in_processes(__file__, path, LIMIT_S)


if __name__ == "__main__":
    if sys.argv[1] == "--launched":
        launched()
    elif sys.argv[1] == "--some":
        some(Path(sys.argv[2]), set(json.loads(sys.argv[3])))
    else:
        main(Path(sys.argv[1]))
