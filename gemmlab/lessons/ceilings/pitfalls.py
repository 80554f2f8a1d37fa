"""How timing misleads: one product of cuBLAS, timed in ways that give different answers.

Each way is a list of milliseconds per product. On a GPU they are taken by

    python -m gemmlab record 00_pitfalls

which starts this module as a process of its own, so that the first call is really the first one.
"""

import json
import statistics
import subprocess
import sys

from gemmlab.cuda.cublas import Cublas
from gemmlab.cuda.device import require_gpu
from gemmlab.ladder import Problem
from gemmlab.measure.in_turn import Side, alternate, input_sets, make_sets
from gemmlab.measure.timing import PAIRS
from gemmlab.records import runs
from gemmlab.records.registry import NoRecord, Row, Say, again

NAME = "00_pitfalls"
SMALL, CACHED = 256, 1024  # sizes of square products
TIME_LIMIT_S = 120

Samples = dict[str, list[float]]


def recorded() -> Samples:
    """The recorded samples: what was done -> milliseconds per product. Raises NoRecord."""
    record = runs.current()
    if "pitfalls" not in record:
        raise NoRecord(
            f"The timing examples are not recorded on {record['gpu']['name']}; "
            f"{again(NAME)} on a GPU."
        )
    return record["pitfalls"]["samples_ms"]


def measure() -> Samples:
    """Take the samples on the GPU here, in a new process."""
    require_gpu("Timing examples")
    command = [sys.executable, "-m", "gemmlab.lessons.ceilings.pitfalls"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _measured(say: Say) -> Row:
    provenance, samples_ms = runs.provenance(), measure()
    for way, times in samples_ms.items():
        say(f"{NAME}: {way}: {statistics.median(times):.4g} ms")
    return {"pitfalls": {"provenance": provenance, "samples_ms": samples_ms}}


PART = runs.Part(name=NAME, measure=_measured, reader=recorded)


def _take() -> Samples:
    import cupy

    here = require_gpu("Timing examples")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        ((A, B, _),) = make_sets(Problem(SMALL, SMALL, SMALL), 1)
        stream.synchronize()
        alone = [_one_call(stream, A, B) for _ in range(PAIRS + 1)]
        with Cublas(stream) as cublas:
            small = _rotating(cublas, stream, SMALL, here.l2_bytes)
            cached = Side(cublas.launch_into, make_sets(Problem(*[CACHED] * 3), 1), stream)
            cached.plan()
            fresh = _rotating(cublas, stream, CACHED, here.l2_bytes)
            graph, _, _ = alternate(small, small, PAIRS, "small")
            same, rotated, _ = alternate(cached, fresh, PAIRS, "cached")
    return {
        f"the very first call, {SMALL}³": alone[:1],
        f"one call at a time, {SMALL}³": alone[1:],
        f"many in one CUDA graph, {SMALL}³": graph,
        f"the same matrices again, {CACHED}³": same,
        f"other matrices each time, {CACHED}³": rotated,
    }


def _one_call(stream, A, B) -> float:
    """Milliseconds between two events around a single cupy.matmul, as one would first try it."""
    import cupy

    start = stream.record()
    cupy.matmul(A, B)
    end = stream.record()
    end.synchronize()
    return cupy.cuda.get_elapsed_time(start, end)


def _rotating(cublas: Cublas, stream, size: int, l2_bytes: int) -> Side:
    count = input_sets(3 * 4 * size * size, l2_bytes)
    side = Side(cublas.launch_into, make_sets(Problem(size, size, size), count), stream)
    side.plan()
    return side


if __name__ == "__main__":
    print(json.dumps(_take()))
