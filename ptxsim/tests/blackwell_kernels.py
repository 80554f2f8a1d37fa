"""A kernel around each form of tcgen05.mma, and NumPy's layouts of its operands.

The operands come as images of shared memory, one for each block, which the kernel copies there as
they are; the sums come back as they lie in tensor memory. So layouts are laid out here by the
formulas of the PTX ISA's "Canonical Layouts", and not as the simulator reads them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ptxsim
from ptxsim.blackwell import EIGHTS, ELEMENT_BITS
from ptxsim.tensor_cores import adding

u1, u4, i8 = np.uint8, np.uint32, np.int64
THREADS, COLUMNS = 128, 512
SWIZZLES = {0: (0, 0, 16), 6: (1, 4, 32), 4: (2, 4, 64), 2: (3, 4, 128), 1: (2, 5, 128)}

SOURCE = r"""
typedef unsigned long long u64;
extern __shared__ __align__(1024) unsigned char memory[];
__device__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Each block has `bytes` of images: A, then B from b_start on, then scales from s_start on.
extern "C" __global__ void CLUSTER __launch_bounds__(128) product(
    const uint4* images, const unsigned* sums, unsigned* out, u64 a, u64 b, unsigned form,
    int a_step, int b_step, int steps, int bytes, int b_start, int s_start)
{
    __shared__ __align__(8) u64 done;
    __shared__ unsigned base;
    const int t = threadIdx.x, warp = t / 32, block = blockIdx.x;
    if (warp == 0) {
        asm volatile("tcgen05.alloc." GROUP ".sync.aligned.shared::cta.b32 [%0], 512;"
                     :: "r"(place(&base)) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit." GROUP ".sync.aligned;");
    }
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(place(&done)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    for (int i = t; i < bytes / 16; i += 128)
        ((uint4*)memory)[i] = images[block * (bytes / 16) + i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const unsigned tensor = base, lanes = warp << 21;
    for (int n = 0; n < 512; n += 4) {
        const unsigned* c = sums + (block * 128 + t) * 512 + n;
        asm volatile("tcgen05.st.sync.aligned.32x32b.x4.b32 [%0], {%1, %2, %3, %4};"
                     :: "r"(tensor + lanes + n), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
    }
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    MEET;
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    if (t == 0 && LEADS) {
        for (int s = 0; s < SCALE_COLUMNS; s += 4) {
            const unsigned from = place(memory) + s_start + s * 128;
            const u64 of = (u64)(from >> 4) | 8ull << 32 | 1ull << 46;
            asm volatile("tcgen05.cp." GROUP ".32x128b.warpx4 [%0], %1;"
                         :: "r"(tensor + 256 + s), "l"(of) : "memory");
        }
        for (int k = 0; k < steps; ++k) {
            const u64 a_k = a + ((place(memory) + k * a_step) >> 4);
            const u64 b_k = b + ((place(memory) + b_start + k * b_step) >> 4);
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;"
                         " tcgen05.mma." GROUP "." KIND " [%0], " LEFT ", %2, %3, " SCALES "p; }"
                         :: "r"(tensor), "l"(a_k), "l"(b_k), "r"(form), "r"(1), "r"(tensor + 256),
                            "r"(tensor + 256 + B_SCALES), "r"(tensor + 256 + 8 * k) : "memory");
        }
        asm volatile("tcgen05.commit." GROUP ".mbarrier::arrive::one.shared::cluster" ARRIVE
                     :: "r"(place(&done)), "h"((short)3) : "memory");
    }
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;"
                 " @!p bra again; }" :: "r"(place(&done)) : "memory");
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    for (int n = 0; n < 512; n += 4) {
        unsigned d[4];
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(tensor + lanes + n));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        for (int i = 0; i < 4; ++i) out[(block * 128 + t) * 512 + n + i] = d[i];
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    MEET;
    if (warp == 0)
        asm volatile("tcgen05.dealloc." GROUP ".sync.aligned.b32 %0, 512;" :: "r"(tensor));
}
"""


@dataclass(frozen=True)
class Case:
    """One product of m × n × (steps of k), A and B by the swizzles of their codes."""

    kind: str
    m: int = 128
    n: int = 64
    types: tuple[str, str, str] = ("f32", "f16", "f16")
    ctas: int = 1
    swizzles: tuple[int, int] = (2, 2)
    across: tuple[int, int] = (0, 0)
    signs: tuple[int, int] = (1, 1)
    scale: str = ""  # of the kinds with scales: "ue8m0" or "ue4m3"
    vector: int = 0  # scales of a row in one instruction
    in_tensor_memory: bool = False  # whether A is there
    steps: int = 2

    @property
    def bits(self) -> int:
        return ELEMENT_BITS[self.kind]

    @property
    def k(self) -> int:
        return self.steps * 256 // self.bits

    @property
    def word(self) -> int:
        """The instruction descriptor."""
        codes = {"f16": 0, "bf16": 1, "tf32": 2, "u8": 0, "s8": 1} | {
            v: k for k, v in EIGHTS.items()
        }
        d, a, b = self.types
        a, b = (1 if self.bits == 4 else codes[t] for t in (a, b))
        word = a << 7 | b << 10 | (self.n >> 3) << 17 | (self.m >> 4) << 24
        word |= (self.signs[0] < 0) << 13 | (self.signs[1] < 0) << 14
        word |= self.across[0] << 15 | self.across[1] << 16
        if self.scale:
            return word | (self.scale == "ue8m0") << 23
        return word | {"f16": 0, "f32": 1, "s32": 2}[d] << 4

    def source(self) -> str:
        scales = "[%5], [%6], " if self.scale else ""
        vector = {1: ".block_scale.block32", 2: ".block_scale.block32", 4: ".block_scale.block16"}
        arrive = ".b64 [%0];" if self.ctas == 1 else ".multicast::cluster.b64 [%0], %1;"
        macros = {
            "GROUP": f'"cta_group::{self.ctas}"',
            "KIND": f'"kind::{self.kind}{vector.get(self.vector, "")}"',
            "CLUSTER": "" if self.ctas == 1 else "__cluster_dims__(2)",
            "LEFT": '"[%7]"' if self.in_tensor_memory else '"%1"',
            "SCALES": f'"{scales}"', "ARRIVE": f'"{arrive}"',
            "LEADS": "true" if self.ctas == 1 else "blockIdx.x % 2 == 0",
            "SCALE_COLUMNS": str(self.scale_columns * (2 if self.scale else 0)),
            "B_SCALES": str(self.scale_columns),
            "MEET": "__syncthreads()" if self.ctas == 1 else
            'asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" :::'
            ' "memory")',
        }  # fmt: skip
        return "".join(f"#define {name} {value}\n" for name, value in macros.items()) + SOURCE

    @property
    def scale_columns(self) -> int:
        """Of each operand's scales in tensor memory: 128 or 256 rows, 32 in a column."""
        return 8 if max(self.n, self.m // self.ctas) > 128 else 4


def swizzled(offset, code: int):
    """CuTe's Swizzle<bits, base, shift> on bytes."""
    bits, base, _ = SWIZZLES[code]
    shift = 2 if code == 1 else 3
    return offset ^ (offset >> shift & ((1 << bits) - 1) << base) if bits else offset


def image(elements, bits: int, code: int, across: int) -> tuple[np.ndarray, int, int, int]:
    """(bytes, leading offset, stride offset, bytes from a step along k to the next).

    `elements`: patterns (rows, k), of `bits` each in shared memory.
    """
    rows, k = elements.shape
    per_unit, width = 128 // bits, SWIZZLES[code][2]
    row, column = np.arange(rows)[:, None], np.arange(k)[None]
    step = 256 // bits
    if not across:
        unit, rest = column // per_unit, column % per_unit
        if code:
            assert k * bits // 8 <= width
            leading, stride, advance = 16, 8 * width, 32
            offset = row // 8 * stride + row % 8 * width + unit * 16
        else:
            stride, leading = 128, rows * 16
            advance = 2 * leading
            offset = row // 8 * stride + row % 8 * 16 + unit * leading
    else:
        unit, rest = row // per_unit, row % per_unit
        lines = 4 if code == 1 else 8
        if code:
            per_line = width // 16
            stride = lines * width
            leading = -(-k // lines) * stride
            offset = unit // per_line * leading + unit % per_line * 16
            offset = offset + column // lines * stride + column % lines * width
            advance = step // lines * stride
        else:
            stride = -(-k // 8) * 128
            leading = 128
            offset = unit * stride + column // 8 * leading + column % 8 * 16
            advance = step // 8 * leading
    offset, rest = np.broadcast_arrays(swizzled(offset, code) if code else offset, rest)
    raw = np.zeros(-(-(int(offset.max()) + 16) // 1024) * 1024, u1)
    if bits >= 8:
        size = bits // 8
        for byte in range(size):
            raw[offset + rest * size + byte] = elements >> 8 * byte & 0xFF
    else:
        np.bitwise_or.at(raw, offset + rest // 2, (elements << 4 * (rest % 2)).astype(u1))
    return raw, leading, stride, advance


def padded(elements, kind: str) -> np.ndarray:
    """Elements of 4 or 6 bits as bytes of kind f8f6f4: 16 of them packed, then padding."""
    bits = adding.BITS[kind]
    rows, k = elements.shape
    number = np.arange(bits)
    flags = (elements[..., None] >> number & 1).astype(u1).reshape(rows, k // 16, 16 * bits)
    packed = np.packbits(flags, axis=2, bitorder="little")
    result = np.zeros((rows, k // 16, 16), u1)
    result[:, :, : 2 * bits] = packed
    return result.reshape(rows, k).astype(u4)


def scale_image(scales, vector: int) -> np.ndarray:
    """512 bytes for each 128 rows of `scales` (rows, vector): row r % 32, word r // 32."""
    rows = -(-len(scales) // 128) * 128
    words = np.zeros((rows, 4), u1)
    words[: len(scales), :vector] = scales
    words[:, vector:] = words[:, : 4 - vector] if vector < 4 else words[:, vector:]
    return words.reshape(rows // 128, 4, 32, 4).transpose(0, 2, 1, 3).reshape(-1)


def run(case: Case, a, b, c, scales=(), source: str = "", **how):
    """(sums, the run) of patterns a (m, k), b (n, k), c (m, n), scales (rows, vector)."""
    ctas, bits = case.ctas, case.bits
    a_in, b_in = (
        padded(x, kind) if kind in ("e2m3", "e3m2", "e2m1") and bits == 8 else x
        for x, kind in zip((a, b), case.types[1:], strict=True)
    )
    images = []
    for cta in range(ctas):
        rows, columns = case.m // ctas, case.n // ctas
        left = image(a_in[cta * rows :][:rows], bits, case.swizzles[0], case.across[0])
        right = image(b_in[cta * columns :][:columns], bits, case.swizzles[1], case.across[1])
        parts = [left[0], right[0]]
        if scales:
            room = case.scale_columns * 128
            for each in (scales[0][cta * rows :][:rows], scales[1]):
                raw = np.zeros(room, u1)
                made = scale_image(each, case.vector)
                raw[: made.size] = made
                parts.append(raw)
        images.append(np.concatenate(parts))
    a_desc, b_desc = (
        leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | code << 61
        for (_, leading, stride, _), code in zip((left, right), case.swizzles, strict=True)
    )
    cells = np.zeros((ctas, 128, COLUMNS), u4)
    where = places(case)
    cells[where] = c
    if case.in_tensor_memory:
        lane = where[1][::1, :1]
        words = np.ascontiguousarray(a.astype(f"u{bits // 8}")).view(u4)
        cells[where[0][:, :1], lane, 256 + np.arange(words.shape[1])[None]] = words
    out = np.zeros_like(cells)
    signed = [np.uint64(d).astype(np.int64) for d in (a_desc, b_desc)]
    args = [
        np.stack(images).view(u4).reshape(-1, 4), cells, out, *signed, np.int32(case.word),
        left[3], right[3], case.steps, images[0].size, left[0].size, left[0].size + right[0].size,
    ]  # fmt: skip
    done = ptxsim.launch(
        source or case.source(), "product", ctas, THREADS, args, arch="sm_100a",
        shared_bytes=images[0].size, **how,
    )  # fmt: skip
    return out[where], done


def places(case: Case):
    """(block, lane, column), each (m, n), of the sums."""
    m, n = np.arange(case.m)[:, None], np.arange(case.n)[None]
    rows = case.m // case.ctas
    block, row = m // rows, m % rows
    if rows == 128:
        lane, column = row, n
    elif case.ctas == 1:
        lane, column = row // 16 * 32 + row % 16, n
    else:
        lane, column = row + 64 * (n >= case.n // 2), n % (case.n // 2)
    return np.broadcast_arrays(block, lane, column)
