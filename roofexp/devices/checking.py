"""A kernel's result against its float64 reference. Works on any array module with NumPy's interface."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from roofexp.errors import FailedError
from roofexp.kernel import Kernel, Operand, error_scales, reference_values
from roofexp.point import Check

SLICE = 1 << 18  # elements that are compared at once on a CPU


def poison(array: Any) -> None:
    """Fills an output so that an element left unwritten cannot pass: NaN, or the type's lowest value."""
    array.fill(math.nan if array.dtype.kind == "f" else -128)


class Expectation(NamedTuple):
    """What the outputs must be, and what deviations from it are measured against."""

    values: dict[str, Any]
    scales: dict[str, float]


def expectation(kernel: Kernel, before: Mapping[str, Any], numeric: Any) -> Expectation:
    """``before`` are the operands as float64 before the launch."""
    values = reference_values(kernel, before, numeric)
    return Expectation(values, error_scales(kernel, before, values, numeric))


def check_result(kernel: Kernel, expected: Expectation, after: Mapping[str, Any], numeric: Any) -> Check:
    """``after`` are the outputs as float64 after the launch.

    Raises FailedError beyond the tolerance, naming the worst output and its error norm.
    """
    worst = 0.0
    for name, wanted in expected.values.items():
        operand = kernel.operand(name)
        assert operand
        worst = max(worst, _error(kernel, operand, after[name], wanted, expected.scales[name], numeric))
    return Check(error=worst, tolerance=kernel.tolerance)


def _error(kernel: Kernel, operand: Operand, found: Any, wanted: Any, scale: float, numeric: Any) -> float:
    wanted = numeric.asarray(wanted, dtype=numeric.float64)
    if wanted.size == 1 or wanted.shape != operand.shape:
        wanted = numeric.broadcast_to(wanted.reshape(wanted.shape if wanted.size > 1 else ()), operand.shape)
    unwritten, largest = _deviation(found, wanted, numeric)
    if unwritten:
        raise FailedError(
            "wrong result",
            f"{unwritten} of {operand.elements} elements of {operand.name} are NaN or were left unwritten",
        )
    error = largest / (scale or 1.0)
    if not error <= kernel.tolerance:
        raise FailedError(
            "wrong result",
            f"{operand.name} is off by {error:.3g} of the result's scale; allowed for {kernel.precision}: "
            f"{kernel.tolerance:.3g}",
        )
    return error


def _deviation(found: Any, wanted: Any, numeric: Any) -> tuple[int, float]:
    """How many elements are NaN, and the largest deviation. On a CPU in slices that stay in its caches: memory that
    the system hands out anew costs more than all the arithmetic."""
    sliced = numeric.__name__ == "numpy" and found.ndim > 0
    rows = max(1, SLICE * len(found) // found.size) if sliced else 1
    parts = [slice(first, first + rows) for first in range(0, len(found), rows)] if sliced else [...]
    unwritten, largest = 0, 0.0
    for part in parts:
        difference = numeric.abs(found[part] - wanted[part])
        unwritten += int(numeric.isnan(difference).sum())
        largest = max(largest, float(difference.max()))
    return unwritten, largest
