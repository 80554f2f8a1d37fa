"""What is measured for this lesson on a GPU and kept."""

from gemmlab.lessons.tma_wgmma import steps, timeline

EVIDENCE = (steps.EVIDENCE, timeline.BY_STEPS, timeline.BY_BLOCKS)
