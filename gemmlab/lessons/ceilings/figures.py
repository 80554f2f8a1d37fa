"""Single times, each a mark."""

import statistics
from collections.abc import Mapping, Sequence

from gemmlab.plots import style
from gemmlab.plots.charts import rows_of
from gemmlab.plots.page import Picture, page, styled

PITCH = 0.62  # inches, from one series to the next


@styled
def spread(samples: Mapping[str, Sequence[float]]) -> Picture:
    """Every single time of some series as a dot, the median of each as a line.

    samples: label: times in milliseconds. The axis is logarithmic from a factor of 20 on.
    """
    medians = {label: statistics.median(times) for label, times in samples.items()}
    low, high = (end(map(end, samples.values())) for end in (min, max))
    parts = []
    for label, times in samples.items():
        words = f"{label} {style.digits(medians[label])} ms"
        if len(times) > 1:
            words += f", from {style.digits(min(times))} to {style.digits(max(times))}"
        parts.append(words)
    caption = f"Every mark is one time, every line a median: {'; '.join(parts)}."
    fig = page("Single times, and their median", len(samples) * PITCH + 0.68, caption)
    ax = rows_of(fig, list(samples), fig.top + 0.1, PITCH)
    wide = high > 20 * low
    if wide:
        ax.set(xscale="log", xlim=(low / 1.5, high * 1.5))
        style.plain_log_ticks(ax.xaxis)
    else:
        ax.set_xlim(0, high * 1.08)
    ax.set_xlabel("milliseconds, logarithmic" if wide else "milliseconds")
    for row, (label, times) in enumerate(samples.items()):
        # Dots of one row are set apart in turn, so that equal times stay visible.
        heights = [row + 0.5 + 0.11 * (0, 1, -1, 2, -2)[at % 5] for at in range(len(times))]
        colour = style.KERNEL_COLOURS[row % len(style.KERNEL_COLOURS)]
        marker = style.KERNEL_MARKERS[row % len(style.KERNEL_MARKERS)]
        ax.plot(times, heights, marker, color=colour, markersize=4.5, alpha=0.75, markeredgewidth=0)
        if len(times) > 1:
            ax.vlines(medians[label], row + 0.15, row + 0.85, color=style.INK, linewidth=1.6)
    return fig
