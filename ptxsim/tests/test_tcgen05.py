"""sm_100a: tcgen05 near float64, with MMA-Sim's bits; planted mistakes; control of launches."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import blackwell_kernels
import ptxsim
from blackwell_kernels import Case
from ptxsim.blackwell import Form
from ptxsim.tensor_cores import adding, block_products

KERNELS = Path(__file__).parent / "kernels"
RECORDED = np.load(Path(__file__).parent / "recorded/model_tcgen05.npz")
OPERATIONS = sorted({name.rsplit(".", 2)[0] for name in RECORDED.files})
f4, f8, i4, u1, u4 = np.float32, np.float64, np.int32, np.uint8, np.uint32
ARCH = "sm_100a"


# --- the sums -------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
def test_sums_have_the_bits_of_mma_sim(operation):
    shape, kind, *rest = operation.split(".")
    scaled = rest[0].startswith("block")
    d, a, b, *scale = rest[scaled:]
    for numbers in ("normal", "wide", "any", "zeros"):
        given = {
            which: RECORDED[f"{operation}.{numbers}.{which}"][None]
            for which in ("a", "b", "c", "d", "sa", "sb")[: 6 if scaled else 4]
        }
        left, right, old, expected = (given[which].astype(u4) for which in "abcd")
        form = Form(
            kind.removeprefix("kind::"), 1, 128, right.shape[1], (d, a, b), (1, 1), (False, False),
            scale_type="".join(scale),
        )  # fmt: skip
        scales = [given[which].astype(u1) for which in ("sa", "sb")] if scaled else None
        with np.errstate(all="ignore"):
            got = block_products.multiply(form, left, right, old, scales)
        np.testing.assert_array_equal(got, expected, err_msg=f"{shape}, {numbers}")


def patterns(rng, kind: str, shape) -> np.ndarray:
    """Of moderate numbers."""
    if kind in ("u8", "s8"):
        return rng.integers(0, 256, shape).astype(u4)
    if adding.BITS[kind] < 8:
        return rng.integers(0, 1 << adding.BITS[kind], shape).astype(u4)
    types = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
             "bf16": ml_dtypes.bfloat16, "f16": np.float16}  # fmt: skip
    made = rng.standard_normal(shape).astype(types.get(kind, f4))
    return made.view(f"u{made.itemsize}").astype(u4)


def values(bits, kind: str) -> np.ndarray:
    if kind in ("u8", "s8"):
        return bits.astype(u1 if kind == "u8" else np.int8).astype(f8)
    return bits.view(i4).astype(f8) if kind == "s32" else adding.numbers(bits, kind)


SCALED = {"types": ("f32", "e4m3", "e5m2"), "scale": "ue8m0", "vector": 1}
FOUR_BITS = {"types": ("f32", "e2m1", "e2m1")}
CASES = [
    *(Case("f16", swizzles=(s, s), steps=1 if s == 6 else 2) for s in (0, 6, 4, 2)),
    *(Case("f16", n=128, swizzles=(s, 2), across=(1, 1)) for s in (0, 6, 4, 2)),
    Case("tf32", types=("f32", "tf32", "tf32")),
    Case("tf32", types=("f32", "tf32", "tf32"), swizzles=(1, 1), across=(1, 1)),
    Case("f16", m=64, n=40),
    Case("f16", types=("f16", "f16", "f16"), signs=(-1, 1)),
    Case("f16", types=("f32", "bf16", "bf16"), signs=(1, -1), in_tensor_memory=True),
    Case("f16", m=64, in_tensor_memory=True),
    Case("i8", types=("s32", "s8", "u8")),
    Case("i8", n=128, types=("s32", "u8", "s8"), across=(1, 1)),
    *(Case("f8f6f4", types=("f32", a, b))
      for a, b in (("e4m3", "e5m2"), ("e2m3", "e3m2"), ("e2m1", "e4m3"), ("e5m2", "e2m3"))),
    Case("f8f6f4", types=("f16", "e4m3", "e4m3")),
    Case("f16", m=256, n=128, ctas=2),
    Case("f16", m=128, n=64, ctas=2),
    Case("f8f6f4", m=256, n=256, types=("f32", "e4m3", "e4m3"), ctas=2),
    Case("mxf8f6f4", **SCALED),
    Case("mxf8f6f4", n=256, **SCALED),
    Case("mxf8f6f4", m=256, n=128, ctas=2, **SCALED),
    Case("mxf8f6f4", m=256, n=256, ctas=2, **SCALED),
    Case("mxf4", n=96, scale="ue8m0", vector=2, **FOUR_BITS),
    Case("mxf4nvf4", n=96, scale="ue8m0", vector=2, **FOUR_BITS),
    Case("mxf4nvf4", n=96, scale="ue8m0", vector=4, **FOUR_BITS),
    Case("mxf4nvf4", n=96, scale="ue4m3", vector=4, **FOUR_BITS),
    Case("mxf4nvf4", m=256, n=256, ctas=2, scale="ue4m3", vector=4, **FOUR_BITS),
]  # fmt: skip


def operands(case: Case, seed: int = 0):
    rng, (d, a, b) = np.random.default_rng(seed), case.types
    given = patterns(rng, a, (case.m, case.k)), patterns(rng, b, (case.n, case.k))
    old = (
        patterns(rng, d, (case.m, case.n)) if d != "s32" else rng.integers(0, 999, (case.m, case.n))
    )
    near_one = (124, 131) if case.scale == "ue8m0" else (40, 72)
    scales = tuple(
        rng.integers(*near_one, (rows, case.vector)).astype(u1) for rows in (case.m, case.n)
    )
    return *given, old.astype(u4), scales if case.scale else ()


def along_k(scales, case: Case) -> np.ndarray:
    """The value of the scale of each element; every step has the same ones."""
    if case.scale == "ue8m0":
        of_blocks = 2.0 ** (scales.astype(f8) - 127)
    else:
        of_blocks = scales.view(ml_dtypes.float8_e4m3fn).astype(f8)
    return np.tile(np.repeat(of_blocks, 256 // case.bits // case.vector, axis=1), (1, case.steps))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind} {case.m}x{case.n}")
def test_products_of_every_form_are_near_float64(case):
    a, b, old, scales = operands(case)
    got, run = blackwell_kernels.run(case, a, b, old, scales, check=True)
    assert run.findings == []
    d, *kinds = case.types
    left, right = (
        values(x, kind) * sign for x, kind, sign in zip((a, b), kinds, case.signs, strict=True)
    )
    if scales:
        left, right = (x * along_k(s, case) for x, s in zip((left, right), scales, strict=True))
    expected = left @ right.T + values(old, d)
    size = abs(left) @ abs(right).T + abs(values(old, d))
    unit = {"s32": 0, "f16": 2.0**-11, "f32": 2.0**-24}[d]
    assert (abs(values(got, d) - expected) <= 4 * case.steps * unit * size).all()


def test_the_old_sum_is_scaled_and_lanes_are_kept():
    case = Case("f16")
    a, b, old, _ = operands(case)
    plain = case.source()
    scaled = plain.replace('" SCALES "p; }"', '" SCALES "p, 3; }"')
    got, run = blackwell_kernels.run(case, a, b, old, source=scaled, check=True)
    half = a[:, :16], b[:, :16], a[:, 16:], b[:, 16:]
    a0, b0, a1, b1 = (values(x, "f16") for x in half)
    expected = (a0 @ b0.T + values(old, "f32") / 8) / 8 + a1 @ b1.T
    assert run.findings == [] and abs(values(got, "f32") - expected).max() < 1e-5
    masked = plain.replace('" SCALES "p; }"', '{%8, %9, %8, %9}, p; }"').replace(
        '8 * k) : "memory"', '8 * k), "r"(0), "r"(-1) : "memory"'
    )
    got, run = blackwell_kernels.run(case, a, b, old, source=masked, check=True)
    assert run.findings == []
    for first in (32, 96):
        assert (got[first : first + 32] == old[first : first + 32]).all()
    assert (got[:32] != old[:32]).any()


# --- loads and stores -----------------------------------------------------------------------------

# CuTe's layouts: (shape, stride) of the thread, then of the register, to lane * 512 + column.
LANE = 512
SHAPES = {
    "32x32b": lambda n: [(32, LANE), (n, 1)],
    "16x64b": lambda n: [(2, 8 * LANE), (2, 1), (8, LANE), (n, 2)],
    "16x128b": lambda n: [(4, 1), (8, LANE), (2, 8 * LANE), (n, 4)],
    "16x256b": lambda n: [(4, 2), (8, LANE), (2, 1), (2, 8 * LANE), (n, 8)],
    "16x32bx2": lambda n: [(16, LANE), (2, n), (n, 1)],
}


def access_source(shape: str, times: int, packed: bool, registers: int) -> str:
    names = ", ".join(f"%{i}" for i in range(registers))
    half = f", {times * (2 if packed else 1)}" if shape == "16x32bx2" else ""
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(registers))
    inputs = ", ".join(f'"r"(r[{i}])' for i in range(registers))
    how = ("pack", "unpack") if packed else ("", "")
    load, store = (f".{x}::16b" if x else "" for x in how)
    return f"""
extern "C" __global__ void access(const unsigned* given, unsigned* loaded, unsigned* stored)
{{
    __shared__ unsigned base;
    const int t = threadIdx.x;
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 512;"
                 :: "r"((unsigned)__cvta_generic_to_shared(&base)) : "memory");
    __syncthreads();
    const unsigned tensor = base;
    for (int n = 0; n < 256; ++n)
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {{%1}};"
                     :: "r"(tensor + n), "r"(given[t * 256 + n]));
    for (int n = 256; n < 512; ++n)
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {{%1}};"
                     :: "r"(tensor + n), "r"(0));
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    unsigned r[{registers}];
    asm volatile("tcgen05.ld.sync.aligned.{shape}.x{times}{load}.b32"
                 " {{{names}}}, [%{registers}]{half};" : {outputs} : "r"(tensor));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    for (int i = 0; i < {registers}; ++i) loaded[t * {registers} + i] = r[i];
    asm volatile("tcgen05.st.sync.aligned.{shape}.x{times}{store}.b32"
                 " [%{registers}]{half}, {{{names}}};" :: {inputs}, "r"(tensor + 256));
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    for (int n = 0; n < 256; ++n) {{
        unsigned value;
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%0}}, [%1];"
                     : "=r"(value) : "r"(tensor + 256 + n));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        stored[t * 256 + n] = value;
    }}
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 512;" :: "r"(tensor));
}}"""


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("times", [1, 4, 16])
def test_registers_hold_the_cells_of_cutes_layouts(shape, times, packed):
    layout = SHAPES[shape](times)
    place = np.zeros(1, int)
    for count, stride in layout:
        place = (place + np.arange(count)[:, None] * stride).reshape(-1)
    registers = len(place) // 32
    place = place.reshape(registers, 32).T
    lane, column = place // LANE, place % LANE
    given = np.random.default_rng(times).integers(0, 1 << 32, (32, 256)).astype(u4)
    loaded, stored = np.zeros((32, registers), u4), np.zeros((32, 256), u4)
    run = ptxsim.launch(
        access_source(shape, times, packed, registers), "access", 1, 32, [given, loaded, stored],
        arch=ARCH, check=True,
    )  # fmt: skip
    assert run.findings == []
    back = np.zeros_like(stored)
    if packed:
        low, high = given[lane, 2 * column] & 0xFFFF, given[lane, 2 * column + 1] & 0xFFFF
        expected = low | high << 16
        back[lane, 2 * column], back[lane, 2 * column + 1] = low, high
    else:
        expected = given[lane, column]
        back[lane, column] = expected
    np.testing.assert_array_equal(loaded, expected)
    np.testing.assert_array_equal(stored, back)


# --- copies from shared memory, shifts ------------------------------------------------------------

COPY = r"""
extern "C" __global__ void copy(const unsigned* given, unsigned* out)
{
    __shared__ __align__(128) unsigned tile[1024];
    __shared__ __align__(8) unsigned long long done;
    __shared__ unsigned base;
    const int t = threadIdx.x, warp = t / 32;
    const unsigned from = (unsigned)__cvta_generic_to_shared(tile);
    const unsigned mbarrier = (unsigned)__cvta_generic_to_shared(&done);
    if (warp == 0)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;"
                     :: "r"((unsigned)__cvta_generic_to_shared(&base)) : "memory");
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(mbarrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    for (int i = t; i < 1024; i += 128) tile[i] = given[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const unsigned tensor = base;
    for (int n = 0; n < 8; ++n)
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};"
                     :: "r"(tensor + n + (warp << 21)), "r"(100 * t + n));
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    if (t == 0) {  // units of 16 bytes: 8 rows follow one another, the second column after 2 KiB
        const unsigned long long of = from >> 4 | 128ull << 16 | 8ull << 32 | 1ull << 46;
        asm volatile("OPERATION" :: "r"(tensor), "l"(of) : "memory");
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                     :: "r"(mbarrier) : "memory");
    }
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;"
                 " @!p bra again; }" :: "r"(mbarrier) : "memory");
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    for (int n = 0; n < 8; ++n) {
        unsigned value;
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];"
                     : "=r"(value) : "r"(tensor + n + (warp << 21)));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        out[8 * t + n] = value;
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (warp == 0)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(tensor));
}
"""
BEFORE = (100 * np.arange(128)[:, None] + np.arange(8)).astype(u4)


def copied(operation: str) -> tuple[np.ndarray, np.ndarray]:
    """(what was in shared memory, rows of 4 words; tensor memory after)"""
    given, out = np.arange(5000, 6024, dtype=u4), np.zeros((128, 8), u4)
    run = ptxsim.launch(
        COPY.replace("OPERATION", operation), "copy", 1, 128, [given, out], arch=ARCH, check=True
    )
    assert run.findings == []
    return given.reshape(256, 4), out


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        ("128x256b", np.arange(128)),
        ("128x128b", np.arange(128)),
        ("64x128b.warpx2::02_13", np.arange(128) % 64),
        ("64x128b.warpx2::01_23", np.arange(128) // 64 * 32 + np.arange(128) % 32),
        ("32x128b.warpx4", np.arange(128) % 32),
    ],
)
def test_copies_bring_rows_to_the_lanes_of_their_shape(shape, rows):
    tile, out = copied(f"tcgen05.cp.cta_group::1.{shape} [%0], %1;")
    expected = BEFORE.copy()
    expected[:, :4] = tile[rows]
    if shape == "128x256b":
        expected[:, 4:] = tile[128 + rows]
    np.testing.assert_array_equal(out, expected)


def test_a_shift_moves_lanes_and_a_small_copy_fills_the_last():
    tile, out = copied(
        "tcgen05.shift.cta_group::1.down [%0]; tcgen05.cp.cta_group::1.4x256b [%0 + 2031616], %1;"
    )
    expected = BEFORE.copy()
    expected[:31] = BEFORE[1:32]
    expected[31::32] = np.hstack([tile[:4], tile[128:132]])
    np.testing.assert_array_equal(out, expected)


# --- two SMs --------------------------------------------------------------------------------------


def two_sms(*changes: tuple[str, str]):
    source = (KERNELS / "two_sms.cu").read_text()
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    rng = np.random.default_rng(5)
    A, B = (rng.standard_normal((rows, 320)).astype(ml_dtypes.bfloat16) for rows in (256, 64))
    C = np.zeros((256, 64), f4)
    maps = [
        ptxsim.TensorMap(A, (128, 64), swizzle="128B"),
        ptxsim.TensorMap(B, (32, 64), swizzle="128B"),
    ]
    run = ptxsim.launch(source, "two_sms", 2, 128, [*maps, C, 320], arch=ARCH, check=True)
    return abs(C - A.astype(f8) @ B.astype(f8).T).max(), run.findings


def test_two_sms_multiply_what_both_have_loaded():
    error, findings = two_sms()
    assert findings == [] and error < 1e-4


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (
            "if (step >= 2) wait(empty + stage, (step / 2 - 1) % 2);",
            "",
            "write of a copy in flight",
        ),
        ("wait(full + stage, step / 2 % 2);", "", "read of a copy in flight"),
        ('"r"(place(&done)), "h"((short)3)', '"r"(place(&done)), "h"((short)1)', "deadlock"),
        ("    wait(&done, 0);", "", "tensor memory race"),
        ("    if (warp == 0) {", "    if (warp == 0 && rank == 0) {", "deadlock"),
    ],
)
def test_mistakes_of_two_sms_are_found(old, new, kind):
    _, findings = two_sms((old, new))
    assert kind in {finding.kind for finding in findings}


# --- planted mistakes -----------------------------------------------------------------------------

PLAIN = Case("f16").source()
FENCE = '    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");\n'
BEFORE_SYNC = '    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");\n'
LAST_FENCE = FENCE + "    for (int n"
WAIT = PLAIN[PLAIN.index('    asm volatile("{ .reg .pred p; again') : PLAIN.index(LAST_FENCE)]
STORED = '    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");\n'
LOADED = '        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");\n'
FREE = PLAIN[PLAIN.rindex("    if (warp == 0)") : PLAIN.rindex("}")]
COMMIT = 'asm volatile("tcgen05.commit.'
PROXY_FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
FILL = "for (int n = 0; n < {}; n += 4) {{\n        const"
ZEROS = "((uint4*)memory)[t] = make_uint4(0, 0, 0, 0);"
MISTAKES = {
    # name: (what the finding is, old, new)
    "no wait for the commit": ("tensor memory race", WAIT, ""),
    "no commit": ("deadlock", COMMIT, "if (t < 0) " + COMMIT),
    "no fence after the wait": ("missing tcgen05.fence", LAST_FENCE, "    for (int n"),
    "no fence after the barrier": ("missing tcgen05.fence", FENCE + "    if (t", "    if (t"),
    "no fence before the barrier": ("missing tcgen05.fence", STORED + BEFORE_SYNC, STORED),
    "no wait for stores": ("missing tcgen05.wait", STORED, ""),
    "no wait for loads": ("missing tcgen05.wait", LOADED, ""),
    "no barrier after stores": ("tensor memory race", "    MEET;\n" + FENCE, FENCE),
    "no barrier before it is freed": ("tensor memory race", "    MEET;\n" + FREE, FREE),
    "operands not fenced": ("async-proxy race", PROXY_FENCE, ""),
    "operands overwritten": ("write-after-read race", COMMIT, ZEROS + COMMIT),
    "lanes of another warp": ("lanes of another warp", "lanes = warp << 21", "lanes = 0"),
    "fewer columns allocated": ("tensor memory not allocated", ' [%0], 512;"', ' [%0], 256;"'),
    "never freed": ("tensor memory not freed", FREE, ""),
    "fewer columns freed": ("wrong tensor memory allocation", ' %0, 512;"', ' %0, 256;"'),
    "columns past the last": ("out-of-bounds tensor memory", 'KIND " [%0]', 'KIND " [%0 + 480]'),
    "sums never written": ("uninitialised read", FILL.format(512), FILL.format(32)),
    "descriptor of Hopper": ("wrong descriptor", "a + ((place", "(a ^ 1ull << 46) + ((place"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_planted_mistakes_are_found(name):
    kind, old, new = MISTAKES[name]
    case = Case("f16")
    assert PLAIN.count(old) == 1
    a, b, sums, _ = operands(case)
    _, run = blackwell_kernels.run(case, a, b, sums, source=PLAIN.replace(old, new), check=True)
    assert kind in {finding.kind for finding in run.findings}, run.findings


def test_in_a_kernel_without_any_fence_only_waits_can_be_missing():
    case = Case("f16")
    a, b, sums, _ = operands(case)
    without = PLAIN.replace(FENCE, "").replace(BEFORE_SYNC, "")
    _, run = blackwell_kernels.run(case, a, b, sums, source=without, check=True)
    assert run.findings == []
    hasty = without.replace(WAIT, "")
    _, run = blackwell_kernels.run(case, a, b, sums, source=hasty, check=True)
    assert {finding.kind for finding in run.findings} == {"tensor memory race"}


def test_registers_may_be_used_before_the_wait_but_not_without():
    case = Case("f16")
    a, b, sums, _ = operands(case)
    use = "        for (int i = 0; i < 4; ++i) out[(block * 128 + t) * 512 + n + i] = d[i];\n"
    assert PLAIN.count(LOADED + use) == 1
    late = PLAIN.replace(LOADED + use, use + LOADED)
    _, run = blackwell_kernels.run(case, a, b, sums, source=late, check=True)
    assert run.findings == []


def test_scales_that_only_some_quarters_have_are_found():
    case = Case("mxf8f6f4", **SCALED)
    a, b, sums, scales = operands(case)
    source = case.source().replace("32x128b.warpx4", "64x128b.warpx2::02_13")
    _, run = blackwell_kernels.run(case, a, b, sums, scales, source=source)
    assert "scales not in all quarters" in {finding.kind for finding in run.findings}


# --- control of launches --------------------------------------------------------------------------

TAKES = r"""
extern "C" __global__ void __cluster_dims__(CLUSTER) takes(int* times, int* by)
{
    __shared__ __align__(16) uint4 answer;
    __shared__ __align__(8) unsigned long long done;
    const unsigned to = (unsigned)__cvta_generic_to_shared(&answer);
    const unsigned mbarrier = (unsigned)__cvta_generic_to_shared(&done);
    const unsigned rank = blockIdx.x % CLUSTER;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(mbarrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    unsigned first = blockIdx.x - rank, more = 1;
    for (unsigned phase = 0; more; phase ^= 1) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;"
                         :: "r"(mbarrier) : "memory");
            if (rank == 0)
                asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta"
                             ".mbarrier::complete_tx::bytes.multicast::cluster::all.b128"
                             " [%0], [%1];" :: "r"(to), "r"(mbarrier) : "memory");
            times[first + rank] += 1;
            by[first + rank] = blockIdx.x;
        }
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;"
                     " @!p bra again; }" :: "r"(mbarrier), "r"(phase) : "memory");
        asm volatile("{ .reg .b128 q; .reg .pred p; ld.shared.b128 q, [%2];"
                     " clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, q;"
                     " selp.u32 %0, 1, 0, p;"
                     " @p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128"
                     " {%1, _, _, _}, q; }" : "=r"(more), "+r"(first) : "r"(to) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    }
}
"""


@pytest.mark.parametrize("cluster", [1, 2])
def test_clusters_that_have_begun_take_the_others(cluster):
    times, by = np.zeros((2, 400), i4)
    run = ptxsim.launch(
        TAKES, "takes", 400, 32, [times, by], arch=ARCH, check=True,
        options=(f"-DCLUSTER={cluster}",),
    )  # fmt: skip
    assert run.findings == [] and (times == 1).all()
    assert by.max() < 148  # the SMs of a B200: no other block has begun
    assert (by[:148] == np.arange(148)).all() and np.bincount(by).max() == 3
