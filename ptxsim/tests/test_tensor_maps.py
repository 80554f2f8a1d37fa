"""Tensor maps that kernels make and change, and boxes to several blocks: against an NVIDIA H200."""

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import ptxsim
import record_tensor_maps as recorder
from ptxsim.async_copy import counted

HERE = Path(__file__).parent
SETTINGS = {"arch": "sm_90a", "options": ("-std=c++17",)}


@lru_cache
def record() -> dict[str, np.ndarray]:
    with np.load(HERE / "recorded" / "tensor_maps.npz") as recorded:
        return dict(recorded)


def tensor_map(box, array) -> ptxsim.TensorMap:
    return ptxsim.TensorMap(box.view(array), box.box, swizzle=box.swizzle, fill=box.fill)


def launch(case, source=None, **how):
    """(what is seen of the arguments, the run)."""
    given = []
    for arg in case.args:
        if isinstance(arg, tuple):
            given.append(tensor_map(*arg))
        elif isinstance(arg, list):
            given.append(ptxsim.TensorMaps([tensor_map(*each) for each in arg]))
        else:
            given.append(arg)
    run = ptxsim.launch(
        source or recorder.source(), case.entry, (case.blocks, 1, 1), (case.threads, 1, 1), given,
        shared_bytes=case.shared_bytes, **SETTINGS, **how,
    )  # fmt: skip
    return case.args[case.seen], run


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.itemsize}")


ALONE = [name for name in recorder.launches() if not name.startswith("replaced")]


@pytest.mark.parametrize("name", ALONE)
def test_copies_by_maps_of_the_kernel_bring_what_they_brought_on_the_hardware(name):
    """Every type of elements and swizzle, 1 to 5 axes, steps, tails; maps changed in turn."""
    seen, run = launch(recorder.launches()[name], check=True)
    assert run.findings == []
    np.testing.assert_array_equal(bits(seen), bits(record()[name]))


@pytest.mark.parametrize("field", recorder.REPLACED)
def test_a_field_is_replaced_bit_by_bit_as_on_the_hardware(field):
    begin, launches = f"replaced replace_{field}", recorder.launches()
    replaced = {name: case for name, case in launches.items() if name.startswith(begin)}
    assert len(replaced) >= 2
    for name, case in replaced.items():
        seen, run = launch(case)
        assert run.findings == []
        np.testing.assert_array_equal(seen, record()[name], name)


# --- boxes to several blocks ----------------------------------------------------------------------


def counts() -> dict[str, list[int]]:
    return json.loads(str(record()["sectors"]))


def test_a_box_to_several_blocks_takes_the_sectors_that_the_profiler_counted():
    assert list(counts()) == list(recorder.sent()) and len(counts()) >= 130
    for name, case in recorder.sent().items():
        box = case.boxes()
        used = tensor_map(box, box.memory().copy())
        sectors = counted.loaded(used, np.array([case.corner]), by_multicast=True)
        assert sectors * case.mask.bit_count() == counts()[name][0], name


@pytest.mark.parametrize("number", [5, 41, 74, 93, 128, 132])
def test_a_launch_counts_them_for_each_block_that_gets_the_box(number):
    name, case = list(recorder.sent().items())[number]
    _, run = launch(recorder.launch_sent(case, case.boxes().memory().copy()), count=True)
    assert run.findings == []
    assert [run.counters[metric] for metric in recorder.METRICS] == counts()[name]


# --- mistakes -------------------------------------------------------------------------------------

MISTAKES = {
    "not acquired": (
        "groups", "        acquire(room + blockIdx.x);\n        if (t == 0) {\n            expect",
        "        if (t == 0) {\n            expect", {"tensor map not fenced"}),
    "not released": (
        "in place", "            release();\n", "", {"tensor map not fenced"}),
    "another map acquired": (
        "groups", "acquire(room + blockIdx.x);", "acquire(room + (blockIdx.x + 1) % 3);",
        {"tensor map not fenced"}),
    "copied by half a warp": (
        "groups", "        to_global(room + blockIdx.x, map);",
        "        if (t < 16) to_global(room + blockIdx.x, map);", {"divergent warp"}),
    "an address of nothing": (
        "groups", 'SET_64("global_address", data + begins[own])',
        'SET_64("global_address", 1 << 20)', {"wrong tensor map", "deadlock"}),
    "more rows than there are": (
        "groups", 'AT_32("global_dim", 1, rows[own])', 'AT_32("global_dim", 1, 1000)',
        {"wrong tensor map", "deadlock"}),
    "a box too wide for its swizzle": (
        "groups", 'AT_32("global_dim", 1, rows[own])',
        'AT_32("global_dim", 1, rows[own]) u64 given = 1; IS("swizzle_mode", 1)',
        {"wrong tensor map", "deadlock"}),
    "no map at all": (
        "groups", "load_2d(box, room + blockIdx.x,", "load_2d(box, data,",
        {"wrong tensor map", "deadlock"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name):
    of, old, new, kinds = MISTAKES[name]
    text = recorder.source()
    assert text.count(old) == 1 or old in text[text.index("KERNEL groups") :]
    begin = text.index("KERNEL groups")
    text = text[:begin] + text[begin:].replace(old, new, 1)
    _, run = launch(recorder.changed()[of], text, check=True)
    kinds_found = {finding.kind for finding in run.findings}
    assert kinds <= kinds_found, run.findings


def test_an_interleaved_layout_is_refused_in_words():
    old = 'AT_32("global_dim", 1, rows[own])'
    text = recorder.source().replace(
        old, old + ' u64 given = 1; IS("interleave_layout", 1)', 1
    )  # fmt: skip
    with pytest.raises(ptxsim.LaunchError, match="has an interleaved layout, which the simul"):
        launch(recorder.changed()["groups"], text)


def test_an_im2col_copy_is_refused_in_words():
    source = """struct __align__(64) Map { char opaque[128]; };
    extern "C" __global__ void k(const __grid_constant__ Map map) {
        __shared__ __align__(128) float box[4][4];
        __shared__ unsigned long long full;
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %2, %2}], [%3], {%4};"
                     :: "r"((unsigned)__cvta_generic_to_shared(box)), "l"(&map), "r"(0),
                     "r"((unsigned)__cvta_generic_to_shared(&full)), "h"((short)0) : "memory");
    }"""
    given = [ptxsim.TensorMap(np.zeros((8, 8, 8), np.float32), (4, 4, 4))]
    with pytest.raises(ptxsim.UnknownInstruction, match=r"line \d+: .*a tensor map of im2col"):
        ptxsim.launch(source, "k", (1, 1, 1), (32, 1, 1), given, **SETTINGS)


# --- maps as arguments ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"element": "bfloat16"}, "element is 'bfloat16'; of an array of float32 it is one of "
                                  "float32, float32_ftz, tf32, tf32_ftz"),
        ({"element_strides": (2,)}, r"element_strides are \(2,\), there must be 2 of 1 to 8"),
        ({"element_strides": (1, 2)}, r"along the last axis the GPU takes all"),
    ],
)  # fmt: skip
def test_a_map_that_cannot_be_is_refused(how, message):
    with pytest.raises(ValueError, match=message):
        ptxsim.TensorMap(np.zeros((8, 16), np.float32), (4, 8), **how)


def test_a_map_may_round_and_take_every_third_row():
    """The same by an argument as by a map that the kernel makes."""
    made = recorder.made()["steps (1, 3) of (16, 9)"]
    memory = recorder.numbers_of("uint32").view("u4").reshape(-1, 64)
    given = ptxsim.TensorMap(memory[:30, :60], (9, 16), element_strides=(3, 1))
    assert given.bytes == made.bytes
    for corner, landed in zip(made.corners, record()["made steps (1, 3) of (16, 9)"], strict=True):
        (got,) = given.read(np.array([corner[::-1]]))
        np.testing.assert_array_equal(got.view("u4"), landed[: made.bytes // 4])


def test_a_tensor_map_is_a_member_of_a_structure():
    source = r"""
    struct __align__(64) Map { char opaque[128]; };
    struct Params { float* out; Map map; int at; };
    extern "C" __global__ void corner(const __grid_constant__ Params params)
    {
        __shared__ __align__(128) float box[4][4];
        __shared__ unsigned long long full;
        const unsigned to = (unsigned)__cvta_generic_to_shared(box);
        const unsigned bar = (unsigned)__cvta_generic_to_shared(&full);
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
            asm volatile("fence.mbarrier_init.release.cluster;");
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 64;" :: "r"(bar));
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                         ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                         :: "r"(to), "l"(&params.map), "r"(params.at), "r"(0), "r"(bar) : "memory");
        }
        __syncthreads();
        asm volatile("{ .reg .pred done; again: "
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0; "
                     "@!done bra again; }" :: "r"(bar) : "memory");
        params.out[threadIdx.x] = box[threadIdx.x / 4][threadIdx.x % 4];
    }"""
    a, out = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros((4, 4), np.float32)
    params = ptxsim.Structure(out, ptxsim.TensorMap(a, (4, 4)), np.int32(4))
    assert params.size == 256
    run = ptxsim.launch(source, "corner", 1, 16, [params], check=True)
    np.testing.assert_array_equal(out, a[:4, 4:])
    assert run.findings == []
