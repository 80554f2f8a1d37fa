"""Without NVRTC: the rungs run from what ships with the project, all else says what is missing."""

import json
import lzma
import re
import sys
import types
from pathlib import Path

import pytest

import gemmlab as gl
from gemmlab import ladder
from gemmlab.folders import NOTEBOOKS
from gemmlab.kernel import compiler, prebuilt, verify
from gemmlab.kernel.kernel import from_source
from gemmlab.ladder import OTHERS, RUNGS, settings_for
from gemmlab.loading import load
from gemmlab.sass import loops
from ptxsim import NoCompiler, launcher
from ptxsim.architectures import SIMULATED_ARCH
from ptxsim.compile import headers, nvrtc
from tools.site import interactive

EVERY = (*RUNGS, *OTHERS)


def _missing():
    raise NoCompiler("NVRTC cannot be loaded")


@pytest.fixture
def no_compiler(monkeypatch):
    """As on a Mac. What was compiled before does not count."""
    caches = nvrtc.kept, launcher._compiled, launcher._translation
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setattr(nvrtc, "_library", _missing)
    yield
    for cached in caches:
        cached.cache_clear()


def test_every_setting_that_ships_is_there_and_the_default_for_every_architecture():
    for rung in EVERY:
        source = rung.path.read_text(encoding="utf-8")
        keys = {prebuilt._key(source, each) for each in prebuilt.all_settings(rung.name)}
        assert prebuilt.stored(rung.name).keys() == keys, "run `make compiled`"
        simulated = prebuilt.simulated_arch(rung.name)
        for at, settings in enumerate(prebuilt.all_settings(rung.name)):
            for arch in (simulated,) if at else prebuilt.archs_of(rung.name):
                options = compiler.options_for(settings)
                compiled = prebuilt.find(source, rung.path.name, arch, options)
                assert "Used" in compiled.log
                assert bool(compiled.ptx) == (arch == simulated)


@pytest.mark.parametrize("name", ["09_double_buffering", "19_fp8"])
def test_what_ships_is_what_the_compiler_makes(name):
    """Character by character, though registers are stored as differences."""
    rung, options = ladder.find(name), compiler.options_for(prebuilt.all_settings(name)[-1])
    source = rung.path.read_text(encoding="utf-8")
    anew = nvrtc.compile_anew(source, "a.cu", arch=SIMULATED_ARCH, options=options).ptx
    stored = prebuilt.find(source, "a.cu", SIMULATED_ARCH, options).ptx
    assert stored == prebuilt._portable(anew, "a.cu").replace(prebuilt.OWN_FILE, '"a.cu"')


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_what_a_notebook_loads_ships_and_each_move_of_its_sliders(notebook):
    known: dict = {}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            before, known = known, interactive.constants("".join(cell["source"]), known)
            for name, loaded in known.items():
                if isinstance(loaded, interactive.Loaded) and loaded is not before.get(name):
                    kernel = load(loaded.name, **loaded.settings)
                    assert prebuilt.ships(kernel.rung, kernel.settings), loaded
    for call in interactive.calls(notebook):
        rung = ladder.find(call.kernel.name)
        start = settings_for(rung, call.kernel.settings)
        moved = ladder.near(rung, start, 1 if call.function == interactive.LAB else 0)
        assert all(prebuilt.ships(rung, settings) for settings in moved)


@pytest.mark.parametrize("rung", EVERY, ids=lambda rung: rung.name)
def test_a_rung_runs_without_a_compiler_as_with_one(rung, no_compiler):
    kernel = load(rung.name, **prebuilt.all_settings(rung.name)[-1])
    factors = (0.5, 2.0) if kernel.takes("alpha") else (1.0, 0.0)
    shape, small = (rung.taken(*s, kernel.settings) for s in ((33, 35, 34), (20, 30, 10)))
    assert verify.check(kernel, *shape, *factors, seed=3).passed
    assert kernel.trace(*small).counters
    archs = prebuilt.archs_of(rung.name)
    assert (load(rung.name).resources(*archs[1:2], archs[-1])["registers per thread"] > 0).all()


@pytest.mark.parametrize(
    ("platform", "cure"),
    [
        ("linux", r'pip install -e ./ptxsim -e "\.\[simulator\]"'),
        ("darwin", "use Linux or Windows"),
    ],
)
def test_an_edited_kernel_needs_a_compiler_and_says_so(no_compiler, platform, cure, monkeypatch):
    monkeypatch.setattr(prebuilt.sys, "platform", platform)
    text = RUNGS[0].path.read_text(encoding="utf-8")
    unchanged = from_source(text, like=RUNGS[0].name).trace(8, 8, 8)
    assert (unchanged.lines["line"] > 0).all()
    with pytest.raises(NoCompiler, match=f"kernel.cu with this text.*{cure}"):
        from_source(text.replace("alpha * sum", "sum * alpha"), like=RUNGS[0].name)


def test_sliders_that_go_farther_than_what_ships_offer_the_nearest_that_does(no_compiler):
    lab = gl.lab("15_mma_sync")
    rung = ladder.find("15_mma_sync")
    start, moved = next(
        (start, moved)
        for start in prebuilt.all_settings(rung.name)
        for moved in ladder.near(rung, start, 1)
        if not prebuilt.ships(rung, moved)
    )
    lab.choose(start)
    (name,) = (name for name in moved if moved[name] != start[name])
    lab.sliders[name].value = moved[name]
    words = re.sub("<[^>]*>", "", lab.message.value)
    assert "15_mma_sync.cu with this text and these settings is not among the compiled" in words
    assert "settings one or two moves of a slider away" in words
    assert f" The nearest with {name}={moved[name]} that is here: from " in words
    lab.offer.click()
    assert lab.picture.value and not re.sub("<[^>]*>", "", lab.message.value)
    assert prebuilt.ships(rung, lab.settings)


# ---- a GPU without CUDA's headers ----------------------------------------------------------------


class FakeCupy(types.ModuleType):
    """Takes what RawModule is given, and reads the file that it is to load."""

    def __init__(self):
        super().__init__("cupy")
        self.given = []

    def RawModule(self, **how):
        path = how.get("path")
        self.given.append(Path(path).read_text("utf-8") if path else how)

        def function(entry):
            return types.SimpleNamespace(entry=entry, max_dynamic_shared_size_bytes=0)

        return types.SimpleNamespace(get_function=function, compile=lambda: None)


@pytest.fixture
def cupy_without_headers(monkeypatch):
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(headers, "folder", lambda: None)
    monkeypatch.setattr(headers, "core_libraries", lambda: None)
    return fake


def test_without_headers_a_gpu_runs_an_unchanged_rung_as_it_was_compiled(cupy_without_headers):
    kernel = load("14_wmma")
    (launch,) = kernel.rung.one_tile(kernel.settings)
    function = kernel._on_gpu().function(launch)
    (ptx,) = cupy_without_headers.given
    assert ptx == kernel.compiled.ptx and ".target sm_90a" in ptx
    assert function.entry == kernel.rung.entry(kernel.settings)
    assert function.max_dynamic_shared_size_bytes == kernel.rung.shared_bytes(kernel.settings)


def test_without_headers_another_gpu_or_text_is_refused_with_what_to_install(cupy_without_headers):
    other = load("14_wmma", arch="sm_80")
    edited = load("14_wmma")
    edited.text += "\n"
    for kernel in (other, edited):
        kernel.on_gpu = True
        with pytest.raises(NoCompiler, match=r"14_wmma.cu for sm_.*nvidia-cuda-crt"):
            kernel.prepare()
    assert cupy_without_headers.given == []


# ---- damaged files -------------------------------------------------------------------------------


def cut_off(content):
    return content[: len(content) // 2]


@pytest.fixture
def spoil(tmp_path, monkeypatch):
    """A function that replaces a file in kernels/compiled/ by a damaged copy."""

    def spoil(path, damage):
        (tmp_path / path.name).write_bytes(damage(path.read_bytes()))
        monkeypatch.setattr(prebuilt, "FOLDER", tmp_path)
        return tmp_path / path.name

    nvrtc.kept.cache_clear()
    loops._new.cache_clear()
    yield spoil
    nvrtc.kept.cache_clear()


@pytest.mark.parametrize("damage", [cut_off, lambda _: b"garbage", lambda _: lzma.compress(b"{")])
def test_a_damaged_file_is_compiled_anew_with_one_line_that_names_it(spoil, damage, caplog):
    path = spoil(prebuilt.path_of("01_naive"), damage)
    kernels = [load("01_naive"), load("01_naive", BLOCK_X=16)]
    assert all("naive" in kernel.compiled.ptx for kernel in kernels)
    (message,) = caplog.messages
    assert message.startswith(f"{path} is damaged") and f"git checkout -- {path}" in message
