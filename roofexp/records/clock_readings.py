"""The words of what is read beside a timing, and what follows from a record of it. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roofexp.records.samples import median

Row = Mapping[str, float | str | None]

IDLE = 0x1

# Bits of the clocks' event reasons (nvml.h). The first and the second are no throttling.
REASONS = {
    0x1: "idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake",
    0x100: "display_clock_setting",
}

NOT_THROTTLING = IDLE | 0x2 | 0x100

NVML = "NVML's energy counter"

# The accumulated time of each cause, and the event reasons that say the same at one moment.
HELD_BACK = {
    "throttled_power_s": "sw_power_cap",
    "throttled_sw_thermal_s": "sw_thermal_slowdown",
    "throttled_hw_thermal_s": "hw_thermal_slowdown",
    "throttled_power_brake_s": "hw_power_brake",
}

QUIET_REASONS = {"none", *(name for bit, name in REASONS.items() if bit & NOT_THROTTLING)}

PAUSED = 0.99  # share of the time without a pause from which on there were none


def has_pauses(extra: Mapping[str, Any]) -> bool:
    """What a device accumulates and samples of a limit is renewed every tenth of a second, whether it worked or paused
    then: with pauses it says nothing about the launches. ``batch_slowing`` does."""
    held = extra.get("duty_held")
    return isinstance(held, float) and held < PAUSED


def throttled_share(extra: Mapping[str, Any]) -> float | None:
    """The largest share of the sampled time that was lost to one cause; None where the device does not count it, and
    with pauses."""
    passed_s = extra.get("sampled_s")
    lost = [value for name in HELD_BACK if isinstance(value := extra.get(name), (int, float))]
    if not lost or not isinstance(passed_s, float) or passed_s <= 0 or has_pauses(extra):
        return None
    return min(1.0, max(lost) / passed_s)


def mean_power_w(extra: Mapping[str, Any]) -> float | None:
    """By the energy counter; else NVML's own figure, which is a mean over up to a second, so not of a shorter time."""
    counted_w, sampled_w, passed_s = (extra.get(name) for name in ("power_by_energy_w", "power_w", "sampled_s"))
    if isinstance(counted_w, float):
        return counted_w
    return sampled_w if isinstance(sampled_w, float) and isinstance(passed_s, float) and passed_s >= 1.0 else None


def renewed_every_s(rows: Sequence[Row]) -> float:
    """The usual time between two rows, or between two changes of an accumulator in them where that is longer."""
    steps = [_usual_step([at_of(row) for row in rows])]
    for name in HELD_BACK:
        pairs = itertools.pairwise(row for row in rows if row.get(name) is not None)
        steps.append(_usual_step([at_of(later) for earlier, later in pairs if later[name] != earlier[name]]))
    return max(steps)


def _usual_step(moments: Sequence[float]) -> float:
    steps = sorted(later - earlier for earlier, later in itertools.pairwise(moments))
    return median(steps) if steps else 0.0


def seconds_with(rows: Sequence[Row], reason: str) -> float:
    """How long ``reason`` stood among the event reasons, each row standing for the time half-way to its neighbours."""
    return sum(seconds for row, seconds in _lasting(rows) if reason in str(row.get("event_reasons") or "").split())


def _lasting(rows: Sequence[Row]) -> Iterator[tuple[Row, float]]:
    known = [row for row in rows if number_of(row, "at_s") is not None and row.get("event_reasons") is not None]
    for i, row in enumerate(known):
        before, after = known[max(i - 1, 0)], known[min(i + 1, len(known) - 1)]
        yield row, (float(after["at_s"] or 0) - float(before["at_s"] or 0)) / 2


def at_of(row: Row) -> float:
    return number_of(row, "at_s") or 0.0


def number_of(row: Row, key: str) -> float | None:
    value = row.get(key)
    return float(value) if isinstance(value, (int, float)) else None
