"""Time a rung with the settings that suit each shape against cuBLAS: see gemmlab.tuned.

    python benchmarks/tuned.py 10_register_banks

needs a GPU and a recorded sweep of the rung (`python -m gemmlab tune`).
"""

from __future__ import annotations

import argparse
from functools import partial

from gemmlab import tuned

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernel", help="a rung, such as 10_register_banks")
    print(tuned.record(parser.parse_args().kernel, partial(print, flush=True)))
