"""The ways of 12_split_k to join the parts of a tile, at shapes where K is cut: measured.

    python -m gemmlab record 12_joins
    python -m gemmlab record 12_repeats

The first times every way with the tile and the SPLIT that are the fastest at the shape, in turn
with cuBLAS: results/<gpu>/joins.csv. The second runs every way on the same inputs again and again
and compares the bits: results/<gpu>/repeats.csv (see gemmlab.records.registry).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import SINGLE, IllegalSetting, Problem, Settings, Target
from gemmlab.ladder.settings import ALONE, JOINS, STREAM_K
from gemmlab.measure.timing import Arena, now, require_verified
from gemmlab.records import tuning
from gemmlab.records.registry import DATE, POSITIVE, SIZE, TEXT, WHOLE, Say, Table, of_row

if TYPE_CHECKING:
    import pandas

RUNG = "12_split_k"
SHAPES = (
    (64, 4096, 4096), (128, 4096, 4096), (64, 64, 65536), (256, 256, 16384), (512, 512, 512),
    (1001, 777, 513), (1024, 1024, 512), (1536, 1536, 1536),
)  # fmt: skip
"""(M, N, K) at which all ways are timed."""

REPEATED = (256, 256, 16384)
TIMES, SEED = 200, 12  # how often the same product is repeated
PAIRS = 10
ABOUT = {
    **TEXT("code", "gpu", "driver", "cuda", "cublas"), **DATE("recorded"),
}  # fmt: skip
TIMED = {
    **SIZE("m", "n", "k"), **TEXT("join", "settings"),
    **POSITIVE("time_ms", "time_q1_ms", "time_q3_ms", "cublas_ms", "pct_cublas"),
    **SIZE("pairs"), **ABOUT,
}  # fmt: skip
COMPARED = {
    **SIZE("m", "n", "k"), **TEXT("join", "settings"), **SIZE("times", "results"),
    **WHOLE("elements", "most_ulps"), **ABOUT,
}  # fmt: skip


def joins() -> pandas.DataFrame:
    """The recorded times of all ways, columns TIMED: milliseconds, medians and quartiles.

    `join` is one of JOINS. Raises what registry.Table.read raises.
    """
    return TIMES_OF_JOINS.read()


def repeats() -> pandas.DataFrame:
    """What `times` runs on the same inputs gave, a row for each way, columns COMPARED.

    `results`: different ones, by their bits; `elements` of C that are not the same in all of them;
    `most_ulps`: by how many units in the last place one of them differs at most. Raises what
    registry.Table.read raises.
    """
    return REPEATS.read()


def ways(best: Settings) -> Iterator[tuple[str, Settings]]:
    """Each of JOINS with its settings: those of `best` otherwise, and one part where it takes one.

    Ways that cannot be had with these settings are left out.
    """
    rung = ladder.find(RUNG)
    parts = best["SPLIT"] if best["SPLIT"] > 1 else rung.defaults["SPLIT"]
    for join, name in enumerate(JOINS):
        split = 1 if join in (ALONE, STREAM_K) else parts
        try:
            yield name, ladder.settings_for(rung, best | {"JOIN": join, "SPLIT": split})
        except IllegalSetting:
            continue


# ---- measuring -----------------------------------------------------------------------------------


def _kernels(shape: tuple[int, int, int]) -> Iterator[tuple[str, Kernel]]:
    """Every way at a shape, verified."""
    rung, here = ladder.find(RUNG), require_gpu("Measuring joins")
    best = tuning.for_shape(rung, shape, here.arch).settings
    for name, settings in ways(best):
        kernel = Kernel(rung, settings, here.arch, rung.path)
        require_verified(kernel)
        yield name, kernel


def _about(kernel: Kernel) -> dict[str, Any]:
    versions = software_versions()
    return {
        "settings": ladder.written(kernel.settings),
        "gpu": require_gpu("Measuring joins").name,
        **{name: versions[name] for name in ("driver", "cuda", "cublas")}, "recorded": now(),
    }  # fmt: skip


def record(say: Say) -> Path:
    """Time all ways on the GPU here and write them; returns the file.

    Raises NoGpu, VerificationError, and NoRecord without a sweep of the rung.
    """
    import pandas

    rows = []
    for shape in SHAPES:
        with Arena(Problem(*shape), SINGLE) as arena:
            for name, kernel in _kernels(shape):
                race = arena.race(kernel, arena.side(kernel), PAIRS)
                time = race.time_ms
                rows.append({
                    **dict(zip("mnk", shape, strict=True)), "join": name, "time_ms": time.median,
                    "time_q1_ms": time.q1, "time_q3_ms": time.q3,
                    "cublas_ms": float(np.median(race.cublas_ms)),
                    "pct_cublas": 100 * race.ratio.median, "pairs": PAIRS, **_about(kernel),
                })  # fmt: skip
                say(f"{arena.problem} {name}: {rows[-1]['pct_cublas']:.1f} % of cuBLAS with "
                    f"{rows[-1]['settings']}")  # fmt: skip
    return TIMES_OF_JOINS.write(pandas.DataFrame(rows), require_gpu("Measuring joins").slug)


def record_repeats(say: Say) -> Path:
    """Repeat the product of REPEATED in all ways and compare the bits; returns the file.

    Raises as `record`.
    """
    import pandas

    rows, problem = [], Problem(*REPEATED)
    for name, kernel in _kernels(REPEATED):
        found = _compared(list(_products(kernel, problem)))
        rows.append({
            **dict(zip("mnk", REPEATED, strict=True)), "join": name, "times": TIMES, **found,
            **_about(kernel),
        })  # fmt: skip
        say(f"{problem} {name}: {found['results']} different results of {TIMES}")
    return REPEATS.write(pandas.DataFrame(rows), require_gpu("Measuring joins").slug)


def _products(kernel: Kernel, problem: Problem) -> Iterator[np.ndarray]:
    """The same product TIMES times."""
    given = Operands.from_seed(problem, kernel.precision, SEED).changed(kernel.to_device)
    for _ in range(TIMES):
        kernel.launch(given, 1.0, 0.0)
        yield kernel.to_host(given.C).copy()


def _compared(results: list[np.ndarray]) -> dict[str, int]:
    """How many different results, in how many elements they differ, and by how much at most."""
    bits = np.stack([_ordered(result) for result in results])
    apart = bits.max(axis=0) - bits.min(axis=0)
    return {
        "results": len({one.tobytes() for one in bits}),
        "elements": int(np.count_nonzero(apart)), "most_ulps": int(apart.max()),
    }  # fmt: skip


def _ordered(values: np.ndarray) -> np.ndarray:
    """Numbers of float32 counted in their order: neighbours are one apart, and both zeros are 0."""
    bits = np.ascontiguousarray(values, np.float32).view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    return of_row(ladder.find(RUNG), row, on)


TIMES_OF_JOINS = Table(
    name="12_joins", file="joins.csv", remake=record, key=("m", "n", "k", "join", "settings"),
    columns=TIMED, fingerprint_of=_fingerprint_of,
)  # fmt: skip
REPEATS = Table(
    name="12_repeats", file="repeats.csv", remake=record_repeats,
    key=("m", "n", "k", "join", "settings"), columns=COMPARED, fingerprint_of=_fingerprint_of,
)  # fmt: skip
