"""For tests and notebooks, which run together: how they are dealt out, and hypothesis."""

import gc
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

settings.register_profile("gemmlab", deadline=None)  # a slow machine is no failure
settings.load_profile("gemmlab")

# A shell's job in the background ignores Ctrl-C, and so would all processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent

# What NVRTC made of a text stays for all processes: other workers, notebooks, commands, later runs.
COMPILED = ROOT / "build" / "compiled"
COMPILED.mkdir(parents=True, exist_ok=True)
os.environ.setdefault("PTXSIM_COMPILED", str(COMPILED))
DAYS = 3  # that what nobody asks for stays

# Files that take long: `make test` leaves them out, `make test-all` runs them, too.
THOROUGH = {
    *(f"notebooks/{name}.ipynb" for name in (
        "06_vectorized_loads", "09_double_buffering", "10_register_banks", "11_fused_epilogue",
        "12_split_k", "13_batched", "14_wmma", "15_mma_sync", "16_tma_wgmma",
        "17_warp_specialized", "18_persistent", "19_fp8", "20_autotuning", "21_multi_gpu",
        "22_fp32_summit",
    )),
    *(f"tests/test_{name}.py" for name in (
        "ablations", "against_hardware", "any_shape", "boxes", "browser", "careless_hour",
        "exercises", "flat_rungs", "fp32_summit", "fp8", "fp8_notebook", "hopper",
        "hopper_ablations", "hopper_steps", "interrupt", "irregular", "joins",
        "mma_sync", "multi_gpu_record", "plots_tables", "plots_traces", "settings",
        "simulator_and_sass", "simulator_mistakes", "simulator_rungs", "site_profiler",
        "site_widgets", "sliders", "stalls", "summit_steps", "tuning", "turns", "variants",
    )),
    "tests/readme/test_commands.py", "ptxsim/tests/test_agrees.py", "ptxsim/tests/test_foreign.py",
    "ptxsim/tests/test_instructions.py", "ptxsim/tests/test_wgmma.py",
}  # fmt: skip
# Files of few and long tests. What the tests of other files share is made once for each file.
LONG = {"tests/test_against_hardware.py", "tests/test_settings.py"}


def pytest_addoption(parser):
    parser.addoption("--part", choices=("quick", "thorough"), help="without or with THOROUGH alone")


def pytest_configure(config):
    if gone := [name for name in sorted(THOROUGH) if not (ROOT / name).is_file()]:
        raise pytest.UsageError(f"THOROUGH in conftest.py names files that are not there: {gone}")


def pytest_ignore_collect(collection_path, config):
    """None leaves the decision to others."""
    part = config.getoption("part")
    if part is None or collection_path.is_dir():
        return None
    is_thorough = collection_path.relative_to(ROOT).as_posix() in THOROUGH
    return True if is_thorough != (part == "thorough") else None


class Scheduling(LoadFileScheduling):
    """A file for each process that is free, many tests first; of LONG files, test by test."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.partition("::")[0] in LONG else super()._split_scope(nodeid)


def pytest_collection_finish(session):
    """Thousands of tests stay as long as the session: looking for garbage in them only costs."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session):
    """Nothing that was compiled grows old; workers leave it to the process that started them."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for path in COMPILED.iterdir():
            with suppress(FileNotFoundError):  # another run has removed it
                if path.stat().st_mtime < time.time() - DAYS * 86_400:
                    path.unlink()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Start the kernels of notebooks without a GPU: only the simulator repeats outputs exactly.

    Not with --nbval-lax, which compares nothing.
    """
    with pytest.MonkeyPatch.context() as patch:
        if item.path.suffix == ".ipynb" and item.config.option.nbval:
            patch.setenv("GEMMLAB_DEVICE", "simulator")
        return (yield)
