"""The sentences around a soak: what rate and clock did, what the record takes from it, what held the clocks back."""

from __future__ import annotations

from roofexp.clock_facts import HELD_BACK
from roofexp.figures import style
from roofexp.figures.soak_course import Course
from roofexp.machine import Machine, RoofSet
from roofexp.point import Point
from roofexp.units import engineering, percent, plain, size_name

REASONS = {
    "sw_power_cap": "power cap",
    "sw_thermal_slowdown": "thermal slowdown (software)",
    "hw_slowdown": "hardware slowdown",
    "hw_thermal_slowdown": "thermal slowdown (hardware)",
    "hw_power_brake": "power brake",
    "sync_boost": "sync boost",
}
MOVED = 0.03  # a change that is told


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
    """The record's, which is that of the settled part: the figure says no other."""
    assert point.work
    assert point.traffic
    assert point.timing
    return (point.work.flops if course.unit == "FLOP/s" else point.traffic.bytes) / point.timing.median_s


def ends(course: Course, column: str) -> tuple[float, float]:
    """Medians of the first second that is known (short soaks: of the first values) and of the last third."""
    known = course.table[course.table[column] > 0]
    first = known[known["at_s"] <= known["at_s"].iloc[0] + 1.0][column]
    return float(first.median()), float(known[column].iloc[-max(1, len(known) // 3) :].median())


def _because(course: Course, though: bool = False) -> str:
    """What the clock did, and what held it back."""
    reason = next((REASONS.get(reason, reason) for reason in course.held_back), None)
    if not course.known("compute_hz"):
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
    soak_s = clock.extra.get("soak_s")
    seconds = f"{plain(float(soak_s), 3)} s from an idle start" if isinstance(soak_s, (int, float)) else ""
    name = machine.name if machine else point.machine_id or "unknown machine"
    return " · ".join(
        part for part in (name, point.precision, f"{held} ({asked})", f"{point.cache_state} caches", seconds) if part
    )


def notes(point: Point, course: Course, roofs: RoofSet | None) -> list[str]:
    extra = point.clock.extra if point.clock else {}
    assert point.timing
    settled = extra.get("settled_from_s")
    said = []
    steps = f"in steps of {plain(2 * course.table['at_s'].iloc[0])} s as drawn"
    if is_unsettled(point):
        said.append(f"The rate never settled: the record has the median rate of the last third, {steps}.")
    elif isinstance(settled, float):
        said.append(f"Settled from {settled:.1f} s on (dotted): the record has the median rate of this part, {steps}.")
    if course.known("attainable_per_s") and roofs:
        measured = f"measured on {roofs.measured[:10]}" if roofs.measured else "computed"
        said.append(f"Roof: {measured}, redrawn at the clock of each moment.")
    else:
        said.append("No roofs were measured for this point.")
    said += [_agreement(extra, name, reason) for name, reason in HELD_BACK.items()]
    if point.joules and point.work:
        per = engineering(point.work.flops / point.joules, "FLOP/J") if point.work.flops else ""
        per = per or f"{engineering(point.joules, 'J')} per launch"
        said.append(f"Energy once settled: {per} ({extra.get('energy_source')}).")
    share = extra.get("timed_share")
    if isinstance(share, float) and share < 0.98:
        said.append(f"In the launches themselves for {percent(share)} of the time.")
    return said


def _agreement(extra: dict[str, float | str | None], name: str, reason: str) -> str:
    cause = name.removeprefix("throttled_").removesuffix("_s")
    counted_s, sampled_s = extra.get(name), extra.get(f"throttle_samples_{cause}_s")
    if not isinstance(counted_s, float) or not isinstance(sampled_s, float):
        return ""
    apart = abs(counted_s - sampled_s) / max(counted_s, sampled_s)
    return (
        f"Time held back by the {REASONS.get(reason, reason)}: {counted_s:.2f} s by NVML's accumulator, "
        f"{sampled_s:.2f} s in the samples ({percent(apart)} apart)."
    )
