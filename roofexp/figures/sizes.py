"""Sizes between those that were measured, as a person reads them."""

from __future__ import annotations

from roofexp.figures.crossover import Crossover
from roofexp.units import size_name


def about(size: float | None) -> str:
    return f"size {rounded(size)}" if size is not None else ""


def rounded(size: float) -> str:
    """A size between those measured, to two digits."""
    return size_name(float(f"{size:.1e}"))


def fitted(size: float) -> str:
    """A size from a fit: three digits."""
    return size_name(float(f"{size:.2e}"))


def interval(fit: Crossover) -> str:
    """``95 %: 690 – 750``, with enough digits to tell the ends apart."""
    low, high = fitted(fit.low), fitted(fit.high)
    return f"95 %: {low} – {high}" if low != high else f"95 %: {low}"
