"""What a bias and an activation cost, fused into the product or after it.

    python -m gemmlab record epilogue

verifies every way, times it in turn with rung 11, and counts bytes of DRAM with Nsight Compute;
results/<gpu>/epilogue.csv, a row for each shape, activation and way.
"""

import sys
from collections.abc import Iterator
from typing import Any

from gemmlab import ladder
from gemmlab.cuda.cublas import Cublas
from gemmlab.cuda.cublaslt import CublasLt, NoAlgorithm
from gemmlab.cuda.device import require_gpu
from gemmlab.kernel.fingerprint import Fingerprint, of_rung
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import random_matrix
from gemmlab.kernel.verify import VerificationError, check_sample
from gemmlab.ladder import Problem, Target
from gemmlab.ladder.activations import ACTIVATIONS
from gemmlab.lessons.fused_epilogue import epilogues
from gemmlab.measure.in_turn import Side, alternate, input_sets, make_sets
from gemmlab.measure.profiler import CountersUnavailable, profile
from gemmlab.measure.timing import PAIRS, Spread, require_verified
from gemmlab.records import registry, tuning
from gemmlab.records.registry import POSITIVE, SIZE, TEXT, Row, Say, Table
from gemmlab.records.runs import spread

DRAM = {  # column: what Nsight Compute counts for it
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
}
SEED = 2024
END_OF_PART = "end_of_part"  # an empty kernel, which ends the part of one way


def _measured(say: Say) -> Iterator[Row]:
    """All ways, in milliseconds. ratio: to rung 11, pair by pair; for rung 11 itself the noise.

    Raises VerificationError, and CountersUnavailable without Nsight Compute.
    """
    wanted = [(shape, epilogues.CURVE_OF) for shape in epilogues.CURVE]
    wanted += [
        (shape, activation)
        for shape in epilogues.WITH_ALL
        for activation in ACTIVATIONS
        if (shape, activation) not in wanted
    ]
    for (m, n, k), activation in wanted:
        rows = list(_measure(m, n, k, activation, say))
        counted = ((m, n, k), activation) == (epilogues.THIN, epilogues.CURVE_OF)
        dram = _dram([row["way"] for row in rows]) if counted else {}
        for row in rows:
            say(f"{m}x{n}x{k} {activation}, {row['way']}: {row['time_ms']:.4g} ms, "
                f"{row['ratio']:.3f} of 11")  # fmt: skip
            yield row | dram.get(row["way"], {})


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    """Of 11, and of 10 in the rows that run it: it has 11's settings."""
    if row.way not in epilogues.OF_PLAIN:
        return registry.of_row(ladder.find(epilogues.NAME), row, on)
    problem = Problem(int(row.m), int(row.n), int(row.k))
    return of_rung(*epilogues.plain_with(ladder.read_settings(row.settings)), [problem], on)


TABLE = Table(
    name="epilogue", file="epilogue.csv", key=("activation", "way", "settings", "m", "n", "k"),
    columns={
        **SIZE("m", "n", "k"), **TEXT("activation", "way", "settings"),
        **POSITIVE("time_ms", "time_q1_ms", "time_q3_ms"),
        **POSITIVE("fused_ms", "ratio", "ratio_q1", "ratio_q3"), **SIZE("pairs"),
        **registry.REPORTED("sm_clock_mhz", "power_w"), **registry.COUNTED(*DRAM),
        **registry.provenance("driver", "cuda", "cublas", "cupy", "ncu"), **registry.NOTE("ncu"),
    },
    measure=_measured, fingerprint_of=_fingerprint_of,
)  # fmt: skip
EVIDENCE = (TABLE,)


def _fused_kernel(m: int, n: int, k: int, activation: str) -> Kernel:
    value = ACTIVATIONS.index(activation)
    return tuning.kernel_for(ladder.find(epilogues.NAME), (m, n, k), ACTIVATION=value)


def _measure(m: int, n: int, k: int, activation: str, say: Say) -> Iterator[Row]:
    """A row for each way at one shape; without cuBLASLt's, with a line, where it cannot do it."""
    import cupy

    here = require_gpu("Measuring epilogues")
    fused = _fused_kernel(m, n, k, activation)
    stream = cupy.cuda.Stream(non_blocking=True)
    count = input_sets(4 * (m * k + k * n + m * n), here.l2_bytes)
    with stream, Cublas(stream) as cublas, CublasLt(stream) as lt:
        sets = make_sets(Problem(m, n, k), 2 * count)
        bias = cupy.asarray(random_matrix(1, n, SEED)[0])
        sets = [(*matrices, bias) for matrices in sets]
        for way in epilogues.ways(activation):
            try:
                launched = epilogues.make(way, cublas, lt, fused, (m, n, k))
                if isinstance(launched, Kernel):
                    require_verified(launched)
                check_sample(launched, Problem(m, n, k))
            except (NoAlgorithm, VerificationError) as error:
                if way != epilogues.LT:
                    raise
                say(f"{m}x{n}x{k} {activation}, {way}: {error}; left out")
                continue
            stream.synchronize()
            ours = Side(epilogues.launcher(fused), sets[:count], stream)
            other = Side(epilogues.launcher(launched), sets[count:], stream)
            ours.plan()
            other.plan()
            our_ms, other_ms, state = alternate(ours, other, PAIRS, f"{way} {m}x{n}x{k}")
            ratio = Spread.of([b / a for a, b in zip(our_ms, other_ms, strict=True)], min)
            yield {
                "m": m, "n": n, "k": k, "activation": activation, "way": way,
                "settings": ladder.written(fused.settings),
                **spread("time_ms", Spread.of(other_ms, min)),
                "fused_ms": Spread.of(our_ms, min).median, **spread("ratio", ratio),
                "pairs": PAIRS, "sm_clock_mhz": state.sm_clock_mhz, "power_w": state.power_w,
            }  # fmt: skip


def _dram(among: list[str]) -> dict[str, Row]:
    """Of each way: bytes of DRAM of one run at THIN, of all its kernels, caches as they are.

    Raises CountersUnavailable.
    """
    child = ["-m", "gemmlab.lessons.fused_epilogue.measure", *among]
    which = ["--profile-from-start", "off", "--cache-control", "none"]
    launches, message = profile(child, which, list(DRAM.values()), ", ".join(among))
    parts: list[list[dict[str, int | float]]] = [[]]
    for entry, counted in launches:
        if entry == END_OF_PART:
            parts.append([])
        else:
            parts[-1].append(counted)
    parts.pop()  # behind the last end
    metrics = set(DRAM.values())
    complete = all(part and all(metrics <= {*counted} for counted in part) for part in parts)
    if len(parts) != len(among) or not complete:
        raise CountersUnavailable(
            f"Nsight Compute has not counted all of {', '.join(among)}. {message}"
        )
    return {
        way: {column: sum(launch[metric] for launch in part) for column, metric in DRAM.items()}
        for way, part in zip(among, parts, strict=True)
    }


def main(*among: str) -> None:
    """Run each of the ways once with the profiler on; this is what runs under ncu."""
    import cupy
    import cupyx.profiler

    m, n, k = epilogues.THIN
    stream = cupy.cuda.Stream(non_blocking=True)
    end_part = cupy.RawKernel(f'extern "C" __global__ void {END_OF_PART}() {{}}', END_OF_PART)
    with stream, Cublas(stream) as cublas, CublasLt(stream) as lt:
        (matrices,) = make_sets(Problem(m, n, k), 1)
        bias = cupy.asarray(random_matrix(1, n, SEED)[0])
        fused = _fused_kernel(m, n, k, epilogues.CURVE_OF)
        for way in among:
            launch = epilogues.launcher(epilogues.make(way, cublas, lt, fused, epilogues.THIN))
            launch(*matrices, bias)  # loads and compiles
            stream.synchronize()
            with cupyx.profiler.profile():
                launch(*matrices, bias)
                end_part((1,), (1,), ())
                stream.synchronize()


if __name__ == "__main__":
    main(*sys.argv[1:])
