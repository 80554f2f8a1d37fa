"""GeForce RTX 50, sm_120: rungs 00 to 15 run there, and recording leaves out what does not."""

import re

import numpy as np
import pytest

import gemmlab as gl
from gemmlab import ladder
from gemmlab.cuda.device import Gpu
from gemmlab.kernel import compiler, verify
from gemmlab.ladder import RUNGS, IllegalSetting
from gemmlab.records import recorder, runs
from ptxsim.architectures import LIMITS

ARCH = "sm_120"
RTX = Gpu(
    name="NVIDIA Made Up", compute_capability=(12, 0), arch=ARCH, sm_count=170,
    memory_bytes=32 * 10**9, l2_bytes=96 * 2**20, driver="1.0", cuda="1.0",
)  # fmt: skip
OF_HOPPER = [rung for rung in RUNGS if rung.by_wgmma] + [ladder.find("22_fp32_summit")]
EVERYWHERE = [rung for rung in RUNGS if rung not in OF_HOPPER]


def test_these_are_01_to_15():
    assert [int(rung.name[:2]) for rung in EVERYWHERE] == [*range(1, 16)]


@pytest.mark.parametrize("probe", [ladder.CEILINGS, ladder.TENSOR_CEILING], ids=lambda p: p.name)
def test_the_probes_of_00_compile(probe):
    text = probe.path.read_text(encoding="utf-8")
    entries = compiler.resources_of(text, probe.path.name, ARCH, probe.macros)
    assert entries[probe.entry].registers > 0


@pytest.mark.parametrize("rung", EVERYWHERE, ids=lambda rung: rung.name)
def test_a_rung_runs_within_its_limits_and_is_right(rung):
    kernel = gl.load(rung.name, ARCH)
    taken = kernel.taken(ARCH)
    assert taken.shared_bytes <= LIMITS[ARCH].shared_bytes_per_block
    assert kernel.resources()["blocks per SM"].min() >= 1
    for shape, factors in (((33, 35, 34), (0.5, 2.0)), ((130, 70, 65), (1.0, 0.0))):
        case = verify.check(kernel, *rung.taken(*shape, kernel.settings), *factors, seed=3)
        assert case.passed, case


def test_its_program_is_its_own_and_gives_the_bits_of_the_other_architecture():
    there = gl.load("05_thread_tile_2d", ARCH)
    assert re.search(rf"\.target {ARCH}\b", there.compiled.ptx)
    random = np.random.default_rng(7)
    A, B = (random.random(shape, np.float32) for shape in ((70, 41), (41, 66)))
    assert (there(A, B) == gl.load("05_thread_tile_2d")(A, B)).all()


def test_a_block_that_needs_more_shared_memory_is_refused_with_the_nearest_that_does_not():
    rung = ladder.find("10_register_banks")
    with pytest.raises(
        IllegalSetting, match="bytes of shared memory per block, this is sm_120; the"
    ):
        gl.load(rung.name, ARCH, **rung.defaults)


@pytest.mark.parametrize("rung", [*OF_HOPPER, ladder.find("26_blackwell")], ids=lambda r: r.name)
def test_recording_leaves_out_what_has_instructions_of_another(rung, monkeypatch):
    monkeypatch.setattr(recorder, "require_gpu", lambda _: RTX)
    monkeypatch.setattr(runs, "require_gpu", lambda _: RTX)
    monkeypatch.setattr(recorder, "by_default", lambda _: pytest.fail("it was begun"))
    (piece,) = (piece for piece in recorder.evidence() if piece.name == rung.name)
    with pytest.raises(IllegalSetting, match=rf"{rung.name} needs sm_\w+, this is sm_120"):
        piece.measure(print)
    assert IllegalSetting in recorder.CANNOT_RUN
