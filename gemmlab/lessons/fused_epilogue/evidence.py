"""What is measured for this lesson on a GPU and kept."""

from gemmlab.lessons.fused_epilogue import measure

EVIDENCE = (measure.EVIDENCE,)
