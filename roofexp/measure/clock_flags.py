"""What a reader must know of the clock that a point was timed at. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofexp.clocks import HELD
from roofexp.config.settings import TimingSettings
from roofexp.records.clock_readings import IDLE, REASONS, ClockReadings, has_pauses
from roofexp.records.point import Clock, Flag
from roofexp.text.numbers import engineering, percent, signed

THROTTLED = 0.05  # share of the time lost to a cause that is worth a flag
FAR_BELOW = 0.6  # of the nominal clock: power limits that bind hold a chip above it, and say that they do
FAR_BELOW_NOMINAL = "clock far below nominal"


def clock_flags(
    clock: Clock, settings: TimingSettings, asked: Mapping[str, Any], nominal_hz: float | None
) -> list[Flag]:
    """``asked``: the clock group of the configuration. Of a soak the clock is expected to move: figures/soak_* shows
    how."""
    flags = []
    if not settings.is_soak and clock.before_hz and clock.after_hz:
        change = clock.after_hz / clock.before_hz - 1
        if abs(change) > settings.drift:
            flags.append(Flag("clock moved", f"{signed(change)} from before the timing to after it"))
    if asked.get("mode") not in HELD:
        flags += far_below_flags(clock, nominal_hz)
    return flags + throttle_flags(clock.readings)


def far_below_flags(clock: Clock, nominal_hz: float | None) -> list[Flag]:
    """A low clock that nothing explains: work that is timed leaves no device idle."""
    readings = clock.readings
    slowest_hz = min((hz for hz in (clock.compute_hz, readings.nvml_sm_hz) if hz), default=None)
    if nominal_hz is None or slowest_hz is None or slowest_hz >= FAR_BELOW * nominal_hz:
        return []
    reasons = readings.event_reasons
    if set((reasons or "").split()) - {"none", REASONS[IDLE]} or any(readings.lost_s().values()):
        return []
    why = "nothing says why" if reasons is None else f"the driver gives no reason for it (event reasons: {reasons})"
    return [Flag(FAR_BELOW_NOMINAL, f"{slowest_hz / 1e6:.0f} of {nominal_hz / 1e6:.0f} MHz, and {why}")]


def throttle_flags(readings: ClockReadings) -> list[Flag]:
    """What the device's own accumulators say it lost to each cause while the samples were taken; where it has none,
    the share of the samples during which an event reason was seen. With pauses a power limit is no warning: it is what
    they are for, and what is renewed every 0.1 s tells no batch from a pause."""
    free_s, held_back = readings.unthrottled_median_s, readings.samples_held_back
    rest = f"; median of the other samples {engineering(free_s, 's')}" if free_s is not None else ""
    lost_s = readings.lost_s() if readings.sampled_s else {}
    if has_pauses(readings):
        lost_s.pop("power", None)
    shares = {
        cause.replace("_", " "): min(1.0, seconds / (readings.sampled_s or 1.0)) for cause, seconds in lost_s.items()
    }
    causes = [f"{cause} {percent(share)}" for cause, share in shares.items() if share > THROTTLED]
    if causes:
        return [Flag("throttled", f"clocks were held back for this share of the time: {', '.join(causes)}{rest}")]
    if not shares and held_back is not None and held_back > THROTTLED:
        return [Flag("throttled", f"clocks were held back in {percent(held_back)} of the samples{rest}")]
    return []
