"""The ways of 12_split_k to join the parts of a tile, at shapes where K is cut: measured.

    python -m gemmlab record 12_joins

times every way with the fastest tile and SPLIT of the shape, in turn with cuBLAS;
results/<gpu>/joins.csv.
"""

from collections.abc import Iterator
from functools import partial

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import SINGLE, IllegalSetting, Problem, Settings
from gemmlab.ladder.settings import ALONE, JOINS, STREAM_K
from gemmlab.lessons.split_k.rung import RUNG
from gemmlab.measure.timing import Arena, require_verified
from gemmlab.records import registry, tuning
from gemmlab.records.registry import POSITIVE, SIZE, TEXT, Row, Say, Table
from gemmlab.records.runs import cells_of

SHAPES = (
    (64, 4096, 4096), (128, 4096, 4096), (64, 64, 65536), (256, 256, 16384), (512, 512, 512),
    (1001, 777, 513), (1024, 1024, 512), (1536, 1536, 1536),
)  # fmt: skip
"""(M, N, K) at which all ways are timed."""

PAIRS = 10


def ways(best: Settings) -> Iterator[tuple[str, Settings]]:
    """Each of JOINS that there is with the settings of `best`, with one part where it takes one."""
    parts = split if (split := best.get("SPLIT", 1)) > 1 else RUNG.defaults["SPLIT"]
    for join, name in enumerate(JOINS):
        of_way = {"JOIN": join, "SPLIT": 1 if join in (ALONE, STREAM_K) else parts}
        try:
            yield name, ladder.settings_for(RUNG, best | of_way)
        except IllegalSetting:
            continue


def _kernels(shape: tuple[int, int, int]) -> Iterator[tuple[str, Kernel]]:
    arch = require_gpu("Measuring joins").arch
    for name, settings in ways(tuning.for_shape(RUNG, shape, arch)[0]):
        kernel = Kernel(RUNG, settings, arch, RUNG.path)
        require_verified(kernel)
        yield name, kernel


def _measure_times(say: Say) -> Iterator[Row]:
    """All ways. Raises VerificationError, and NoRecord without a sweep of the rung."""
    for shape in SHAPES:
        with Arena(Problem(*shape), SINGLE) as arena:
            for name, kernel in _kernels(shape):
                race = arena.race(kernel, arena.side(kernel), PAIRS)
                row = cells_of(race, arena.problem) | {"settings": ladder.written(kernel.settings)}
                say(f"{arena.problem} {name}: {row['pct_cublas']:.1f} % of cuBLAS with "
                    f"{row['settings']}")  # fmt: skip
                yield row | {"join": name}


TIMES_OF_JOINS = Table(
    name="12_joins", file="joins.csv", key=("m", "n", "k", "join", "settings"),
    columns={
        **SIZE("m", "n", "k"), **TEXT("join", "settings"),
        **POSITIVE("time_ms", "time_q1_ms", "time_q3_ms", "cublas_ms", "pct_cublas"),
        **SIZE("pairs"), **registry.provenance("driver", "cuda", "cublas"),
    },
    measure=_measure_times, fingerprint_of=partial(registry.of_row, RUNG),
)  # fmt: skip
EVIDENCE = (TIMES_OF_JOINS,)
