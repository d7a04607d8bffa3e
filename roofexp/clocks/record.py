"""What was asked of the clocks and what was held, in a point's record."""

from __future__ import annotations

import msgspec

from roofexp.clocks.hold import Held
from roofexp.point import Clock, Flag

NOT_LOCKED = "clocks not locked"
NEAR = 0.03  # of the clock that was asked for


def with_asked(clock: Clock | None, held: Held, nominal_hz: float | None) -> tuple[Clock | None, list[Flag]]:
    """The clock with ``asked``, and ``clocks_locked`` where a lock was asked for; a flag where it was not held."""
    if clock is None:
        return (Clock(compute_hz=None, asked=held.asked) if held.asked else None), []
    if held.locked is None:
        return msgspec.structs.replace(clock, asked=held.asked), []
    extra = {**clock.extra, "clocks_locked": "yes" if held.locked else "no"}
    clock = msgspec.structs.replace(clock, asked=held.asked, extra=extra)
    if not held.locked:
        return clock, [Flag(NOT_LOCKED, f"{held.asked} was asked for: {held.reason}")]
    return clock, _not_held(clock, held, nominal_hz)


def _not_held(clock: Clock, held: Held, nominal_hz: float | None) -> list[Flag]:
    """A lock that the driver granted and the SMs did not keep: power and temperature stand above it."""
    asked_hz, kept_hz = _asked_hz(held.asked or ""), clock.compute_hz
    if asked_hz and kept_hz and abs(kept_hz / asked_hz - 1) > NEAR:
        return [Flag("clocks not held", f"{held.asked}, but the SMs ran at {kept_hz / 1e6:.0f} MHz")]
    nvml_hz = clock.extra.get("nvml_sm_hz")
    if held.asked == "base clock" and nominal_hz and isinstance(nvml_hz, float) and nvml_hz > 0.99 * nominal_hz:
        return [Flag("clocks not held", f"{held.asked}, but the SM clock stayed at its highest")]
    return []


def _asked_hz(asked: str) -> float | None:
    first, *rest = asked.split()
    return float(first) * 1e6 if rest[:1] == ["MHz"] else None
