"""What is recorded of this lesson: see `errors`."""

from gemmlab.lessons.emulated_fp32.errors import EVIDENCE

__all__ = ["EVIDENCE"]
