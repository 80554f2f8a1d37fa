"""What gl.choose says of float32 by tensor cores: its errors beside those of FP32's own FMAs."""

from contextlib import suppress
from functools import lru_cache

from gemmlab.lessons.emulated_fp32.errors import DEPTH
from gemmlab.lessons.emulated_fp32.tables import SUMMIT, largest_errors
from gemmlab.records.registry import NoRecord, StaleRecord


@lru_cache(maxsize=64)
def why(folder: str) -> str:
    """In a sentence. `folder`: that GEMMLAB_RECORDS names. Raises BadRecord."""
    text = "the only kernel for it: six products of bfloat16 for each of float32"
    with suppress(NoRecord, StaleRecord):
        texts = (
            f"{error['BF16×6']:.1e} on {data} data, where FP32's FMAs have {error[SUMMIT]:.1e}"
            for data, error in largest_errors().loc[["normal", "uniform"]].iterrows()
        )
        text += f"; largest error at K = {DEPTH}, as a share of |A| |B|: {', '.join(texts)}"
    return text
