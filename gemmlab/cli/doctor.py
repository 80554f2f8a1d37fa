"""doctor: what is installed, what is missing and what to do."""

import argparse
import importlib.util
from collections.abc import Iterator

from gemmlab.cli.common import FAILED, OK, Commands
from gemmlab.cuda.device import gpu, software_versions, why_no_gpu
from gemmlab.kernel import prebuilt
from gemmlab.measure import profiler
from gemmlab.records import registry
from gemmlab.records.runs import device
from ptxsim.compile import headers


def add(commands: Commands) -> None:
    commands.add("doctor", run, "say what is installed, what is missing and what to do")


def run(options: argparse.Namespace) -> int:
    """Print what is installed; 1 if something is missing that even the simulator needs."""
    code = OK
    for needed, good, item, advice in _findings():
        mark = "ok" if good else ("MISSING" if needed else "-")
        print(f"{mark:<8}{item}" + ("" if good or not advice else f"\n        {advice}"))
        if needed and not good:
            code = FAILED
    print(f"        {device()}")
    return code


def _findings() -> Iterator[tuple[bool, bool, str, str]]:
    """(is it needed without a GPU too, is it here, what it is, what to do if it is not)."""
    install = f"{prebuilt.INSTALL[0].upper()}{prebuilt.INSTALL[1:]}."
    versions = software_versions()
    compiler = versions.get("nvrtc")
    yield True, compiler is not None, f"NVRTC {compiler or '(the compiler)'}", install
    folder = headers.folder()
    lacking = headers.missing(folder)
    there = f"{' and '.join(lacking) + ' not ' if lacking else ''}in {folder}"
    advice = f"14_wmma needs them when it is compiled: {headers.INSTALL}."
    yield False, not lacking, f"CUDA's headers{f': {there}' if folder else ' (none found)'}", advice
    has_lab = importlib.util.find_spec("jupyterlab") is not None
    yield False, has_lab, "JupyterLab", install

    here = gpu()
    if here is None:
        advice = "Not needed: kernels run in the simulator, and recorded times are replayed."
        yield False, False, f"GPU: {why_no_gpu()}", advice
    else:
        memory = f"{here.memory_bytes / 2**30:.0f} GiB"
        yield False, True, f"GPU {here.name}, {here.arch}, {here.sm_count} SMs, {memory}", ""
        yield False, True, f"driver {here.driver}, CUDA {here.cuda}", ""
        cublas = versions.get("cublas")
        advice = "Timing needs it: install the libraries of the CUDA toolkit."
        yield False, cublas is not None, f"cuBLAS {cublas or ''}", advice
    ncu = profiler.ncu_version()
    advice = "Only `record` needs it, for hardware counters; the CUDA toolkit includes it."
    yield False, ncu is not None, f"Nsight Compute {ncu or '(ncu)'}", advice
    yield from _records()


def _records() -> Iterator[tuple[bool, bool, str, str]]:
    """Findings about results/: whose records are there, and which of those read are refused."""
    from gemmlab.records import recorder

    there = registry.gpus()
    advice = "Without a GPU no times can be shown: get results/ from the repository."
    yield False, bool(there), f"records: {', '.join(there) or 'none'}", advice
    if not there:
        return
    try:
        registry.replayed()
    except registry.NoRecord as error:
        yield True, False, str(error), "Name one of these, or unset GEMMLAB_RECORDS."
        return
    for refused in recorder.refused():
        yield True, False, str(refused), ""
