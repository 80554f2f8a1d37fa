"""22 in the simulator: every width and setting, shares of the work, and mistakes left in it."""

import numpy as np
import pytest
from corpus import self_contained

from gemmlab import ladder
from gemmlab.cuda import device
from gemmlab.kernel import checks, verify
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder.settings import IllegalSetting
from gemmlab.lessons.fp32_summit.rung import RUNG as FP32_SUMMIT

MAPPED, UNMAPPED = "fp32_summit", "fp32_summit_unmapped"


def kernel(sms=3, source=None, **settings):
    """For a GPU of so few SMs that a block computes several tiles."""
    chosen = ladder.settings_for(FP32_SUMMIT, settings)
    return Kernel(FP32_SUMMIT, chosen, "sm_90a", source or FP32_SUMMIT.path).scheduled_for(sms)


@pytest.mark.parametrize("settings", ({}, {"BK": 32, "STAGES": 4, "STREAM_K": 0}), ids=str)
def test_all_widths_are_right(settings):
    """Rows of B of whole 16 bytes by tensor map, with tails; others, and K of 0, without."""
    summit = kernel(**settings)
    for shape in ((264, 520, 200), (1, 264, 8), (130, 301, 131), (33, 40, 0)):
        case = verify.check(summit, *shape, 0.5, 2.0, seed=3)
        assert case.passed, case


@pytest.mark.parametrize("sms", (1, 5, 7))
def test_tiles_are_cut_for_any_number_of_sms(sms):
    """Six tiles of five stages: whole ones, and cuts through one, two and three blocks' shares."""
    case = verify.check(kernel(sms), 384, 512, 320, 0.5, 2.0, seed=5)
    assert case.passed, case


def test_a_tile_that_many_blocks_share_is_right():
    case = verify.check(kernel(9), 64, 128, 64 * 9, 1.0, 0.0, seed=7)
    assert case.passed, case


def test_results_repeat_and_depend_on_nothing_but_the_number_of_sms():
    summit = kernel(4)
    operands = summit.operands(summit.problem(256, 512, 320), 11)
    first, again = (summit(operands.A, operands.B) for _ in range(2))
    assert np.array_equal(first.view(np.uint32), again.view(np.uint32))
    by_element = kernel(4, MAPPED=0)(operands.A, operands.B)
    assert np.array_equal(first.view(np.uint32), by_element.view(np.uint32))


def test_products_that_have_no_tensor_map_take_another_kernel():
    summit = kernel(132)
    for shape, entry in {
        (128, 256, 64): MAPPED, (1, 4, 1): MAPPED, (4096, 4096, 4096): MAPPED,
        (128, 255, 64): UNMAPPED, (8, 8, 0): UNMAPPED,
    }.items():  # fmt: skip
        assert summit.launches(summit.problem(*shape))[0].entry == entry


def test_there_are_no_more_blocks_than_sms_and_work():
    summit = kernel(132)
    blocks = {
        shape: summit.grid(*shape)[0] for shape in ((128, 256, 64), (128, 256, 640), (4096,) * 3)
    }
    assert list(blocks.values()) == [1, 10, 132]
    assert kernel(132, STREAM_K=0).grid(256, 256, 4096)[0] == 2
    # 128 tiles for 132 SMs: 4 SMs without work cost less than joining 132 parts.
    assert (
        kernel(132).grid(2048, 2048, 2048)[0] == 128 and kernel(140).grid(2048, 2048, 640)[0] == 140
    )


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(IllegalSetting, match="bytes of shared memory"):
        kernel(STAGES=3)


def test_machine_code_is_launched_on_a_gpu_alone(monkeypatch):
    monkeypatch.setattr(device, "_find_gpu", lambda: "there is none.")
    with pytest.raises(device.NoGpu, match="Launching machine code needs a GPU: there is none"):
        kernel().made_of(b"")


MISTAKES = {
    "nobody waits for a full stage": (
        "mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);\n"
        "                a =",
        "a =",
        "read-after-write race",
    ),
    "nobody waits for an empty stage": (
        "mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);", "",
        "write of a copy in flight",
    ),
    "half of the bytes expected": (
        "arrive_expect(stage_full, sizeof(shared.b[0]))",
        "arrive_expect(stage_full, sizeof(shared.b[0]) / 2)",
        "wrong transaction bytes",
    ),
    "the copies of A not told of": (
        "cp_async_arrive(stage_full);", "mbarrier_arrive(stage_full);", "read of a copy in flight",
    ),
    "a part added before it is there": (
        "    if (threadIdx.x % 32 == 0) {\n"
        "        while (counter_load(flag) == 0) {}\n        *flag = 0;\n    }",
        "", "uninitialised read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name):
    old, new, kind = MISTAKES[name]
    text = self_contained(FP32_SUMMIT.path.read_text(encoding="utf-8"))
    assert text.count(old) == 1
    shape = (128, 256, 200) if "part" in name else (72, 136, 200)
    planted = kernel(3 if "part" in name else 1, text.replace(old, new))
    case = checks.check_product(planted, *shape, 1.0, 0.0)
    assert kind in {finding.kind for finding in case.findings}
