"""exp and max in a form that compilers turn into vector instructions.

numba caches a kernel by its own file: after a change here, change or touch the files that use it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

F32 = np.float32


def _coefficients(kind: Any, degree: int) -> tuple[Any, ...]:
    """Of the Taylor series of exp, the highest power first."""
    return tuple(kind(1.0 / math.factorial(power)) for power in range(degree, -1, -1))


# Within ln(2)/2 of zero the first term left out is below half a unit in the last place.
SERIES_64 = _coefficients(np.float64, 13)
SERIES_32 = _coefficients(F32, 7)


@intrinsic
def half_power_of_two(typing_context, shifted):
    """2^(n - 1) for the whole number n in the lowest bits of ``shifted``: n moves into the exponent."""
    integer, mantissa_bits = (ir.IntType(32), 23) if shifted == types.float32 else (ir.IntType(64), 52)
    bias = 2 ** (integer.width - mantissa_bits - 2) - 1

    def emit(context, builder, signature, values):
        exponent = builder.shl(builder.bitcast(values[0], integer), ir.Constant(integer, mantissa_bits))
        bits = builder.add(exponent, ir.Constant(integer, (bias - 1) << mantissa_bits))
        return builder.bitcast(bits, values[0].type)

    return shifted(shifted), emit


@intrinsic
def larger(typing_context, a, b):
    """The larger of two numbers of one type, in any order of evaluation. With NaN it may be either: the caller must
    not rely on it to hand NaN on."""

    def emit(context, builder, signature, values):
        flags = ("nnan", "nsz")
        first = builder.fcmp_ordered(">", *values, flags=flags)
        return builder.select(first, *values, flags=flags)

    return a(a, a), emit


def exponential(x):
    """e^x within 2 units in the last place; 0 where that is near the smallest normal number or below,
    inf above the largest, NaN of NaN."""
    raise NotImplementedError("for compiled code only")


@njit(fastmath={"contract"})
def _exponential_64(x):
    inside = -708.0 if x < -708.0 else x
    inside = 709.8 if inside > 709.8 else inside
    # adding 1.5 x 2^52 leaves the nearest whole number in the lowest bits
    shifted = inside * 1.4426950408889634 + 6755399441055744.0
    whole = shifted - 6755399441055744.0
    rest = inside - whole * 0.693147180369123816490 - whole * 1.90821492927058770002e-10
    series = 0.0
    for coefficient in SERIES_64:
        series = series * rest + coefficient
    result = 2.0 * (series * half_power_of_two(shifted))
    result = 0.0 if x < -708.0 else result
    return math.inf if x > 709.782712893384 else result


@njit(fastmath={"contract"})
def _exponential_32(x):
    inside = F32(-86.9) if x < F32(-86.9) else x
    inside = F32(88.8) if inside > F32(88.8) else inside
    shifted = inside * F32(1.4426950408889634) + F32(12582912.0)  # 1.5 x 2^23
    whole = shifted - F32(12582912.0)
    rest = inside - whole * F32(0.693359375) - whole * F32(-2.12194440e-4)
    series = F32(0.0)
    for coefficient in SERIES_32:
        series = series * rest + coefficient
    result = F32(2.0) * (series * half_power_of_two(shifted))
    result = F32(0.0) if x < F32(-86.9) else result
    return F32(math.inf) if x > F32(88.72283) else result


@overload(exponential)
def _choose_exponential(x):
    if x == types.float32:
        return lambda x: _exponential_32(x)
    return lambda x: _exponential_64(x)
