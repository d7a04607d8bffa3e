"""What a kernel must leave alone: the memory around its operands, and the operands that it only reads.

Around each operand's memory lies a band of known bytes. Both are looked at after the timing, so of all launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from roofexp.errors import FailedError

BAND_BYTES = 4096  # on each side: a multiple of every alignment, so that operands start where they would without
PATTERN = 0xA5
OUT_OF_BOUNDS, INPUT_CHANGED = "out of bounds", "input changed"


class Bands(NamedTuple):
    """Of one operand: bytes before and after its memory."""

    operand: str
    before: Any
    after: Any


def guarded(
    operand: str, count: int, alignment: int, allocate: Callable[[int], Any], address: Callable[[Any], int]
) -> tuple[Any, Bands]:
    """``count`` bytes that start at a multiple of ``alignment``, and the bands around them, filled. ``allocate`` gives
    an array of so many bytes, ``address`` says where one starts."""
    buffer = allocate(count + 2 * BAND_BYTES + alignment)
    start = BAND_BYTES + -address(buffer) % alignment
    end = start + count
    bands = Bands(operand, buffer[start - BAND_BYTES : start], buffer[end : end + BAND_BYTES])
    bands.before.fill(PATTERN)
    bands.after.fill(PATTERN)
    return buffer[start:end], bands


def guard_bytes(operands: int, alignment: int) -> int:
    """Memory that the bands of so many operands take."""
    return operands * (2 * BAND_BYTES + alignment)


def check_bands(bands: Iterable[Bands], to_host: Callable[[Any], Any] = lambda memory: memory) -> None:
    """Raises FailedError that names the operand beside which was written."""
    for band in bands:
        for side, memory in (("before", band.before), ("after", band.after)):
            changed = int((to_host(memory) != PATTERN).sum())
            if changed:
                raise FailedError(
                    OUT_OF_BOUNDS,
                    f"the kernel wrote outside {band.operand}: {changed} of the {BAND_BYTES} bytes {side} its memory "
                    f"are changed",
                )


def check_inputs(before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Fingerprints of the operands that are only read. Raises FailedError that names the one that was written."""
    for name, fingerprint in before.items():
        if after[name] != fingerprint:
            raise FailedError(
                INPUT_CHANGED, f"the kernel changed {name}, whose role is in; write role: inout if it may"
            )
