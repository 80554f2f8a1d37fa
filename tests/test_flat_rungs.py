"""Each rung in one piece becomes the same PTX as its file with its headers."""

import math
import random
import re

import pytest

from gemmlab.kernel.compiler import options_for
from gemmlab.kernel.flat import flat
from gemmlab.ladder import RUNGS, Rung, Settings
from gemmlab.ladder.choices import legal_settings
from ptxsim.compile import nvrtc

TRIED, SMALL = 24, 64 * 64  # beside the defaults, one of so many with a tile that compiles fast


def cases() -> list[tuple[Rung, Settings]]:
    chosen = []
    for rung in RUNGS:
        legal = legal_settings(rung)
        some = random.Random(rung.name).sample(legal, min(TRIED, len(legal)))
        small = [each for each in some if math.prod(rung.tile(each)) <= SMALL]
        chosen += [(rung, each) for each in (rung.defaults, *small[:1])]
    return chosen


def instructions(text: str, macros: Settings) -> dict[str, list[str]]:
    """Of each kernel, sorted: NVRTC orders some of them by chance."""
    ptx = nvrtc.translate_source(text, "kernel.cu", options=options_for(macros)).ptx
    kernels = re.findall(r"\.entry (\w+)\(.*?\n\{\n(.*?)\n\}", ptx, re.S)
    assert len(kernels) == ptx.count(".entry")
    return {
        name: sorted(re.findall(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)", body, re.M))
        for name, body in kernels
    }


@pytest.mark.parametrize(
    ("rung", "settings"),
    cases(),
    ids=lambda value: value.name[:2] if isinstance(value, Rung) else "",
)
def test_the_flat_text_compiles_to_the_same_instructions(rung, settings):
    text, shown = rung.path.read_text(encoding="utf-8"), flat(rung.path, settings)
    # What comes compiled with the project is free. NVRTC leaves a little more to chance than the
    # order: a text with a line more is compiled anew.
    compiled: tuple[list, list] = ([], [])
    for more in ("\n" * count for count in range(4)):
        compiled[0].append(instructions(text + more, settings))
        compiled[1].append(instructions(shown + more, {}))
        if any(each in compiled[1] for each in compiled[0]):
            break
    else:
        pytest.fail("the instructions differ")
    code = [line for line in shown.splitlines() if not line.strip().startswith("//")]
    assert not [line for line in code if re.match(r'\s*#\s*(if|el|endif|include\s*")', line)]
    for name, value in settings.items():
        defined = re.findall(rf"^#define {name} +(\S+)", shown, re.M)
        assert defined == [str(value)] or not re.search(rf"\b{name}\b", "\n".join(code))
    head = text[: re.search(r"^(?!//)", text, re.M).start()]
    assert shown.startswith(head)


def test_other_architectures_have_their_own_branches():
    (rung,) = (rung for rung in RUNGS if rung.name == "10_register_banks")
    waits = {arch: flat(rung.path, rung.defaults, arch) for arch in ("sm_80", "sm_90a")}
    test, attempt = "mbarrier.test_wait", "mbarrier.try_wait"
    assert test in waits["sm_80"] and attempt not in waits["sm_80"]
    assert attempt in waits["sm_90a"] and test not in waits["sm_90a"]
