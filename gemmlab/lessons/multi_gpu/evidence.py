"""What is measured for this lesson on a GPU and kept."""

from gemmlab.lessons.multi_gpu import measure

EVIDENCE = (measure.EVIDENCE, measure.TIMELINES)
