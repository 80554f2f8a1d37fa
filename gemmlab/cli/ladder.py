"""ladder: every rung verified, and measured or replayed, in one table."""

import argparse

from tqdm.auto import tqdm

from gemmlab.cli.common import FAILED, OK, Commands, rung_name, say
from gemmlab.cuda.device import gpu
from gemmlab.ladder import RUNGS, IllegalSetting, Rung, find
from gemmlab.loading import load
from gemmlab.measure import timing
from gemmlab.records import runs
from gemmlab.records.registry import NoRecord, StaleRecord
from gemmlab.records.runs import device

ROW = "{:<26}  {:>6}  {:>9}  {:>11}  {:<21}  {}"
HEADS = ("rung", "verify", "GFLOP/s", "% of cuBLAS", "GPU", "recorded")


def add(commands: Commands) -> None:
    parser = commands.add(
        "ladder", run, "verify every rung, and time it or replay its time at 4096×4096×4096",
        "Prints one table, each row as soon as it is known.",
    )  # fmt: skip
    parser.add_argument(
        "rungs", nargs="*", type=rung_name, metavar="KERNEL", help="rungs (default: all)"
    )


def run(options: argparse.Namespace) -> int:
    rungs = [find(name) for name in options.rungs] or RUNGS
    print(device())
    print(ROW.format(*HEADS), flush=True)
    code = OK
    for rung in tqdm(rungs, desc="ladder", unit="rung", leave=False, disable=None):
        try:
            passed, cells = _row(rung)
        except (IllegalSetting, NoRecord, StaleRecord, timing.TimingError) as error:
            say(f"gemmlab: left out: {error}")
            code = FAILED if isinstance(error, StaleRecord) else code
        else:
            print(ROW.format(*cells).rstrip(), flush=True)
            code = code if passed else FAILED
    return code


def _row(rung: Rung) -> tuple[bool, list[object]]:
    """Whether the rung passes, and its row."""
    kernel = load(rung.name)
    if not kernel.verify().passed:
        return False, [rung.name, "FAIL", *[""] * 4]
    timed = (runs.replay_at if gpu() is None else timing.compare)(kernel, *runs.LARGE)
    share = f"{100 * timed.ratio.median:.1f}"
    return True, [
        rung.name, "pass", round(timed.gflops), share, timed.gpu, timed.recorded[:10],
    ]  # fmt: skip
