"""What is measured for this lesson on a GPU and kept."""

from gemmlab.lessons.batched import measure

EVIDENCE = (measure.EVIDENCE,)
