"""Without NVRTC: the rungs run from what ships with the project, all else says what is missing."""

import numpy as np
import pytest

from gemmlab import compiler, shipped, simulator, verify
from gemmlab.kernel import SIMULATED_ARCH, from_source, load
from gemmlab.ladder import RUNGS, legal_settings, settings_for
from gemmlab.simulator import NoCompiler, nvrtc
from gemmlab.simulator.architectures import LIMITS

A, B = np.float32(np.arange(35).reshape(5, 7)), np.float32(np.arange(63).reshape(7, 9))


def _missing():
    raise NoCompiler("NVRTC cannot be loaded")


@pytest.fixture
def no_compiler(monkeypatch):
    """As on a Mac. What was compiled before does not count."""
    caches = nvrtc.compile_source, simulator._compiled, simulator._translation
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setattr(nvrtc, "_binding", _missing)
    yield
    for cached in caches:
        cached.cache_clear()


def test_the_default_settings_are_compiled_as_they_would_be_now():
    for name in shipped.NAMES:
        default = shipped.all_settings(name)[:1]
        compiled = shipped.build(name, default, archs=(SIMULATED_ARCH,))
        (key,) = compiled
        stored = {key: {SIMULATED_ARCH: shipped.stored(name)[key][SIMULATED_ARCH]}}
        assert shipped.alike(compiled, stored), f"{name}: run `make compiled`"


def test_another_instruction_or_another_report_is_no_longer_alike():
    ((key, archs),) = list(shipped.stored("03_shared_memory").items())[:1]
    text = archs[SIMULATED_ARCH]["ptx"]
    ours = {key: {SIMULATED_ARCH: {"ptx": text, "log": "Used 32 registers"}}}
    for changed in (
        {"ptx": text.replace("fma.rn.ftz.f32", "mul.rn.ftz.f32", 1), "log": "Used 32 registers"},
        {"ptx": text, "log": "Used 33 registers"},
    ):
        assert not shipped.alike(ours, {key: {SIMULATED_ARCH: changed}})
    renumbered = text.replace("%r17", "%r99")
    assert renumbered != text
    same = {key: {SIMULATED_ARCH: {"ptx": renumbered, "log": "Used 32 registers"}}}
    assert shipped.alike(ours, same)


def test_every_legal_setting_is_there_and_the_default_for_every_architecture():
    for rung in RUNGS:
        source = rung.path.read_text(encoding="utf-8")
        assert len(shipped.stored(rung.name)) == len(legal_settings(rung))
        for settings in legal_settings(rung):
            is_default = settings == settings_for(rung, {})
            for arch in shipped.archs_of(rung.name) if is_default else (SIMULATED_ARCH,):
                options = compiler.options_for(settings)
                found = shipped.find(source, rung.path.name, arch, options)
                assert "Used" in found.log
                assert bool(found.ptx) == (arch == SIMULATED_ARCH)


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_a_rung_does_all_that_it_does_with_a_compiler(rung, no_compiler):
    settings = legal_settings(rung)[-1]
    for kernel in (load(rung.name), load(rung.name, **settings)):
        assert verify.check(kernel, 33, 35, 34, 0.5, 2.0, seed=3).passed
        assert kernel.trace(20, 30, 10).counters
    archs = shipped.archs_of(rung.name)
    assert (load(rung.name).resources(archs[1], archs[-1])["registers per thread"] > 0).all()


@pytest.fixture
def with_compiler(monkeypatch):
    """A product and its trace, made before the compiler is taken away, and not from the stock."""
    nvrtc.compile_source.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(nvrtc, "stock", None)
        return _product_and_trace()


def _product_and_trace():
    kernel = load("02_coalescing")
    return kernel(A, B), kernel.trace(33, 17, 9)


def test_results_and_counts_are_the_same_with_and_without(with_compiler, no_compiler):
    result, trace = with_compiler
    kernel = load("02_coalescing")
    assert kernel(A, B).tobytes() == result.tobytes()
    again = kernel.trace(33, 17, 9)
    assert again.counters == trace.counters and again.run.lines == trace.run.lines


def test_an_edited_kernel_needs_a_compiler_and_says_so(no_compiler):
    text = RUNGS[0].path.read_text(encoding="utf-8")
    unchanged = from_source(text, like=RUNGS[0].name).trace(8, 8, 8)
    assert (unchanged.lines["line"] > 0).all()
    with pytest.raises(NoCompiler, match=r"kernel.cu as it stands.*Linux or Windows"):
        from_source(text.replace("alpha * sum", "sum * alpha"), like=RUNGS[0].name)


def test_another_architecture_is_refused_with_those_there_are(no_compiler):
    with pytest.raises(NoCompiler, match="for sm_61; it is there for sm_90a, sm_75"):
        load(RUNGS[0].name, arch="sm_61")
    with pytest.raises(NoCompiler, match="PTX"):
        load(RUNGS[0].name, arch="sm_80").trace(8, 8, 8)
    assert set(shipped.ARCHS) - {SIMULATED_ARCH} <= set(LIMITS)


def test_the_same_kernels_make_the_same_file_and_nothing_half_written(tmp_path):
    compiled = {"key": {"sm_90a": {"log": "Used 32 registers", "ptx": ".version 9.0"}}}
    for name in ("a", "b"):
        shipped.write(compiled, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with pytest.raises(TypeError):
        shipped.write({"key": object()}, tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
