"""The device that runs the kernels: a GPU and its properties, or the reason why there is none."""

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from gemmlab._version import __version__
from gemmlab.cuda import cublas
from ptxsim.architectures import SPECIFIC

INSUFFICIENT_DRIVER = 35  # cudaErrorInsufficientDriver: also where there is none at all


class NoGpu(RuntimeError):
    """Something was requested that only a GPU can do."""


class UnknownDevice(ValueError):
    """GEMMLAB_DEVICE names something else than the simulator. The message says what is right."""


@dataclass(frozen=True)
class Gpu:
    """Facts of the GPU that CuPy uses."""

    name: str
    compute_capability: tuple[int, int]
    arch: str  # what NVRTC compiles for: "sm_90a", "sm_89"
    sm_count: int
    memory_bytes: int
    l2_bytes: int
    driver: str
    cuda: str  # the newest CUDA that the driver runs

    @property
    def slug(self) -> str:
        """The name of its folder in results/: "NVIDIA H200" gives "nvidia-h200"."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.name.lower()).split())


@dataclass(frozen=True)
class GpuState:
    """The GPU at one moment, from NVML; None where this GPU does not report a figure."""

    sm_clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None


def arch_of(compute_capability: tuple[int, int]) -> str:
    """The architecture to compile for, with its "a" where only that has instructions of ours."""
    arch = "sm_{}{}".format(*compute_capability)
    return f"{arch}a" if f"{arch}a" in SPECIFIC else arch


def simulator_wanted() -> bool:
    """Whether GEMMLAB_DEVICE says to do without a GPU. Raises UnknownDevice."""
    choice = os.environ.get("GEMMLAB_DEVICE", "")
    if choice not in ("", "simulator"):
        raise UnknownDevice(
            f"GEMMLAB_DEVICE={choice!r} is not known: set it to 'simulator' to ignore the GPU, or "
            "leave it empty to use the GPU."
        )
    return bool(choice)


def gpu() -> Gpu | None:
    """The GPU here, or None: no usable GPU, or GEMMLAB_DEVICE=simulator says to do without. Raises
    UnknownDevice for another GEMMLAB_DEVICE."""
    here = _find_gpu()
    return here if isinstance(here, Gpu) else None


def why_no_gpu() -> str:
    """One sentence for when gpu() is None; empty when there is a GPU."""
    here = _find_gpu()
    return here if isinstance(here, str) else ""


def require_gpu(purpose: str) -> Gpu:
    """The GPU here, or NoGpu: "<purpose> needs a GPU: <why there is none>"."""
    if (here := gpu()) is None:
        raise NoGpu(f"{purpose} needs a GPU: {why_no_gpu()}")
    return here


@cache
def _find_gpu() -> Gpu | str:
    if simulator_wanted():
        return "GEMMLAB_DEVICE=simulator is set."
    try:
        from cupy.cuda import runtime
    except ImportError as error:
        return f"CuPy cannot be imported ({error})."
    except OSError as error:  # its cache, in the home folder if CUPY_CACHE_DIR names no other
        advice = "set CUPY_CACHE_DIR to a folder for it"
        return f"CuPy finds no place for its cache ({error}): {advice}."
    try:
        runtime.getDeviceCount()
        properties = runtime.getDeviceProperties(runtime.getDevice())
        capability = (properties["major"], properties["minor"])
        version = runtime.driverGetVersion()  # 13000 is version 13.0
        return Gpu(
            properties["name"].decode(), capability, arch_of(capability),
            sm_count=properties["multiProcessorCount"], memory_bytes=properties["totalGlobalMem"],
            l2_bytes=properties["l2CacheSize"], driver=_driver_version(),
            cuda=f"{version // 1000}.{version % 1000 // 10}",
        )  # fmt: skip
    except runtime.CUDARuntimeError as error:
        if error.status == INSUFFICIENT_DRIVER:
            wanted = runtime.runtimeGetVersion() // 1000
            return f"there is no NVIDIA driver here, or one too old for CUDA {wanted}."
        return f"CUDA finds no usable GPU ({error})."


def _driver_version() -> str:
    import pynvml

    try:
        pynvml.nvmlInit()
        return pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError:
        return "unknown"


@cache
def _nvml_handle() -> Any:
    """NVML's handle of the GPU that CuPy uses. Their numbering differs, so they meet at the bus."""
    import pynvml
    from cupy.cuda import runtime

    pynvml.nvmlInit()
    bus = runtime.deviceGetPCIBusId(runtime.getDevice())
    return pynvml.nvmlDeviceGetHandleByPciBusId(bus if isinstance(bus, bytes) else bus.encode())


def greatest_rates() -> tuple[float, float]:
    """Hz of the SMs' clock and bytes per second of memory, at most, as CUDA reports them of the GPU
    here. Raises NoGpu without one."""
    require_gpu("Reading its clocks")
    from cupy.cuda import runtime

    attributes = runtime.cudaDevAttrClockRate, runtime.cudaDevAttrMemoryClockRate
    clock_khz, memory_khz, bus_bits = (
        runtime.deviceGetAttribute(attribute, runtime.getDevice())
        for attribute in (*attributes, runtime.cudaDevAttrGlobalMemoryBusWidth)
    )
    return 1e3 * clock_khz, 2 * 1e3 * memory_khz * bus_bits / 8  # twice in a cycle


def gpu_state() -> GpuState:
    """Clocks in MHz, power in W and temperature in °C of the GPU now. Raises NoGpu without one."""
    require_gpu("Reading clocks and power")
    import pynvml

    return GpuState(
        sm_clock_mhz=_reported(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
        power_w=_reported(_power_w),
        temperature_c=_reported(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
    )


def _reported(function: Any, *arguments: Any) -> Any:
    """What a function of NVML returns of the GPU; None where this GPU does not report it."""
    import pynvml

    try:
        return function(_nvml_handle(), *arguments)
    except pynvml.NVMLError:
        return None


def _power_w(handle: Any) -> float:
    """The power of this moment; on a GPU that has no such figure, the mean of the last second."""
    import pynvml

    (reading,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])
    if reading.nvmlReturn == pynvml.NVML_SUCCESS:
        return reading.value.uiVal / 1000
    return pynvml.nvmlDeviceGetPowerUsage(handle) / 1000


def energy_j() -> float | None:
    """Joules that the GPU has taken since its driver was loaded; None where it does not count them.
    The counter is renewed some ten times a second. Raises NoGpu without a GPU."""
    require_gpu("Reading energy")
    import pynvml

    millijoules = _reported(pynvml.nvmlDeviceGetTotalEnergyConsumption)
    return None if millijoules is None else millijoules / 1000


def software_versions() -> dict[str, str]:
    """Versions of what a measurement depends on: those that are installed here, no others."""
    here, versions = gpu(), {"gemmlab": __version__, "python": platform.python_version()}
    if here is not None:
        versions |= {"driver": here.driver, "cuda": here.cuda}
    try:
        from cupy.cuda import nvrtc

        versions["nvrtc"] = ".".join(map(str, nvrtc.getVersion()))
    except (ImportError, RuntimeError):
        pass  # no NVRTC, so no version of it
    if (of_cublas := cublas.version()) is not None:
        versions["cublas"] = of_cublas
    for package in ("cupy", "numpy"):
        with suppress(ImportError):
            versions[package] = import_module(package).__version__
    return versions
