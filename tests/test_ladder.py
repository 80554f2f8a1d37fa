"""The one list of rungs: complete, consistent with the files, and clear about what is illegal."""

import math
import random
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gemmlab as gl
from gemmlab import ladder
from gemmlab.cuda.options import LEVEL
from gemmlab.folders import KERNELS, kernel_file, kernel_files
from gemmlab.kernel import compiler, prebuilt
from gemmlab.ladder import (
    RUNGS,
    SIMULATED,
    IllegalSetting,
    LadderError,
    Problem,
)
from gemmlab.lessons.mma_sync import measure as mma_steps
from gemmlab.records import ablations
from ptxsim import CompileError
from ptxsim.architectures import (
    LIMITS,
    REGISTERS_PER_SM,
    SIMULATED_ARCH,
    STATIC_SHARED_BYTES,
)
from ptxsim.compile import nvrtc

every_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
NAIVE = ladder.find("01_naive")


def macros(source):
    """The macros that a kernel's text or file gives a number where nobody else has, and which."""
    text = source if isinstance(source, str) else source.read_text(encoding="utf-8")
    return dict(re.findall(r"#ifndef (\w+)\n#define \1 (\d+)", text))


def included(text, seen=()) -> list[str]:
    """Own headers, those that they include too; each where it is met first."""
    names = []
    for name in re.findall(r'#include "(.*)"', text):
        if name not in (*seen, *names):
            other = kernel_file(name).read_text(encoding="utf-8")
            names += [name, *included(other, (*seen, *names, name))]
    return names


def test_no_two_files_of_kernels_have_one_name():
    """For an include, a record and an error name a file without its folder."""
    names = [path.name for path in kernel_files()]
    below = [path for path in KERNELS.rglob("*.cu*") if path.is_file()]
    assert len({*names}) == len(names) == len(below) > len(RUNGS)


@every_rung
def test_its_kernel_file_says_what_the_ladder_says(rung):
    text = rung.path.read_text(encoding="utf-8")
    assert re.search(rf'extern "C" __global__ void [^;{{]*?\b{rung.entry(rung.defaults)}\(', text)
    number, _ = rung.name.split("_", 1)
    assert text.startswith(f"// {number}  {rung.title}\n")
    header = re.match(r"(//.*\n)+", text)[0]
    for part in ("Idea:", "Launch:", "Takes:"):
        assert re.search(rf"^// {part} +\S", header, re.M)
    own_macros = macros(text)
    headers = [kernel_file(name) for name in included(text)]
    defaults = {
        name: value for header in headers for name, value in macros(header).items()
    } | own_macros
    parameters = {
        p.name: str(p.default)
        for p in rung.parameters
        if p.name != LEVEL and not chooses_entry(rung, p)
    }
    assert parameters.items() <= defaults.items()
    paths = ablations.paths()
    steps = paths[rung.name].steps if rung.name in paths else mma_steps.STEPS
    varied = {name for step in steps if step.rung is rung for name in step.settings}
    varied |= {"PAD"}  # 14_steps.cu sets it
    assert own_macros.keys() - parameters.keys() <= varied  # the others are there for the path


def chooses_entry(rung, parameter) -> bool:
    """Whether it decides which kernel of the file is launched, and is no macro in it."""
    others = (rung.defaults | {parameter.name: value} for value in parameter.legal)
    return len({rung.entry(settings) for settings in others if not rung.broken(settings)}) > 1


@pytest.mark.parametrize(
    ("given_", "reason"),
    [
        ({"BLOCK_X": 64, "BLOCK_Y": 64}, "4096 threads per block, at most 1024"),
        ({"BLOCK_X": 2, "BLOCK_Y": 8}, "16 threads per block, less than one warp"),
        ({"BLOCK_X": 48}, "BLOCK_X=48 is not legal, the values are 1, 2, 4"),
        ({"BLOCK_X": 0}, "BLOCK_X=0 is not legal"),
        ({"BLOCK_X": True}, "BLOCK_X=True is not legal"),
        ({"TILE": 8}, "no parameter TILE; it has BLOCK_X, BLOCK_Y"),
    ],
)
def test_an_illegal_setting_is_refused_with_its_reason(given_, reason):
    with pytest.raises(IllegalSetting, match=re.escape(reason)):
        ladder.settings_for(NAIVE, given_)


@pytest.mark.parametrize(
    ("name", "given_", "reason"),
    [
        ("03_shared_memory", {"TILE": 32, "BK": 16}, "leaves threads without work"),
        ("04_thread_tile_1d", {"BM": 128, "BN": 128, "TM": 4}, "4096 threads per block"),
        ("05_thread_tile_2d", {"BM": 32, "BN": 32, "TM": 8, "TN": 8}, "16 threads per block"),
        ("07_bank_conflicts", {"PAD": 4}, "cures the same conflict twice"),
        ("08_warp_tiling", {"MIN_BLOCKS": 3}, "128 threads, 3 of them at a time leave 170"),
        ("08_warp_tiling", {"WM": 32, "WN": 32}, "512 threads per block, but a tile of A has 256"),
        ("09_double_buffering", {"BN": 256, "STAGES": 4}, "a tile of A has 256 groups of four"),
        (
            "09_double_buffering",
            {"BN": 256, "WM": 64, "STAGES": 4},
            "needs 49664 bytes of shared memory, a block has 49152",
        ),
    ],
)
def test_a_tile_that_does_not_fit_is_refused_before_it_is_compiled(name, given_, reason):
    rung = ladder.find(name)
    with pytest.raises(IllegalSetting, match=re.escape(reason)) as refused:
        ladder.settings_for(rung, given_)
    named = dict(re.findall(r"(\w+)=(\d+)", str(refused.value).split("legal choice is ")[1]))
    assert {name: int(value) for name, value in named.items()} in ladder.legal_settings(rung)


@pytest.mark.parametrize(
    ("rung", "given_", "why"),
    (
        ("10_register_banks", {"STAGES": 1}, "the prologue would fill none"),
        ("10_register_banks", {"CHUNK": 5, "BK": 40}, "fragments of two k take turns"),
        ("12_split_k", {"STAGES": 1}, "the prologue would fill none"),
        ("17_warp_specialized", {"STAGES": 1}, "would wait for each other"),
        ("17_warp_specialized", {"BN": 96}, "C is stored in whole pieces"),
        ("17_warp_specialized", {"STAGES": 2, "SPLIT": 2}, "find room where its stages were"),
        ("18_persistent", {"BN": 192, "STAGES": 3}, "a part of B is whole boxes"),
        ("19_fp8", {"PROMOTE": 512}, "two intervals are under way"),
        ("19_fp8", {"PROMOTE": 0, "STAGES": 1}, "a stage is released when"),
        ("19_fp8", {"SCALES": 2, "PROMOTE": 0}, "block scales are others"),
    ),
)
def test_the_compiler_refuses_what_would_hang_or_be_wrong(rung, given_, why):
    """Values that a reader writes into the file itself, where no entry of a rung stands guard."""
    text = ladder.find(rung).path.read_text(encoding="utf-8")
    with pytest.raises(CompileError, match=why):
        compiler.require_compiles(text, f"{rung}.cu", macros=given_)


@pytest.mark.parametrize("rung", RUNGS[2:], ids=lambda rung: rung.name)
def test_every_setting_that_ships_fits_into_a_block(rung):
    """As ptxas reports of each: shared memory, and registers for all threads of a block."""
    for settings in prebuilt.all_settings(rung.name):
        source = rung.path.read_text(encoding="utf-8")
        log = prebuilt.find(source, "", SIMULATED_ARCH, compiler.options_for(settings)).log
        taken = compiler.resources(log)[rung.entry(settings)]
        threads = math.prod(rung.block(settings))
        assert taken.shared_bytes <= STATIC_SHARED_BYTES
        assert rung.runs_on(settings, SIMULATED_ARCH)
        both = taken.shared_bytes + rung.shared_bytes(settings)
        assert both <= LIMITS["sm_90"].shared_bytes_per_block
        assert taken.registers * threads * settings.get("MIN_BLOCKS", 1) <= REGISTERS_PER_SM


def test_a_setting_that_the_architecture_does_not_have_is_refused():
    assert gl.load("09_double_buffering", arch="sm_75").arch == "sm_75"
    message = r"STAGES=2 needs sm_80 or newer, this is sm_75; the nearest choice .* STAGES=1"
    with pytest.raises(IllegalSetting, match=message):
        gl.load("09_double_buffering", arch="sm_75", STAGES=2)


WMMA = ladder.find("14_wmma")


def test_a_rung_may_need_one_architecture_alone_or_from_one_on():
    exact = replace(WMMA, needs_arch=lambda s: "sm_90a")
    newer = replace(WMMA, needs_arch=lambda s: "sm_90")
    settings = ladder.settings_for(WMMA, {"BM": 64, "BN": 64, "BK": 32, "WM": 32})
    archs = ("sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120")
    assert [a for a in archs if exact.runs_on(settings, a)] == ["sm_90a"]
    assert [a for a in archs if newer.runs_on(settings, a)] == list(archs[2:])
    with pytest.raises(IllegalSetting, match=r"^14_wmma needs sm_90a, this is sm_100$"):
        ladder.require_arch(exact, settings, "sm_100")
    with pytest.raises(IllegalSetting, match=r"^14_wmma needs sm_90 or newer, this is sm_80$"):
        ladder.nearest_on(newer, settings, "sm_80")


@pytest.mark.parametrize("arch", [86, "86", "sm_86x", "sm_50", "sm_86a", "", None, ["sm_86"]])
def test_what_is_no_architecture_to_compile_for_is_answered_with_those_there_are(arch):
    with pytest.raises(IllegalSetting) as refused:
        ladder.require_compiled(arch)
    refused_arch, there = str(refused.value).split(" cannot be compiled for here; choose one of ")
    assert refused_arch == repr(arch) and set(there.split(", ")) == set(nvrtc.archs())


@pytest.mark.parametrize("value", [np.bool_(True), np.float64(16), 16.0, "16", None, -1, [16]])
@pytest.mark.parametrize("other", [8, "8"])
def test_an_illegal_number_is_refused_whatever_the_other_settings_are(value, other):
    with pytest.raises(IllegalSetting, match=r"BLOCK_X=.* is not legal, the values are 1, 2, 4"):
        ladder.settings_for(NAIVE, {"BLOCK_X": value, "BLOCK_Y": other})


# Blocks of the others are parts of tiles, go from tile to tile, or take them in an order of theirs.
A_BLOCK_A_TILE = [
    rung
    for rung in RUNGS[2:]
    if not {"SPLIT", "RESIDENT"} & rung.defaults.keys() and not rung.has_maps(rung.defaults)
]


@pytest.mark.parametrize("rung", A_BLOCK_A_TILE, ids=lambda rung: rung.name)
@given(st.data())
def test_tiles_cover_c_exactly_once(rung, data):
    chosen = data.draw(st.sampled_from(ladder.legal_settings(rung)))
    m, n = data.draw(st.integers(1, 5000)), data.draw(st.integers(1, 5000))
    rows, cols = rung.tile(chosen)
    across, down, _ = rung.launches(Problem(m, n, 7), chosen, SIMULATED)[0].grid
    assert (down - 1) * rows < m <= down * rows
    assert (across - 1) * cols < n <= across * cols


@given(st.integers(1, 2000), st.integers(1, 2000))
def test_the_nearest_legal_choice_is_legal_and_changes_no_more_than_it_must(x, y):
    requested, legal = {"BLOCK_X": x, "BLOCK_Y": y}, ladder.legal_settings(NAIVE)
    nearest = ladder.nearest(NAIVE, requested)
    assert nearest in legal and (nearest == requested) == (requested in legal)

    def changed(choice):
        return sum(choice[name] != requested[name] for name in requested)

    assert changed(nearest) == min(changed(choice) for choice in legal)


@every_rung
def test_the_way_out_keeps_the_last_move_where_any_legal_choice_has_it(rung):
    """Of illegal settings that a reader meets with one move from legal ones."""
    legal, chance = ladder.legal_settings(rung), random.Random(3)
    for _ in range(40):
        parameter = chance.choice(rung.parameters)
        requested = chance.choice(legal) | {parameter.name: chance.choice(parameter.legal)}
        if not rung.broken(requested):
            continue
        offer = ladder.nearest(rung, requested, keep=[parameter.name])
        as_moved = [s for s in legal if s[parameter.name] == requested[parameter.name]]
        assert offer in (as_moved or legal)
        fewest = min(_differ(settings, requested) for settings in as_moved or legal)
        assert _differ(offer, requested) == fewest, (requested, parameter.name)


def _differ(settings, other):
    return sum(settings[name] != other[name] for name in settings)


def test_a_grid_that_is_too_large_is_refused():
    with pytest.raises(IllegalSetting, match=r"100000 blocks along y, a grid has at most 65535"):
        NAIVE.launches(Problem(8, 100_000, 8), {"BLOCK_X": 64, "BLOCK_Y": 1}, SIMULATED)


@pytest.mark.parametrize("name", ["", "2", "03_sha", "vectorised_loads", 3])
def test_an_unknown_name_is_answered_with_those_there_are(name):
    with pytest.raises(LadderError, match=f"no rung {name!r}: the ladder has 01_naive"):
        ladder.find(name)
