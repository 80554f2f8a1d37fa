"""Where kernels, notebooks and records are: in the checkout, or in what a wheel installed."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
IS_CHECKOUT = (PACKAGE.parent / "pyproject.toml").is_file()

ROOT = PACKAGE.parent if IS_CHECKOUT else PACKAGE / "data"
KERNELS = ROOT / "kernels"
NOTEBOOKS = ROOT / "notebooks"
RESULTS = ROOT / "results"


class NoCheckout(Exception):
    """Something is to be written that belongs into a checkout. The message says what to do."""


def require_checkout(purpose: str) -> None:
    """Raise NoCheckout where the package was installed without its repository."""
    if not IS_CHECKOUT:
        raise NoCheckout(
            f"{purpose} writes into the repository, and gemmlab was installed without it, in "
            f'{PACKAGE}: clone the repository and install that with pip install -e ".[simulator]".'
        )
