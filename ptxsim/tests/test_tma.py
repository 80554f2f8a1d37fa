"""Tensor maps and bulk stores: against an NVIDIA H200, and what is found of their mistakes."""

import json
from functools import lru_cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ptxsim
import record_bulk_copies
import record_copies as recorder

HERE = Path(__file__).parent
f4 = np.float32
SETTINGS = {"arch": "sm_90a", "options": ("-std=c++17",)}


@lru_cache
def record() -> dict[str, np.ndarray]:
    with np.load(HERE / "recorded" / "copies.npz") as recorded:
        return dict(recorded)


@lru_cache
def bulk_copies() -> dict:
    text = (HERE / "recorded" / "bulk_copies.json").read_text(encoding="utf-8")
    return json.loads(text)["entries"]


def launch(entry, grid, threads, args, shared_bytes=0):
    return ptxsim.launch(recorder.SOURCE, entry, grid, (threads, 1, 1), args,
                            shared_bytes=shared_bytes, **SETTINGS)  # fmt: skip


def tensor_map(case, array) -> ptxsim.TensorMap:
    return ptxsim.TensorMap(case.view(array), case.box, swizzle=case.swizzle, fill=case.fill)


# --- as recorded ----------------------------------------------------------------------------------


def loaded(case) -> np.ndarray:
    out, used = np.zeros((len(case.corners), case.words), "u4"), tensor_map(case, case.memory())
    args = [used, case.coordinates(), out, case.words, case.offset, used.bytes]
    grid = (len(case.corners), 1, 1)
    run = launch(f"load_{len(case.whole)}d", grid, recorder.THREADS, args, 4 * case.words + 16)
    assert run.findings == []
    return out.view(np.uint8)


def stored(case) -> np.ndarray:
    memory = np.full_like(case.memory().view(np.uint8), recorder.FILLING).view(case.dtype)
    given = recorder.pattern("uint32", (len(case.corners), case.words)).copy()
    args = [tensor_map(case, memory), case.coordinates(), given, case.words, case.offset]
    grid = (len(case.corners), 1, 1)
    run = launch(f"store_{len(case.whole)}d", grid, recorder.THREADS, args, 4 * case.words)
    assert run.findings == []
    return memory.view(np.uint8)


@pytest.mark.parametrize("name", recorder.loads())
def test_a_box_lands_as_on_the_hardware(name):
    assert (loaded(recorder.loads()[name]) == record()[f"load {name}"]).all()


@pytest.mark.parametrize("name", recorder.stores())
def test_a_box_is_stored_as_on_the_hardware(name):
    assert (stored(recorder.stores()[name]) == record()[f"store {name}"]).all()


def test_stretches_are_copied_as_on_the_hardware():
    begin, to, size = recorder.stretches()
    blocks, words = len(size), recorder.STRETCH_WORDS
    out = np.zeros((blocks, words), "u4")
    args = [recorder.pattern("uint8", (8192,)).copy(), begin, to, size, out, words]
    run = launch("load_stretch", (blocks, 1, 1), recorder.THREADS, args, 4 * words + 16)
    assert run.findings == []
    assert (out.view(np.uint8) == record()["stretch load"]).all()

    target = np.full(blocks * 8192, recorder.FILLING, "u1")
    targets = begin + 8192 * np.arange(blocks, dtype=np.int32)
    given = recorder.pattern("uint32", (blocks, words)).copy()
    args = [given, to, targets, size, target, words]
    run = launch("store_stretch", (blocks, 1, 1), recorder.THREADS, args, 4 * words)
    assert run.findings == []
    assert (target == record()["stretch store"]).all()


@pytest.mark.parametrize("name", recorder.SCRIPTED)
def test_an_mbarrier_counts_as_on_the_hardware(name):
    count, steps = recorder.SCRIPTED[name]
    seen, pending = np.zeros((2, len(steps), 2), np.int32)
    given = recorder.pattern("uint8", (4096,)).copy()
    args = [np.array(steps, np.int32), count, given, seen, pending]
    launch("script", (len(steps), 2, 1), 1, args)
    expected_seen, expected_pending = record()[f"script {name}"]
    assert (seen == expected_seen).all(), "whether a phase is complete"
    assert (pending == expected_pending).all(), "how many arrivals were missing"


# The recorded loop counts copies that land before a thread waits for them. In the simulator they
# land when one waits: it expects the bytes of the recorded copies, and another number is a finding.
AWAIT = f"""const int copies = COPIES;
        for (int i = 0; i < copies; ++i) {record_bulk_copies.EXPECT}
        {record_bulk_copies.ARRIVE}
        while (!complete(&full)) {{ }}"""


@pytest.mark.parametrize("name", record_bulk_copies.CASES)
def test_copies_by_several_lanes_happen_and_count_as_on_the_hardware(name):
    expected = bulk_copies()[name]
    source = record_bulk_copies.source([name], AWAIT.replace("COPIES", str(expected["copies"])))
    array, zeros, out = record_bulk_copies.arrays(name)
    box, given = ptxsim.TensorMap(array, record_bulk_copies.BOX), record_bulk_copies.GIVEN
    run = ptxsim.launch(
        source, record_bulk_copies.entry(name), (1, 1, 1), (record_bulk_copies.THREADS, 1, 1),
        [box, array, zeros, given, out], count=True, **SETTINGS,
    )  # fmt: skip
    assert run.findings == []
    assert record_bulk_copies.copies(name, array, out) == expected["copies"]
    for what, metric in record_bulk_copies.METRICS.items():
        counted = {kind: run.counters[metric(kind)] for kind in record_bulk_copies.KINDS.values()}
        none = dict.fromkeys(counted, 0)
        assert counted == none | {record_bulk_copies.kind(name): expected[what]}, what


@pytest.mark.parametrize("swizzle", recorder.PRODUCTS)
def test_a_product_has_the_bits_of_the_hardware(swizzle):
    tile, width = recorder.PRODUCTS[swizzle]
    arrays = [recorder.numbers(case.whole) for case in recorder.factors()]
    maps = [
        ptxsim.TensorMap(case.view(array), (tile, tile), swizzle=width)
        for case, array, width in zip(
            recorder.factors(), arrays, (swizzle, swizzle, "none"), strict=True
        )
    ]
    m, n, k = recorder.PRODUCT_SHAPE
    run = ptxsim.launch(
        recorder.KERNELS, "product", (-(-n // tile), -(-m // tile), 1), (tile, tile, 1), [*maps, k],
        options=(f"-DTILE={tile}", f"-DWIDTH={width}"),
    )  # fmt: skip
    assert run.findings == []
    assert arrays[2].tobytes() == record()[f"product {swizzle}"].tobytes()


@pytest.mark.parametrize("name", recorder.encodings())
def test_the_maps_that_the_driver_refuses_are_refused(name):
    case, code = recorder.encodings()[name], json.loads(str(record()["encoded"]))[name]
    if code:
        with pytest.raises(ValueError):
            tensor_map(case, case.memory().copy())
    else:
        tensor_map(case, case.memory().copy())


def test_the_gpu_stops_where_something_is_found():
    """Alignment in either memory, and negative coordinates: of 50 boxes, the same ones."""
    outcomes = json.loads(str(record()["probed"]))
    for name, (what, case) in recorder.probes().items():
        out = np.zeros((len(case.corners), case.words), "u4")
        used = tensor_map(case, case.memory().copy())
        args = [used, case.coordinates(), out, case.words, case.offset, used.bytes]
        run = launch(f"{what}_2d" if len(case.whole) == 2 else f"{what}_3d", (1, 1, 1),
                     recorder.THREADS, args if what == "load" else args[:5],
                     4 * case.words + 16)  # fmt: skip
        kinds = {finding.kind for finding in run.findings} - {"deadlock"}
        assert bool(kinds) == (outcomes[name] != "done"), name
        assert kinds <= {"misaligned bulk copy", "negative coordinate"}


# --- whole kernels --------------------------------------------------------------------------------

KERNELS, WIDTHS = recorder.KERNELS, recorder.PRODUCTS


def product(swizzle, m, n, k, source=KERNELS, **how):
    """(C, float64 reference, the run). Rows are padded to multiples of 16 bytes."""
    tile, width = WIDTHS[swizzle]
    random = np.random.default_rng(7)
    A, B = (random.uniform(-1, 1, (rows, -(-cols // 4) * 4)).astype(f4)[:, :cols]
            for rows, cols in ((m, k), (k, n)))  # fmt: skip
    C = np.full((m, -(-n // 4) * 4), np.nan, f4)
    maps = [ptxsim.TensorMap(X, (tile, tile), swizzle=swizzle) for X in (A, B)]
    maps.append(ptxsim.TensorMap(C[:, :n], (tile, tile)))
    run = ptxsim.launch(
        source, "product", (-(-n // tile), -(-m // tile), 1), (tile, tile, 1), [*maps, k],
        options=(f"-DTILE={tile}", f"-DWIDTH={width}"), **how,
    )  # fmt: skip
    return C[:, :n], A.astype(float) @ B.astype(float), run


@pytest.mark.parametrize("shape", [(37, 45, 50), (5, 3, 1)])
@pytest.mark.parametrize("swizzle", WIDTHS)
def test_a_product_by_tensor_maps_is_right_with_every_swizzle(swizzle, shape):
    C, expected, run = product(swizzle, *shape, check=True)
    assert run.findings == []
    assert np.abs(C - expected).max() <= 2.0**-24 * 2 * shape[2] * shape[2]


# --- mistakes -------------------------------------------------------------------------------------

READ = "        wait(&full[s], now / STAGES % 2);\n"
EMPTY = "            wait(&empty[s], (round + 1) % 2);    // at once in the first round\n"
FENCE = "    fence();                                     // the copy engine is to see"
BARRIER = "    __syncthreads();\n    if (leader) {\n        store_box"
STORED = '    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");\n'
# Name -> (the text, what it becomes, the kind of finding).
MISTAKES = {
    "read before its phase": (READ, "", "read of a copy in flight"),
    "no wait for empty": (EMPTY, "", "write-after-read race"),
    "no fence": (FENCE, "    //", "async-proxy race"),
    "no barrier before the store": (BARRIER, "    if (leader) {\n        store_box", "race"),
    "no wait for the store": (STORED, "", "bulk store not waited for"),
    "too many bytes expected": ("2 * TILE_BYTES);", "3 * TILE_BYTES);", "deadlock"),
    "too few bytes expected": ("2 * TILE_BYTES);", "TILE_BYTES);", "copy in flight"),
    "every thread loads": ("if (leader && i < tiles)", "if (i < tiles)", "mbarrier overflow"),
    "misaligned column": ("top, i * TILE", "top, i * TILE + 1", "misaligned bulk copy"),
    "stored before the array": ("&C, top, left", "&C, top - 8, left", "negative coordinate"),
    "tile too small": ("float c[TILE * TILE]", "float c[4]", "out-of-bounds"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_line(name):
    old, new, kind = MISTAKES[name]
    text = KERNELS.read_text(encoding="utf-8")
    assert text.count(old) == 1
    *_, run = product("32B", 16, 16, 40, source=text.replace(old, new), check=True)
    kinds = {finding.kind for finding in run.findings}
    assert any(kind in each for each in kinds), kinds
    assert all(0 < finding.line <= text.count("\n") for finding in run.findings)


SMALL = (
    recorder.HEAD
    + """
extern "C" __global__ void k(const __grid_constant__ TensorMap map, float* out) {
    __shared__ __align__(128) float box[64];
    __shared__ mbarrier full;
    BEFORE
    if (threadIdx.x == 0) {
        init(&full, 1);
        arrive_and_expect(&full, 256);
        asm volatile("cp.async.bulk.tensor.FORM [%0], [%1, {%2, %2}], [%3];"
                     :: "r"(place(box)), "l"(&map), "r"(0), "r"(place(&full)) : "memory");
        wait(&full, 0);
        for (int i = 0; i < 64; ++i) out[i] = box[i];
    }
}"""
)
FORM = "2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
X = np.arange(400, dtype=f4).reshape(20, 20)


def small(array=X, box=(4, 16), form=FORM, before="", text=SMALL, fill="zero", **how):
    out = np.zeros(64, f4)
    text = text.replace("FORM", form).replace("BEFORE", before)
    args = [ptxsim.TensorMap(array, box, fill=fill), out]
    run = ptxsim.launch(text, "k", (1, 1, 1), (32, 1, 1), args, **{"check": True, **how})
    return out, run


@pytest.mark.parametrize("form", [FORM, FORM.replace("cluster", "cta"), FORM.replace(".tile", "")])
def test_the_forms_of_a_load(form):
    out, run = small(form=form)
    assert run.findings == []
    assert (out.reshape(4, 16) == X[:4, :16]).all()


@pytest.mark.parametrize(
    ("dtype", "box", "element"),
    [(ml_dtypes.bfloat16, (8, 16), "bfloat16"), (ml_dtypes.float8_e4m3fn, (16, 16), "uint8"),
     (ml_dtypes.float8_e5m2, (8, 32), "uint8")],
)  # fmt: skip
def test_a_map_takes_the_types_of_ml_dtypes(dtype, box, element):
    array = (np.arange(32 * 32) % 17).reshape(32, 32).astype(dtype)
    map = ptxsim.TensorMap(array, box)
    assert map.element == element and map.bytes == 256 and np.shares_memory(map.array, array)
    out, run = small(array, box)
    assert run.findings == []
    rows, columns = box
    assert (out.view(dtype).reshape(box) == array[:rows, :columns]).all()


def test_what_is_only_a_hint_does_nothing():
    before = """
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %1}];"
                 :: "l"(&map), "r"(0) : "memory");
    """
    out, run = small(before=before)
    assert run.findings == [] and (out.reshape(4, 16) == X[:4, :16]).all()


def test_a_box_of_what_nobody_wrote_is_found():
    text = SMALL.replace("TensorMap map, float* out", "TensorMap map, float* in, float* out")
    array = np.zeros((20, 20), f4)
    args = [ptxsim.TensorMap(array, (4, 16)), ptxsim.uninitialised(array), np.zeros(64, f4)]
    text = text.replace("FORM", FORM).replace("BEFORE", "")
    run = ptxsim.launch(text, "k", (1, 1, 1), (32, 1, 1), args, check=True)
    assert [finding.kind for finding in run.findings] == ["uninitialised read"]


@pytest.mark.parametrize(
    ("array", "box", "how", "message"),
    [
        (np.zeros(64, "complex64"), (4,), {}, "complex64 cannot be made"),
        (X.T, (4, 4), {}, "not contiguous"),
        (X, (4,), {}, "has 1 axes, the array has 2"),
        (X.view(np.int32), (4, 16), {"fill": "nan"}, "only floats have NaN"),
        ([1, 2], (4,), {}, "NumPy array"),
        (X.astype(">f4"), (4, 4), {}, "of >f4, whose bytes are in the order of another machine"),
    ],
)  # fmt: skip
def test_a_map_that_cannot_be_made_says_why(array, box, how, message):
    with pytest.raises(ValueError, match=message):
        ptxsim.TensorMap(array, box, **how)


def test_arguments_that_are_no_maps_are_refused():
    with pytest.raises(ptxsim.LaunchError, match="structure of 128 bytes"):
        ptxsim.launch(SMALL.replace("FORM", FORM).replace("BEFORE", ""), "k", (1, 1, 1),
                         (32, 1, 1), [X, np.zeros(64, f4)])  # fmt: skip
    with pytest.raises(ptxsim.LaunchError, match="out is a TensorMap"):
        small_map = ptxsim.TensorMap(X, (4, 16))
        ptxsim.launch(SMALL.replace("FORM", FORM).replace("BEFORE", ""), "k", (1, 1, 1),
                         (32, 1, 1), [small_map, small_map])  # fmt: skip
    text = SMALL.replace("FORM", FORM).replace("BEFORE", "").replace("__align__(64) ", "")
    with pytest.raises(ptxsim.LaunchError, match="aligned to 1; a tensor map"):
        ptxsim.launch(text, "k", (1, 1, 1), (32, 1, 1), [small_map, np.zeros(64, f4)])


GROUPS = (
    recorder.HEAD
    + """
extern "C" __global__ void k(float* to, float* out) {
    __shared__ __align__(128) float box[2][32];
    const int t = threadIdx.x;
    for (int i = 0; i < 2; ++i) box[i][t] = 10 * i + t;
    BEFORE
    __syncwarp();
    if (t == 0) {
        AFTER
        for (int i = 0; i < 2; ++i) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;"
                         :: "l"(to + 32 * i), "r"(place(box[i])) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
        asm volatile("cp.async.bulk.wait_group WAIT;" ::: "memory");
        for (int i = 0; i < 2; ++i) { box[i][0] = -1.0f; out[i] = to[32 * i + 1]; }
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}"""
)


def groups(wait, before="fence();", after=""):
    """What was stored (2, 32), what the thread saw of it (2,), the kinds of findings."""
    text = GROUPS.replace("BEFORE", before).replace("AFTER", after).replace("WAIT", wait)
    to, out = np.zeros((2, 32), f4), np.zeros(2, f4)
    run = ptxsim.launch(text, "k", (1, 1, 1), (32, 1, 1), [to, out], check=True)
    return to, out, {finding.kind for finding in run.findings}


def test_stores_are_waited_for_by_groups():
    to, seen, kinds = groups("0")
    assert (to[:, 0] == [0, 10]).all() and (seen == [1, 11]).all() and not kinds
    to, seen, kinds = groups("1")
    assert (to[:, 0] == [0, -1]).all() and (seen == [1, 0]).all()
    assert kinds == {"write to a copy's source"}


def test_a_source_that_is_read_is_not_yet_stored():
    text = GROUPS.replace("wait_group WAIT", "wait_group.read WAIT")
    text = text.replace("BEFORE", "fence();").replace("AFTER", "").replace("WAIT", "0")
    to, out = np.zeros((2, 32), f4), np.zeros(2, f4)
    run = ptxsim.launch(text, "k", (1, 1, 1), (32, 1, 1), [to, out], check=True)
    assert run.findings == []
    assert (to[:, 0] == [0, 10]).all() and (out == 0).all()


@pytest.mark.parametrize(
    ("before", "after", "raced"),
    [
        ("fence();", "", False),
        ("", "fence();", False),  # who fences knows the writes, by the barrier
        ("", "", True),
        ("if (t != 5) fence();", "", True),
        ("fence(); box[1][t] += 1.0f;", "", True),
    ],
)
def test_a_store_after_writes_needs_a_fence(before, after, raced):
    *_, kinds = groups("0", before, after)
    assert kinds == ({"async-proxy race"} if raced else set())


FOLLOWED = (
    recorder.HEAD
    + """
extern "C" __global__ void k(const __grid_constant__ TensorMap map, Element* data, unsigned* flag,
                             float* out) {
    __shared__ __align__(128) Element box[4 * 16];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t / 16 * ROW + t % 16] = t;
        __syncthreads();
        WRITTEN
        if (t == 0) RELEASE
        return;
    }
    if (t == 0) {
        init(&full, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        unsigned seen = 0;
        while (!seen)
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        FENCE
        arrive_and_expect(&full, sizeof(box));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(place(box)), "l"(&map), "r"(0), "r"(FIRST_ROW), "r"(place(&full)));
    }
    __syncthreads();
    wait(&full, 0);
    out[t] = box[t];
}"""
)
ASYNC_FENCE = 'asm volatile("fence.proxy.async;" ::: "memory");'
RELEASE = 'asm volatile("st.release.gpu.global.u32 [%0], 1;" :: "l"(flag) : "memory");'


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"FENCE": ASYNC_FENCE}, set()),
        ({"WRITTEN": ASYNC_FENCE}, set()),
        ({}, {"async-proxy race"}),
        ({"FIRST_ROW": 2}, {"async-proxy race"}),
        ({"FIRST_ROW": 4}, set()),  # other rows than those that are written
        ({"RELEASE": "atomicExch(flag, 1);", "FENCE": ASYNC_FENCE}, {"read-after-write race"}),
    ],
)
@pytest.mark.parametrize(("dtype", "row"), [(np.float32, 20), (np.float16, 24), (np.float32, 32)])
def test_a_box_of_what_another_block_has_written_needs_a_flag_and_a_fence(
    parts, expected, dtype, row
):
    data = np.zeros((8, row), dtype)
    box = ptxsim.TensorMap(data[:, :-4], (4, 16))  # rows need not be whole units of 16 bytes
    args = [box, data, np.zeros(1, np.uint32), np.zeros(64, f4)]
    given = {"ROW": row, "Element": "float" if dtype is np.float32 else "__half", "WRITTEN": "",
             "RELEASE": RELEASE, "FENCE": "", "FIRST_ROW": 0, **parts}  # fmt: skip
    options = tuple(f"-D{part}={code}" for part, code in given.items())
    text = "#include <cuda_fp16.h>\n" + FOLLOWED
    run = ptxsim.launch(text, "k", 2, 64, args, options=options, check=True)
    assert {finding.kind for finding in run.findings} == expected
    if given["FIRST_ROW"] == 0:
        assert args[-1].tolist() == list(range(64))
