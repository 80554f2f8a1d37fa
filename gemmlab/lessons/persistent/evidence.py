"""What is measured for this lesson on a GPU and kept."""

from gemmlab.lessons.persistent import power, tiles

EVIDENCE = (tiles.EVIDENCE, power.EVIDENCE)
