"""Tensor maps that kernels make and change, and boxes to several blocks: against an NVIDIA H200."""

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import ptxsim
import record_tensor_maps as recorder
from ptxsim.async_copy import counted, map_bytes
from test_tma import SETTINGS, tensor_map

HERE = Path(__file__).parent


@lru_cache
def record() -> dict[str, np.ndarray]:
    with np.load(HERE / "recorded" / "tensor_maps.npz") as recorded:
        return dict(recorded)


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
    "copied by half a warp": (
        "groups", "        to_global(room + blockIdx.x, map);",
        "        if (t < 16) to_global(room + blockIdx.x, map);", {"divergent warp"}),
    "an address of nothing": (
        "groups", 'SET_64("global_address", data + begins[own])',
        'SET_64("global_address", 1 << 20)', {"wrong tensor map", "deadlock"}),
    "more rows than there are": (
        "groups", 'AT_32("global_dim", 1, rows[own])', 'AT_32("global_dim", 1, 1000)',
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


# --- elements of 4 and 6 bits ---------------------------------------------------------------------

BITS = {"b4x16": 4, "b4x16_p64": 4, "b6x16_p32": 6}
PACKED_MOVES = """
struct __align__(64) Map { char opaque[128]; };
extern "C" __global__ void loaded(const __grid_constant__ Map map, uint4* out, int x, int y,
                                  int expected, int units) {
    extern __shared__ __align__(1024) uint4 box[];
    __shared__ unsigned long long full;
    const unsigned to = (unsigned)__cvta_generic_to_shared(box);
    const unsigned bar = (unsigned)__cvta_generic_to_shared(&full);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(bar), "r"(expected));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(bar) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;"
                 " @!done bra again; }" :: "r"(bar) : "memory");
    for (int i = threadIdx.x; i < units; i += 32) out[i] = box[i];
}
extern "C" __global__ void stored(const __grid_constant__ Map map, const uint4* in, int units) {
    extern __shared__ __align__(1024) uint4 box[];
    for (int i = threadIdx.x; i < units; i += 32) box[i] = in[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
                     " [%0, {%1, %1}], [%2];"
                     :: "l"(&map), "r"(0), "r"((unsigned)__cvta_generic_to_shared(box)));
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}"""


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes (rows, n) as bytes (rows, n * bits / 8), the first in the low bits."""
    each = codes[..., None] >> np.arange(bits) & 1
    return np.packbits(each.reshape(len(codes), -1).astype(bool), axis=1, bitorder="little")


def codes_of(element: str, rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2 ** BITS[element], (rows, columns))


def swizzled(units: np.ndarray) -> np.ndarray:
    """Units of 16 bytes (rows, 8, 16) where the swizzle of 128 bytes puts them."""
    places = np.arange(8) ^ (np.arange(len(units)) % 8)[:, None]
    return np.take_along_axis(units, places[..., None], axis=1)


def load_packed(element, corner=(0, 0), box=(9, 128), swizzle="none", codes=None, **how):
    """(what lies in shared memory as units (rows, units, 16), the run)."""
    codes = codes_of(element, 20, 256) if codes is None else codes
    array = packed(codes, BITS[element])
    map = ptxsim.TensorMap(array, box, element=element, swizzle=swizzle)
    expected = how.pop("expected", box[0] * box[1] * BITS[element] // 8)
    out = np.zeros((box[0], map.shared_bytes // box[0] // 16, 16), np.uint8)
    given = [map, out, *corner[::-1], expected, out.size // 16]
    run = ptxsim.launch(
        PACKED_MOVES, "loaded", 1, 32, given, shared_bytes=out.nbytes + 1024, check=True,
        **{"arch": "sm_100a", **how},
    )  # fmt: skip
    return out, run


@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize("corner", [(3, 128), (15, 0), (-4, 128), (2, -128), (0, 256)], ids=str)
@pytest.mark.parametrize("element", BITS)
def test_narrow_elements_lie_in_shared_memory_as_the_manual_says(element, corner, swizzle):
    """Also where the box is outside of the array. 16 elements of 4 bits are 8 bytes, of 6 bits 12;
    where they are padded, to 16."""
    box = (9, 256 if element == "b4x16" else 128)
    codes = codes_of(element, 20, 256)
    room = np.zeros((60, 1024), int)
    room[20:40, 256:512] = codes
    row, column = 20 + corner[0], 256 + corner[1]
    want = packed(room[row : row + box[0], column : column + box[1]], BITS[element])
    out, run = load_packed(element, corner, box, swizzle)
    assert run.findings == []
    got = swizzled(out) if swizzle == "128B" else out
    data = 16 if element == "b4x16" else 2 * BITS[element]
    np.testing.assert_array_equal(got[..., :data].reshape(want.shape), want)


@pytest.mark.parametrize(
    ("element", "how", "kind", "what"),
    [
        ("b4x16_p64", {"corner": (0, 64)}, "misaligned bulk copy", "no multiple of 128"),
        ("b6x16_p32", {"corner": (0, 16)}, "misaligned bulk copy", "no multiple of 128"),
        ("b4x16", {"corner": (0, 16)}, "misaligned bulk copy", "no multiple of 32"),
        ("b4x16_p64", {"expected": 9 * 128}, "deadlock", "576"),
        ("b4x16", {"arch": "sm_90a"}, "wrong tensor map", "which sm_90 does not have"),
    ],
)
def test_a_wrong_load_of_narrow_elements_is_found(element, how, kind, what):
    _, run = load_packed(element, **how)
    assert any(f.kind == kind and what in f.what for f in run.findings), run.findings


def store_packed(element, units):
    array = np.zeros((12, 256 * BITS[element] // 8), np.uint8)
    map = ptxsim.TensorMap(array, (len(units), 128), element=element)
    given = [map, units, units.size // 16]
    run = ptxsim.launch(
        PACKED_MOVES, "stored", 1, 32, given, shared_bytes=units.nbytes, arch="sm_100a", check=True
    )
    return array, run


def test_stores_pack_six_bits_of_each_byte_and_four_bits_as_they_are():
    codes = np.random.default_rng(1).integers(0, 256, (8, 128))
    array, run = store_packed("b6x16_p32", codes.astype(np.uint8))
    assert run.findings == []
    np.testing.assert_array_equal(array[:8, :96], packed(codes & 63, 6))
    assert not array[8:].any() and not array[:, 96:].any()
    whole = packed(codes & 15, 4)
    array, run = store_packed("b4x16", whole)
    assert run.findings == []
    np.testing.assert_array_equal(array[:8, :64], whole)


def test_padded_elements_of_four_bits_cannot_be_stored():
    array, run = store_packed("b4x16_p64", np.ones((8, 128), np.uint8))
    assert [finding.kind for finding in run.findings] == ["wrong tensor map"]
    assert "can be loaded and not be stored" in run.findings[0].what and not array.any()


@pytest.mark.parametrize(
    ("element", "columns", "box", "how", "message"),
    [
        ("b4x16", 128, (8, 24), {}, "12 bytes along its last axis, .* of 32 elements of b4x16"),
        ("b4x16", 128, (8, 128), {"swizzle": "32B"}, "64 bytes .* allows 32 at most, 64 elements"),
        ("b4x16_p64", 96, (8, 128), {}, "has 96 bytes along .* multiple of 64, 128 elements"),
        ("b4x16_p64", 128, (8, 64), {}, "of elements b4x16_p64, the box has 64 .* it must be 128"),
        ("b4x16_p64", 128, (8, 128), {"swizzle": "64B"}, "must be none or 128B"),
        ("b4x16_p64", 80, (8, 128), {}, "stride along axis 0 is 80 bytes, .* multiple of 32"),
    ],
)  # fmt: skip
def test_a_map_of_narrow_elements_that_the_driver_refuses_is_refused(
    element, columns, box, how, message
):
    array = np.zeros((16, columns), np.uint8)
    with pytest.raises(ValueError, match=message):
        ptxsim.TensorMap(array, box, element=element, **how)


@pytest.mark.parametrize(
    ("element", "number"), [("b4x16", 11), ("b4x16_p64", 12), ("b6x16_p32", 13)]
)
def test_the_bytes_of_a_map_of_narrow_elements_say_what_it_is(element, number):
    """Numbers as ptxas 13.0 stores them for tensormap.replace.elemtype, of sm_100a."""
    array = packed(codes_of(element, 20, 256), BITS[element])
    map = ptxsim.TensorMap(array, (9, 128), element=element, swizzle="128B")
    data = map_bytes.encode(map, 4096)
    words = np.frombuffer(data, np.uint32)
    assert words[2] >> 7 & 15 == number and words[8] == 255
    seen = []

    def array_at(*where):
        seen.append(where)
        return array

    made = map_bytes.decoded(data, "map", array_at)
    assert seen == [(4096, array.shape, np.dtype("u1"), array.strides)]
    assert (made.element, made.box, made.swizzle) == (element, (9, 128), "128B")
