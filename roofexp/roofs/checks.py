"""Checks of a roof: against arithmetic, and what a failed one makes of it."""

from __future__ import annotations

import msgspec

from roofexp.machine import Roof, RoofCheck

TOO_HIGH = 1.02  # of the limit: the clock or the table of rates must be wrong
TOO_LOW = 0.90  # of the limit: published, with a flag


def limit_check(rate: float, limit: float | None, too_low: float = TOO_LOW) -> RoofCheck | None:
    """A roof against arithmetic at the clock that it held; None where the limit is not known."""
    if not limit:
        return None
    message = ""
    if rate > TOO_HIGH * limit:
        message = f"{rate / limit:.0%} of what the units can do at the clock held: clock or table of rates is wrong"
    elif rate < too_low * limit:
        message = f"only {rate / limit:.0%} of what the units can do at the clock held"
    elif rate > limit:
        return RoofCheck(name="limit", passed=True, expected=limit, found=rate, message=_above(rate, limit))
    return RoofCheck(name="limit", passed=not message, expected=limit, found=rate, message=message)


def with_checks(roof: Roof, checks: list[RoofCheck]) -> Roof:
    """The roof with these checks in the place of earlier ones of the same names. One that failed makes it incomplete:
    it is published as a lower bound, with the reason."""
    names = {check.name for check in checks}
    kept = [*(check for check in roof.checks if check.name not in names), *checks]
    said = [f"{check.name}: {check.message}" for check in kept if not check.passed]
    before = roof.incomplete if roof.incomplete and roof.incomplete.startswith("not measured") else None
    reasons = [*([before] if before else []), *said]
    return msgspec.structs.replace(roof, checks=kept, incomplete="; ".join(reasons) or None)


def _above(rate: float, limit: float) -> str:
    """Within what two readings of a clock can be wrong by that moves between them."""
    return f"{rate / limit - 1:.1%} above what the units can do at the clock read: it moved while this was measured"
