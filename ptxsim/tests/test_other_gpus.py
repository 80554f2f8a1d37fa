"""Tensor cores of other GPUs: the bits of a published model, and what is not known."""

from pathlib import Path

import numpy as np
import pytest

import ptxsim
import record_model_mma_sync as model
import record_tensor as record

RECORDED = Path(__file__).parent / "recorded"
MODEL, H200 = np.load(RECORDED / "model_mma_sync.npz"), np.load(RECORDED / "tensor.npz")
FORMS = model.forms()
SMALL = {name: form for name, form in FORMS["Ampere"].items() if ".m16n8k8." in name}
SMALL = {name: form for name, form in SMALL.items() if "f16.f16" in name}


def results(form: record.Product, source: str, arch: str) -> tuple[np.ndarray, ptxsim.Run]:
    """Registers as `record_model_mma_sync` has them."""
    args = [np.ascontiguousarray(x.transpose(2, 0, 1)) for x in model.operands(form)]
    args.append(np.zeros((model.WARPS, form.registers[0], record.WARP), np.uint32))
    blocks = model.WARPS
    with np.errstate(all="ignore"):
        run = ptxsim.launch(source, record.entry(form.opcode), blocks, 32, args, arch=arch)
    return args[-1].transpose(1, 2, 0), run


@pytest.mark.parametrize(("arch", "generation", "forms"), [
    ("sm_75", "Ampere", SMALL),  # its rules are those of Ampere
    ("sm_80", "Ampere", FORMS["Ampere"]),
    ("sm_86", "Ampere", SMALL),
    ("sm_89", "Ampere", SMALL),
    ("sm_89", "Ada Lovelace", FORMS["Ada Lovelace"]),
    ("sm_120", "RTX Blackwell", FORMS["RTX Blackwell"]),
])  # fmt: skip
def test_products_have_every_bit_of_the_model(arch, generation, forms):
    source = "".join(map(record.product_source, forms.values()))
    for name, form in forms.items():
        got, run = results(form, source, arch)
        np.testing.assert_array_equal(got, MODEL[f"{generation} {name}"], name)
        (note,) = run.notes
        assert "MMA-Sim's model of" in str(note) and run.findings == []


@pytest.mark.parametrize("arch", ["sm_100", "sm_120"])
def test_blackwell_adds_halves_as_an_h200_does(arch):
    source = "".join(map(record.product_source, FORMS["Ampere"].values()))
    for name, form in FORMS["Ampere"].items():
        got, _ = results(form, source, arch)
        recorded = H200[f"mma {name}"][: model.WARPS].transpose(1, 2, 0)
        np.testing.assert_array_equal(got, recorded, name)


UNKNOWN = """
extern "C" __global__ void k(float* x) {
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[0]));
}
"""


def test_what_is_not_known_of_an_architecture_is_noted():
    def notes(arch, **how):
        return [
            str(note) for note in ptxsim.launch(UNKNOWN, "k", 1, 1, [x], arch=arch, **how).notes
        ]

    x = np.ones(1, np.float32)
    assert notes("sm_90") == notes("sm_90a", count=True) == []
    assert notes("sm_80") == [
        "kernel 'k', line 3: approximations have an H200's bits; sm_80's are not known"
    ]
    assert notes("sm_80", count=True)[1:] == [
        "kernel 'k': counters follow an H200's rules, not sm_80's"
    ]
    name = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
    form = FORMS["Ada Lovelace"][name]
    _, run = results(form, record.product_source(form), "sm_100")
    assert [note.why for note in run.notes] == [
        "sums are those of an H200's tensor cores; sm_100's are not known"
    ]
