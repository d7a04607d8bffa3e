"""The words of what is read beside a timing, and what follows from a record of it. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from roofexp.records.quantities import Amount, Count, Duration, Rate
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


class ClockReadings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was read beside the timed part, and what follows from it. None: not read here, never a guess."""

    sampled_s: Duration | None = None  # over which the device's own meters were read
    nvml_sm_hz: Rate | None = None  # what the driver says of the SM clock; the cycle counter stands in compute_hz
    nvml_memory_hz: Rate | None = None
    power_w: Amount | None = None  # the driver's figure, a mean over up to a second
    temperature_c: Amount | None = None
    event_reasons: str | None = None  # names seen, separated by spaces; "none"
    clocks_locked: bool | None = None  # where a lock was asked for
    # lost to each cause, as the device accumulates it, and as the samples of event reasons show it
    throttled_power_s: Duration | None = None
    throttled_sw_thermal_s: Duration | None = None
    throttled_hw_thermal_s: Duration | None = None
    throttled_power_brake_s: Duration | None = None
    throttle_samples_power_s: Duration | None = None
    throttle_samples_sw_thermal_s: Duration | None = None
    throttle_samples_hw_thermal_s: Duration | None = None
    throttle_samples_power_brake_s: Duration | None = None
    samples_held_back: Amount | None = None  # share of the samples taken while something held the clocks back
    unthrottled_median_s: Duration | None = None  # of the other samples
    timed_share: Amount | None = None  # of the time that the launches filled
    duty_held: Amount | None = None
    batch_slowing: Amount | None = None  # how much longer launches take at the end of a batch
    host_others_share: Amount | None = None  # of the machine that other programs took
    host_waited_share: Amount | None = None  # of the time that a thread of ours had no core
    other_processes: Count | None = None  # that computed on the GPU beside this sweep's, the most at once
    other_processes_bytes: Count | None = None  # of its memory that they had
    energy_j: Amount | None = None
    energy_counter: str | None = None
    power_by_energy_w: Amount | None = None
    energy_per_launch_j: Amount | None = None
    energy_source: str | None = None
    soak_s: Duration | None = None
    settled_from_s: Duration | None = None

    def known(self) -> dict[str, float | str | bool]:
        """What was read, by name."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}

    def lost_s(self) -> dict[str, float]:
        """Time lost to each cause by the device's accumulators, by the cause's name; empty where there are none."""
        return {cause_of(name): value for name in HELD_BACK if (value := getattr(self, name)) is not None}


def cause_of(accumulator: str) -> str:
    """``throttled_sw_thermal_s`` is ``sw_thermal``."""
    return accumulator.removeprefix("throttled_").removesuffix("_s")


PAUSED = 0.99  # share of the time without a pause from which on there were none


def has_pauses(readings: ClockReadings) -> bool:
    """What a device accumulates and samples of a limit is renewed every tenth of a second, whether it worked or paused
    then: with pauses it says nothing about the launches. ``batch_slowing`` does."""
    return readings.duty_held is not None and readings.duty_held < PAUSED


def throttled_share(readings: ClockReadings) -> float | None:
    """The largest share of the sampled time that was lost to one cause; None where the device does not count it, and
    with pauses."""
    lost_s = readings.lost_s()
    if not lost_s or not readings.sampled_s or has_pauses(readings):
        return None
    return min(1.0, max(lost_s.values()) / readings.sampled_s)


def mean_power_w(readings: ClockReadings) -> float | None:
    """By the energy counter; else NVML's own figure, which is a mean over up to a second, so not of a shorter time."""
    if readings.power_by_energy_w is not None:
        return readings.power_by_energy_w
    return readings.power_w if (readings.sampled_s or 0.0) >= 1.0 else None


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


def answers(rows: Sequence[Row], key: str) -> list[Any] | None:
    """What was read under ``key``; None where less than every second row has it: the few may be of another moment than
    the many would be."""
    found = [value for row in rows if (value := row.get(key)) is not None]
    return found if found and 2 * len(found) >= len(rows) else None


def at_of(row: Row) -> float:
    return number_of(row, "at_s") or 0.0


def number_of(row: Row, key: str) -> float | None:
    value = row.get(key)
    return float(value) if isinstance(value, (int, float)) else None
