"""What is measured for this lesson on a GPU and kept."""

from gemmlab.lessons.mma_sync import steps, types

EVIDENCE = (steps.EVIDENCE, types.EVIDENCE)
