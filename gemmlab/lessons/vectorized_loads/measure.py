"""What is measured for this lesson: the path from 05 to 06, in steps.csv."""

from gemmlab.lessons.vectorized_loads.rung import RUNG
from gemmlab.records.ablations import path_to, steps_beside

EVIDENCE = (path_to(RUNG, steps_beside(__file__)),)
