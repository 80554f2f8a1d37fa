"""Hardware counters of one part of a program after another, read by Nsight Compute."""

from __future__ import annotations

from collections.abc import Sequence

from gemmlab.measure.profiler import CountersUnavailable, profile

END_OF_PART = "end_of_part"  # the kernel that end_part launches


def profiled_in_turn(
    child: list[str], metrics: Sequence[str], names: Sequence[str]
) -> list[dict[str, int | float]]:
    """The metrics of each part of a program, summed over its kernels, caches as they are.

    child: arguments of python; it calls `end_part` after each part, with the profiler on
    (cupyx.profiler.profile). names: of the parts. Raises CountersUnavailable.
    """
    which = ["--profile-from-start", "off", "--cache-control", "none"]
    launches, message = profile(child, which, metrics, ", ".join(names))
    parts: list[list[dict[str, int | float]]] = [[]]
    for entry, counted in launches:
        if entry == END_OF_PART:
            parts.append([])
        else:
            parts[-1].append(counted)
    if len(parts) != len(names) + 1 or parts.pop():
        raise CountersUnavailable(
            f"Nsight Compute saw {len(parts)} parts, not {len(names)}: {', '.join(names)}. "
            f"{message}"
        )
    for name, part in zip(names, parts, strict=True):
        missing = [metric for metric in metrics if any(metric not in launch for launch in part)]
        if missing or not part:
            lacking = ", ".join(missing) or "counters"
            raise CountersUnavailable(f"Nsight Compute gave no {lacking} of {name}. {message}")
    return [
        {metric: sum(launch[metric] for launch in part) for metric in metrics} for part in parts
    ]


def end_part() -> None:
    """Launch an empty kernel on the current stream, by which profiled_in_turn tells parts apart."""
    import cupy

    code = f'extern "C" __global__ void {END_OF_PART}() {{}}'
    cupy.RawKernel(code, END_OF_PART)((1,), (1,), ())
