"""What is measured for this lesson on a GPU and kept."""

from gemmlab.lessons.fp8 import cublas_errors, errors, hopper_ablations, quantizing, steps

EVIDENCE = (
    *hopper_ablations.TABLES.values(), steps.EVIDENCE, errors.EVIDENCE, cublas_errors.EVIDENCE,
    quantizing.EVIDENCE,
)  # fmt: skip
