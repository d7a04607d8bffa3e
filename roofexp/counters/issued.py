"""Issued FLOPs against useful ones: what their ratio probably means."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from roofexp.counters.counts import Counts
from roofexp.point import Flag

TOLERANCE = 0.01
PLAUSIBLE = 2.0  # on the CUDA cores helper arithmetic (exp, division, reductions) explains up to this factor
TILE = 64  # a dimension that is no multiple of it may be padded
# the types in which the arithmetic of a precision is expected
EXPECTED = {
    "fp64": {"fp64", "fp64_tensor"},
    "fp32": {"fp32"},
    "tf32": {"tf32_tensor"},
    "fp16": {"fp16", "fp16_tensor", "fp16_tensor_fp16_accumulate"},
    "bf16": {"fp16", "bf16_tensor"},
    "fp8": {"fp8_tensor", "fp8_tensor_fp16_accumulate"},
    "int8": {"int8_tensor"},
}


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """``ratio`` is issued / useful; None where either is not known or nothing is useful."""

    ratio: float | None = None
    flags: list[Flag] = []
    notes: list[str] = []


def compare(useful: int, counts: Counts, precision: str, shape: Mapping[str, int]) -> Comparison:
    """The ratio, a note when it is off by more than 1 %, a flag when helper arithmetic does not explain it."""
    other = _other_precision(counts, precision)
    if counts.flops is None:
        return Comparison(notes=other.notes, flags=other.flags)
    if useful == 0:
        said = f"{counts.flops:.6g} FLOPs were issued in a kernel whose formula has none"
        return Comparison(notes=[said] if counts.flops else [])
    ratio = counts.flops / useful
    if abs(ratio - 1) <= TOLERANCE:
        return Comparison(ratio=ratio, notes=other.notes, flags=other.flags)
    said = f"{counts.flops:.6g} issued, {useful:.6g} useful ({ratio:.4g} times): {_meaning(ratio, counts, shape)}"
    if _suspicious(ratio, counts):
        return Comparison(ratio=ratio, notes=other.notes, flags=[*other.flags, Flag("issued FLOPs", said)])
    return Comparison(ratio=ratio, notes=[f"FLOPs: {said}", *other.notes], flags=other.flags)


def _suspicious(ratio: float, counts: Counts) -> bool:
    on_tensor_cores = "_tensor" in (counts.main_type or "")
    return on_tensor_cores or not 1 / PLAUSIBLE <= ratio <= PLAUSIBLE


def _meaning(ratio: float, counts: Counts, shape: Mapping[str, int]) -> str:
    main = counts.main_type or ""
    if "_tensor" in main:
        return _tensor_meaning(ratio, shape)
    if main == "fp16" and abs(ratio - 2) <= 0.1:
        return "scalar 16-bit code counted as pairs: set half_lanes: 1 in the kernel's YAML"
    if main == "fp16" and abs(ratio - 0.5) <= 0.02:
        return "pairs of 16-bit values counted as single ones: set half_lanes: 2 in the kernel's YAML"
    if ratio > 1:
        return (
            "helper arithmetic of exp, division or conversions (half to single is an HADD2), repeated work, or a "
            "formula that is too small"
        )
    if counts.flops == 0:
        return "arithmetic of a kind without a counter (special functions, integers, comparisons), or a wrong formula"
    return (
        "threads that a predicate switched off, special functions that have no counter, or a formula that is too large"
    )


def _tensor_meaning(ratio: float, shape: Mapping[str, int]) -> str:
    odd = ", ".join(f"{name}={size}" for name, size in shape.items() if size % TILE)
    if ratio > 1 and odd:
        return f"tensor-core tiles are computed whole, padding included ({odd})"
    if ratio > 1:
        return "tensor-core tiles are computed whole, padding included (a vector fills one column of a tile)"
    return "less was computed than the formula says: a skipped (masked) part, or a formula that is too large"


def _other_precision(counts: Counts, precision: str) -> Comparison:
    """fp32 that ran on the tensor cores is a mistake; 16-bit data summed in fp32 is usual."""
    main, expected = counts.main_type, EXPECTED.get(precision)
    if main is None or expected is None or main in expected:
        return Comparison()
    said = (
        f"most arithmetic was {main.replace('_tensor', ' on the tensor cores')}, the point's precision is {precision}"
    )
    if main.startswith(("fp32", "fp64")):
        return Comparison(notes=[said])
    return Comparison(flags=[Flag("other precision", said)])
