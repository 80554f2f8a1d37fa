"""Single times, each a mark."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from numbers import Real

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import MARGIN, NORMAL, WIDTH, styled


@styled
def spread(samples: Mapping[str, Sequence[float]], *, caption: str | None = None) -> Picture:
    """Every single time of some series as a dot, the median of each as a line.

    samples: label: times in milliseconds. The axis is logarithmic where the times span more than a
    factor of twenty.

    Raises TypeError for anything but a mapping, ValueError for no times, or one that is not a
    finite number above 0.
    """
    if not isinstance(samples, Mapping):
        raise TypeError(f"spread takes a mapping of label to times, not {type(samples).__name__}.")
    if not samples:
        raise ValueError("spread was given no series of times; there is nothing to draw.")
    for label, times in samples.items():
        if len(times) == 0:
            raise ValueError(f"spread: {label!r} has no times.")
        for time in times:
            if not (isinstance(time, Real) and math.isfinite(time) and time > 0):
                raise ValueError(f"spread: {label!r} has the time {time!r} ms; it must be above 0.")
    medians = {label: statistics.median(times) for label, times in samples.items()}
    low = min(min(times) for times in samples.values())
    high = max(max(times) for times in samples.values())

    pitch = 0.62
    height = len(samples) * pitch
    left = MARGIN + max(style.text_width(label, NORMAL) for label in samples) + 0.15
    if caption is None:
        caption = _spread_caption(samples, medians)
    fig = style.page(0.2 + height + 0.6, caption)
    ax = fig.add_axes_at(left, 0.2, WIDTH - MARGIN - left, height, gid="spread")
    wide = high > 20 * low
    if wide:
        ax.set(xscale="log", xlim=(low / 1.5, high * 1.5))
        style.plain_log_ticks(ax.xaxis)
    else:
        ax.set_xlim(0, high * 1.08)
    for at, (label, times) in enumerate(samples.items()):
        middle = (at + 0.5) * pitch
        # Dots of one row are set apart in turn, so that equal times stay visible.
        offsets = [0.07 * (0, 1, -1, 2, -2)[index % 5] for index in range(len(times))]
        colour = style.KERNEL_COLOURS[at % len(style.KERNEL_COLOURS)]
        ax.plot(
            times, [middle + offset for offset in offsets],
            style.KERNEL_MARKERS[at % len(style.KERNEL_MARKERS)], color=colour, markersize=4.5,
            alpha=0.75, markeredgewidth=0, gid=f"times {label}",
        )  # fmt: skip
        if len(times) > 1:
            ax.vlines(medians[label], middle - 0.22, middle + 0.22, color=style.INK, linewidth=1.6)
    ax.set_ylim(height, 0)
    ax.set_xlabel("milliseconds, logarithmic" if wide else "milliseconds")
    ax.set_yticks([(at + 0.5) * pitch for at in range(len(samples))], list(samples))
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    ax.grid(axis="x")
    return fig


def _spread_caption(samples: Mapping[str, Sequence[float]], medians: Mapping[str, float]) -> str:
    parts = []
    for label, times in samples.items():
        if len(times) == 1:
            parts.append(f"{label} {style.digits(times[0])} ms")
        else:
            parts.append(
                f"{label} {style.digits(medians[label])} ms, "
                f"from {style.digits(min(times))} to {style.digits(max(times))}"
            )
    return f"Every mark is one time, every line a median: {'; '.join(parts)}."
