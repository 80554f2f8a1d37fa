"""What is measured for this lesson on a GPU and kept."""

from gemmlab.lessons.split_k import measure

EVIDENCE = (measure.TIMES_OF_JOINS, measure.REPEATS)
