"""Shapes of products that nobody tuned, drawn by a seed from six families.

    python benchmarks/shapes.py SEED COUNT

prints `family M N K`, a line each. A family is drawn first, each with the same chance, then a shape
of it: sizes are log-uniform between its bounds, so that small ones are as frequent as large ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

LARGEST, MOST_FLOP, MOST_ELEMENTS = 1 << 18, 4.4e12, 1 << 29  # of a size; of a product; of a matrix

# (N, K) of the linear layers of published language models, by their config.json: Llama 3 8B and
# 70B, Qwen2.5 7B, DeepSeek-V3, Gemma 7B, GPT-2.
LAYERS = (
    (4096, 4096), (1024, 4096), (14336, 4096), (4096, 14336), (8192, 8192), (1024, 8192),
    (28672, 8192), (8192, 28672), (3584, 3584), (512, 3584), (18944, 3584), (3584, 18944),
    (2112, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048),
    (24576, 3072), (3072, 24576), (2304, 768), (768, 768), (3072, 768), (768, 3072),
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """C of M×N over K. `family`: a name of FAMILIES."""

    family: str
    m: int
    n: int
    k: int


def _between(random: np.random.Generator, least: int, most: int) -> int:
    """Log-uniform, both bounds included."""
    return int(np.exp(random.uniform(np.log(least), np.log(most + 1))))


def _layer(random: np.random.Generator) -> tuple[int, int, int]:
    """Tokens, a power of two in half of the cases, by a layer."""
    tokens = _between(random, 1, 4096)
    if random.random() < 0.5:
        tokens = 1 << (tokens.bit_length() - 1)
    return tokens, *LAYERS[random.integers(len(LAYERS))]


def _convolution(random: np.random.Generator) -> tuple[int, int, int]:
    """Pixels of all images by output channels, over input channels and a window."""
    side, window = random.choice([7, 14, 28, 56]), random.choice([1, 3, 5])
    images, channels, inputs = (1 << random.integers(*ends) for ends in ((0, 7), (5, 12), (5, 11)))
    return int(images * side**2), int(channels), int(inputs * window**2)


def _square(random: np.random.Generator) -> tuple[int, int, int]:
    side = _between(random, 16, 12288)
    return side, side, side


def _ragged(random: np.random.Generator) -> tuple[int, int, int]:
    m, n, k = (_between(random, 1, 16384) for _ in range(3))
    return m, n, k


def _deep(random: np.random.Generator) -> tuple[int, int, int]:
    return (
        8 * _between(random, 1, 64), 8 * _between(random, 1, 64), 64 * _between(random, 64, 4096)
    )  # fmt: skip


def _flat(random: np.random.Generator) -> tuple[int, int, int]:
    return _between(random, 2048, 65536), 4 * _between(random, 2, 64), 4 * _between(random, 2, 64)


FAMILIES: dict[str, Callable[[np.random.Generator], tuple[int, int, int]]] = {
    "layer": _layer, "convolution": _convolution, "square": _square, "ragged": _ragged,
    "deep": _deep, "flat": _flat,
}  # fmt: skip


def drawn(seed: int, count: int) -> list[Shape]:
    """`count` different shapes, the same ones for the same seed."""
    random, shapes = np.random.default_rng(seed), {}
    while len(shapes) < count:
        family = list(FAMILIES)[random.integers(len(FAMILIES))]
        m, n, k = FAMILIES[family](random)
        small = max(m * k, k * n, m * n) <= MOST_ELEMENTS and max(m, n, k) <= LARGEST
        if small and 2.0 * m * n * k <= MOST_FLOP:
            shapes[m, n, k] = Shape(family, m, n, k)
    return list(shapes.values())


if __name__ == "__main__":
    for shape in drawn(int(sys.argv[1]), int(sys.argv[2])):
        print(shape.family, shape.m, shape.n, shape.k)
