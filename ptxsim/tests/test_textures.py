"""Textures and surfaces: recorded results of an NVIDIA H200, what NumPy says of them, mistakes."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxsim
import record_textures as record

f4 = np.float32
RECORDED, ABOUT = {}, {"textures": []}
# The second has lanes of a longer recording, where one rule of rounding decides.
for name in ("textures.npz", "textures_decided.npz"):
    with np.load(Path(__file__).parent / "recorded" / name) as file:
        RECORDED |= record.unpacked(file)
        about = json.loads(str(file["about"]))
        ABOUT |= about | {"textures": ABOUT["textures"] + about["textures"]}


def texture_of(case: dict) -> ptxsim.Texture:
    texels = RECORDED[f"{case['name']} texels"]
    return ptxsim.Texture(
        texels if case["channels"] > 1 else texels[..., 0],
        channels=case["channels"],
        layered=bool(case["flags"] & record.LAYERED),
        cubemap=bool(case["flags"] & record.CUBEMAP),
        address_mode=case["address"],
        filter_mode=case["filter"],
        read_mode=case["read"],
        normalized_coords=case["normalized"],
        border_color=case["border"],
    )


def sizes_of(image, kernel: str) -> list[int]:
    out = np.zeros(3, np.uint32)
    assert not ptxsim.launch(record.source(), kernel, 1, 1, [image, out]).findings
    return out.tolist()


@pytest.mark.parametrize("case", ABOUT["textures"], ids=lambda case: case["name"])
def test_a_fetch_gives_the_bits_that_the_hardware_gave(case):
    name, texture = case["name"], texture_of(case)
    lanes = RECORDED[f"{name} x"].shape[1]
    more = RECORDED.get(f"{name} more", np.zeros((2, lanes), f4))
    layer = RECORDED.get(f"{name} layer", np.zeros(lanes, np.int32))
    out = np.zeros((lanes, 4), np.uint32)
    kernel, _ = record.kernel_of(case)
    args = [texture, RECORDED[f"{name} x"].copy(), more.copy(), layer.copy(), out]
    assert not ptxsim.launch(record.source(), kernel, 1, lanes, args).findings
    differs = out != RECORDED[f"{name} out"]
    if "f32_" in kernel:
        differs &= ~(np.isnan(out.view(f4)) & np.isnan(RECORDED[f"{name} out"].view(f4)))
    assert not differs.any(), np.argwhere(differs)
    known = 1 if case["coordinate"] == "s32" else 3  # linear memory has no height there
    assert sizes_of(texture, "txq")[:known] == RECORDED[f"{name} sizes"][:known].tolist()


@pytest.mark.parametrize("case", ABOUT["surfaces"], ids=lambda case: case["name"])
def test_accesses_of_a_surface_are_those_of_the_hardware(case):
    texels, x, data, out, sizes = (
        RECORDED[f"{case['name']} {what}"].copy()
        for what in ("texels", "x", "data", "out", "sizes")
    )
    channels = texels.shape[-1]
    array = texels if channels > 1 else texels[..., 0]
    surface = ptxsim.Surface(array, channels=channels, layered=case["geometry"] == "a2d")
    kernel, _ = record.access(*(case[part] for part in list(case)[:5]))
    args = [surface, x, data]
    assert not ptxsim.launch(record.source(), kernel, 1, len(data), args).findings
    assert np.array_equal(data if case["operation"] == "suld" else texels, out)
    assert sizes_of(surface, "suq") == sizes.tolist()


@pytest.mark.parametrize("error", record.ERRORS)
def test_an_access_that_ends_a_gpus_launch_is_a_finding(error):
    operation, beyond, x, y = record.ERRORS[error]
    kernel, text = record.access(operation, "2d", 1, 32, beyond)
    surface = ptxsim.Surface(np.zeros((5, 8), np.uint32))
    args = [surface, np.array([x, y, 0], np.int32), np.ones(1, np.uint32)]
    (finding,) = ptxsim.launch(text, kernel, 1, 1, args).findings
    problem = "misaligned" if "MISALIGNED_ADDRESS" in ABOUT[error] else "out-of-bounds"
    assert problem == "misaligned" or "ILLEGAL_ADDRESS" in ABOUT[error]
    assert finding.kind == f"{problem} {'read' if operation == 'suld' else 'write'}"
    assert f"({x}, {y})" in finding.what and not surface.array.any()


# --- NumPy's word ---------------------------------------------------------------------------------

KERNELS = """
extern "C" __global__ void texels(cudaTextureObject_t t, const float* x, const float* y, float* out)
{
    out[threadIdx.x] = tex2D<float>(t, x[threadIdx.x], y[threadIdx.x]);
}
extern "C" __global__ void layers(cudaTextureObject_t t, float* out)
{
    out[threadIdx.x] = tex1DLayered<float>(t, threadIdx.x % 4 + 0.5f, threadIdx.x / 4);
}
extern "C" __global__ void any_of(const cudaTextureObject_t* t, float* out)
{
    out[threadIdx.x] = tex2D<float>(t[threadIdx.x], 0.5f, 0.5f);
}
struct Both { int n; cudaTextureObject_t from; cudaSurfaceObject_t to; };
extern "C" __global__ void doubled(Both images)
{
    const int x = threadIdx.x, y = blockIdx.x;
    if (x >= images.n) return;
    float4 v = tex2D<float4>(images.from, x + 0.5f, y + 0.5f);
    v.x *= 2;
    surf2Dwrite(v, images.to, x * (int)sizeof(float4), y);
}
extern "C" __global__ void shifted(cudaSurfaceObject_t s, int by)
{
    const int x = threadIdx.x, y = blockIdx.x;
    surf2Dwrite(surf2Dread<int>(s, 4 * x, y) + by, s, 4 * x, y);
}
"""
PADDED = {"wrap": "wrap", "mirror": "symmetric", "clamp": "edge", "border": "constant"}


def fetched(texture, x, y) -> np.ndarray:
    x, y = np.broadcast_arrays(f4(x), f4(y))
    out, (x, y) = np.zeros(x.size, f4), (np.ascontiguousarray(v.reshape(-1)) for v in (x, y))
    assert not ptxsim.launch(KERNELS, "texels", 1, out.size, [texture, x, y, out]).findings
    return out


@settings(max_examples=25)
@given(
    st.integers(1, 3), st.integers(1, 3), st.sampled_from(sorted(PADDED)),
    st.sampled_from(["float32", "float16", "uint8", "int16"]), st.sampled_from(["point", "linear"]),
)  # fmt: skip
def test_a_texel_is_an_element_of_the_padded_array(log_height, log_width, mode, dtype, filter):
    height, width = 1 << log_height, 1 << log_width  # so that normalized coordinates are exact
    array = np.random.default_rng(height * width).integers(0, 100, (height, width)).astype(dtype)
    texture = ptxsim.Texture(
        array, address_mode=mode, filter_mode=filter, normalized_coords=True,
        read_mode="normalized_float",
    )  # fmt: skip
    padded = np.pad(array, ((height,) * 2, (width,) * 2), mode=PADDED[mode])
    y, x = np.indices(padded.shape)
    given = fetched(texture, (x + 0.5) / width - 1, (y + 0.5) / height - 1).reshape(x.shape)
    most = np.iinfo(dtype).max if array.dtype.kind in "iu" else 1
    assert np.allclose(given, padded / most, rtol=1e-6, atol=1 / 65535 if most > 1 else 0)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_a_linear_filter_is_near_the_exact_sum(seed):
    random = np.random.default_rng(seed)
    array = random.standard_normal((5, 7)).astype(f4)
    x, y = random.uniform(0.5, 6.5, 200).astype(f4), random.uniform(0.5, 4.5, 200).astype(f4)
    given = fetched(ptxsim.Texture(array, filter_mode="linear"), x, y)
    (i, a), (j, b) = ((np.floor(v - 0.5).astype(int), (v - 0.5) % 1.0) for v in (x, y))
    near = [array[np.minimum(j + v, 4), np.minimum(i + u, 6)] for v, u in product((0, 1), repeat=2)]
    exact = (1 - b) * ((1 - a) * near[0] + a * near[1]) + b * ((1 - a) * near[2] + a * near[3])
    # A weight is off by half of 1/256 along each axis, and by as much for its rounding.
    assert (np.abs(given - exact) <= 4 * 1.5 / 256 * np.max(np.abs(near), axis=0)).all()


def test_layers_of_one_axis():
    array, out = np.arange(12, dtype=f4).reshape(3, 4), np.zeros(12, f4)
    args = [ptxsim.Texture(array, layered=True), out]
    assert not ptxsim.launch(KERNELS, "layers", 1, 12, args).findings
    assert np.array_equal(out, array.reshape(-1))


def test_members_of_a_structure_and_four_channels():
    array = np.arange(5 * 8 * 4, dtype=f4).reshape(5, 8, 4)
    out = np.zeros_like(array)
    from_, to = ptxsim.Texture(array, channels=4), ptxsim.Surface(out, channels=4)
    for how in ({}, {"count": True}, {"check": True}):
        out[:] = 0
        args = [ptxsim.Structure(np.int32(7), from_, to)]
        assert not ptxsim.launch(KERNELS, "doubled", 5, 8, args, **how).findings
        assert np.array_equal(out[:, :7], array[:, :7] * f4([2, 1, 1, 1])) and not out[:, 7].any()


def test_handles_in_an_array():
    first, second = (ptxsim.Texture(np.full((2, 2), value, f4)) for value in (3, 5))
    surface = ptxsim.Surface(np.zeros((2, 2), f4))
    handles = np.array([first.handle, second.handle, surface.handle, surface.handle], np.uint64)
    out = np.zeros(4, f4)
    findings = ptxsim.launch(KERNELS, "any_of", 1, 4, [handles, out]).findings
    assert out[:2].tolist() == [3, 5] and np.isnan(out[2:]).all()
    (finding,) = findings
    assert (finding.kind, finding.line, finding.lanes) == ("wrong texture", 12, 2)
    assert "Surface 2d of float32" in finding.what


def test_an_interrupted_launch_and_the_look_at_accesses_leave_a_surface_alone():
    array = np.zeros((5, 8), np.int32)
    run = ptxsim.launch(KERNELS, "shifted", 5, 8, [ptxsim.Surface(array), 3], count=True)
    run.accesses((0, 0, 0), 0)
    assert (array == 3).all()
    with pytest.raises(ptxsim.TakesTooLong):
        ptxsim.launch(KERNELS, "shifted", 5, 8, [ptxsim.Surface(array), 3], limit_s=0)
    assert (array == 3).all()


# --- mistakes -------------------------------------------------------------------------------------

PLAIN = np.zeros((4, 4), f4)
WRONG = [
    (lambda: ptxsim.Texture([1.0]), "array is [1.0]"),
    (lambda: ptxsim.Texture(PLAIN.astype("f8")), "<f8"),
    (lambda: ptxsim.Texture(PLAIN[:, ::2]), "np.ascontiguousarray"),
    (lambda: ptxsim.Texture(PLAIN[:0]), "0 elements"),
    (lambda: ptxsim.Surface(PLAIN, channels=2), "channels is 2"),
    (lambda: ptxsim.Surface(np.zeros((2, 2, 3), f4), channels=3), "channels is 3"),
    (lambda: ptxsim.Surface(np.zeros((2,) * 4, f4)), "1 to 3"),
    (lambda: ptxsim.Surface(np.zeros((2,) * 4, f4), layered=True), "1 to 2"),
    (lambda: ptxsim.Texture(PLAIN, address_mode="repeat"), "wrap, clamp, mirror, border"),
    (lambda: ptxsim.Texture(PLAIN, address_mode=["clamp"]), "or 2"),
    (lambda: ptxsim.Texture(PLAIN, filter_mode="cubic"), "point, linear"),
    (lambda: ptxsim.Texture(PLAIN, read_mode="float"), "element_type, normalized_float"),
    (lambda: ptxsim.Texture(PLAIN, border_color=(0, 0, 0)), "4 floats"),
    (lambda: ptxsim.Texture(PLAIN.astype("u1"), filter_mode="linear"), "normalized_float"),
    (lambda: ptxsim.Texture(PLAIN.astype("u4"), border_color=(1, 0, 0, 0)), "border color"),
    (lambda: ptxsim.Texture(PLAIN, cubemap=True), "must have 2"),
    (lambda: ptxsim.Texture(np.zeros((6, 2, 2), f4), cubemap=True), "normalized_coords=True"),
]  # fmt: skip


@pytest.mark.parametrize("made, part", WRONG, ids=[part for _, part in WRONG])
def test_what_cuda_does_not_make_is_refused(made, part):
    with pytest.raises(ValueError) as error:
        made()
    assert part in str(error.value)


@pytest.mark.parametrize("arg, part", [
    (PLAIN, "t is of type ndarray, the kernel takes a cudaTextureObject_t: pass a ptxsim.Texture"),
    (ptxsim.Surface(PLAIN), "t is of type Surface"),
])  # fmt: skip
def test_other_arguments_are_refused(arg, part):
    with pytest.raises(ptxsim.LaunchError, match=part):
        ptxsim.launch(KERNELS, "texels", 1, 1, [arg, PLAIN, PLAIN, PLAIN])


def test_a_texture_is_no_array():
    with pytest.raises(ptxsim.LaunchError, match=r"x is of type Texture, .*: pass its array"):
        texture = ptxsim.Texture(PLAIN)
        ptxsim.launch(KERNELS, "texels", 1, 1, [texture, texture, PLAIN, PLAIN])


@pytest.mark.parametrize("texture, part", [
    (None, "no texture or surface"),
    (ptxsim.Texture(PLAIN.astype(np.int32)), "Texture 2d of int32"),
    (ptxsim.Texture(PLAIN, layered=True), "Texture a1d of float32"),
])  # fmt: skip
def test_a_texture_that_the_instruction_cannot_read_is_a_finding(texture, part):
    out = np.zeros(16, f4)
    (finding,) = ptxsim.launch(KERNELS, "texels", 1, 16, [texture, PLAIN, PLAIN, out]).findings
    assert (finding.kind, finding.lanes) == ("wrong texture", 16) and part in finding.what
    assert np.isnan(out).all()


def test_a_texture_that_is_gone_has_no_handle():
    handle = ptxsim.Texture(PLAIN).handle
    args = [handle, PLAIN, PLAIN, np.zeros(1, f4)]
    (finding,) = ptxsim.launch(KERNELS, "texels", 1, 1, args).findings
    assert finding.kind == "wrong texture"
