"""How gl.matmul chooses at a shape that nobody measured: what the model says of every kernel."""

import pandas

from gemmlab.ladder import Problem, Settings
from gemmlab.products import model, trees
from gemmlab.products.model import COSTS, Curve
from gemmlab.records.registry import target_here

WORDS = {  # a cost of the model: what is counted
    "launch": "launches", "k_tile": "k tiles that follow one another in a block",
    "narrow_k_tile": "the same, once more for narrow copies",
    "k_tile_of_sm": "k tiles of the busiest SM",
    "narrow_k_tile_of_sm": "the same, once more for narrow copies of theirs",
    "store": "tiles that the busiest SM stores", "memory_mb": "MB of memory",
    "tiles_mb": "MB of tiles that blocks load", "narrow_c_mb": "MB of C in narrow stores",
    "join": "whether blocks share a tile", "worker": "blocks that share a tile",
    "parts_mb": "MB of partial sums",
}  # fmt: skip
LEAST_US = 0.001  # of a cost that is shown


def _ways(problem: Problem, dtype: str) -> list[tuple[float, float, Curve, Settings]]:
    """Seconds by the sum of costs, what trees multiply them by, and which kernel with which
    settings: all that the model looks at."""
    target = target_here()
    ways = [
        (*modelled, curve, settings)
        for curve in model.curves(dtype, target.arch)
        for settings in curve.variants(dtype, problem)
        if (modelled := curve.modelled(problem, settings, target))
    ]
    errors = trees.read(model.measured_for(dtype)).errors([features for _, features, *_ in ways])
    return [
        (seconds, float(error), curve, settings)
        for (seconds, _, curve, settings), error in zip(ways, errors, strict=True)
    ]


def by_kernel(shape: tuple[int, int, int], dtype: str) -> pandas.DataFrame:
    """A row for each kernel that the model knows, with the settings that take least, the fastest
    first; of a product of (M, N, K). Raises NoRecord."""
    rows: dict[str, dict] = {}
    for seconds, error, curve, settings in _ways(Problem(*shape), dtype):
        row = rows.setdefault(curve.rung.name, {"settings": 0, "µs by the model": float("inf")})
        row["settings"] += 1
        if (us := 1e6 * seconds * error) < row["µs by the model"]:
            rows_of_tile, columns = curve.rung.tile(settings)
            row |= {"tile": f"{rows_of_tile}×{columns}", "µs by the model": us}
    table = pandas.DataFrame.from_dict(rows, orient="index").rename_axis("kernel")
    return table[["settings", "tile", "µs by the model"]].sort_values("µs by the model")


def account(shape: tuple[int, int, int], dtype: str) -> pandas.DataFrame:
    """What the model adds up for the way that takes least: counts, and microseconds of each.

    Then the sum, and what the trees make of it. Raises NoRecord.
    """
    problem = Problem(*shape)
    best = min(_ways(problem, dtype), key=lambda way: way[0] * way[1])
    seconds, error, curve, settings = best
    counted = model.counts(curve.rung, settings, problem, target_here())
    assert counted is not None, "it was modelled"
    rows = {
        WORDS[cost]: {"count": count, "µs": 1e6 * coefficient * count}
        for cost, count, coefficient in zip(COSTS, counted, curve.coefficients, strict=True)
        if 1e6 * coefficient * count >= LEAST_US
    }
    rows["the sum"] = {"µs": 1e6 * seconds}
    rows["corrected by the trees"] = {"µs": 1e6 * seconds * error}
    return pandas.DataFrame.from_dict(rows, orient="index")
