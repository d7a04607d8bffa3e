"""Operands in the GPU's memory. Types that CuPy does not know are stored as integers of the same size and converted
here: bfloat16 as its upper half of a float, e4m3 through a table of its 256 values."""

from __future__ import annotations

import math
from typing import Any

from roofexp.kernel import Operand

CONTAINERS = {"bfloat16": "uint16", "float8_e4m3": "uint8"}
INT8_SCALE = 32.0  # standard deviations to integers: four of them fill the range


def fill_array(operand: Operand, generator: Any) -> Any:
    """Random values of the operand's type; outputs too, since what they held must not matter."""
    import cupy

    container = CONTAINERS.get(operand.storage, operand.storage)
    if operand.fill == "zeros":
        return cupy.zeros(operand.shape, container)
    wide = "float64" if operand.storage == "float64" else "float32"
    if operand.fill == "uniform":
        values = generator.random(operand.shape, dtype=wide)
    else:
        values = generator.standard_normal(operand.shape, dtype=wide)
    return from_float(values, operand.storage)


def from_float(values: Any, storage: str) -> Any:
    """float32 or float64 values rounded to the stored type."""
    import cupy

    if storage == "bfloat16":
        bits = values.astype(cupy.float32).view(cupy.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(cupy.uint16)  # to nearest, ties to even
    if storage == "float8_e4m3":
        return _to_e4m3(values)
    if storage == "int8":
        return cupy.clip(cupy.rint(values * INT8_SCALE), -127, 127).astype(cupy.int8)
    return values.astype(storage)


def to_float64(array: Any, storage: str) -> Any:
    import cupy

    if storage == "bfloat16":
        return (array.astype(cupy.uint32) << 16).view(cupy.float32).astype(cupy.float64)
    if storage == "float8_e4m3":
        return cupy.asarray(e4m3_values())[array.astype(cupy.int32)]
    return array.astype(cupy.float64)


def poison_array(array: Any, storage: str) -> None:
    """What no result may contain: NaN, or the lowest integer."""
    if storage == "bfloat16":
        array.fill(0x7FFF)
    elif storage == "float8_e4m3":
        array.fill(0x7F)
    elif storage.startswith("int"):
        array.fill(-128)
    else:
        array.fill(math.nan)


def e4m3_values() -> list[float]:
    """The value of each of the 256 bit patterns: sign, 4 exponent bits biased by 7, 3 of mantissa; no infinity, the
    all-ones pattern is NaN (OCP 8-bit Floating Point Specification 1.0)."""
    values = []
    for bits in range(256):
        sign, exponent, mantissa = -1.0 if bits & 0x80 else 1.0, (bits >> 3) & 0xF, bits & 0x7
        if exponent == 0xF and mantissa == 0x7:
            values.append(math.nan)
        elif exponent == 0:
            values.append(sign * mantissa / 8 * 2.0**-6)
        else:
            values.append(sign * (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    return values


def _to_e4m3(values: Any) -> Any:
    """The nearest pattern, by bisection in the ascending values of one sign."""
    import cupy

    positive = cupy.asarray(e4m3_values()[:127])
    middles = (positive[1:] + positive[:-1]) / 2
    patterns = cupy.searchsorted(middles, cupy.abs(values.astype(cupy.float64)).ravel()).reshape(values.shape)
    return (patterns.astype(cupy.uint8) | cupy.where(values < 0, 0x80, 0).astype(cupy.uint8)).astype(cupy.uint8)
