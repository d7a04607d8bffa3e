"""A ceiling under its roof: which roof that is, and whether it lies below it at all."""

from __future__ import annotations

import msgspec

from roofexp.machine import Roof, RoofCheck
from roofexp.roofs.benchmark import HIGHEST
from roofexp.roofs.checks import limit_check, with_checks


def under(ceiling: Roof, roofs: list[Roof]) -> Roof:
    """The ceiling with the name of its roof, found among ``roofs``; as it is where that is not there. One that was not
    measured below its roof does not claim its cause."""
    above = roof_above(ceiling, roofs)
    if above is None:
        return ceiling
    placed = msgspec.structs.replace(ceiling, ceiling_of=above.name)
    check = _limit(placed, above)
    placed = with_checks(placed, [check]) if check else placed
    whole, words = measured_above(placed, above)
    if placed.rate < whole:
        return placed
    return msgspec.structs.replace(
        placed, cause=f"not below {words}: no loss seen where {ceiling.cause or ceiling.name}"
    )


def roof_above(ceiling: Roof, roofs: list[Roof]) -> Roof | None:
    if ceiling.ceiling_of != HIGHEST:
        return next((roof for roof in roofs if roof.name == ceiling.ceiling_of), None)
    above = [r for r in roofs if r.kind == "compute" and r.precision == ceiling.precision and r.ceiling_of is None]
    return max(above, key=lambda roof: roof.rate, default=None)


def measured_above(ceiling: Roof, above: Roof) -> tuple[float, str]:
    """What a ceiling is compared with, and its name: of a memory level the same mix where the ceiling has one, since
    the envelope may be that of reads and writes together."""
    mix = next(iter(ceiling.mixes), None)
    if mix in above.mixes:
        return above.mixes[mix], f"the {mix} roof"
    return above.rate, "the roof"


def _limit(ceiling: Roof, above: Roof) -> RoofCheck | None:
    """The roof's limit at the clock that the ceiling held."""
    if ceiling.kind != "compute" or not (above.limit and above.compute_hz and ceiling.compute_hz):
        return None
    return limit_check(ceiling.rate, above.limit * ceiling.compute_hz / above.compute_hz, too_low=0.0)
