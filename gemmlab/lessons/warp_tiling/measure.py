"""What is measured for this lesson: the path from 07 to 08, in steps.csv."""

from gemmlab.lessons.warp_tiling.rung import RUNG
from gemmlab.records.ablations import path_to, steps_beside

EVIDENCE = (path_to(RUNG, steps_beside(__file__)),)
