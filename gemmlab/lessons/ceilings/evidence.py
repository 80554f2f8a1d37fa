"""What is measured for this lesson on a GPU and kept."""

from gemmlab.lessons.ceilings import chains

EVIDENCE = (chains.EVIDENCE,)
