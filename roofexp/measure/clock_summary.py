"""What the readings beside a timing say about it: the clock, the power and energy of a launch, the time held back.

Pure: rows as a device's clock watch gives them (unit in every key, ``at_s`` from its start), samples as timing does.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from roofexp.measure.steadiness import batch_slowing
from roofexp.records.clock_readings import (
    HELD_BACK,
    NVML,
    PAUSED,
    QUIET_REASONS,
    ClockReadings,
    Row,
    answers,
    at_of,
    cause_of,
    has_pauses,
    number_of,
    renewed_every_s,
    seconds_with,
)
from roofexp.records.point import Clock, Flag
from roofexp.records.samples import Samples, median
from roofexp.text.numbers import percent

Facts = dict[str, Any]
ENERGY_S = 0.5  # the counter moves every 0.1 s or so: over less than this its steps are too coarse
FEWEST_STEPS = 3
MOSTLY_TIMED = 0.9  # share of the time in the launches from which on the energy can be given to them
PARTIAL = "partial readings"
AGREE = 0.05  # accumulator and samples
STEPS_APART = 2  # so many of the readings' steps the two may be apart: each is seen a step late at either end


def clock_facts(
    clock: Clock, rows: Sequence[Row], samples: Samples, cold: bool, period_s: float | None = None
) -> tuple[Clock, list[Flag]]:
    """The clock with what follows from rows and samples; of a soak, that of the part in which the rate had settled.
    ``period_s``: of a batch and its pause, where there are pauses."""
    passed_s, from_s = samples.passed_s, samples.settled_from_s
    facts: Facts = {}
    if passed_s > 0:
        facts |= {"timed_share": samples.timed_s / passed_s}
    if period_s:
        facts |= {"duty_held": samples.busy_s / passed_s if passed_s else None, "batch_slowing": batch_slowing(samples)}
    if from_s is not None:
        clock = _settled(clock, rows, from_s)
        facts |= {"soak_s": passed_s, "settled_from_s": from_s}
    readings = msgspec.structs.replace(clock.readings, **facts)
    facts = {} if has_pauses(readings) else held_back_facts(rows, samples)
    facts |= energy_facts(rows, samples, cold, readings.energy_counter or NVML, period_s)
    readings = msgspec.structs.replace(readings, **facts)
    facts, flags = throttle_agreement(rows, readings)
    readings = msgspec.structs.replace(readings, **facts)
    return msgspec.structs.replace(clock, readings=readings), [*partial_flags(rows), *flags]


ASKED = {
    "nvml_sm_hz": "SM clock",
    "nvml_memory_hz": "memory clock",
    "power_w": "power",
    "temperature_c": "temperature",
    "event_reasons": "event reasons",
    "energy_j": "energy",
}


def partial_flags(rows: Sequence[Row]) -> list[Flag]:
    """What the driver answered now and then: it is not known. What it never answers this device does not have."""
    counts = {what: sum(row.get(key) is not None for row in rows) for key, what in ASKED.items()}
    partial = {what: count for what, count in counts.items() if 0 < 2 * count < len(rows)}
    if not partial:
        return []
    told = ", ".join(f"{what} {count} times" for what, count in partial.items())
    return [Flag(PARTIAL, f"of {len(rows)} readings the driver answered {told}: not known")]


def _settled(clock: Clock, rows: Sequence[Row], from_s: float) -> Clock:
    """Means over the rows from ``from_s`` on; the clock itself over the laps that end there."""
    late = [row for row in rows if number_of(row, "at_s") is not None and float(row["at_s"] or 0) > from_s]
    laps = [hz for row in late if (hz := number_of(row, "compute_hz"))]
    means: Facts = {}
    for key in ("nvml_sm_hz", "nvml_memory_hz", "power_w", "temperature_c"):
        found = answers(late, key)
        means[key] = sum(found) / len(found) if found else None
    return msgspec.structs.replace(
        clock,
        compute_hz=sum(laps) / len(laps) if laps else clock.compute_hz,
        source=f"{clock.source}, from {from_s:.1f} s on" if laps else clock.source,
        spans_timing=bool(laps),
        readings=msgspec.structs.replace(clock.readings, **means),
    )


def energy_facts(
    rows: Sequence[Row], samples: Samples, cold: bool, counter: str, period_s: float | None = None
) -> Facts:
    """Mean power by the energy counter, and the energy of one launch with what the device draws between launches.

    Nothing where the timed part is too short for the counter. No energy of a launch where flushes or the gaps between
    samples took a share of it that is not the launches'; pauses that were asked for are part of it.
    """
    from_s = samples.settled_from_s or 0.0
    power_w = counter_power_w(rows, from_s, period_s, stepped=counter == NVML)
    if power_w is None or samples.passed_s < ENERGY_S:
        return {}
    facts: Facts = {"power_by_energy_w": power_w}
    share = samples.timed_s / samples.passed_s
    # of a soak the settled part's launches, at the mean power of that part
    late = [(time_s, launches) for at_s, time_s, launches in samples.each if at_s >= from_s]
    launch_s = sum(time_s * launches for time_s, launches in late) / sum(launches for _, launches in late)
    if not cold and (period_s or share >= MOSTLY_TIMED):
        pauses = ", pauses included" if period_s and samples.busy_s < PAUSED * samples.passed_s else ""
        worked = samples.timed_s / samples.busy_s if period_s and samples.busy_s else share
        gaps = f", launches filled {percent(worked)} of the work" if worked < MOSTLY_TIMED else ""
        source = f"{counter}, all of the time{pauses}{gaps}"
        return facts | {"energy_per_launch_j": power_w * launch_s / share, "energy_source": source}
    if share >= MOSTLY_TIMED and not period_s:
        source = f"{counter}, the share of the launches"
        return facts | {"energy_per_launch_j": power_w * launch_s, "energy_source": source}
    return facts | {"energy_source": f"none: launches filled {percent(share)} of the time (clock.duty=1 fills it)"}


def counter_power_w(
    rows: Sequence[Row], from_s: float = 0.0, period_s: float | None = None, stepped: bool = True
) -> float | None:
    """Mean power from ``energy_j`` of the rows: between two moments at which the counter moved, as far apart as there
    are, and with pauses a whole number of periods apart as nearly as there are."""
    late = [row for row in rows if (at_s := number_of(row, "at_s")) is not None and at_s >= from_s]
    if answers(late, "energy_j") is None:
        return None
    known = [(at_of(row), joules) for row in late if (joules := number_of(row, "energy_j")) is not None]
    if stepped:
        known = [later for earlier, later in itertools.pairwise(known) if later[1] != earlier[1]]
    if len(known) < (FEWEST_STEPS if stepped else 2):
        return None
    pairs = [(known[0], known[-1])]
    if period_s and stepped:
        pairs = [(first, last) for first in known[:3] for last in known[-3:] if last[0] > first[0]]
    first, last = min(pairs, key=lambda pair: _off_whole(pair[1][0] - pair[0][0], period_s))
    seconds = last[0] - first[0]
    return (last[1] - first[1]) / seconds if seconds >= ENERGY_S / 2 else None


def _off_whole(seconds: float, period_s: float | None) -> tuple[float, float]:
    periods = seconds / period_s if period_s else 0.0
    return round(abs(periods - round(periods)), 1), -seconds


def held_back_facts(rows: Sequence[Row], samples: Samples) -> Facts:
    """The share of the samples that were taken while something held the clocks back, and the median of the others: the
    record's own median stays that of all. Nothing where no event reasons were read."""
    if answers(rows, "event_reasons") is None:
        return {}
    known = [(at_of(row), str(row["event_reasons"])) for row in rows if row.get("event_reasons")]
    held = [_holds(known, at_s) for at_s in samples.at_s]
    facts: Facts = {"samples_held_back": sum(held) / len(held)}
    free = sorted(time_s for time_s, back in zip(samples.time_s, held, strict=True) if not back)
    if free and len(free) < len(held):
        facts["unthrottled_median_s"] = median(free)
    return facts


def _holds(known: list[tuple[float, str]], at_s: float) -> bool:
    """Whether the reading nearest to this moment shows a reason that holds clocks back."""
    after = bisect.bisect_left(known, (at_s, ""))
    near = min(known[max(0, after - 1) : after + 1], key=lambda reading: abs(reading[0] - at_s))
    return bool(set(near[1].split()) - QUIET_REASONS)


def throttle_agreement(rows: Sequence[Row], readings: ClockReadings) -> tuple[Facts, list[Flag]]:
    """The time held back as the samples beside the timing show it, next to what the device accumulated; a flag where
    the two are further apart than the steps explain in which both are renewed."""
    facts: Facts = {}
    apart: list[str] = []
    if answers(rows, "event_reasons") is None:
        return {}, []
    step_s = renewed_every_s(rows)
    for name, reason in HELD_BACK.items():
        counted_s, sampled_s = getattr(readings, name), seconds_with(rows, reason)
        if counted_s is None or max(counted_s, sampled_s) <= 0:
            continue
        cause = cause_of(name)
        facts[f"throttle_samples_{cause}_s"] = sampled_s
        difference = abs(counted_s - sampled_s) / max(counted_s, sampled_s)
        if abs(counted_s - sampled_s) > max(AGREE * max(counted_s, sampled_s), STEPS_APART * step_s):
            apart.append(
                f"{cause.replace('_', ' ')} {counted_s:.2f} s and {sampled_s:.2f} s ({percent(difference)} apart)"
            )
    flags = [Flag("throttle time uncertain", f"accumulated by the device, seen in samples: {', '.join(apart)}")]
    return facts, flags if apart and not has_pauses(readings) else []
