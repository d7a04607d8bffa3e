"""The course of a soak in quarter seconds (rate, running roof, clocks, power, temperature) and the words about it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.figures.canvas import style
from roofexp.placing.roofline import attainable
from roofexp.records.clock_readings import HELD_BACK, QUIET_REASONS, ClockReadings, cause_of, seconds_with
from roofexp.records.machine import Machine, RoofSet
from roofexp.records.point import Point
from roofexp.records.samples import LAP_S, window_s, windows
from roofexp.text.numbers import engineering, percent, plain, size_name

if TYPE_CHECKING:
    from pandas import DataFrame

MEANS = ("nvml_sm_hz", "power_w", "temperature_c")
POWER_S = 1.0  # NVML's counter moves every 0.1 s and is read up to 0.05 s late: a fifth of what a quarter second shows
Row = Mapping[str, Any]


class Course(NamedTuple):
    """``table`` has a row for each step of time, unit in every column name; unknown is NaN."""

    table: DataFrame
    unit: str  # of the rate: FLOP/s, or B/s for a kernel without FLOPs
    held_back: dict[str, list[tuple[float, float]]]  # by reason, from when to when (s)

    @property
    def rate(self) -> str:
        return "flops_per_s" if self.unit == "FLOP/s" else "bytes_per_s"

    def has(self, column: str) -> bool:
        return column in self.table and bool((self.table[column] > 0).any())


def course_of(point: Point, samples: Sequence[Row], clocks: Sequence[Row], roofs: RoofSet | None) -> Course | None:
    """None for a point without work or samples. ``samples`` and ``clocks``: the rows of the point's own files."""
    import pandas

    if point.work is None or point.traffic is None or not samples:
        return None
    unit, work = ("FLOP/s", point.work.flops) if point.work.flops else ("B/s", point.traffic.bytes)
    taken = [(float(row["at_s"]), float(row["time_s"]), int(row["launches"])) for row in samples]
    read = [{key: _number(value) for key, value in row.items()} for row in clocks]
    width_s, rates = window_s(taken), windows(taken, window_s(taken))
    end_s = max([taken[-1][0] + taken[-1][1] * taken[-1][2], *(row["at_s"] or 0.0 for row in read)])
    steps = [_step(i * width_s, width_s, rates.get(i), read, work) for i in range(max(1, int(end_s / width_s)))]
    for step in steps:
        step["power_by_energy_w"] = _counted_power_w(read, float(step["at_s"] or 0), taken[0][0])
    table = pandas.DataFrame(steps).astype(float)
    course = Course(table.rename(columns={"rate": "flops_per_s" if unit == "FLOP/s" else "bytes_per_s"}), unit, {})
    held = table["compute_hz"].ffill().bfill()
    if held.isna().all() and point.clock and point.clock.compute_hz:
        held = held.fillna(point.clock.compute_hz)
    course.table["attainable_per_s"] = [_attainable(point, roofs, hz if hz > 0 else None) for hz in held]
    roof = course.table["attainable_per_s"].astype(float)
    course.table["attainable_per_s"] = roof.where(course.table[course.rate] > 0)  # none over what did not run
    reasons = {word for row in clocks for word in str(row.get("event_reasons") or "").split()} - QUIET_REASONS
    timed = [{"at_s": _number(row["at_s"]), "event_reasons": row.get("event_reasons") or None} for row in clocks]
    for reason in sorted(reasons, key=lambda reason: -seconds_with(timed, reason)):
        course.held_back[reason] = _spans(timed, reason)
    return course


def _step(
    start_s: float, width_s: float, timed: tuple[float, int] | None, read: Sequence[Row], work: int
) -> dict[str, float | None]:
    """One row of the table; ``timed``: seconds and launches. A lap's clock belongs to the time before it."""
    end_s = start_s + width_s
    rows = [row for row in read if start_s <= row["at_s"] < end_s]
    laps = [row["compute_hz"] for row in read if start_s < row["at_s"] - width_s / 2 < end_s and row.get("compute_hz")]
    step: dict[str, float | None] = {"at_s": start_s + width_s / 2}
    step["rate"] = work * timed[1] / timed[0] if timed else None
    step["compute_hz"] = _mean(laps)
    step |= {name: _mean([row[name] for row in rows if row.get(name) is not None]) for name in MEANS}
    step["power_by_energy_w"] = None  # in its place among the columns
    last = rows[-1] if rows else {}
    step |= {name: value for name, value in last.items() if name.startswith("throttled_")}
    return step


def _counted_power_w(read: Sequence[Row], at_s: float, began_s: float) -> float | None:
    """Between the first and the last movement of the energy counter in the second around ``at_s``; idle time before the
    load began and the load are kept apart."""
    near = [row for row in read if abs(row["at_s"] - at_s) <= POWER_S / 2 and row.get("energy_j") is not None]
    alike = [row for row in near if (row["at_s"] >= began_s) == (at_s >= began_s)]
    moved = [later for earlier, later in itertools.pairwise(alike) if later["energy_j"] != earlier["energy_j"]]
    if len(moved) < 2:
        return None
    first, last = moved[0], moved[-1]
    return float((last["energy_j"] - first["energy_j"]) / (last["at_s"] - first["at_s"]))


def _attainable(point: Point, roofs: RoofSet | None, clock_hz: float | None) -> float | None:
    """FLOP/s (B/s without FLOPs) under the roofs at this clock."""
    assert point.work
    assert point.traffic
    bandwidth = roofs.bandwidth(point.traffic.level) if roofs else None
    compute = roofs.compute(point.precision) if roofs else None
    if bandwidth is None or (point.work.flops and compute is None):
        return None
    if not point.work.flops or compute is None:
        return bandwidth.at(clock_hz)
    if not point.traffic.bytes:
        return compute.at(clock_hz)
    return attainable(point.work.flops / point.traffic.bytes, compute.at(clock_hz), bandwidth.at(clock_hz))


def _spans(rows: list[dict[str, Any]], reason: str) -> list[tuple[float, float]]:
    """Joined stretches of rows with ``reason``; each row stands until the next."""
    spans: list[tuple[float, float]] = []
    read = [row for row in rows if row["at_s"] is not None and row["event_reasons"]]
    for row, following in itertools.pairwise(read):
        if reason not in row["event_reasons"].split():
            continue
        if spans and row["at_s"] - spans[-1][1] < LAP_S / 2:
            spans[-1] = (spans[-1][0], following["at_s"])
        else:
            spans.append((row["at_s"], following["at_s"]))
    return spans


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


REASONS = {
    "sw_power_cap": "power cap",
    "sw_thermal_slowdown": "thermal slowdown (software)",
    "hw_slowdown": "hardware slowdown",
    "hw_thermal_slowdown": "thermal slowdown (hardware)",
    "hw_power_brake": "power brake",
    "sync_boost": "sync boost",
}

MOVED = 0.03  # smaller changes are not mentioned


def title(point: Point, course: Course) -> str:
    """What the rate and the clock did from the first second to the settled part, in one sentence."""
    name = f"{style.shortened(point.kernel, 28)} {size_name(point.size)} {point.precision}"
    early, late = ends(course, course.rate)[0], recorded_rate(point, course)
    to = engineering(late, course.unit)
    if abs(late / early - 1) <= MOVED:
        return f"{name} holds {to} for {course.table['at_s'].iloc[-1]:.0f} s{_because(course)}"
    verb = "falls" if late < early else "rises"
    return f"{name} {verb} from {engineering(early, course.unit)} to {to}{_because(course, though=True)}"


def recorded_rate(point: Point, course: Course) -> float:
    """The rate in the record, that of the settled part: the figure gives no other."""
    assert point.work
    assert point.traffic
    assert point.timing
    return (point.work.flops if course.unit == "FLOP/s" else point.traffic.bytes) / point.timing.median_s


def ends(course: Course, column: str) -> tuple[float, float]:
    """Medians of the first second that is known (short soaks: of the first values) and of the last third."""
    rows = course.table[course.table[column] > 0]
    first = rows[rows["at_s"] <= rows["at_s"].iloc[0] + 1.0][column]
    return float(first.median()), float(rows[column].iloc[-max(1, len(rows) // 3) :].median())


def _because(course: Course, though: bool = False) -> str:
    """What the clock did, and what held it back."""
    reason = next((REASONS.get(reason, reason) for reason in course.held_back), None)
    if not course.has("compute_hz"):
        return ""
    early, late = ends(course, "compute_hz")
    if abs(late / early - 1) <= MOVED:
        return f"{', though' if though else ':'} the clock stays at {engineering(late, 'Hz')}"
    return f": the clock goes from {engineering(early, 'Hz')} to {engineering(late, 'Hz')}" + (
        f" under the {reason}" if reason else ""
    )


def is_unsettled(point: Point) -> bool:
    return any(flag.name == "not settled" for flag in point.flags)


def under(point: Point, machine: Machine | None) -> str:
    clock = point.clock
    assert clock
    asked = clock.asked or point.clock_mode
    when = "in the last third" if is_unsettled(point) else "once settled"
    held = f"clock held {when} {engineering(clock.compute_hz, 'Hz')}" if clock.compute_hz else "clock held unknown"
    soak_s = clock.readings.soak_s
    seconds = f"{plain(soak_s, 3)} s from an idle start" if soak_s else ""
    name = machine.name if machine else point.machine_id or "unknown machine"
    return " · ".join(
        part for part in (name, point.precision, f"{held} ({asked})", f"{point.cache_state} caches", seconds) if part
    )


def notes(point: Point, course: Course, roofs: RoofSet | None) -> list[str]:
    readings = point.clock.readings if point.clock else ClockReadings()
    assert point.timing
    settled = readings.settled_from_s
    texts = []
    steps = f"in steps of {plain(2 * course.table['at_s'].iloc[0])} s as drawn"
    if is_unsettled(point):
        texts.append(f"The rate never settled: the record has the median rate of the last third, {steps}.")
    elif settled is not None:
        texts.append(f"Settled from {settled:.1f} s on (dotted): the record has the median rate of this part, {steps}.")
    if course.has("attainable_per_s") and roofs:
        measured = f"measured on {roofs.measured[:10]}" if roofs.measured else "computed"
        texts.append(f"Roof: {measured}, redrawn at the clock of each moment.")
    else:
        texts.append("No roofs were measured for this point.")
    texts += [_agreement(readings, name, reason) for name, reason in HELD_BACK.items()]
    if point.joules and point.work:
        per = engineering(point.work.flops / point.joules, "FLOP/J") if point.work.flops else ""
        per = per or f"{engineering(point.joules, 'J')} per launch"
        texts.append(f"Energy once settled: {per} ({readings.energy_source}).")
    share = readings.timed_share
    if share is not None and share < 0.98:
        texts.append(f"Launches took {percent(share)} of the time.")
    return texts


def _agreement(readings: ClockReadings, name: str, reason: str) -> str:
    counted_s = getattr(readings, name)
    sampled_s = getattr(readings, f"throttle_samples_{cause_of(name)}_s")
    if counted_s is None or sampled_s is None:
        return ""
    apart = abs(counted_s - sampled_s) / max(counted_s, sampled_s)
    return (
        f"Time held back by the {REASONS.get(reason, reason)}: {counted_s:.2f} s by NVML's accumulator, "
        f"{sampled_s:.2f} s in the samples ({percent(apart)} apart)."
    )
