"""wgmma and FP8 mma.sync in the simulator: as recorded on an NVIDIA H200, and near exact."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxsim
import record_tensor as tensor
import record_wgmma as record
import whole_kernels
from ptxsim import hopper, ptx, translate
from ptxsim.ptx import register_types
from ptxsim.tensor_cores import adding, wgmma

RECORDED = np.load(Path(__file__).parent / "recorded/wgmma.npz")
COUNTERS = json.loads(str(RECORDED["counters"]))
FORMS, MAPS, SMALLS, WHOLES = record.forms(), record.maps(), record.smalls(), record.wholes()
TYPES = sorted({form.types for form, _ in FORMS.values()})

f4, f8, u4, u8 = np.float32, np.float64, np.uint32, np.uint64


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def source(case) -> str:
    if isinstance(case, record.Form):
        return record.wgmma_source(case)
    if isinstance(case, tensor.Product):
        return tensor.product_source(case)
    source_of = record.small_source if isinstance(case, record.Small) else record.conversion_source
    return source_of(case)


def launcher(**how):
    """The `launch` that record_wgmma's functions take, in the simulator."""
    runs = []

    def launch(case, blocks, args, shared_bytes):
        name = tensor.entry(case.opcode) if isinstance(case, tensor.Product) else case.entry
        threads = 128 if isinstance(case, record.Form | record.Conversion) else 32
        run = ptxsim.launch(
            source(case), name, (blocks, 1, 1), (threads, 1, 1), args, shared_bytes=shared_bytes,
            arch="sm_90a", **how,
        )  # fmt: skip
        assert run.findings == []
        runs.append(run)

    launch.runs = runs
    return launch


# --- as recorded: bits ----------------------------------------------------------------------------


def modelled(form, case: int) -> np.ndarray:
    """Registers of the sums of a case, uint32 (registers, 128), without a kernel around them."""
    A, B, sums = record.operands(form, case)
    product = wgmma.GroupProduct(
        form.types, form.n, form.signs, tuple(map(bool, form.transposed)), form.saturate
    )
    compute = product._integers if form.integral else product._floats
    sums = sums[None] if form.scale_d else np.zeros_like(sums)[None]
    for step in range(form.steps):
        k = slice(form.k * step, form.k * (step + 1))
        sums = compute(A[None, :, k], B[None, :, k], sums)
    return record.sum_registers(sums[0], record.BITS[form.types[0]])


@pytest.mark.parametrize("types", TYPES, ids=" ".join)
def test_all_products_have_every_bit_of_the_hardware(types):
    """Every kind of numbers, every n, signs, steps that go on from one another."""
    forms = {name: form for name, form in FORMS.items() if form[0].types == types}
    assert len(forms) >= 12
    for name, (form, cases) in forms.items():
        got = [modelled(form, case) for case in range(cases)]
        if f"wgmma {name}" in RECORDED:
            kept = RECORDED[f"wgmma {name}"]
            np.testing.assert_array_equal(got[: len(kept)], kept, name)
        np.testing.assert_array_equal(record.digests(got), RECORDED[f"wgmma# {name}"], name)


IN_KERNELS = [
    name
    for name, (form, _) in FORMS.items()
    if (form.n == 8 and not form.alone) or form.n == 64 or form.n == 256
]


@pytest.mark.parametrize("name", IN_KERNELS[::3])
def test_kernels_have_every_bit_of_the_hardware(name):
    """With all that reads operands and writes sums: descriptors, registers, transposed ones."""
    form, cases = FORMS[name]
    got = record.wgmma_result(form, cases, launcher(check=form.n == 8))
    np.testing.assert_array_equal(record.digests(got), RECORDED[f"wgmma# {name}"])


def behind_the_types(form) -> str:
    """The kernel's text with .satfinite where CUTLASS has it."""
    behind = form.opcode.replace(".satfinite", "") + ".satfinite"
    assert form.opcode != behind and form.opcode in source(form)
    return source(form).replace(form.opcode, behind)


@pytest.mark.parametrize("name", ["s32 s8 u8 n8 satfinite", "s32 u8 s8 n8 registers satfinite"])
def test_satfinite_may_stand_behind_the_types(name, monkeypatch):
    form, cases = FORMS[name]
    text = behind_the_types(form)
    monkeypatch.setattr(record, "wgmma_source", lambda form: text)
    got = record.wgmma_result(form, cases, launcher())
    np.testing.assert_array_equal(record.digests(got), RECORDED[f"wgmma# {name}"])


def elements(operand, row) -> np.ndarray:
    """The element of shared memory at each place of the operand, as record.map_result gives it."""
    size = record.BITS[operand.ptx_type] // 8
    shape = (operand.form.k, 64 * size // 16) if operand.transposed else (64, 2)
    units = hopper.places([record.descriptor(*row)], *shape, operand.transposed)[0]
    bytes_of = (units[:, :, None] + np.arange(0, 16, size)).reshape(shape[0], -1)
    return (bytes_of.T if operand.transposed else bytes_of) // size


@pytest.mark.parametrize("name", MAPS)
def test_operands_lie_as_on_the_hardware(name):
    """Every swizzle, with awkward offsets, begins inside of atoms, and base offsets."""
    operand, rows = MAPS[name], record.layouts()
    assert {row[1] for row in rows} == {"none", "32B", "64B", "128B"}
    got = [elements(operand, row).astype(np.int32) for row in rows]
    np.testing.assert_array_equal(record.digests(got), RECORDED[f"map# {name}"])


@pytest.mark.parametrize("name", MAPS)
def test_a_kernel_reads_operands_where_they_lie(name):
    rows = record.layouts()[::29]
    got = record.map_result(MAPS[name], launcher(), rows)
    np.testing.assert_array_equal(record.digests(got), RECORDED[f"map# {name}"][::29])


@pytest.mark.parametrize("name", SMALLS)
def test_mma_of_eight_bits_has_every_bit_of_the_hardware(name):
    got = record.small_result(SMALLS[name], launcher())
    kept = RECORDED[f"mma {name}"]
    np.testing.assert_array_equal(got[: len(kept)], kept)
    np.testing.assert_array_equal(record.digests(got), RECORDED[f"mma# {name}"])


@pytest.mark.parametrize("name", record.conversions())
def test_conversions_to_and_from_eight_bits_have_every_bit_of_the_hardware(name):
    got = record.conversion_result(record.conversions()[name], launcher())
    np.testing.assert_array_equal(got, RECORDED[f"cvt {name}"])


# --- as recorded: counters ------------------------------------------------------------------------


def is_second(name: str) -> bool:
    """Whether it is the second launch of a map, which differs in the numbers alone."""
    return name.startswith("map") and name.endswith("1")


def counted(name: str):
    """Of one launch in the simulator."""
    launch = launcher(count=True)
    if name in record.counted():
        form, blocks = record.counted()[name]
        record.wgmma_result(form, blocks, launch)
    elif name in SMALLS:
        record.small_result(SMALLS[name], launch)
    elif name in record.in_warps():
        record.in_warp_result(record.in_warps()[name], launch)
    else:
        record.map_result(MAPS[name.removeprefix("map ")[:-2]], launch)
    return launch.runs[-1].counters


@pytest.mark.parametrize(
    "name", [n for n in record.watched() if not is_second(n) and n not in WHOLES]
)
def test_products_count_what_the_profiler_counts(name):
    """No layout of an operand has bank conflicts: `map` has all of them."""
    got, expected = counted(name), COUNTERS[name]
    assert set(expected) == set(record.METRICS)
    assert {metric: got[metric] for metric in expected} == expected


# --- exact ----------------------------------------------------------------------------------------


def multiplied(types, n, a, b, c, **how):
    """Sums, uint32 patterns (64, n), of patterns a (64, k), b (n, k), c (64, n)."""
    product = wgmma.GroupProduct(types, n, **how)
    compute = product._integers if types[0] == "s32" else product._floats
    return compute(a[None].astype(u4), b[None].astype(u4), c[None].astype(u4))[0]


ULPS = {"f16": 2.0**-24, "bf16": 2.0**-24, "tf32": 2.0**-24, "e4m3": 2.0**-13, "e5m2": 2.0**-13}


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32), st.sampled_from([t for t in TYPES if t[0] == "f32"]),
    st.sampled_from(record.WIDTHS), st.sampled_from([0, 1, 2, 10]),
)  # fmt: skip
def test_a_sum_loses_at_most_what_is_cut_off(seed, types, n, kind):
    """Each of the products and the sum before, 25 bits below the largest (13), and the result."""
    form = record.Form(types, n)
    words = tensor.Words(f"{seed} {types} {n}")
    a, b, c = record.factors(words, form, kind, 64, n, form.k)
    got = multiplied(types, n, a, b, c).view(f4).astype(f8)
    x, y = (record.values(m, t) for m, t in ((a, types[1]), (b, types[2])))
    if types[1] == "tf32":
        x, y = ((m & u4(0xFFFFE000)).view(f4).astype(f8) for m in (a, b))
    c = c.view(f4).astype(f8)
    exact = x @ y.T + c
    # A subnormal factor counts as the smallest normal one.
    x, y = (
        np.where(v == 0, 0, np.maximum(np.abs(v), 2.0 ** adding.LOWEST[t]))
        for v, t in ((x, types[1]), (y, types[2]))
    )
    largest = np.maximum((x[:, None] * y).max(axis=2), np.abs(c))
    ulp = ULPS[types[1]]
    assert (np.abs(got - exact) <= (form.k + 1) * largest * ulp + np.abs(exact) * 2 * ulp).all()
    assert (np.abs(got) <= np.abs(exact) * (1 + 2.0**-40) + (form.k + 1) * largest * ulp).all()


# --- whole kernels, and mistakes ------------------------------------------------------------------


@pytest.mark.parametrize("name", WHOLES)
def test_a_kernel_has_every_bit_and_count_of_the_hardware(name):
    kernel, expected = WHOLES[name], COUNTERS[name]
    args = kernel.arguments()
    path = tensor.KERNELS / kernel.file
    threads = (kernel.threads, 1, 1)
    run = ptxsim.launch(
        path, kernel.entry, kernel.grid, threads, args, options=kernel.macros, count=True
    )
    assert run.findings == []
    np.testing.assert_array_equal(args[2].view(u4), RECORDED[f"kernel {name}"].view(u4))
    assert {metric: run.counters[metric] for metric in expected} == expected


def test_lanes_that_parted_meet_for_a_wgmma():
    """One warp comes later, by another way; warps of no warpgroup take no part."""
    kernel = whole_kernels.product("wgmma_shared")
    late = "        fence_registers();\n        for (int k = 0; k < TILE"
    text = kernel.text.replace(
        late, "        if (threadIdx.x / 32 == 2) __nanosleep(100);\n" + late
    )
    assert text != kernel.text
    given = kernel.inputs(64, 64, 128)
    run = kernel.run((1, 1, 1), kernel.arguments(given), source=text, check=True)
    assert run.findings == [] and kernel.wrong_elements(given.C, given) == 0


def kinds(run) -> set[str]:
    return {finding.kind for finding in run.findings}


def launched(threads: int, text: str, **how):
    """`text` in a kernel with a tile of 0 and the sums d[4], after wgmma.fence."""
    whole = f"""
extern "C" __global__ void k(float* out) {{
    __shared__ __align__(1024) unsigned s[{how.pop("words", 4096)}];
    for (int i = threadIdx.x; i < sizeof(s) / 4; i += blockDim.x) s[i] = 0;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    float d[4] = {{1, 2, 3, 4}};
    unsigned long long a = (unsigned)__cvta_generic_to_shared(s) >> 4 | 64ull << 32 | 1ull << 62;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    {text}
    for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = d[i];
}}"""
    out = np.zeros(4 * threads, f4)
    run = ptxsim.launch(whole, "k", (1, 1, 1), (threads, 1, 1), [out], arch="sm_90a", **how)
    return run, out


MULTIPLY = """asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, "
    "%4, %5, 1, 1, 1, 0, 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(a));
    """
FINISH = """asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");"""


def test_two_warpgroups_and_warps_of_none():
    run, out = launched(256, MULTIPLY + FINISH, check=True)
    assert run.findings == [] and (out.reshape(-1, 4) == [1, 2, 3, 4]).all()
    run, _ = launched(288, f"if (threadIdx.x < 256) {{ {MULTIPLY} {FINISH} }}", check=True)
    assert kinds(run) == {"divergent warpgroup"}  # the fence above, by the ninth warp
    run, _ = launched(96, MULTIPLY + FINISH)
    assert kinds(run) == {"divergent warpgroup"}


def test_an_operand_outside_of_shared_memory():
    run, _ = launched(128, MULTIPLY + FINISH, words=1024)  # half of A
    assert kinds(run) == {"out-of-bounds read"}


def test_what_nobody_wrote_is_found():
    text = "a += 1024; " + MULTIPLY + FINISH
    run, _ = launched(128, text, words=4096, shared_bytes=32768, check=True)
    assert kinds(run) == {"uninitialised read"}


def test_sums_may_go_from_one_product_to_the_next_without_a_fence():
    run, _ = launched(128, 3 * MULTIPLY + FINISH, check=True)
    assert run.findings == []
    used = "d[0] += 1.0f; "
    run, _ = launched(128, MULTIPLY + FINISH + used + MULTIPLY + FINISH, check=True)
    assert kinds(run) == {"missing wgmma.fence"}
    run, _ = launched(128, MULTIPLY + used + FINISH, check=True)
    assert kinds(run) == {"sums in flight"}


@pytest.mark.parametrize(
    "text",
    [
        "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {S}, %rd0, %rd0, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.f16.f16 {S}, %rd0, %rd0, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 {S}, %rd0, %rd0, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {S}, %rd0, %rd0, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {S}, %rd0, %rd0, 0, 0, 1, 1, 1;",
    ],
)
def test_an_unknown_form_is_refused(text):
    text = text.replace("{S}", "{%f0, %f1, %f2, %f3}")
    registers = ".reg .f32 %f<4>; .reg .b64 %rd<1>;"
    kernel = ptx.parse(f".entry k(.param .u64 p) {{ {registers} {text} ret; }}", "k.cu")["k"]
    with pytest.raises(ptxsim.UnknownInstruction, match="wgmma"):
        translate.translate(
            kernel, kernel.blocks[0], register_types(kernel), {}, frozenset(), False, False
        )
