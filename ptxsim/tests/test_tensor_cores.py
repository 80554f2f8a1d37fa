"""Tensor cores in the simulator: as recorded on an NVIDIA H200, and against exact products."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxsim
import record_doubles
import record_tensor as record
import whole_kernels
from ptxsim import ptx, translate
from ptxsim.instructions import tensor as instructions
from ptxsim.ptx import register_types
from ptxsim.tensor_cores import adding, fragments

HERE = Path(__file__).parent

RECORDED = np.load(HERE / "recorded/tensor.npz")
COUNTERS = json.loads(str(RECORDED["counters"]))
PRODUCTS, TRANSFERS, WHOLES = record.products(), record.transfers(), record.wholes()
# The others lie, and are loaded, as some of these; compiling and running all would take a minute.
RUN = {
    name: transfer
    for name, transfer in TRANSFERS.items()
    if transfer.ptx_type not in ("bf16", "u8", "s32") and "m32n8k16" not in name
}

f4, f8, u4 = np.float32, np.float64, np.uint32


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


@cache
def combined(kind: str) -> str:
    """One source for many kernels: compiling it once is quicker."""
    if kind == "products":
        return "".join(map(record.product_source, PRODUCTS.values()))
    if kind == "transfers":
        return "".join(map(record.transfer_source, RUN.values()))
    return "".join(map(record.matrix_source, record.MATRIX_FORMS)) + record.MOVE_SOURCE


def launcher(kind: str, **how):
    """The `launch` that record_tensor's functions take, in the simulator."""
    runs = []

    def launch(text, entry, blocks, args, shared_bytes):
        assert text in combined(kind)
        run = ptxsim.launch(
            combined(kind), entry, (blocks, 1, 1), (32, 1, 1), args,
            shared_bytes=shared_bytes, **how,
        )  # fmt: skip
        assert run.findings == []
        runs.append(run)

    launch.runs = runs
    return launch


# --- as recorded ----------------------------------------------------------------------------------


def test_the_record_is_of_these_operands():
    assert str(RECORDED["operands"]) == record.digest()


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_have_every_bit_of_the_hardware(name):
    got = record.product_result(PRODUCTS[name], launcher("products"))
    np.testing.assert_array_equal(got, RECORDED[f"mma {name}"])


@pytest.mark.parametrize("name", TRANSFERS)
def test_fragments_lie_as_on_the_hardware(name):
    transfer, shape = TRANSFERS[name], name.split(".")[6]
    matrix = name.split(".")[2]
    fragment = instructions._fragment(matrix, shape, transfer.ptx_type)
    assert fragment.shape == (transfer.rows, transfer.cols)
    once = fragment.places.reshape(-1, max(1, 32 // one_bits(transfer)), 32)
    if transfer.stores:
        numbers = np.arange(once.size).reshape(once.shape)
        assert (RECORDED[f"store {name}"].reshape(-1)[once] == numbers).all()
    else:
        whole = np.concatenate([once] * fragment.repeats)
        np.testing.assert_array_equal(whole, RECORDED[f"fragment {name}"])


def one_bits(transfer) -> int:
    return record.BITS[transfer.ptx_type]


@pytest.mark.parametrize("name", RUN)
def test_wmma_loads_and_stores_what_the_hardware_does(name):
    got = record.transfer_result(RUN[name], launcher("transfers", check=name.endswith("f16")))
    kind = "store" if RUN[name].stores else "fragment"
    np.testing.assert_array_equal(got, RECORDED[f"{kind} {name}"])


@pytest.mark.parametrize("name", [*record.MATRIX_FORMS, record.MOVE_FORM])
def test_pieces_move_as_on_the_hardware(name):
    got = record.matrix_result(name, launcher("pieces", check=True))
    np.testing.assert_array_equal(got, RECORDED[f"rows {name}"])


def counted(name: str):
    text, entry, args, shared_bytes = record.counted()[name]
    launch = launcher("transfers" if name.startswith("wmma") else "pieces", count=True)
    launch(text, entry, 1, args, shared_bytes)
    return launch.runs[0].counters


COUNTED = [n for n in record.counted() if not n.startswith("wmma") or n.split()[0] in RUN]


@pytest.mark.parametrize("name", COUNTED)
def test_transfers_cost_what_the_profiler_counts(name):
    got = counted(name)
    assert {metric: got[metric] for metric in COUNTERS[name]} == COUNTERS[name]


# --- whole kernels --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WHOLES)
def test_a_kernel_has_every_bit_and_count_of_the_hardware(name):
    kernel, expected = WHOLES[name], COUNTERS[name]
    args, block = kernel.arguments(), (kernel.threads, 1, 1)
    run = ptxsim.launch(
        record.KERNELS / kernel.file, kernel.entry, kernel.grid, block, args,
        options=kernel.macros, count=True,
    )  # fmt: skip
    assert run.findings == []
    np.testing.assert_array_equal(args[2].view(u4), RECORDED[f"kernel {name}"].view(u4))
    assert {metric: run.counters[metric] for metric in expected} == expected


SHAPES = ((64, 64, 64, 1.0, 0.0), (61, 67, 171, 0.5, 2.0), (3, 200, 40, 1.0, 0.0),
          (17, 33, 0, 1.0, 0.5), (1, 1, 1, -1.0, 0.0))  # fmt: skip


@pytest.mark.parametrize("kernel", whole_kernels.TENSOR_PRODUCTS, ids=lambda kernel: kernel.name)
def test_a_kernel_is_right_at_awkward_shapes(kernel):
    for *shape, alpha, beta in SHAPES:
        m, n, k = kernel.fitting(*shape)
        before = kernel.inputs(m, n, k, alpha, beta)
        C, run = kernel.launch(m, n, k, alpha, beta, check=(m, n) != (64, 64))
        assert run.findings == []
        assert kernel.wrong_elements(C, before) == 0, (m, n, k)


def test_satfinite_may_stand_behind_the_types():
    """Of mma.sync, as ptxas takes it."""
    source = """extern "C" __global__ void k(int* out, int a, int c) {
        int d[4] = {c, c, c, c};
        asm volatile("mma.sync.aligned.m16n8k32.row.col%s.s32.s8.s8.s32%s "
                     "{%%0, %%1, %%2, %%3}, {%%4, %%4, %%4, %%4}, {%%4, %%4}, {%%0, %%1, %%2, %%3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a));
        for (int i = 0; i < 4; ++i) out[4 * threadIdx.x + i] = d[i];
    }"""
    results = []
    for flags in ((".satfinite", ""), ("", ".satfinite"), ("", "")):
        out = np.zeros(128, np.int32)
        run = ptxsim.launch(source % flags, "k", 1, 32, [out, 0x01010101, 2**31 - 9])
        assert run.findings == []
        results.append(set(out.tolist()))
    assert results == [{2**31 - 1}, {2**31 - 1}, {-(2**31) + 23}]  # 32 products of 1


# --- numbers --------------------------------------------------------------------------------------

HALF = instructions._mma("m16n8k16", (), "f32", "f16", "f16", "f32")


def patterns(x, ptx_type: str):
    """uint32, of float32 numbers; for bfloat16 they are cut off."""
    return (
        x.astype(np.float16).view(np.uint16).astype(u4) if ptx_type == "f16" else x.view(u4) >> 16
    )


def matrices(data, ptx_type: str, spread: int, warps: int):
    """Random operands of an m16n8k16 product, as uint32 patterns (rows, columns, warps)."""
    random = np.random.default_rng(data)
    values = []
    for shape in ((16, 16, warps), (16, 8, warps), (16, 8, warps)):
        value = random.standard_normal(shape) * 2.0 ** random.integers(-spread, spread + 1, shape)
        value[random.random(shape) < 0.1] = 0
        values.append(value)
    a, b = (patterns(x.astype(f4), ptx_type) for x in values[:2])
    return a, b, values[2].astype(f4).view(u4)


@given(
    st.integers(0, 2**32), st.sampled_from(["f16", "bf16"]), st.integers(0, 14),
    st.sampled_from([13, adding.KEPT_BITS]),
)  # fmt: skip
@settings(max_examples=30)
def test_the_quick_way_of_adding_agrees_with_the_general_one(seed, ptx_type, spread, kept):
    a, b, c = matrices(seed, ptx_type, spread, 3)
    factors = adding.Factors(*adding.decoded(a, ptx_type), *adding.decoded(b, ptx_type))
    c = adding.numbers(c, "f32")
    given = factors, c, adding.exponents(c, "f32"), kept
    assert adding.is_moderate(factors, ptx_type)
    np.testing.assert_array_equal(adding.add_any(*given), adding.add_moderate(*given))


@given(st.integers(0, 2**32), st.integers(0, 14))
@settings(max_examples=30)
def test_a_sum_loses_at_most_what_is_cut_off(seed, spread):
    a, b, c = matrices(seed, "f16", spread, 2)
    got = HALF._floats("sm_90a")(a, b, c).view(f4).astype(f8)
    a, b, c = adding.numbers(a, "f16"), adding.numbers(b, "f16"), adding.numbers(c, "f32")
    exact = np.einsum("mkw,knw->mnw", a, b) + c
    largest = np.maximum(np.abs(a[:, :, None] * b[None]).max(axis=1), np.abs(c))
    # 17 terms are cut off 25 bits below the largest exponent, and the sum once more to 24 bits.
    assert (np.abs(got - exact) <= 17 * largest * 2.0**-25 + np.abs(exact) * 2.0**-22).all()


# --- mistakes, and forms of addresses -------------------------------------------------------------

LOAD = """
extern "C" __global__ void k(const unsigned* memory, unsigned* out, int step, int first, int last)
{
    __shared__ __align__(128) unsigned s[256];
    const int lane = threadIdx.x %% 32;
    for (int i = threadIdx.x; i < %(written)s; i += blockDim.x) s[i] = memory[i];
    __syncthreads();
    if ((int)threadIdx.x < first || (int)threadIdx.x >= last) %(leave)s;
    unsigned r, at = (unsigned)__cvta_generic_to_shared(s) + lane * step;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%%0}, [%%1];"
                 : "=r"(r) : "r"(at) : "memory");
    out[threadIdx.x] = r;
}
"""


def loaded(step=16, first=0, last=64, written="256", leave="return", threads=64):
    memory, out = np.arange(256, dtype=u4), np.zeros(64, u4)
    text = LOAD % {"written": written, "leave": leave}
    args = [memory, out, step, first, last]
    return ptxsim.launch(text, "k", (1, 1, 1), (threads, 1, 1), args, check=True), out


def kinds(run) -> set[str]:
    return {finding.kind for finding in run.findings}


def test_ldmatrix_is_right_where_nothing_is_wrong():
    run, out = loaded()
    assert run.findings == []
    assert (out == np.tile(np.arange(32), 2)).all()
    run, out = loaded(first=32)  # a whole warp that does not take part
    assert run.findings == []
    assert (out[:32] == 0).all() and (out[32:] == np.arange(32)).all()


def test_a_part_of_a_warp_is_a_finding():
    run, _ = loaded(last=40)
    (finding,) = run.findings
    assert finding.kind == "divergent warp" and finding.thread == (32, 0, 0)
    assert finding.lanes == 8
    assert kinds(loaded(threads=48)[0]) == {"divergent warp"}


def test_a_row_of_a_piece_must_be_aligned_inside_and_written():
    assert kinds(loaded(step=24)[0]) == {"misaligned read"}
    assert kinds(loaded(step=256)[0]) == {"out-of-bounds read"}
    assert kinds(loaded(written="28")[0]) == {"uninitialised read"}


WMMA = """
extern "C" __global__ void k(unsigned* memory, unsigned* out, int ld)
{
    __shared__ __align__(128) unsigned s[512];
    for (int i = threadIdx.x; i < 512; i += 32) s[i] = memory[i];
    __syncwarp();
    unsigned r[4];
    %(pointer)s
    asm volatile("wmma.load.%(matrix)s.sync.aligned.row.m16n16k16%(space)s.bf16 "
                 "{%%0, %%1, %%2, %%3}, [%%4], %%5;"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "%(constraint)s"(p), "r"(%(ld)s) : "memory");
    for (int i = 0; i < 4; i++) out[i * 32 + threadIdx.x] = r[i];
}
"""
PLACES = {
    "global": (".global", "unsigned* p = memory;", "l"),
    "shared": (".shared", "unsigned p = (unsigned)__cvta_generic_to_shared(s);", "r"),
    "generic to global": ("", "unsigned* p = memory;", "l"),
    "generic to shared": ("", "unsigned* p = s;", "l"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("matrix", "ab")
def test_wmma_loads_from_every_kind_of_pointer(place, matrix):
    space, pointer, constraint = PLACES[place]
    halves = np.arange(1024, dtype=np.uint16)
    form = {"space": space, "pointer": pointer, "constraint": constraint, "matrix": matrix}
    out = np.zeros((4, 32), u4)
    text = WMMA % {**form, "ld": "ld"}
    run = ptxsim.launch(text, "k", (1, 1, 1), (32, 1, 1), [halves.view(u4), out, 24], check=True)
    assert run.findings == []
    fragment = fragments.of_wmma(matrix, 16, 16, 16, 16, 4)
    expected = fragment.fill(np.arange(1024).reshape(-1)[: 16 * 24].reshape(16, 24)[:, :16, None])
    np.testing.assert_array_equal(out, expected[:, :, 0])


def test_wmma_finds_what_is_outside_and_lanes_that_disagree():
    space, pointer, constraint = PLACES["global"]
    form = {"space": space, "pointer": pointer, "constraint": constraint, "matrix": "a"}
    args = [np.zeros(512, u4), np.zeros((4, 32), u4), 72]
    run = ptxsim.launch(WMMA % {**form, "ld": "ld"}, "k", (1, 1, 1), (32, 1, 1), args)
    assert kinds(run) == {"out-of-bounds read"}
    args[2] = 16
    text = WMMA % {**form, "ld": "ld + 8 * (threadIdx.x / 16)"}
    assert "divergent warp" in kinds(ptxsim.launch(text, "k", (1, 1, 1), (32, 1, 1), args))


@pytest.mark.parametrize(
    "text",
    [
        "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k8.col.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
    ],
)
def test_an_unknown_form_is_refused(text):
    operands = "{%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r0, %r1, %r2, %r3}"
    module = f".entry k(.param .u64 p) {{ .reg .b32 %r<10>; {text} {operands}; ret; }}"
    kernel = ptx.parse(module, "k.cu")["k"]
    with pytest.raises(ptxsim.UnknownInstruction, match="m16n8k"):
        translate.translate(
            kernel, kernel.blocks[0], register_types(kernel), {}, frozenset(), False, False
        )


# --- float64 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", record_doubles.SHAPES)
def test_products_of_doubles_have_the_hardwares_bits(shape):
    A, B, C = record_doubles.inputs()[shape]
    D = np.zeros_like(C)
    source, args = record_doubles.source(shape), [A, B, C, D]
    assert not ptxsim.launch(source, shape, (len(C), 1, 1), (32, 1, 1), args).findings
    with np.load(HERE / "recorded/doubles.npz") as file:
        recorded = file[shape]
    same = (D.view(np.uint64) == recorded.view(np.uint64)) | np.isnan(D) & np.isnan(recorded)
    assert np.isnan(recorded).any() and np.isinf(recorded).any() and same.all()


WMMA_DOUBLES = """extern "C" __global__ void k(const double* A, const double* B, double* C) {
    __shared__ double s[8 * 12];
    double a, b, c0, c1;
    asm volatile("wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%0}, [%1], 5;"
                 : "=d"(a) : "l"(A));
    asm volatile("wmma.load.b.sync.aligned.col.m8n8k4.f64 {%0}, [%1], 6;" : "=d"(b) : "l"(B));
    asm volatile("wmma.load.c.sync.aligned.row.m8n8k4.f64 {%0, %1}, [%2], 8;"
                 : "=d"(c0), "=d"(c1) : "l"(C));
    asm volatile("wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64.rn "
                 "{%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(c0), "+d"(c1) : "d"(a), "d"(b));
    asm volatile("wmma.store.d.sync.aligned.col.m8n8k4.shared.f64 [%2], {%0, %1}, 12;"
                 :: "d"(c0), "d"(c1), "r"((unsigned)__cvta_generic_to_shared(s)) : "memory");
    __syncwarp();
    for (int i = threadIdx.x; i < 64; i += 32) C[i] = s[i % 8 * 12 + i / 8];
}"""


def test_wmma_of_doubles_multiplies():
    random = np.random.default_rng(4)
    A, B, C = (random.integers(-9, 9, shape).astype(float) for shape in ((8, 5), (8, 6), (8, 8)))
    expected = A[:, :4] @ B[:, :4].T + C
    run = ptxsim.launch(WMMA_DOUBLES, "k", (1, 1, 1), (32, 1, 1), [A, B, C], check=True)
    # Column i of the transposed piece is row i: it is read back as it was meant.
    assert not run.findings and np.array_equal(C, expected)


@pytest.mark.parametrize("opcode", ["x4.m8n8", "m8n8.x4"])
@pytest.mark.parametrize("space", [".shared", ""])
def test_the_parts_of_ldmatrix_may_stand_in_any_order(opcode, space):
    pointer = '"r"((unsigned)__cvta_generic_to_shared(p))' if space else '"l"(p)'
    source = f"""extern "C" __global__ void k(unsigned* out) {{
        __shared__ __align__(16) unsigned short s[256];
        for (int i = threadIdx.x; i < 256; i += 32) s[i] = i;
        __syncwarp();
        unsigned r[4];
        const unsigned short* p = s + 8 * threadIdx.x;
        asm volatile("ldmatrix.sync.aligned.{opcode}{space}.b16 {{%0, %1, %2, %3}}, [%4];"
            : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : {pointer} : "memory");
        for (int i = 0; i < 4; ++i) out[32 * i + threadIdx.x] = r[i];
    }}"""
    out = np.zeros(128, np.uint32)
    assert not ptxsim.launch(source, "k", (1, 1, 1), (32, 1, 1), [out], check=True).findings
    assert out.view(np.uint16).tolist() == list(range(256))


@pytest.mark.parametrize("parts", ["m8n8.x4.trans.shared.b16", "x4.m8n8.shared.b16.trans"])
def test_the_parts_of_stmatrix_may_stand_in_any_order(parts):
    source = f"""extern "C" __global__ void k(unsigned* out) {{
        __shared__ __align__(16) unsigned s[128];
        const unsigned place = (unsigned)__cvta_generic_to_shared(s + 4 * threadIdx.x);
        const unsigned row = threadIdx.x / 4, column = 2 * (threadIdx.x % 4);
        unsigned r[4];
        for (int i = 0; i < 4; ++i)
            r[i] = 64 * i + 8 * column + row | 64 * i + 8 * (column + 1) + row << 16;
        asm volatile("stmatrix.sync.aligned.{parts} [%0], {{%1, %2, %3, %4}};"
            :: "r"(place), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
        __syncwarp();
        for (int i = 0; i < 4; ++i) out[32 * i + threadIdx.x] = s[32 * i + threadIdx.x];
    }}"""
    out = np.zeros(128, np.uint32)
    assert not ptxsim.launch(source, "k", (1, 1, 1), (32, 1, 1), [out], check=True).findings
    assert out.view(np.uint16).tolist() == list(range(256))
