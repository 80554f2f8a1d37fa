"""The products that people run, by groups: at all of them the ladder is held against cuBLAS."""

from __future__ import annotations

from gemmlab.ladder.problem import Problem

GROUPS: dict[str, tuple[Problem, ...]] = {
    "thin": tuple(
        Problem(*shape)
        for shape in (
            (1, 8192, 8192), (16, 4096, 4096), (32, 4096, 4096), (64, 4096, 4096),
            (128, 4096, 4096), (8192, 1, 8192), (4096, 16, 4096), (8192, 32, 8192),
            (4096, 64, 4096), (4096, 128, 4096),
        )
    ),
    "deep K": tuple(
        Problem(*shape)
        for shape in ((64, 64, 65536), (128, 128, 32768), (256, 256, 16384), (512, 512, 8192))
    ),
    "irregular": tuple(
        Problem(*shape)
        for shape in (
            (1001, 777, 513), (1024, 1024, 512), (768, 768, 768), (1536, 1536, 1536),
            (2000, 2000, 2000), (3072, 1024, 512),
        )
    ),
    "squares": tuple(Problem(size, size, size) for size in (64, 128, 256, 512, 1024)),
    "batches": tuple(
        Problem(size, size, size, batch)
        for size, batch in ((32, 10_000), (64, 4096), (128, 1024), (256, 256))
    ),
}  # fmt: skip

SINGLE_PRODUCTS = tuple(one for group in GROUPS.values() for one in group if one.batch == 1)
BATCHES = GROUPS["batches"]
EVERY_PROBLEM = (*SINGLE_PRODUCTS, *BATCHES)
