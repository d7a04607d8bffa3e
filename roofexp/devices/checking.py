"""A kernel's result against its float64 reference. Works on any array module with NumPy's interface."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from roofexp.errors import FailedError
from roofexp.kernel import Kernel, Operand, error_scales, reference_values
from roofexp.point import Check


def poison(array: Any) -> None:
    """Fills an output so that an element left unwritten cannot pass: NaN, or the type's lowest value."""
    array.fill(math.nan if array.dtype.kind == "f" else -128)


def check_result(kernel: Kernel, before: Mapping[str, Any], after: Mapping[str, Any], numeric: Any) -> Check:
    """``before`` are all operands as float64 before the launch, ``after`` the outputs as float64 after it.

    Raises FailedError beyond the tolerance, naming the worst output and its error norm.
    """
    expected = reference_values(kernel, before, numeric)
    scales = error_scales(kernel, before, expected, numeric)
    worst = 0.0
    for name, wanted in expected.items():
        operand = kernel.operand(name)
        assert operand
        worst = max(worst, _error(kernel, operand, after[name], wanted, scales[name], numeric))
    return Check(error=worst, tolerance=kernel.tolerance)


def _error(kernel: Kernel, operand: Operand, found: Any, wanted: Any, scale: float, numeric: Any) -> float:
    wanted = numeric.asarray(wanted, dtype=numeric.float64)
    if wanted.size == 1 or wanted.shape != operand.shape:
        wanted = numeric.broadcast_to(wanted.reshape(wanted.shape if wanted.size > 1 else ()), operand.shape)
    difference = numeric.abs(found - wanted)
    unwritten = int(numeric.isnan(difference).sum())
    if unwritten:
        raise FailedError(
            "wrong result",
            f"{unwritten} of {operand.elements} elements of {operand.name} are NaN or were left unwritten",
        )
    error = float(difference.max()) / (scale or 1.0)
    if not error <= kernel.tolerance:
        raise FailedError(
            "wrong result",
            f"{operand.name} is off by {error:.3g} of the result's scale; allowed for {kernel.precision}: "
            f"{kernel.tolerance:.3g}",
        )
    return error
