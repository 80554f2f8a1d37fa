"""What is measured for this lesson on a GPU and kept."""

from gemmlab.lessons.register_banks import fma_order

EVIDENCE = (fma_order.EVIDENCE,)
