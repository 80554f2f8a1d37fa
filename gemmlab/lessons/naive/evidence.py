"""What is measured for this lesson on a GPU and kept."""

from gemmlab.lessons.naive import l1_passes

EVIDENCE = (l1_passes.EVIDENCE,)
