"""For tests and notebooks, which run together: how they are dealt out, and hypothesis."""

import gc
import signal

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

settings.register_profile("gemmlab", deadline=None)  # a slow machine is no failure
settings.load_profile("gemmlab")

# A shell's job in the background ignores Ctrl-C, and so would all processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Files of few and long tests. What the tests of other files share is made once for each file.
LONG = {"tests/test_against_hardware.py", "tests/test_settings.py"}


class Scheduling(LoadFileScheduling):
    """A file for each process that is free, many tests first; of LONG files, test by test."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.partition("::")[0] in LONG else super()._split_scope(nodeid)


def pytest_collection_finish(session):
    """Thousands of tests stay as long as the session: looking for garbage in them only costs."""
    gc.collect()
    gc.freeze()


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
