"""The path from 08 to 09, in steps.csv, and roads not taken."""

from gemmlab.lessons.double_buffering.rung import RUNG
from gemmlab.records.ablations import SQUARES, path_to, steps_beside

# At 512 each block of 128×128 has an SM for itself.
EVIDENCE = (path_to(RUNG, steps_beside(__file__, shapes=(*SQUARES, (512, 512, 512)))),)
