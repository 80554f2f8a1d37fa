"""How long a reader waits from the move of a slider to the new picture.

    python benchmarks/lab_speed.py [rung …]

For every legal setting of every rung: the lab is moved there, and everything up to the new picture
is timed, as the notebook's kernel does it. Then once more, with what was shown kept. The lab starts
on another setting, so that a rung's compiled kernels are read before.
"""

from __future__ import annotations

import argparse
import statistics
import time

from tqdm import tqdm

import gemmlab as gl
from gemmlab import ladder


def moved(lab, settings: dict[str, int]) -> float:
    """Seconds that the move takes."""
    start = time.perf_counter()
    lab.choose(settings)
    seconds = time.perf_counter() - start
    assert lab.picture.value, settings
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rungs", nargs="*", default=[rung.name for rung in gl.RUNGS])
    print(f"{'rung':24}{'settings':>10}{'median':>10}{'worst':>10}{'again':>10}  s   worst setting")
    every = []
    for name in parser.parse_args().rungs:
        lab = gl.lab(name)
        settings = ladder.legal_settings(lab.rung)
        first = {tuple(s.values()): moved(lab, s) for s in tqdm(settings, desc=name, leave=False)}
        del first[tuple(ladder.settings_for(lab.rung, {}).values())]  # it was shown at the start
        again = [moved(lab, s) for s in settings]
        worst = max(first, key=first.get)
        every += first.values()
        print(
            f"{name:24}{len(settings):10}{statistics.median(first.values()):10.3f}"
            f"{first[worst]:10.3f}{max(again):10.3f}      {', '.join(map(str, worst))}"
        )
    print(f"{'all':24}{len(every):10}{statistics.median(every):10.3f}{max(every):10.3f}")


if __name__ == "__main__":
    main()
