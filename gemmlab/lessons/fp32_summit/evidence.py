"""What is measured for this lesson on a GPU and kept."""

from gemmlab.lessons.fp32_summit import steps

EVIDENCE = (steps.EVIDENCE,)
